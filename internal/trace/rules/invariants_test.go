package rules_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
)

// everyTrace are the traces of the repository, and those of the folder that
// GPUPROF_TRACES names.
func everyTrace(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, folder := range []string{traceFolder, os.Getenv("GPUPROF_TRACES")} {
		if folder == "" {
			continue
		}
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			name := filepath.Base(path)
			isTrace := strings.HasSuffix(name, ".json.gz") || strings.HasSuffix(name, ".json") && name != "index.json" && name != "analysis.json"
			if err == nil && !d.IsDir() && isTrace {
				out = append(out, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(out) < 60 {
		t.Fatalf("%d traces in %s", len(out), traceFolder)
	}
	return out
}

// What holds for steps, whatever the program: they are disjoint, so no device
// works longer in them than it works; parts add up; what counts nowhere is in no
// table; no row of a comparison is longer than the step.
func TestStepsOfEveryTrace(t *testing.T) {
	for _, path := range everyTrace(t) {
		t.Run(strings.TrimPrefix(path, traceFolder), func(t *testing.T) {
			a, x := analyse(t, recorded(t, path))
			checkBounds(t, a, x)
			checkSteps(t, a)
			for _, c := range []*analyze.Comparison{rules.Compare(a, a)} {
				for _, row := range append(c.Classes, c.Operators...) {
					if len(a.Devices) == 1 && (row.OldNS > c.StepOldNS || row.NewNS > c.StepNewNS) {
						t.Errorf("%s takes %d of a step of %d ns, and %d of %d", row.Name, row.OldNS, c.StepOldNS, row.NewNS, c.StepNewNS)
					}
				}
			}
			if len(a.Findings) > 0 && a.Findings[0].Severity != gpuprof.Note && a.Bound.Nothing {
				t.Errorf("nothing is said to be worth a change, and %s is", a.Findings[0].Title)
			}
			if a.Bound.Nothing && len(a.Devices) > 0 && find(a, gpuprof.RuleNotSteady) == nil && !strings.Contains(a.Bound.Text, "Nothing above 0.5 %") {
				t.Errorf("bound says %q", a.Bound.Text)
			}
		})
	}
}

func checkSteps(t *testing.T, a *analyze.Analysis) {
	t.Helper()
	busy, most := map[[2]int]int64{}, map[[2]int]int64{}
	for _, d := range a.Devices {
		most[[2]int{d.Input, d.ID}] = d.BusyNS
	}
	end := map[int]int64{}
	for _, s := range a.Steps {
		if at, ok := end[s.Input]; ok && s.StartNS < at {
			t.Errorf("%s begins before the step before it ends", s.Name)
		}
		end[s.Input] = s.StartNS + s.DurNS
		busy[[2]int{s.Input, s.Device}] += s.BusyNS
		var classes int64
		for _, ns := range s.Classes {
			classes += ns
		}
		if classes != s.BusyNS || s.BusyNS+s.StarvedNS+s.QueuedNS+s.UnknownNS > s.DurNS {
			t.Errorf("%s: classes are %d, busy %d, starved %d, queued %d, unknown %d of %d ns", s.Name, classes, s.BusyNS, s.StarvedNS, s.QueuedNS, s.UnknownNS, s.DurNS)
		}
	}
	for of, ns := range busy {
		if ns > most[of] {
			t.Errorf("device %v works %d ns in the steps and %d in all", of, ns, most[of])
		}
	}
	if got := a.Step.Total(); got != a.Step.NS {
		t.Errorf("the parts of the step add up to %d of %d ns", got, a.Step.NS)
	}
}

// The device's period, from the last kernel of the second step to that of the
// last, is what the recorded programs say of themselves; where the device sets
// the pace it is the mean step.
func TestStepIsTheDevicesPeriod(t *testing.T) {
	for _, name := range []string{"sync-clean", "item-clean", "pageable-clean", "deterministic-clean", "deterministic-fill-clean"} {
		t.Run(name, func(t *testing.T) {
			in := recorded(t, filepath.Join(traceFolder, "h200", name+".json.gz"))
			var ends []int64
			for i := range in.Host {
				h := &in.Host[i]
				if h.Kind != model.Step {
					continue
				}
				last := int64(0)
				for g := range in.GPU {
					op := &in.GPU[g]
					if op.Launch < 0 {
						continue
					}
					if at := in.Host[op.Launch].Start; at >= h.Start && at < h.End {
						last = max(last, op.End)
					}
				}
				if last > 0 {
					ends = append(ends, last)
				}
			}
			if len(ends) < 4 {
				t.Fatalf("%d steps launch something", len(ends))
			}
			period := float64(ends[len(ends)-1]-ends[0]) / float64(len(ends)-1)
			a, _ := analyse(t, in)
			t.Logf("mean step %d ns, period %.0f", a.Step.NS, period)
			if got := float64(a.Step.NS); got < 0.98*period || got > 1.02*period {
				t.Errorf("the mean step is %.0f ns, the device's period %.0f", got, period)
			}
			if a.Step.Count != len(ends)-1 {
				t.Errorf("%d steps count, %d launch something and the first is left out", a.Step.Count, len(ends))
			}
		})
	}
}

// A trailing empty range of the profiler and the step left out are in no table.
func TestWhatCountsNowhere(t *testing.T) {
	s := newScene()
	s.step(func() { s.inKind(model.Annotation, "warm-up", "", func() { s.op("aten::conv2d", sgemm, 900*us) }) })
	s.repeat(3, func() { s.products(3, 100*us) })
	whole, _ := analyse(t, s.trace())
	s.step(func() { s.wait("cudaDeviceSynchronize") })
	a, _ := analyse(t, s.trace())
	if a.Step.NS != whole.Step.NS || a.Step.Count != 3 || len(a.Steps) != len(whole.Steps) {
		t.Errorf("with an empty range the mean step is %d ns of %d steps, without %d of %d", a.Step.NS, a.Step.Count, whole.Step.NS, whole.Step.Count)
	}
	for _, o := range a.Operators {
		if o.Name != "aten::mm" || o.Count != 9 || o.GPUNS != 900*us {
			t.Errorf("operators of the steps that count: %+v", o)
		}
	}
	if len(a.Modules) > 0 {
		t.Errorf("modules of the step left out: %+v", a.Modules)
	}
	if f := find(a, "explicit-sync"); f != nil {
		t.Errorf("the synchronisation that closes the recording is advice: %s", f.Title)
	}
}

// The same without a device: the empty range has no operators.
func TestEmptyRangeWithoutDevice(t *testing.T) {
	s := newScene()
	s.device.Name = ""
	s.repeat(4, func() {
		for range 30 {
			s.in("aten::mm", func() { s.work(100 * us) })
		}
	})
	s.step(func() { s.in("aten::item", func() {}) })
	a, _ := analyse(t, s.trace())
	if a.Step.Count != 3 || len(a.Steps) != 4 {
		t.Errorf("%d of %d steps count", a.Step.Count, len(a.Steps))
	}
}

// A benchmark that waits once, when all is launched, is told nothing of it.
func TestClosingSynchroniseIsNoAdvice(t *testing.T) {
	for _, call := range []string{"cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize"} {
		s := newScene()
		for range 8 {
			s.products(2, 300*us)
		}
		s.wait(call)
		s.end()
		a, _ := analyse(t, s.trace())
		if f := find(a, "explicit-sync"); f != nil {
			t.Errorf("%s: %s", call, f.Title)
		}
	}
}

// The wait before the first operation counts where there is one step.
func TestLeadInOfOneStep(t *testing.T) {
	a, _ := analyse(t, act(1, func(s *scene) {
		s.inKind(model.Annotation, "prepare inputs", "", func() { s.work(5000 * us) })
		s.products(4, 300*us)
	}).trace())
	f := mustFind(t, a, "host-bound")
	if f.ClaimNS < 5000*us || f.ClaimNS > 5030*us || f.Sites[0].Where != "prepare inputs" {
		t.Errorf("claims %d ns at %v", f.ClaimNS, f.Sites)
	}
	if d := a.Devices[0]; d.SpanNS != 1200*us || d.Lead.StarvedNS < 5000*us {
		t.Errorf("the device's own span is %d ns after a lead of %+v", d.SpanNS, d.Lead)
	}
}

// Where no finding claims half a percent, the analysis says so and what bounds
// the program.
func TestNothingWorthAChange(t *testing.T) {
	for _, c := range []struct {
		by     string
		kernel func(s *scene)
	}{
		{"compute", func(s *scene) { s.products(1, 5000*us) }},
		{"memory", func(s *scene) { s.op("aten::add", addKernel, 5000*us) }},
		{"communication", func(s *scene) { s.kernelOn(7, allReduce, 5000*us, 24) }},
	} {
		a, _ := analyse(t, act(4, func(s *scene) {
			c.kernel(s)
			s.item()
			s.work(3 * us)
		}).trace())
		for _, f := range a.Findings {
			if f.ClaimNS > 0 && f.Share < analyze.LeastShare || f.Rule == "item" {
				t.Errorf("%s: %s claims %g of the step", c.by, f.Rule, f.Share)
			}
		}
		if a.Bound.By != c.by {
			t.Errorf("bound by %s, want %s: %s", a.Bound.By, c.by, a.Bound.Text)
		}
		if c.by != "communication" && !strings.HasSuffix(a.Bound.Text, "Nothing above 0.5 % of the step: no finding claims as much.") {
			t.Errorf("says %q, findings %v", a.Bound.Text, ids(a))
		}
	}
}
