package analyze

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// leastWaitShare is the least share of the step for which the other ranks must wait for a rank that is a straggler.
const leastWaitShare = 0.05

// compareRanks compares the ranks of a job, or the communicating devices of one trace; nil with fewer than two.
func compareRanks(indexes []*Index, job *JobWaits) []RankTime {
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
				Rank: x.T.Rank, Input: i, Device: x.DeviceID(d.Device), StepNS: x.Steady.Total() / steps,
				ComputeNS: in(d.Compute) / steps, CommNS: in(d.Comm) / steps,
				ExposedCommNS: (in(d.Kernel) - in(d.Compute)) / steps, // device kernels without simultaneous computation
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
			parts = append(parts, x.steadyParts(d).divideBy(float64(steps)))
		}
	}
	if len(indexes) < 2 && communicating < 2 || len(out) < 2 {
		return nil
	}
	if job == nil {
		return out
	}
	for _, at := range markStragglers(indexes, out, job) {
		x, step := indexes[out[at].Input], out[at].StepNS
		out[at].Cause = stragglerCause(parts, at, x.loaderSpans().TotalAnd(x.Called)/int64(x.SteadySteps()), step)
	}
	return out
}

// stragglerCause names the part of the straggler's step that most exceeds the median of the other ranks; "" if none
// exceeds it by leastWaitShare of the step. loader is the time in the straggler's data loader, ns per step.
func stragglerCause(parts []Parts, at int, loader, step int64) string {
	byPart := func(p *Parts) map[string]int64 {
		out := map[string]int64{"starved": p.StarvedNS, "queued": p.QueuedNS}
		for class, ns := range p.Classes {
			if !class.Communicates() {
				out[string(class)] = ns
			}
		}
		return out
	}
	own, best, most := byPart(&parts[at]), "", int64(0)
	for _, name := range slices.Sorted(maps.Keys(own)) {
		var others []int64
		for i := range parts {
			if i != at {
				others = append(others, byPart(&parts[i])[name])
			}
		}
		slices.Sort(others)
		if more := own[name] - medianOfSorted(others); more > most {
			best, most = name, more
		}
	}
	if float64(most) < leastWaitShare*float64(step) {
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

// leastStragglerShare is the least share of all waits that the stragglers must cause together, unless the rank with the
// longest waits causes half of them alone.
const leastStragglerShare = 0.8

// markStragglers marks the ranks for which the others wait longest, and returns their indexes in ranks. There are at
// most two, or a quarter of the job's ranks if that is more. The wait for each is at least leastWaitShare of its step
// and half of the longest wait. Together they cause leastStragglerShare of all waits, unless the first causes half, and
// they arrive last in half of the collectives. If not, no rank is marked.
func markStragglers(indexes []*Index, ranks []RankTime, job *JobWaits) (places []int) {
	place := func(r *RankWaits) int {
		return slices.IndexFunc(ranks, func(t RankTime) bool {
			return t.Input == r.Input && t.Device == indexes[r.Input].DeviceID(r.Device)
		})
	}
	all, waited := int64(0), make([]int64, len(job.Ranks)) // median wait of other ranks, ns per step, and its sum
	order := make([]int, len(job.Ranks))
	for by := range job.Ranks {
		var waits []int64
		for i := range job.Ranks {
			r := &job.Ranks[i]
			if at := place(r); i != by && at >= 0 {
				waits = append(waits, r.AloneNS[by]/int64(indexes[r.Input].SteadySteps()))
			}
		}
		slices.Sort(waits)
		waited[by], order[by] = medianOfSorted(waits), by
		all += waited[by]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(waited[b], waited[a]) })
	most, sum, last := waited[order[0]], int64(0), 0
	for _, by := range order[:min(len(order), max(2, len(order)/4))] {
		at := place(&job.Ranks[by])
		if at < 0 || job.Ranks[by].Last == 0 || float64(waited[by]) < leastWaitShare*float64(ranks[at].StepNS) || 2*waited[by] < most {
			break
		}
		places, sum, last = append(places, at), sum+waited[by], last+job.Ranks[by].Last
	}
	if 2*most < all && float64(sum) < leastStragglerShare*float64(all) || len(places) == 0 || 2*last < job.Collectives {
		return nil
	}
	job.Stragglers = order[:len(places)]
	for k, at := range places {
		ranks[at].Straggler, ranks[at].WaitedNS = true, waited[order[k]]
		ranks[at].LastIn, ranks[at].Collectives = job.Ranks[order[k]].Last, job.Collectives
	}
	return places
}

func medianOfSorted(v []int64) int64 {
	if len(v) == 0 {
		return 0
	}
	a, b := v[(len(v)-1)/2], v[len(v)/2]
	return a + (b-a)/2
}
