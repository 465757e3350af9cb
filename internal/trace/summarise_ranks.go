package trace

import "slices"

// waitShare is how much less of the steady time than the others a rank must
// spend in communication to be called the one they wait for.
const waitShare = 0.05

// rankTimes compares the ranks of a job, or the devices of one trace that
// communicate. Nil where there is nothing to compare.
func rankTimes(indexes []*Index) []RankTime {
	var out []RankTime
	var steady []int64
	communicating := 0
	for i, x := range indexes {
		for _, d := range x.Devices {
			if d.Kernels == 0 {
				continue
			}
			inside, steps := x.Steady.Within(d.Window), int64(x.SteadySteps())
			in := func(set Spans) (ns int64) {
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
			if len(x.Devices) > 1 || r.Rank < 0 {
				r.Rank = max(r.Rank, 0) + len(out)
			}
			if r.CommNS > 0 {
				communicating++
			}
			out = append(out, r)
			steady = append(steady, r.StepNS)
		}
	}
	if len(indexes) < 2 && communicating < 2 || len(out) < 2 {
		return nil
	}
	markStraggler(out, steady)
	return out
}

// markStraggler marks the rank the others wait for. A collective ends when the
// last rank has come: the ones that came early spend the wait in it, the last
// one does not, so the straggler is the rank with the least communication.
func markStraggler(ranks []RankTime, steady []int64) {
	least := 0
	others := make([]int64, 0, len(ranks))
	for i := range ranks {
		if ranks[i].CommNS == 0 {
			return // not all of them take part
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
	}
}

// middle is the median of sorted values, 0 of none.
func middle(v []int64) int64 {
	if len(v) == 0 {
		return 0
	}
	a, b := v[(len(v)-1)/2], v[len(v)/2]
	return a + (b-a)/2
}
