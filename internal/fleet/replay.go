package fleet

import (
	"slices"

	"github.com/gpuprof/gpuprof/internal/stats"
)

// replay works out when each rank ends each step, if its own times are as given: a
// collective ends its time after the last of its ranks has come, and a rank that waits
// for it goes on then. It is a max-plus function of the own times: none of them can cost
// more than it takes.
type replay struct {
	m *matched
	// own has the own times of the ops of each line; nil for those that were recorded.
	own  [][]int64
	next []int   // op of each line
	now  []int64 // of each line
	ends [][]int64

	left    []int32 // parts of each collective that have not come
	arrived []int64
	end     []int64 // -1 not known
	stuck   [][]int32
	behind  [][]dependent
	ready   []int32 // lines that can go on
}

// dependent is a call that its stream holds back until another one has ended.
type dependent struct {
	all int32
	at  int64
}

// run replays everything. ok is false where ranks wait for each other in a circle: then
// the recordings do not fit together.
func (m *matched) run(own [][]int64) (r *replay, ok bool) {
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
		r.goOn(i)
	}
	for i, l := range m.lines {
		if r.next[i] < len(l.ops) {
			return r, false
		}
	}
	return r, true
}

// goOn takes one rank as far as it gets.
func (r *replay) goOn(i int32) {
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
		case asks:
			r.ask(l, &l.calls[o.call], at)
		case waits:
			c := &l.calls[o.call]
			if c.all < 0 {
				// It is not replayed, so the wait is as long as it was.
				at += c.paused
				break
			}
			if r.end[c.all] < 0 {
				r.stuck[c.all] = append(r.stuck[c.all], i)
				return
			}
			at = max(at, r.end[c.all])
		case ends:
			r.ends[i] = append(r.ends[i], at)
		}
		r.now[i] = at
	}
}

// ask lets a rank come to a collective.
func (r *replay) ask(l *line, c *rankCall, at int64) {
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
	r.come(c.all, at)
}

// come counts a rank that has come, and ends the collective with the last.
func (r *replay) come(all int32, at int64) {
	type arrival struct {
		all int32
		at  int64
	}
	todo := []arrival{{all, at}}
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
			todo = append(todo, arrival{d.all, max(d.at, end)})
		}
		r.stuck[a.all], r.behind[a.all] = nil, nil
	}
}

// step is the mean step, ns: from the end of the first step to that of the last, when
// all ranks have reached it. The first one aligns the ranks. With one step it is all.
func (r *replay) step() float64 {
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

// median is the median over ranks and steps of a step's time in the replay, and in the
// recordings.
func (r *replay) median() (replayed, recorded float64) {
	var a, b []float64
	for i, l := range r.m.lines {
		kept := l.kept(r.m.steps)
		for k := 1; k < len(r.ends[i]); k++ {
			a = append(a, float64(r.ends[i][k]-r.ends[i][k-1]))
			b = append(b, float64(l.recorded[kept[k]]-l.recorded[kept[k-1]]))
		}
	}
	if len(a) == 0 {
		for i, l := range r.m.lines {
			if kept := l.kept(r.m.steps); len(r.ends[i]) == 1 {
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

// kept are the places of numbered steps, in ascending order, among those of a line.
func (l *line) kept(numbers []int64) []int {
	out := make([]int, 0, len(numbers))
	for i, s := range l.steps {
		if _, ok := slices.BinarySearch(numbers, s); ok {
			out = append(out, i)
		}
	}
	return out
}
