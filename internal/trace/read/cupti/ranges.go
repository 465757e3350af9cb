package cupti

import (
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// Operations of NVTX calls.
const (
	opMark = 1 + iota
	opPush
	opPop
	opStart
	opEnd
)

// nvtxEvent is one call of NVTX.
type nvtxEvent struct {
	time, id     int64
	name, domain uint32
	thread       uint32
	op           uint16
}

func (r *reader) readNVTX(record []byte) {
	f := &r.f.nvtx
	r.t.Events++
	time := f.time.valueIn(record)
	if time == 0 || time > math.MaxInt64 {
		return
	}
	r.lastTime = max(r.lastTime, int64(time))
	if r.isKept(int64(time)) {
		r.events = append(r.events, nvtxEvent{int64(time), int64(f.id.valueIn(record)), uint32(f.name.valueIn(record)), uint32(f.domain.valueIn(record)), uint32(f.thread.valueIn(record)), uint16(f.op.valueIn(record))})
	}
}

// clockPair relates two clocks at one moment: realtime is the machine's time, ns, and offset is CUPTI's time minus
// realtime, ns.
type clockPair struct{ realtime, offset int64 }

// Both in ns. Clocks that differ by at most sameClock count as equal. A pair is ignored if reading it took longer
// than widestGap.
const (
	sameClock = 1000
	widestGap = 100_000
)

func (r *reader) readClock(record []byte) {
	f := &r.f.clock
	cupti, real := f.cupti.valueIn(record), f.realtime.valueIn(record)
	if f.gap.valueIn(record) > widestGap || cupti == 0 || cupti > math.MaxInt64 || real > math.MaxInt64 {
		return
	}
	if n := len(r.clocks); n == 0 || r.clocks[n-1].realtime < int64(real) {
		r.clocks = append(r.clocks, clockPair{int64(real), int64(cupti) - int64(real)})
	}
}

// convertTime converts a time of the machine's clock to CUPTI's clock, by the pair of clocks nearest to it.
func (r *reader) convertTime(at int64) int64 {
	i, _ := slices.BinarySearchFunc(r.clocks, at, func(c clockPair, at int64) int { return int(max(-1, min(1, c.realtime-at))) })
	switch {
	case len(r.clocks) == 0:
		return at
	case i == len(r.clocks) || i > 0 && at-r.clocks[i-1].realtime < r.clocks[i].realtime-at:
		i--
	}
	if off := r.clocks[i].offset; off < -sameClock || off > sameClock {
		return at + off
	}
	return at
}

// stackKey identifies a stack of nested ranges by thread and domain.
type stackKey struct{ thread, domain uint32 }

// placedRange is an NVTX range or mark: indexes in reader.events of the calls that began and ended it. Both are equal
// for a mark. end is -1 if the range was open at the end of the recording.
type placedRange struct{ begin, end int }

// pairRanges returns the ranges and marks of the NVTX calls, except ranges that began before the recording.
func (r *reader) pairRanges() (out []placedRange) {
	stacks := map[stackKey][]int{}
	open := map[int64]int{}
	for i, e := range r.events {
		k := stackKey{e.thread, e.domain}
		switch e.op {
		case opMark:
			out = append(out, placedRange{i, i})
		case opPush:
			stacks[k] = append(stacks[k], i)
		case opPop:
			if s := stacks[k]; len(s) > 0 {
				stacks[k] = s[:len(s)-1]
				out = append(out, placedRange{s[len(s)-1], i})
			}
		case opStart:
			open[e.id] = i
		case opEnd:
			if begin, ok := open[e.id]; ok {
				delete(open, e.id)
				out = append(out, placedRange{begin, i})
			}
		}
	}
	var left []int
	for _, s := range stacks {
		left = append(left, s...)
	}
	for _, i := range open {
		left = append(left, i)
	}
	slices.Sort(left) // maps have no order, but equal files must give equal traces
	for _, i := range left {
		out = append(out, placedRange{i, -1})
	}
	return out
}

// spanOf returns the span of a range on CUPTI's clock. An open range ends with the recording.
func (r *reader) spanOf(p placedRange) model.Span {
	e := &r.events[p.begin]
	end := max(r.lastTime, e.time)
	if p.end >= 0 {
		end = r.events[p.end].time
	}
	return model.Span{Start: r.convertTime(e.time), End: r.convertTime(end)}
}

// placeRanges adds the ranges and marks to the trace.
func (r *reader) placeRanges() {
	for _, p := range r.pairRanges() {
		e := r.events[p.begin]
		span := r.spanOf(p)
		h := model.Host{Start: span.Start, End: span.End, Lane: r.laneOf(e.thread)}
		h.Name, h.Seq, h.Kind = r.rangeName(e)
		if p.end < 0 && h.Kind == model.Step {
			h.Kind = model.Annotation // a step that the recording cuts off measures no step
		}
		if e.op == opMark {
			h.Kind, h.End = model.Instant, h.Start
		}
		r.loose = append(r.loose, h)
	}
}

// rangeName returns name, sequence number and kind of a range.
func (r *reader) rangeName(e nvtxEvent) (model.NameID, int64, model.Kind) {
	text := r.names[e.name]
	if text == "" {
		text = "unnamed range"
	}
	name, seq, marked := model.SplitNVTX(text)
	kind := model.RangeKind(name, seq != 0, marked)
	return r.internText(model.DomainRange(r.names[e.domain], name)), seq, kind
}
