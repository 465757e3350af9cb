package analyze

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// waitShare is how much less of the steady time than the others a rank must
// spend in communication to be called the one they wait for.
const waitShare = 0.05

// rankTimes compares the ranks of a job, or the devices of one trace that
// communicate. Nil where there is nothing to compare.
func rankTimes(indexes []*Index) []RankTime {
	var out []RankTime
	var steady []int64
	var parts []Parts
	communicating := 0
	for i, x := range indexes {
		for _, d := range x.Devices {
			if d.Kernels == 0 {
				continue
			}
			inside, steps := x.Steady.Within(d.Window), int64(x.SteadySteps())
			in := func(set model.Spans) (ns int64) {
				for _, w := range inside {
					ns += set.TotalIn(w)
				}
				return ns
			}
			r := RankTime{
				Rank: x.T.Rank, Input: i, Device: x.deviceID(d.Device), StepNS: x.Steady.Total() / steps,
				ComputeNS: in(d.Compute) / steps, CommNS: in(d.Comm) / steps,
				ExposedCommNS: (in(d.Kernel) - in(d.Compute)) / steps, // kernels are one or the other, or both at once
				IdleNS:        (x.Steady.Total() - in(d.Busy)) / steps,
			}
			r.HiddenCommNS = r.CommNS - r.ExposedCommNS
			if len(x.Devices) > 1 || r.Rank < 0 {
				r.Rank = max(r.Rank, 0) + len(out)
			}
			if r.CommNS > 0 {
				communicating++
			}
			out = append(out, r)
			steady = append(steady, r.StepNS)
			parts = append(parts, x.steadyParts(d).over(float64(steps)))
		}
	}
	if len(indexes) < 2 && communicating < 2 || len(out) < 2 {
		return nil
	}
	if at := markStraggler(out, steady); at >= 0 {
		x, step := indexes[out[at].Input], out[at].StepNS
		out[at].Cause = stragglerCause(parts, at, x.loaderSpans().TotalAnd(x.Called)/int64(x.SteadySteps()), step)
	}
	return out
}

// stragglerCause says which part of the straggler's step is longer than in the
// median of the others' by most; "" where none is by waitShare of the step.
// loader is the straggler's time in its data loader, per step.
func stragglerCause(parts []Parts, at int, loader, step int64) string {
	of := func(p *Parts) map[string]int64 {
		out := map[string]int64{"starved": p.StarvedNS, "queued": p.QueuedNS}
		for class, ns := range p.Classes {
			if class != model.Communication {
				out[string(class)] = ns
			}
		}
		return out
	}
	own, best, most := of(&parts[at]), "", int64(0)
	for _, name := range slices.Sorted(maps.Keys(own)) {
		var others []int64
		for i := range parts {
			if i != at {
				others = append(others, of(&parts[i])[name])
			}
		}
		slices.Sort(others)
		if more := own[name] - middle(others); more > most {
			best, most = name, more
		}
	}
	if float64(most) < waitShare*float64(step) {
		return ""
	}
	switch {
	case best == "starved" && 2*loader >= most:
		return fmt.Sprintf("its device waits %s longer for the host, which waits for its data loader", gpuprof.FormatNS(most))
	case best == "starved":
		return fmt.Sprintf("its device waits %s longer for the host", gpuprof.FormatNS(most))
	case best == "queued":
		return fmt.Sprintf("its device waits %s longer for work that is launched", gpuprof.FormatNS(most))
	}
	return fmt.Sprintf("its %s kernels take %s longer: more work, or a slower device", best, gpuprof.FormatNS(most))
}

// markStraggler marks the rank the others wait for. A collective ends when the
// last rank has come: the ones that came early spend the wait in it, the last
// one does not, so the straggler is the rank with the least communication. It
// returns which one, -1 none.
func markStraggler(ranks []RankTime, steady []int64) int {
	least := 0
	others := make([]int64, 0, len(ranks))
	for i := range ranks {
		if ranks[i].CommNS == 0 {
			return -1 // not all of them take part
		}
		if ranks[i].CommNS < ranks[least].CommNS {
			least = i
		}
	}
	for i := range ranks {
		if i != least {
			others = append(others, ranks[i].CommNS)
		}
	}
	slices.Sort(others)
	if wait := middle(others) - ranks[least].CommNS; float64(wait) >= waitShare*float64(steady[least]) && wait > 0 {
		ranks[least].Straggler = true
		return least
	}
	return -1
}

// middle is the median of sorted values, 0 of none.
func middle(v []int64) int64 {
	if len(v) == 0 {
		return 0
	}
	a, b := v[(len(v)-1)/2], v[len(v)/2]
	return a + (b-a)/2
}
