package analyze

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// chainStreams links each call to the previous call on its stream, and corrects the request times. A call that begins
// after a gap was requested when it began, because the stream was free.
func (t *rankTimeline) chainStreams() {
	slices.SortStableFunc(t.calls, func(a, b collectiveCall) int { return cmp.Compare(a.Start, b.Start) })
	last := map[int64]int{}
	for i := range t.calls {
		c := &t.calls[i]
		before, ok := last[c.stream]
		last[c.stream] = i
		if !ok {
			c.requested = c.Start
			continue
		}
		c.after = before + 1
		if c.Start-t.calls[before].End > adjacentNS {
			c.requested = c.Start
		}
	}
}

// dropEarlySteps drops early steps until mostCollectives collectives or one step remain. It returns the number of
// dropped steps.
func (t *rankTimeline) dropEarlySteps() int {
	per := make([]int, len(t.steps))
	for i := range t.calls {
		per[t.calls[i].step]++
	}
	from, n := len(t.steps), 0
	for from > 0 && (n+per[from-1] <= mostCollectives || from == len(t.steps)) {
		from--
		n += per[from]
	}
	if from == 0 {
		return 0
	}
	place := make([]int, len(t.calls)) // new index plus one, 0 for removed calls
	var kept []collectiveCall
	for i, c := range t.calls {
		if c.step < from {
			continue
		}
		if c.after > 0 {
			c.after = place[c.after-1]
		}
		c.step -= from
		kept = append(kept, c)
		place[i] = len(kept)
	}
	t.calls, t.steps = kept, t.steps[from:]
	return from
}

// moment is an entry of Collectives.Moments with its time, ns.
type moment struct {
	at    int64
	order int   // sorts moments of equal times: 0 request, 1 wait, 2 end of a step
	entry int64 // the code in Collectives.Moments
}

func (t *rankTimeline) buildColumns() *Collectives {
	out := &Collectives{Cut: t.dropEarlySteps(), Names: []string{}}
	t.whole = model.Span{Start: t.steps[0].Window.Start, End: t.steps[len(t.steps)-1].Window.End}
	out.begin = t.whole.Start
	numbers := map[string]int64{}
	number := func(name string) int64 {
		n, ok := numbers[name]
		if !ok {
			n = int64(len(out.Names))
			numbers[name] = n
			out.Names = append(out.Names, name)
		}
		return n
	}
	for i, s := range t.steps {
		out.Steps = append(out.Steps, stepNumber(s.Name, int64(out.Cut+i)))
	}
	moments, blocked := t.findMoments() // before the loop over calls: findMoments corrects their ends
	for i := range t.calls {
		c := &t.calls[i]
		out.Kind, out.Group = append(out.Kind, number(c.kind)), append(out.Group, number(c.group))
		out.Seq, out.Bytes, out.Step = append(out.Seq, c.seq), append(out.Bytes, c.bytes), append(out.Step, int64(c.step))
		out.Start, out.Dur, out.After = append(out.Start, c.Start-t.whole.Start), append(out.Dur, c.Len()), append(out.After, int64(c.after))
	}
	at := t.whole.Start
	for _, m := range moments {
		w := model.Span{Start: at, End: max(at, m.at)}
		work, wait := t.compute.TotalIn(w), blocked.TotalIn(w)
		held := t.other.Minus(t.compute).Minus(blocked).TotalIn(w)
		out.Moments, out.Work = append(out.Moments, m.entry), append(out.Work, work)
		out.OtherCommunication, out.Idle = append(out.OtherCommunication, held), append(out.Idle, w.Len()-work-wait-held)
		at = w.End
	}
	return out
}

// stepNumber returns the number at the end of a step's name, or place if the name has none.
func stepNumber(name string, place int64) int64 {
	if n, err := strconv.ParseInt(name[strings.LastIndexAny(name, "#_ ")+1:], 10, 64); err == nil && n >= 0 {
		return n
	}
	return place
}

// endsLate reports whether the rank resumed because collective c ended, although the recorded end is later than gap,
// the time without work. A library may wake the rank before its thread, which waits for a core, records the end. The
// wait in the gap must be longer than this delay.
func (t *rankTimeline) endsLate(c *collectiveCall, gap model.Span) bool {
	wait, late := gap.End-max(gap.Start, c.requested), c.End-gap.End
	return wait >= leastWaitNS && late < min(wait, latestEndNS)
}

// findMoments returns the moments of a rank in order, and the time in which the rank waits for collectives. An idle
// rank waits for a requested collective if it resumes work when the collective ends, or if the host waits for the end
// before it launches more work.
func (t *rankTimeline) findMoments() ([]moment, model.Spans) {
	var out []moment
	var blocked model.Spans
	by := make([]int, len(t.calls)) // indexes of calls, sorted by end
	for i := range by {
		by[i] = i
	}
	slices.SortStableFunc(by, func(a, b int) int { return cmp.Compare(t.calls[a].End, t.calls[b].End) })
	gaps := model.Spans{t.whole}.Minus(t.compute)
	next := 0
	waits := map[int]bool{}
	for _, gap := range gaps {
		for next < len(by) && t.calls[by[next]].End <= gap.Start+leastWaitNS {
			next++
		}
		last := -1
		for next < len(by) && t.calls[by[next]].End <= gap.End {
			last = by[next]
			next++
		}
		if last < 0 && t.lateEnds && next < len(by) && t.endsLate(&t.calls[by[next]], gap) {
			last = by[next]
			t.calls[last].End = gap.End
			next++
		}
		if last < 0 {
			continue
		}
		c := &t.calls[last]
		from := max(gap.Start, c.requested)
		if c.End-from < leastWaitNS || gap.End-c.End > adjacentNS && !t.waited(c.End, gap.End) {
			continue
		}
		blocked, waits[last] = append(blocked, model.Span{Start: from, End: c.End}), true
		out = append(out, moment{from, 1, int64(2*last + 1)})
	}
	for i := range t.calls {
		at := t.calls[i].requested
		if w := blocked.Around(at); w != nil {
			at = w[0].Start
		}
		out = append(out, moment{at, 0, int64(2 * i)})
	}
	for i := range t.steps {
		at := t.steps[i].Window.End
		if w := blocked.Around(at); w != nil {
			at = w[0].End
		}
		out = append(out, moment{at, 2, int64(-1 - i)})
	}
	slices.SortStableFunc(out, func(a, b moment) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order)) })
	return out, blocked
}
