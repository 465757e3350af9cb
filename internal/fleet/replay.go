package fleet

import (
	"slices"

	"github.com/gpuprof/gpuprof/internal/stats"
)

// replay computes when each rank ends each step, given the ranks' own times. A collective ends when its duration has
// passed since the last rank's arrival; then the waiting ranks continue. The result is a max-plus function of the own
// times, so an own time never costs more than its length.
type replay struct {
	m *matchedJob
	// own holds the replaced own times of each rank's operations; nil for the recorded times.
	own  [][]int64
	next []int   // next operation of each rank
	now  []int64 // current time of each rank, ns
	ends [][]int64

	left    []int32 // parts of each collective that have not arrived
	arrived []int64
	end     []int64 // -1 if unknown
	stuck   [][]int32
	behind  [][]dependent
	ready   []int32 // queue of lines that can continue
}

// dependent is a call of a collective from time at, ns, which may wait for the previous call on its stream.
type dependent struct {
	all int32
	at  int64
}

// run replays all ranks with the own times own (nil: recorded). ok is false if ranks wait for each other in a cycle:
// then the recordings are inconsistent.
func (m *matchedJob) run(own [][]int64) (r *replay, ok bool) {
	r = &replay{m: m, own: own, next: make([]int, len(m.lines)), now: make([]int64, len(m.lines)), ends: make([][]int64, len(m.lines)),
		left: make([]int32, len(m.all)), arrived: make([]int64, len(m.all)), end: make([]int64, len(m.all)), stuck: make([][]int32, len(m.all)), behind: make([][]dependent, len(m.all))}
	for i := range m.all {
		r.left[i], r.end[i] = int32(len(m.all[i].parts)), -1
	}
	for i := range m.lines {
		r.ready = append(r.ready, int32(i))
	}
	for len(r.ready) > 0 {
		i := r.ready[len(r.ready)-1]
		r.ready = r.ready[:len(r.ready)-1]
		r.advanceLine(i)
	}
	for i, l := range m.lines {
		if r.next[i] < len(l.ops) {
			return r, false
		}
	}
	return r, true
}

// advanceLine replays one rank until it must wait or ends.
func (r *replay) advanceLine(i int32) {
	l := r.m.lines[i]
	for ; r.next[i] < len(l.ops); r.next[i]++ {
		n := r.next[i]
		o := &l.ops[n]
		own := o.own
		if len(r.own) > 0 && r.own[i] != nil {
			own = r.own[i][n]
		}
		at := r.now[i] + own + o.held
		switch o.kind {
		case opEnqueue:
			r.enqueueCall(l, &l.calls[o.call], at)
		case opWait:
			c := &l.calls[o.call]
			if c.all < 0 {
				// A collective that is not replayed keeps its recorded waiting time.
				at += c.paused
				break
			}
			if r.end[c.all] < 0 {
				r.stuck[c.all] = append(r.stuck[c.all], i)
				return
			}
			at = max(at, r.end[c.all])
		case opStepEnd:
			r.ends[i] = append(r.ends[i], at)
		}
		r.now[i] = at
	}
}

// enqueueCall records a rank's arrival at a collective, after the end of the previous call on the stream.
func (r *replay) enqueueCall(l *timeline, c *rankCall, at int64) {
	if c.all < 0 {
		return
	}
	if c.after > 0 {
		if before := l.calls[c.after-1].all; before >= 0 && before != c.all {
			if r.end[before] < 0 {
				r.behind[before] = append(r.behind[before], dependent{c.all, at})
				return
			}
			at = max(at, r.end[before])
		}
	}
	r.recordArrival(c.all, at)
}

// recordArrival counts an arrival; the last one ends the collective.
func (r *replay) recordArrival(all int32, at int64) {
	todo := []dependent{{all, at}}
	for len(todo) > 0 {
		a := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		r.arrived[a.all] = max(r.arrived[a.all], a.at)
		if r.left[a.all]--; r.left[a.all] > 0 {
			continue
		}
		end := r.arrived[a.all] + r.m.all[a.all].took
		r.end[a.all] = end
		r.ready = append(r.ready, r.stuck[a.all]...)
		for _, d := range r.behind[a.all] {
			todo = append(todo, dependent{d.all, max(d.at, end)})
		}
		r.stuck[a.all], r.behind[a.all] = nil, nil
	}
}

// meanStep returns the mean step over all ranks, ns, from the end of the first step, which only aligns the ranks, to
// the end of the last. A single step counts from 0.
func (r *replay) meanStep() float64 {
	var first, last int64
	n := len(r.m.steps)
	for _, e := range r.ends {
		if len(e) == 0 {
			continue
		}
		if last = max(last, e[len(e)-1]); n > 1 {
			first = max(first, e[0])
		}
	}
	return float64(last-first) / float64(max(n-1, 1))
}

// medianSteps returns the median step over ranks and steps as replayed and as recorded, ns.
func (r *replay) medianSteps() (replayed, recorded float64) {
	var a, b []float64
	for i, l := range r.m.lines {
		kept := l.stepIndices(r.m.steps)
		for k := 1; k < len(r.ends[i]); k++ {
			a = append(a, float64(r.ends[i][k]-r.ends[i][k-1]))
			b = append(b, float64(l.recorded[kept[k]]-l.recorded[kept[k-1]]))
		}
	}
	if len(a) == 0 {
		for i, l := range r.m.lines {
			if kept := l.stepIndices(r.m.steps); len(r.ends[i]) == 1 {
				begin := int64(0)
				if kept[0] > 0 {
					begin = l.recorded[kept[0]-1]
				}
				a, b = append(a, float64(r.ends[i][0])), append(b, float64(l.recorded[kept[0]]-begin))
			}
		}
	}
	if len(a) == 0 {
		return 0, 0
	}
	return stats.Median(a), stats.Median(b)
}

// stepIndices returns the indices of the line's steps among the sorted numbers.
func (l *timeline) stepIndices(numbers []int64) []int {
	out := make([]int, 0, len(numbers))
	for i, s := range l.steps {
		if _, ok := slices.BinarySearch(numbers, s); ok {
			out = append(out, i)
		}
	}
	return out
}
