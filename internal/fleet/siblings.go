package fleet

import (
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/internal/stats"
)

// excess is the time that a rank takes more than its siblings, before each of its
// collectives: ranks that ask for the same collectives in the same order, and run the
// same kernels where there are such others.
type excess struct {
	more   [][]int64 // by line, what it takes more than its siblings' median before each call, and after the last one
	family []int     // by line, the number of its family
}

// stretches are the own times of a rank before each of its calls, and after the last one.
func (l *line) stretches() []int64 {
	out := make([]int64, len(l.calls)+1)
	at := 0
	for _, o := range l.ops {
		out[at] += o.own
		if o.kind == asks {
			at++
		}
	}
	return out
}

// excesses compares every rank with its siblings.
func (m *matched) excesses() *excess {
	e := &excess{more: make([][]int64, len(m.lines)), family: make([]int, len(m.lines))}
	stretches := make([][]int64, len(m.lines))
	for i, l := range m.lines {
		stretches[i] = l.stretches()
	}
	for n, family := range m.families() {
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
				e.more[i][k] = max(0, column[j]-othersMedian(sorted, column[j]))
			}
		}
	}
	return e
}

// othersMedian is the median of sorted values without one of them.
func othersMedian(sorted []int64, own int64) int64 {
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

// families are the places of lines that are siblings of each other.
func (m *matched) families() [][]int {
	type key struct {
		signature uint64
		role      string
	}
	signatures := make([]uint64, len(m.lines))
	count := map[key]int{}
	for i, l := range m.lines {
		signatures[i] = l.signature()
		count[key{signatures[i], l.role}]++
	}
	var out [][]int
	at := map[key]int{}
	for i, l := range m.lines {
		k := key{signatures[i], l.role}
		if count[k] == 1 {
			// Alone with its kernels: beside the others with its collectives.
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

// total is what a rank takes more than its siblings, ns per step: no more can be gained.
func (e *excess) total(i, steps int) float64 {
	sum := int64(0)
	for _, v := range e.more[i] {
		sum += v
	}
	return float64(sum) / float64(max(steps, 1))
}

// replaced are the own times of a line's ops as its siblings' would be: those before a
// call become shorter by one factor.
func (m *matched) replaced(e *excess, i int) []int64 {
	l := m.lines[i]
	out := make([]int64, len(l.ops))
	stretches := l.stretches()
	at := 0
	for n, o := range l.ops {
		out[n] = o.own
		if more := e.more[i][at]; more > 0 {
			out[n] = int64(float64(o.own) * float64(stretches[at]-more) / float64(stretches[at]))
		}
		if o.kind == asks {
			at++
		}
	}
	return out
}

// perStep is what each line takes more than its siblings, by step.
func (m *matched) perStep(e *excess) [][]int64 {
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

// standing says whether lines take more than any other in most of the steps, of which it
// returns the share, and much more in all of them than is usual. Lines that were replaced
// do not count.
func (s *search) standing(lines []int) (share float64, ok bool) {
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
		own = min(own, s.e.total(i, len(s.m.steps)))
	}
	return share, share >= steadyFrom && own > standsOut*s.usual(lines)
}

// alike reports whether lines take more in the same way, step by step: all of several
// ranks, half of the ranks of a node.
func (s *search) alike(c *candidate) bool {
	if len(c.lines) == 1 {
		return true
	}
	typical, most := make([]float64, len(c.lines)), 0.0
	for n, i := range c.lines {
		var v []float64
		for _, more := range s.perStep {
			v = append(v, float64(more[i]))
		}
		typical[n] = stats.Median(v)
		most = max(most, typical[n])
	}
	count := 0
	for n, i := range c.lines {
		if t := typical[n]; t > 0 && t >= alikeFrom*most && t >= alikeFrom*s.e.total(i, len(s.m.steps)) {
			count++
		}
	}
	if c.node != "" {
		return count > 1 && 2*count >= len(c.lines)
	}
	return count == len(c.lines)
}

// usual is the median of what the lines take more that were not replaced and are not
// among these, ns per step.
func (s *search) usual(but []int) float64 {
	var totals []float64
	for i := range s.m.lines {
		if s.set[i] == nil && !slices.Contains(but, i) {
			totals = append(totals, s.e.total(i, len(s.m.steps)))
		}
	}
	if len(totals) == 0 {
		return 0
	}
	return stats.Median(totals)
}

// owns is the own time of each line per step, s.
func (m *matched) owns() []float64 {
	out := make([]float64, len(m.lines))
	for i, l := range m.lines {
		for _, o := range l.ops {
			out[i] += float64(o.own)
		}
		out[i] *= 1e-9 / float64(max(len(m.steps), 1))
	}
	return out
}

// middleOwn is the median own time per step of the lines of a family, s.
func middleOwn(owns []float64, family []int) float64 {
	var v []float64
	for _, i := range family {
		v = append(v, owns[i])
	}
	return stats.Median(v)
}
