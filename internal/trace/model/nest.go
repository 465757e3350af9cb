package model

import (
	"cmp"
	"fmt"
	"slices"
)

// maxRangeLanes is the largest number of lanes for the crossing ranges of one thread.
const maxRangeLanes = 64

// Nest assigns lanes to loose events (start/end ranges, overhead), which need not nest with the events of their
// thread. Loose events that nest get the lane of their thread, so that launches are found inside a range. Others get
// further lanes of the thread. add stores an event.
func (t *Trace) Nest(loose []Host, add func(Host)) {
	if len(loose) == 0 {
		return
	}
	type thread struct {
		base  []Host
		loose []Host
	}
	threads := map[uint32]*thread{}
	for _, h := range loose {
		if threads[h.Lane] == nil {
			threads[h.Lane] = &thread{}
		}
		threads[h.Lane].loose = append(threads[h.Lane].loose, h)
	}
	for i := range t.Host {
		if th := threads[t.Host[i].Lane]; th != nil {
			th.base = append(th.base, t.Host[i])
		}
	}
	lost := 0
	for lane := range uint32(len(t.Lanes)) { // in lane order, so that equal files give equal traces
		th := threads[lane]
		if th == nil {
			continue
		}
		placed, rest := placeRanges(th.base, th.loose)
		for n := 1; ; n++ {
			for _, h := range placed {
				h.Lane = lane
				add(h)
			}
			if len(rest) == 0 {
				break
			}
			if n > maxRangeLanes {
				lost += len(rest)
				break
			}
			from := t.Lanes[th.loose[0].Lane]
			name := cmp.Or(from.Name, fmt.Sprintf("thread %d", from.Thread))
			lane = uint32(len(t.Lanes))
			t.Lanes = append(t.Lanes, Lane{Process: from.Process, Thread: from.Thread, Name: fmt.Sprintf("%s, ranges %d", name, n)})
			placed, rest = placeRanges(nil, rest)
		}
	}
	if lost > 0 {
		t.Warn("crossing-ranges", fmt.Sprintf("%d NVTX start/end ranges cross more than %d others at a time and were left out", lost, maxRangeLanes), "")
	}
}

// openEvent is an event that has begun and not yet ended at the current time of placeRanges' sweep.
type openEvent struct {
	end   int64
	loose int // index into loose; -1 for an event of base
}

// placeRanges splits the loose events: placed cross neither base nor another placed event, rest do.
func placeRanges(base, loose []Host) (placed, rest []Host) {
	order := func(a, b Host) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
	}
	slices.SortStableFunc(base, order)
	slices.SortStableFunc(loose, order)
	out := make([]bool, len(loose))
	var stack []openEvent
	for i, j := 0, 0; i < len(base) || j < len(loose); {
		e := openEvent{loose: -1}
		var start int64
		if j < len(loose) && (i == len(base) || order(loose[j], base[i]) <= 0) {
			e.loose, start, e.end = j, loose[j].Start, loose[j].End
			j++
		} else {
			start, e.end = base[i].Start, base[i].End
			i++
		}
		for len(stack) > 0 && stack[len(stack)-1].end <= start {
			stack = stack[:len(stack)-1]
		}
		for len(stack) > 0 && stack[len(stack)-1].end < e.end {
			top := stack[len(stack)-1]
			if e.loose >= 0 {
				out[e.loose] = true
				break
			}
			if top.loose < 0 {
				break // two events of base cross, which is not repaired
			}
			out[top.loose] = true
			stack = stack[:len(stack)-1]
		}
		if e.loose < 0 || !out[e.loose] {
			stack = append(stack, e)
		}
	}
	for k := range loose {
		if out[k] {
			rest = append(rest, loose[k])
		} else {
			placed = append(placed, loose[k])
		}
	}
	return placed, rest
}
