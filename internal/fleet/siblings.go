package fleet

import (
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/internal/stats"
)

// excess has the times by which ranks exceed their siblings before each collective. Siblings run the same collectives
// in the same order and, if there are such ranks, the same kernels.
type excess struct {
	more   [][]int64 // by timeline: ns above the siblings' median before each call, and after the last
	family []int     // by timeline: the index of its family
}

// segmentTimes returns a rank's own time before each of its calls, and after the last one, ns.
func (l *timeline) segmentTimes() []int64 {
	out := make([]int64, len(l.calls)+1)
	at := 0
	for _, o := range l.ops {
		out[at] += o.own
		if o.kind == opEnqueue {
			at++
		}
	}
	return out
}

func (m *matchedJob) computeExcess() *excess {
	e := &excess{more: make([][]int64, len(m.lines)), family: make([]int, len(m.lines))}
	stretches := make([][]int64, len(m.lines))
	for i, l := range m.lines {
		stretches[i] = l.segmentTimes()
	}
	for n, family := range m.siblingFamilies() {
		for _, i := range family {
			e.family[i] = n
			e.more[i] = make([]int64, len(stretches[i]))
		}
		if len(family) < 2 {
			continue
		}
		column, sorted := make([]int64, len(family)), make([]int64, len(family))
		for k := range stretches[family[0]] {
			for j, i := range family {
				column[j] = stretches[i][k]
			}
			copy(sorted, column)
			slices.Sort(sorted)
			for j, i := range family {
				e.more[i][k] = max(0, column[j]-medianExcept(sorted, column[j]))
			}
		}
	}
	return e
}

// medianExcept returns the median of the sorted values without the value own.
func medianExcept(sorted []int64, own int64) int64 {
	at, _ := slices.BinarySearch(sorted, own)
	n := len(sorted) - 1
	get := func(i int) int64 {
		if i >= at {
			i++
		}
		return sorted[i]
	}
	a, b := get((n-1)/2), get(n/2)
	return a + (b-a)/2
}

// siblingFamilies groups the ranks' timelines, by index, into families: ranks that do the same work.
func (m *matchedJob) siblingFamilies() [][]int {
	type key struct {
		signature uint64
		role      string
	}
	signatures := make([]uint64, len(m.lines))
	count := map[key]int{}
	for i, l := range m.lines {
		signatures[i] = l.callSignature()
		count[key{signatures[i], l.role}]++
	}
	var out [][]int
	at := map[key]int{}
	for i, l := range m.lines {
		k := key{signatures[i], l.role}
		if count[k] == 1 {
			// No other rank runs the same kernels: the collectives alone decide.
			k.role = ""
			for other, n := range count {
				if other.signature == k.signature && n > 1 {
					k.role = max(k.role, other.role)
				}
			}
		}
		n, ok := at[k]
		if !ok {
			n = len(out)
			at[k] = n
			out = append(out, nil)
		}
		out[n] = append(out[n], i)
	}
	return out
}

// meanExcess returns the excess of rank timeline i over its siblings, ns per step. Repairing the rank gains at most
// this time.
func (e *excess) meanExcess(i, steps int) float64 {
	sum := int64(0)
	for _, v := range e.more[i] {
		sum += v
	}
	return float64(sum) / float64(max(steps, 1))
}

// siblingTimes returns the own times, ns, of the operations of rank timeline i at the speed of its siblings. The times
// of all operations before a collective call are shortened by one factor.
func (m *matchedJob) siblingTimes(e *excess, i int) []int64 {
	l := m.lines[i]
	out := make([]int64, len(l.ops))
	stretches := l.segmentTimes()
	at := 0
	for n, o := range l.ops {
		out[n] = o.own
		if more := e.more[i][at]; more > 0 {
			out[n] = int64(float64(o.own) * float64(stretches[at]-more) / float64(stretches[at]))
		}
		if o.kind == opEnqueue {
			at++
		}
	}
	return out
}

// excessPerStep returns the excess of ranks over their siblings, ns, by step and timeline.
func (m *matchedJob) excessPerStep(e *excess) [][]int64 {
	at := map[int64]int{}
	for i, s := range m.steps {
		at[s] = i
	}
	out := make([][]int64, len(m.steps))
	for i := range out {
		out[i] = make([]int64, len(m.lines))
	}
	for i, l := range m.lines {
		for k, v := range e.more[i] {
			step := len(m.steps) - 1
			if k < len(l.calls) {
				step = at[l.steps[l.calls[k].step]]
			}
			out[step][i] += v
		}
	}
	return out
}

// isPersistent reports whether the ranks of the given timelines are slow in most steps. share is the share of steps in
// which one of these ranks has the largest excess over its siblings; it must be at least steadyFrom. Each rank's mean
// excess must exceed standsOut times the usual excess. Ranks that the search has already replaced do not count.
func (s *search) isPersistent(lines []int) (share float64, ok bool) {
	for _, more := range s.perStep {
		most, own := int64(0), int64(0)
		for i, v := range more {
			switch {
			case slices.Contains(lines, i):
				own = max(own, v)
			case s.set[i] == nil:
				most = max(most, v)
			}
		}
		if own > most {
			share += 1 / float64(len(s.perStep))
		}
	}
	own := math.Inf(1)
	for _, i := range lines {
		own = min(own, s.e.meanExcess(i, len(s.m.steps)))
	}
	return share, share >= steadyFrom && own > standsOut*s.usualExcess(lines)
}

// slowTogether reports whether the candidate's ranks are slow together: all of several ranks, or at least half of a
// node's ranks, exceed their siblings by similar amounts in the median step (alikeFrom).
func (s *search) slowTogether(c *candidate) bool {
	if len(c.lines) == 1 {
		return true
	}
	typical, most := make([]float64, len(c.lines)), 0.0
	for n, i := range c.lines {
		typical[n] = medianOf(s.perStep, func(more []int64) float64 { return float64(more[i]) })
		most = max(most, typical[n])
	}
	count := 0
	for n, i := range c.lines {
		if t := typical[n]; t > 0 && t >= alikeFrom*most && t >= alikeFrom*s.e.meanExcess(i, len(s.m.steps)) {
			count++
		}
	}
	if c.node != "" {
		return count > 1 && 2*count >= len(c.lines)
	}
	return count == len(c.lines)
}

// usualExcess returns the median of the mean excesses of the rank timelines, in ns per step. It leaves out the
// timelines listed in but and those that the search has already replaced.
func (s *search) usualExcess(but []int) float64 {
	var totals []float64
	for i := range s.m.lines {
		if s.set[i] == nil && !slices.Contains(but, i) {
			totals = append(totals, s.e.meanExcess(i, len(s.m.steps)))
		}
	}
	if len(totals) == 0 {
		return 0
	}
	return stats.Median(totals)
}

func (m *matchedJob) lineTimes() []float64 {
	out := make([]float64, len(m.lines))
	for i, l := range m.lines {
		for _, o := range l.ops {
			out[i] += float64(o.own)
		}
		out[i] *= 1e-9 / float64(max(len(m.steps), 1))
	}
	return out
}

// medianOwn returns the median of the family's own times, s per step.
func medianOwn(owns []float64, family []int) float64 {
	return medianOf(family, func(i int) float64 { return owns[i] })
}
