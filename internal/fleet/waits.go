package fleet

import (
	"cmp"
	"slices"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// clearlyLate is the delay from which the last rank counts as late: its distance from the second last, as a share of
// the collective's longest duration.
const clearlyLate = 0.05

// Waits splits the collectives of recorded ranks into waiting and transfer; nil if no collective matches between ranks.
// All ranks leave an all-reduce and the like together, so the shortest duration is the transfer and the remainder is
// waiting, independent of clocks. The root of a broadcast leaves earlier: there each rank waits until the last one has
// arrived, by clocks aligned at the other collectives.
func Waits(ranks []analyze.Collectives) *analyze.JobWaits {
	lines := make([]*timeline, len(ranks))
	for i := range ranks {
		l, err := newTimeline(&ranks[i], i, "")
		if err != nil {
			return nil // columns of this process are always consistent
		}
		lines[i] = l
	}
	w := &waitSplitter{m: matchCollectives(lines), ranks: ranks, spans: make([]map[int][]model.Span, len(ranks))}
	job := &analyze.JobWaits{Ranks: make([]analyze.RankWaits, len(ranks))}
	for i := range job.Ranks {
		job.Ranks[i].Kinds, w.spans[i] = map[string]int{}, map[int][]model.Span{}
	}
	w.alignClocks()
	for i := range w.m.all {
		w.splitCollective(&w.m.all[i], job)
	}
	if job.Collectives == 0 {
		return nil
	}
	more := w.m.computeExcess()
	for i := range w.spans {
		job.Ranks[i].For, job.Ranks[i].MoreNS = map[int]model.Spans{}, int64(more.meanExcess(i, len(w.m.steps)))
		for by, spans := range w.spans[i] {
			job.Ranks[i].For[by] = model.UnionOf(spans)
		}
	}
	return job
}

// waitSplitter splits the collectives of recorded ranks into waiting and transfer; see Waits.
type waitSplitter struct {
	m      *matchedJob
	ranks  []analyze.Collectives
	spans  []map[int][]model.Span // by rank: its waits, by the rank that it waits for
	clocks []int64                // offset of each rank's clock from the clock of rank same[i], ns
	same   []int                  // first rank connected with rank i by collectives
}

// startTime returns when a rank begins a collective, by the rank's clock, ns.
func (w *waitSplitter) startTime(p callRef) int64 {
	c := &w.ranks[p.line]
	return c.Begin() + c.Start[w.m.callOf(p).column]
}

func (w *waitSplitter) isBroadcast(t *collective) bool {
	return w.m.lines[t.parts[0].line].kindOf(w.m.callOf(t.parts[0])) == string(analyze.BroadcastCalls)
}

// alignClocks computes the offsets of the ranks' clocks from collectives that all ranks leave together, by the median.
func (w *waitSplitter) alignClocks() {
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
				at := slices.IndexFunc(t.parts, func(p callRef) bool { return w.same[p.line] == first })
				if at < 0 {
					continue
				}
				known := t.parts[at]
				end := w.startTime(known) + w.m.callOf(known).dur - w.clocks[known.line]
				for _, p := range t.parts {
					if w.same[p.line] < 0 {
						ahead[int(p.line)] = append(ahead[int(p.line)], w.startTime(p)+w.m.callOf(p).dur-end)
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

// splitCollective adds the waits of one collective to the job.
func (w *waitSplitter) splitCollective(t *collective, job *analyze.JobWaits) {
	if len(t.parts) < 2 {
		return
	}
	at, late := w.m.lastArrival(t)
	arrived := func(p callRef) int64 { return w.startTime(p) - w.clocks[p.line] }
	broadcast := w.isBroadcast(t)
	if broadcast {
		order := slices.Clone(t.parts)
		slices.SortStableFunc(order, func(a, b callRef) int { return cmp.Compare(arrived(a), arrived(b)) })
		n := len(order)
		if slices.ContainsFunc(order, func(p callRef) bool { return w.same[p.line] != w.same[order[0].line] }) {
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
		if start := w.startTime(p); wait > 0 {
			w.spans[p.line][by] = append(w.spans[p.line][by], model.Span{Start: start, End: start + wait})
		}
	}
	r := &job.Ranks[by]
	if float64(late) >= clearlyLate*float64(longest) && late > 0 {
		r.Last++
		r.Kinds[w.m.lines[by].kindOf(w.m.callOf(t.parts[at]))]++
	}
}
