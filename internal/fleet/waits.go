package fleet

import (
	"cmp"
	"slices"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// clearlyLate is the part of a collective's longest time by which the last rank arrives after the last but one, to be
// called late.
const clearlyLate = 0.05

// Waits divides the collectives of recorded ranks into waiting and transfer. All ranks leave an all-reduce and its like
// together, so that its shortest time is the transfer, and what a rank is in it for longer is its wait, whatever the ranks'
// clocks. The root of a broadcast leaves earlier: its ranks wait until the last has arrived, by clocks that the
// other collectives align. nil where no collective of one rank is found in another.
func Waits(ranks []analyze.Collectives) *analyze.JobWaits {
	lines := make([]*line, len(ranks))
	for i := range ranks {
		l, err := newLine(&ranks[i], i, "")
		if err != nil {
			return nil // of columns that were read in this process, which fit together
		}
		lines[i] = l
	}
	w := &waiting{m: match(lines), ranks: ranks, spans: make([]map[int][]model.Span, len(ranks))}
	job := &analyze.JobWaits{Ranks: make([]analyze.RankWaits, len(ranks))}
	for i := range job.Ranks {
		job.Ranks[i].Kinds, w.spans[i] = map[string]int{}, map[int][]model.Span{}
	}
	w.align()
	for i := range w.m.all {
		w.divide(&w.m.all[i], job)
	}
	if job.Collectives == 0 {
		return nil
	}
	more := w.m.excesses()
	for i := range w.spans {
		job.Ranks[i].For, job.Ranks[i].MoreNS = map[int]model.Spans{}, int64(more.total(i, len(w.m.steps)))
		for by, spans := range w.spans[i] {
			job.Ranks[i].For[by] = model.UnionOf(spans)
		}
	}
	return job
}

// waiting is a job whose collectives are divided.
type waiting struct {
	m      *matched
	ranks  []analyze.Collectives
	spans  []map[int][]model.Span // of each rank's waits, by the rank that it waits for
	clocks []int64                // what the clock of each rank is ahead of that of the first one it is connected with
	same   []int                  // the first rank that each is connected with
}

// start is when a rank begins a collective, by its own clock.
func (w *waiting) start(p part) int64 {
	c := &w.ranks[p.line]
	return c.Begin() + c.Start[w.m.callOf(p).column]
}

func (w *waiting) isBroadcast(t *together) bool {
	return w.m.lines[t.parts[0].line].kindOf(w.m.callOf(t.parts[0])) == string(analyze.BroadcastCalls)
}

// align finds the clocks by the ends of collectives that all ranks leave together, in the median of them.
func (w *waiting) align() {
	w.clocks, w.same = make([]int64, len(w.ranks)), make([]int, len(w.ranks))
	for i := range w.same {
		w.same[i] = -1
	}
	for first := range w.same {
		if w.same[first] >= 0 {
			continue
		}
		w.same[first] = first
		for grew := true; grew; {
			ahead := map[int][]int64{}
			for i := range w.m.all {
				t := &w.m.all[i]
				if len(t.parts) < 2 || w.isBroadcast(t) {
					continue
				}
				at := slices.IndexFunc(t.parts, func(p part) bool { return w.same[p.line] == first })
				if at < 0 {
					continue
				}
				known := t.parts[at]
				end := w.start(known) + w.m.callOf(known).dur - w.clocks[known.line]
				for _, p := range t.parts {
					if w.same[p.line] < 0 {
						ahead[int(p.line)] = append(ahead[int(p.line)], w.start(p)+w.m.callOf(p).dur-end)
					}
				}
			}
			for i, v := range ahead {
				slices.Sort(v)
				w.clocks[i], w.same[i] = v[len(v)/2], first
			}
			grew = len(ahead) > 0
		}
	}
}

// divide adds the waits in one collective.
func (w *waiting) divide(t *together, job *analyze.JobWaits) {
	if len(t.parts) < 2 {
		return
	}
	at, late := w.m.last(t)
	arrived := func(p part) int64 { return w.start(p) - w.clocks[p.line] }
	broadcast := w.isBroadcast(t)
	if broadcast {
		order := slices.Clone(t.parts)
		slices.SortStableFunc(order, func(a, b part) int { return cmp.Compare(arrived(a), arrived(b)) })
		n := len(order)
		if slices.ContainsFunc(order, func(p part) bool { return w.same[p.line] != w.same[order[0].line] }) {
			return
		}
		at, late = slices.Index(t.parts, order[n-1]), arrived(order[n-1])-arrived(order[n-2])
	}
	job.Collectives++
	by, longest := int(t.parts[at].line), int64(0)
	for _, p := range t.parts {
		dur := w.m.callOf(p).dur
		longest = max(longest, dur)
		wait := dur - t.took
		if broadcast {
			wait = min(dur, arrived(t.parts[at])-arrived(p))
		}
		if start := w.start(p); wait > 0 {
			w.spans[p.line][by] = append(w.spans[p.line][by], model.Span{Start: start, End: start + wait})
		}
	}
	r := &job.Ranks[by]
	if float64(late) >= clearlyLate*float64(longest) && late > 0 {
		r.Last++
		r.Kinds[w.m.lines[by].kindOf(w.m.callOf(t.parts[at]))]++
	}
}
