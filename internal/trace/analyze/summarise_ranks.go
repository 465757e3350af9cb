package analyze

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// waitShare is the part of its step that the others must wait for a rank to be called the one they wait for.
const waitShare = 0.05

// rankTimes compares the ranks of a job, or the devices of one trace that
// communicate. Nil where there is nothing to compare.
func rankTimes(indexes []*Index, job *JobWaits) []RankTime {
	var out []RankTime
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
			parts = append(parts, x.steadyParts(d).over(float64(steps)))
		}
	}
	if len(indexes) < 2 && communicating < 2 || len(out) < 2 {
		return nil
	}
	if job == nil {
		return out
	}
	if at := markStraggler(indexes, out, job); at >= 0 {
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
			if !class.Communicates() {
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

// markStraggler marks the rank for which the others wait most, doing nothing else, if that is waitShare of its steady step
// or more and it arrives last in most of their collectives. It returns its place in ranks, -1 none.
func markStraggler(indexes []*Index, ranks []RankTime, job *JobWaits) int {
	place := func(r *RankWaits) int {
		return slices.IndexFunc(ranks, func(t RankTime) bool {
			return t.Input == r.Input && t.Device == indexes[r.Input].deviceID(r.Device)
		})
	}
	job.Straggler = -1
	late, all, most := -1, int64(0), int64(0)
	for by := range job.Ranks {
		var waits []int64
		for i := range job.Ranks {
			r := &job.Ranks[i]
			if at := place(r); i != by && at >= 0 {
				waits = append(waits, r.AloneNS[by]/int64(indexes[r.Input].SteadySteps()))
			}
		}
		slices.Sort(waits)
		all += middle(waits)
		if m := middle(waits); m > most {
			late, most = by, m
		}
	}
	if late < 0 || 2*most < all {
		return -1
	}
	at := place(&job.Ranks[late])
	if at < 0 || float64(most) < waitShare*float64(ranks[at].StepNS) || 2*job.Ranks[late].Last < job.Collectives {
		return -1
	}
	job.Straggler = late
	ranks[at].Straggler, ranks[at].WaitedNS = true, most
	ranks[at].LastIn, ranks[at].Collectives = job.Ranks[late].Last, job.Collectives
	return at
}

// middle is the median of sorted values, 0 of none.
func middle(v []int64) int64 {
	if len(v) == 0 {
		return 0
	}
	a, b := v[(len(v)-1)/2], v[len(v)/2]
	return a + (b-a)/2
}
