package analyze_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
)

// TestSumsOfAnalysis: the figures that Analysis promises to add up do.
func TestSumsOfAnalysis(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		tr := analyze.RandomTrace(r)
		tr.Finish()
		a, err := analyze.Summarise(context.Background(), []*model.Trace{tr}, analyze.Options{Rules: rules.Rules})
		if err != nil {
			r.Fatal(err)
		}
		for _, d := range a.Devices {
			var classes int64
			for _, ns := range d.Classes {
				classes += ns
			}
			if d.BusyNS+d.IdleNS != d.SpanNS || d.StarvedNS+d.QueuedNS+d.UnknownNS != d.IdleNS || classes != d.BusyNS {
				r.Fatalf("%+v does not add up", d)
			}
		}
		for _, s := range a.Steps {
			var classes int64
			for _, ns := range s.Classes {
				classes += ns
			}
			if classes != s.BusyNS || s.BusyNS+s.StarvedNS+s.QueuedNS+s.UnknownNS > s.DurNS {
				r.Fatalf("%+v does not add up", s)
			}
		}
		var kernels, devices int64
		for _, k := range a.Kernels {
			kernels += k.NS
		}
		for i := range tr.GPU {
			devices += tr.GPU[i].Dur()
		}
		if kernels != devices {
			r.Fatalf("operations by name take %d ns, one by one %d", kernels, devices)
		}
		for _, o := range a.Operators {
			if o.HostNS < 0 || o.SelfNS < 0 || o.SelfNS > o.HostNS {
				r.Fatalf("operator %+v", o)
			}
		}
		for i, f := range a.Findings {
			var parts int64
			for _, ns := range f.Parts {
				parts += ns
			}
			if parts > f.StepNS {
				r.Fatalf("%s claims %d ns a step, and %v of its parts", f.Rule, f.StepNS, f.Parts)
			}
			if i > 0 && f.ClaimNS > a.Findings[i-1].ClaimNS {
				r.Fatalf("findings are not sorted by claim: %d after %d", f.ClaimNS, a.Findings[i-1].ClaimNS)
			}
		}
	})
}

// TestPartsAddUp: over random traces, several of them too, the parts of every
// step, of every device's mean step and of the mean step add up, and the mean
// is that of the steps.
func TestPartsAddUp(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var indexes []*analyze.Index
		for range rapid.IntRange(1, 3).Draw(r, "inputs") {
			tr := analyze.RandomTrace(r)
			tr.Finish()
			x, err := analyze.NewIndex(context.Background(), tr)
			if err != nil {
				r.Fatal(err)
			}
			indexes = append(indexes, x)
		}
		a, err := analyze.SummariseIndexes(context.Background(), indexes, analyze.Options{Rules: rules.Rules})
		if err != nil {
			r.Fatal(err)
		}
		adds := func(what string, p *analyze.Parts, whole int64) {
			busy := int64(0)
			for class, ns := range p.Classes {
				if busy += ns; ns < 0 {
					r.Errorf("%s: %s is %d ns", what, class, ns)
				}
			}
			if busy != p.BusyNS {
				r.Errorf("%s: classes add up to %d, busy is %d", what, busy, p.BusyNS)
			}
			sum := busy
			for _, part := range p.Idle() {
				if sum += part.NS; part.NS < 0 {
					r.Errorf("%s: %s is %d ns", what, part.Name, part.NS)
				}
			}
			if sum != whole {
				r.Errorf("%s: parts add up to %d of %d ns", what, sum, whole)
			}
		}
		adds("the step", &a.Step.Parts, a.Step.NS)
		for i := range a.Devices {
			d := &a.Devices[i]
			x := indexes[d.Input]
			n := int64(x.SteadySteps())
			adds(fmt.Sprintf("device %d of %d", d.ID, d.Input), &d.Step, (x.Steady.Total()+n/2)/n)
		}
		var sum, n int64
		end := map[int]int64{}
		for _, s := range a.Steps {
			if at, ok := end[s.Input]; ok && s.StartNS < at {
				r.Errorf("step %s begins at %d, before %d, where the one before ends", s.Name, s.StartNS, at)
			}
			end[s.Input] = s.StartNS + s.DurNS
			if !s.Dropped {
				sum, n = sum+s.DurNS, n+1
			}
		}
		if n > 0 && (n != int64(a.Step.Count) || max(sum-a.Step.NS*n, a.Step.NS*n-sum) > n) {
			r.Errorf("%d steps take %d ns; the mean is %d of %d", n, sum, a.Step.NS, a.Step.Count)
		}
		for _, f := range a.Findings {
			x := indexes[f.Input]
			if step := x.Steady.Total() / int64(x.SteadySteps()); f.StepNS > step || f.Share > 1 {
				r.Errorf("%s claims %d ns per step, %g of a step of %d", f.Rule, f.StepNS, f.Share, step)
			}
		}
	})
}

// TestNoDevice: a trace of the CPU alone has steps, operators and the loader.
func TestNoDevice(t *testing.T) {
	a, err := analyze.Summarise(t.Context(), []*model.Trace{analyze.NoDevice()}, analyze.Options{Rules: rules.Rules})
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Devices) != 0 || len(a.Steps) != 3 || a.Steps[1].LoaderNS != 400 || a.Steps[1].Device != -1 {
		t.Errorf("devices %v, steps %+v", a.Devices, a.Steps)
	}
	if len(a.Operators) != 1 || a.Operators[0].SelfNS != 600 {
		t.Errorf("operators %+v", a.Operators)
	}
	codes := ""
	for _, w := range a.Warnings {
		codes += w.Code + " "
	}
	if !strings.Contains(codes, "no-device") {
		t.Errorf("warnings %q, want one that no device was recorded", codes)
	}
}
