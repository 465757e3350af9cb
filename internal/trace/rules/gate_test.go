package rules_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
)

// damaged is a scene with one in so many of its kernels changed.
func damaged(s *scene, every int, change func(e *sceneEvent)) *model.Trace {
	n := 0
	for i := range s.events {
		if e := &s.events[i]; e.kind == model.Kernel {
			if n++; n%every == 0 {
				change(e)
			}
		}
	}
	return s.trace()
}

// TestWrongRecordsClaimNoIdleTime: where more than one in a hundred records of a device is
// wrong, no rule claims time in which it does nothing, and trace-quality names the records.
func TestWrongRecordsClaimNoIdleTime(t *testing.T) {
	for name, change := range map[string]func(e *sceneEvent){
		"no time":          func(e *sceneEvent) { e.start, e.end = 0, 0 },
		"an end too late":  func(e *sceneEvent) { e.end += 20_000 * us },
		"an end too early": func(e *sceneEvent) { e.end = e.start - us },
		"another's launch": func(e *sceneEvent) { e.corr-- },
	} {
		t.Run(name, func(t *testing.T) {
			a, x := analyse(t, damaged(sceneHostWork(1000*us)(), 4, change))
			for i, f := range a.Findings {
				idle := model.Spans{x.Devices[0].Window}.Minus(x.Devices[0].Busy)
				if ns := idle.TotalAnd(a.ClaimedBy(i)); ns > 0 {
					t.Errorf("%s claims %d ns in which the device does nothing", f.Rule, ns)
				}
			}
			f := mustFind(t, a, gpuprof.RuleTraceQuality)
			if !strings.Contains(f.Title, "records of device 0") {
				t.Errorf("title %q", f.Title)
			}
		})
	}
}

// TestLaunchesWithoutKernels: the trace has launches and a device, and nothing that it did.
func TestLaunchesWithoutKernels(t *testing.T) {
	s := sceneHostWork(1000 * us)()
	launches := 0
	for _, e := range s.events {
		if e.kind == model.API && strings.Contains(e.name, "LaunchKernel") {
			launches++
		}
	}
	s.events = slices.DeleteFunc(s.events, func(e sceneEvent) bool { return e.kind >= model.Kernel })
	in := s.trace()
	in.Devices = []model.Device{s.device}
	a, x := analyse(t, in)
	f := mustFind(t, a, gpuprof.RuleTraceQuality)
	if !strings.Contains(f.Title, "launches were recorded on NVIDIA A100-SXM4-80GB and none of the kernels") || in.Gate.Launches != launches {
		t.Errorf("%d launches, want %d: %q", in.Gate.Launches, launches, f.Title)
	}
	for _, f := range a.Findings {
		if rules.OfHost(f.Rule) && f.ClaimNS > 0 {
			t.Errorf("%s claims %d ns", f.Rule, f.ClaimNS)
		}
	}
	if x.Recording.Kind != analyze.DeviceMissing {
		t.Errorf("a program that launches kernels is %q", x.Recording.Kind)
	}
	if !slices.ContainsFunc(x.Warnings, func(w gpuprof.Warning) bool { return w.Code == "lost-kernels" }) {
		t.Errorf("warnings %v", x.Warnings)
	}
}

// The operators around lost kernels launched them: their time tells nothing of computing on the host.
func TestOperatorsOfLostKernels(t *testing.T) {
	for name, launches := range map[string]bool{"launches": true, "computes": false} {
		s := newScene()
		s.repeat(3, func() {
			s.in("aten::mm", func() { s.kernel(bf16gemm, 20*us) })
			s.in("aten::bmm", func() {
				if launches {
					s.call("cudaLaunchKernel", 20*us)
				}
				s.work(500 * us)
			})
		})
		s.events = slices.DeleteFunc(s.events, func(e sceneEvent) bool { return e.kind >= model.Kernel })
		in := s.trace()
		in.Devices = []model.Device{s.device}
		a, _ := analyse(t, in)
		if f := find(a, gpuprof.RuleHostOperator); (f != nil) == launches {
			t.Errorf("an operator that %s: %v", name, f)
		}
	}
}

// TestCutOffAtTheEnd: launches whose work ran after the recording are no missing kernels.
func TestCutOffAtTheEnd(t *testing.T) {
	whole, _ := analyse(t, sceneHostWork(1000*us)().trace())
	s := sceneHostWork(1000 * us)()
	last := s.events[len(s.events)-1].end
	s.call("cudaLaunchKernel", callTime)
	cut, _ := analyse(t, s.trace())
	if f := find(cut, gpuprof.RuleTraceQuality); f != nil {
		t.Errorf("after %d: %s", last, f.Title)
	}
	if want, got := mustFind(t, whole, gpuprof.RuleHostBound), mustFind(t, cut, gpuprof.RuleHostBound); got.ClaimNS != want.ClaimNS {
		t.Errorf("claims %d ns, whole %d", got.ClaimNS, want.ClaimNS)
	}
}
