package cuda

import (
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/internal/trace"
)

// What NVTX tells.
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

func (r *reader) takeNVTX(record []byte) {
	f := &r.f.nvtx
	r.t.Events++
	time := f.time.of(record)
	if time == 0 || time > math.MaxInt64 {
		return
	}
	r.lastTime = max(r.lastTime, int64(time))
	if r.keeps(int64(time)) {
		r.events = append(r.events, nvtxEvent{int64(time), int64(f.id.of(record)), uint32(f.name.of(record)), uint32(f.domain.of(record)), uint32(f.thread.of(record)), uint16(f.op.of(record))})
	}
}

// clockPair is what CUPTI's clock and the machine's say at one instant.
type clockPair struct{ realtime, offset int64 }

// Clocks that agree within sameClock are one; a pair read over a longer gap than
// widestGap says nothing. ns.
const (
	sameClock = 1000
	widestGap = 100_000
)

func (r *reader) takeClock(record []byte) {
	f := &r.f.clock
	cupti, real := f.cupti.of(record), f.realtime.of(record)
	if f.gap.of(record) > widestGap || cupti == 0 || cupti > math.MaxInt64 || real > math.MaxInt64 {
		return
	}
	if n := len(r.clocks); n == 0 || r.clocks[n-1].realtime < int64(real) {
		r.clocks = append(r.clocks, clockPair{int64(real), int64(cupti) - int64(real)})
	}
}

// onDevice is a time of the machine's clock on CUPTI's, by the nearest pair.
func (r *reader) onDevice(at int64) int64 {
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

// stackKey is where ranges nest: within a thread, and there within a domain.
type stackKey struct{ thread, domain uint32 }

// placeRanges makes ranges and marks of what NVTX told. A range that was open when the
// recording ended ends with it; the end of one that began before it is no range.
func (r *reader) placeRanges() {
	stacks := map[stackKey][]nvtxEvent{}
	open := map[int64]nvtxEvent{}
	ranges := 0
	add := func(e nvtxEvent, end int64, cut bool) {
		h := trace.Host{Start: r.onDevice(e.time), End: r.onDevice(end), Lane: r.lane(e.thread), Kind: trace.Annotation}
		h.Name, h.Seq, h.Kind = r.rangeName(e)
		if cut && h.Kind == trace.Step {
			h.Kind = trace.Annotation // a step that was cut off is none to measure
		}
		if e.op == opMark {
			h.Kind, h.End = trace.Instant, h.Start
		}
		ranges++
		r.loose = append(r.loose, h)
	}
	for _, e := range r.events {
		k := stackKey{e.thread, e.domain}
		switch e.op {
		case opMark:
			add(e, e.time, false)
		case opPush:
			stacks[k] = append(stacks[k], e)
		case opPop:
			if s := stacks[k]; len(s) > 0 {
				stacks[k] = s[:len(s)-1]
				add(s[len(s)-1], e.time, false)
			}
		case opStart:
			open[e.id] = e
		case opEnd:
			if begin, ok := open[e.id]; ok {
				delete(open, e.id)
				add(begin, e.time, false)
			}
		}
	}
	var left []nvtxEvent
	for _, s := range stacks {
		left = append(left, s...)
	}
	for _, e := range open {
		left = append(left, e)
	}
	slices.SortFunc(left, func(a, b nvtxEvent) int { // maps have no order, equal files give equal traces
		return int(max(-1, min(1, a.time-b.time)))*2 + int(max(-1, min(1, int64(a.thread)-int64(b.thread))))
	})
	for _, e := range left {
		add(e, max(r.lastTime, e.time), true)
	}
}

// rangeName is a range's name, its sequence number and its kind.
func (r *reader) rangeName(e nvtxEvent) (trace.NameID, int64, trace.Kind) {
	text := r.names[e.name]
	if text == "" {
		text = "unnamed range"
	}
	name, seq, marked := trace.SplitNVTX(text)
	return r.text(name), seq, trace.RangeKind(name, seq != 0, marked)
}
