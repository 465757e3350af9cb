package rules_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// hostAlone acts out a loop without a device.
func hostAlone(format model.Format, n int, body func(s *scene)) *model.Trace {
	s := newScene()
	s.device.Name = ""
	for range n {
		body(s)
	}
	t := s.end().trace()
	t.Format, t.Devices = format, nil
	return t
}

func (s *scene) rangeOf(name string, ns int64) {
	s.inKind(model.Annotation, name, "", func() { s.work(ns) })
}

func TestHostOperator(t *testing.T) {
	frame := func(s *scene) {
		s.rangeOf("reader", 4*ms)
		s.rangeOf("3D_backbone", 16*ms)
		s.inKind(model.Annotation, "find_centers", "", func() {
			s.in("ExecutionContext::execute", func() { s.work(11 * ms) })
		})
	}
	for name, c := range map[string]struct {
		in      *model.Trace
		says    string // of the first finding; "" for none
		program analyze.Program
		step    int64 // ns, 0 without steps
	}{
		"an operator": {hostAlone(model.Kineto, 1, func(s *scene) {
			for range 20 {
				s.in("aten::_slow_conv2d_forward", func() { s.work(5 * ms) })
			}
			s.in("aten::relu", func() { s.work(9 * ms) })
		}), "aten::_slow_conv2d_forward takes 100 ms of the host's time in the recording window (92 % of it), in 20 calls", analyze.PyTorch, 0},
		"a range of each frame": {hostAlone(model.Nsys, 8, func(s *scene) {
			s.rangeOf("reader", 4*ms)
			s.rangeOf("find_centers", 16*ms)
		}), "find_centers takes 16.0 ms of the host's time per step (80 % of it)", analyze.Unknown, 20 * ms},
		"layers of TensorRT in a frame": {hostAlone(model.Nsys, 8, frame), "3D_backbone takes 16.0 ms of the host's time per step (52 % of it)", analyze.TensorRT, 31 * ms},
		"code between operators": {hostAlone(model.Kineto, 1, func(s *scene) {
			s.inKind(model.Annotation, "model_forward", "", func() {
				s.work(3 * ms)
				s.in("aten::mm", func() { s.work(ms) })
			})
		}), "model_forward takes 3.00 ms of the host's time in the recording window (75 % of it), outside the operators in it", analyze.PyTorch, 0},
		"the range of the whole program": {hostAlone(model.Nsys, 1, func(s *scene) { s.rangeOf("main", 90*ms) }), "", analyze.Unknown, 0},
		"a recurrent layer on a CPU asks for cuDNN": {hostAlone(model.Kineto, 1, func(s *scene) {
			s.in("aten::cudnn_is_acceptable", func() { s.work(us) })
			s.in("aten::addmm", func() { s.work(100 * ms) })
		}), "aten::addmm takes 100 ms of the host's time in the recording window (100 % of it), in 1 call", analyze.PyTorch, 0},
		"a message of another rank": {hostAlone(model.Kineto, 1, func(s *scene) {
			s.in("gloo:recv", func() { s.work(80 * ms) })
			s.in("aten::add", func() { s.work(ms) })
		}), "gloo:recv takes 80.0 ms of the host's time in the recording window (99 % of it), in 1 call", analyze.PyTorch, 0},
		"operators of a device": {hostAlone(model.Kineto, 1, func(s *scene) {
			s.in("aten::cudnn_convolution", func() { s.work(ms) })
		}), "the trace is incomplete: aten::cudnn_convolution ran on a device, and nothing of a device was recorded: times of operators are of the host alone", analyze.PyTorch, 0},
	} {
		t.Run(name, func(t *testing.T) {
			a, x := analyse(t, c.in)
			if x.Recording.Kind != analyze.HostOnly || x.Recording.Program != c.program {
				t.Errorf("the recording is of %s, %s", x.Recording.Program, x.Recording.Kind)
			}
			if c.step > 0 && (a.Step.Count == 0 || a.Step.NS < c.step || a.Step.NS > c.step+c.step/50) || c.step == 0 && a.Step.Count > 0 {
				t.Errorf("%d steps of %d ns by %s", a.Step.Count, a.Step.NS, a.StepSource)
			}
			if c.says == "" {
				if len(a.Findings) > 0 {
					t.Errorf("found %q", a.Findings[0].Title)
				}
				return
			}
			if len(a.Findings) == 0 || a.Findings[0].Title != c.says {
				t.Fatalf("the findings are %+v", a.Findings)
			}
			if f := &a.Findings[0]; strings.HasPrefix(f.Title, "gloo:") != strings.Contains(f.PyTorch, "ranks") {
				t.Errorf("%q gets the advice %q", f.Title, f.PyTorch)
			}
			if f := &a.Findings[0]; strings.Contains(f.PyTorch, "other ranks") && !strings.Contains(f.PyTorch, "can be a wait") {
				t.Errorf("states a wait that the recording does not show: %s", f.PyTorch)
			}
			gpu := regexp.MustCompile(`GPU|CUDA|cuda|kernel`)
			if f := &a.Findings[0]; f.Rule == gpuprof.RuleHostOperator && (f.ClaimNS > 0 || gpu.MatchString(f.Title+f.PyTorch+strings.Join(f.Caveats, " "))) {
				t.Errorf("a recording of the host alone: %+v", f)
			}
		})
	}
}

// A job of one rank waits for no other rank.
func TestCollectivesOfOneRank(t *testing.T) {
	for world, want := range map[int]string{1: "a job of one rank", 2: "can be a wait for the other ranks"} {
		in := hostAlone(model.Kineto, 1, func(s *scene) { s.in("gloo:all_reduce", func() { s.work(80 * ms) }) })
		in.World = world
		a, _ := analyse(t, in)
		if f := mustFind(t, a, gpuprof.RuleHostOperator); !strings.Contains(f.PyTorch, want) {
			t.Errorf("%d ranks: %s", world, f.PyTorch)
		}
	}
}
