package trace

import (
	"context"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestStepIsThePace: a host that runs ahead, or a device that lags behind, does
// not change how long a step takes: as long as from the end of one step's
// device work to the end of the next one's.
func TestStepIsThePace(t *testing.T) {
	for _, c := range []struct {
		name         string
		host, device int64 // each step's period on the host, and its device time
		late         int64 // of each kernel after its step begins on the host
		mean         int64
	}{
		{"in step", 1000, 800, 100, 1000},
		{"the device ends after the host's step", 1000, 800, 700, 1000},
		{"the host runs ahead", 200, 1000, 10, 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder()
			free := int64(0)
			for i := range int64(5) {
				at := i * c.host
				b.host(Step, fmt.Sprintf("ProfilerStep#%d", i), at, at+c.host)
				start := max(at+c.late, free)
				free = start + c.device
				b.launch("k", at+1, 2, start, free)
			}
			a := summarise(t, nil, b)
			if diff := a.Step.NS - c.mean; diff < -c.mean/10 || diff > c.mean/10 {
				t.Errorf("the mean step is %d ns, want about %d", a.Step.NS, c.mean)
			}
			if a.Step.Count != 4 {
				t.Errorf("it is the mean of %d steps", a.Step.Count)
			}
		})
	}
}

// TestHalvesAreRoundedOnce: whole times of one device, divided by the steps, add up to the
// rounded whole, a half like any other; those of several devices to within one.
func TestHalvesAreRoundedOnce(t *testing.T) {
	for whole := range int64(60) {
		for first := range whole {
			for n := int64(1); n < 15; n++ {
				for devices := int64(1); devices < 4; devices++ {
					var sums partSums
					for range devices {
						sums.add(&partSums{starved: float64(first / 2), unknown: float64(first - first/2), queued: float64(whole - first)}, 1/float64(devices))
					}
					parts, want := sums.over(float64(n)), (whole+n/2)/n
					if off := parts.Total() - want; devices == 1 && off != 0 || off*off > 1 {
						t.Fatalf("%d of %d devices in %d steps: %+v, want %d in all", whole, devices, n, parts, want)
					}
				}
			}
		}
	}
}

// TestPartsAddUp: over random traces, several of them too, the parts of every
// step, of every device's mean step and of the mean step add up, and the mean
// is that of the steps.
func TestPartsAddUp(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var indexes []*Index
		for range rapid.IntRange(1, 3).Draw(r, "inputs") {
			tr := randomTrace(r)
			tr.Finish()
			x, err := NewIndex(context.Background(), tr)
			if err != nil {
				r.Fatal(err)
			}
			indexes = append(indexes, x)
		}
		a, err := SummariseIndexes(context.Background(), indexes, Options{Rules: Rules})
		if err != nil {
			r.Fatal(err)
		}
		adds := func(what string, p *Parts, whole int64) {
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
