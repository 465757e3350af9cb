package model

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// Memory per item of a trace, in bytes: rows of the tables while they are gathered into one list, and the peak of
// Index and Summarise for each. Measured on generated traces (docs/analyze.md).
const (
	HostBytes   = 176
	GPUBytes    = 280
	MemoryBytes = 96
	NameBytes   = 768 // in addition to three copies of its text
	textTimes   = 3
)

// TextBytes returns the memory of a text, such as a name or a stack, bytes.
func TextBytes(s string) int64 { return NameBytes + textTimes*int64(len(s)) }

// Room is the memory budget of a trace while it is read and analysed. Of a larger file the part from its beginning up
// to an instant is kept: every event that begins before that instant, wherever it is in the file, so that the figures
// of this part are right.
type Room struct {
	most int64
	// Until is the instant, in ns of the file; math.MaxInt64 without one.
	Until int64
	// Left counts the events that begin at Until or later.
	Left int
}

// NewRoom makes the budget of one trace, bytes; 0 for outside.TraceMemory.
func NewRoom(bytes int64) *Room {
	if bytes <= 0 {
		bytes = outside.TraceMemory()
	}
	return &Room{most: bytes, Until: math.MaxInt64}
}

// Keeps reports whether an event that begins at an instant is kept, and counts it if not.
func (r *Room) Keeps(start int64) bool {
	if start < r.Until {
		return true
	}
	r.Left++
	return false
}

// Over reports whether so many bytes exceed the budget.
func (r *Room) Over(bytes int64) bool { return bytes > r.most }

// AtMost returns how many of n rows of so many bytes fit into the budget.
func (r *Room) AtMost(n int, bytes int64) int { return int(min(int64(n), r.most/bytes)) }

// After a cut the budget must allow to read on.
const (
	keptShare   = 0.6 // of the events
	settledPart = 4   // quarters less one of the room are used at most
)

// Settled reports whether so many bytes leave enough of the budget to read on.
func (r *Room) Settled(bytes int64) bool { return bytes <= r.most/settledPart*(settledPart-1) }

// Cut moves Until so that a part of the events begins before it; starts are the starts of all events, or of a sample.
// It returns false if they all begin at once.
func (r *Room) Cut(starts []int64) bool {
	if len(starts) == 0 {
		return false
	}
	slices.Sort(starts)
	until := starts[int(keptShare*float64(len(starts)))]
	if until <= starts[0] {
		return false
	}
	r.Until = until
	return true
}

// sampledStarts is a number of starts that suffices to choose a cut.
const sampledStarts = 1 << 16

// Sample returns the step with which a sample of n events is small enough to sort.
func Sample(n int) int { return max(1, n/sampledStarts) }

// Finish ends a finished trace at Until, if it was cut, and warns about the events left out. shift was added to the
// times of the file, ns.
func (r *Room) Finish(t *Trace, shift int64) {
	if r.Until == math.MaxInt64 {
		return
	}
	until := r.Until + shift
	t.CutAt(until)
	first := Extent(t).Start
	t.Truncated = true
	t.Warn("truncated", fmt.Sprintf("the recording holds more events than %s of memory have room for: the first %s of it are analysed, and %d events that begin later are left out",
		outside.MemoryText(r.most), gpuprof.FormatSeconds(gpuprof.Seconds(until-first)), r.Left),
		fmt.Sprintf("set %s=%s to analyse more", outside.MemoryVariable, outside.MemoryText(4*outside.TraceMemory())))
}

// CutAt ends a finished trace at an instant, together with the events that are running then. A cut step, or a cut
// range that repeats like steps, measures no step, and becomes a mark. So does one that ends after the last launch
// with recorded work: its own work is missing.
func (t *Trace) CutAt(until int64) {
	last := until
	for i := len(t.GPU) - 1; i >= 0; i-- { // by start
		if l := t.GPU[i].Launch; l >= 0 {
			last = min(last, t.Host[l].Start)
			break
		}
	}
	type place struct {
		lane uint32
		name string
	}
	names := map[NameID]string{}
	placeOf := func(h *Host) place {
		if _, ok := names[h.Name]; !ok {
			names[h.Name] = MaskNumbers(t.Name(h.Name))
		}
		return place{h.Lane, names[h.Name]}
	}
	repeats := map[place]bool{}
	for i := range t.Host {
		if h := &t.Host[i]; h.Kind == Annotation && h.End > last {
			repeats[placeOf(h)] = false
		}
	}
	for i := range t.Host {
		if h := &t.Host[i]; h.Kind == Annotation && h.End <= last {
			if _, asked := repeats[placeOf(h)]; asked {
				repeats[placeOf(h)] = true
			}
		}
	}
	for i := range t.Host {
		h := &t.Host[i]
		if h.End > last && (h.Kind == Step || h.Kind == Annotation && repeats[placeOf(h)]) {
			h.Kind, h.End = Instant, h.Start
		}
		h.End = max(h.Start, min(h.End, until))
	}
}

// Extent returns the span from the first start to the last end of all events.
func Extent(t *Trace) Span {
	s := Span{math.MaxInt64, math.MinInt64}
	for i := range t.Host {
		s.Start, s.End = min(s.Start, t.Host[i].Start), max(s.End, t.Host[i].End)
	}
	for i := range t.GPU {
		s.Start, s.End = min(s.Start, t.GPU[i].Start), max(s.End, t.GPU[i].End)
	}
	if s.Start > s.End {
		return Span{}
	}
	return s
}

// MaskNumbers replaces every number in a name by '#'.
func MaskNumbers(name string) string {
	if !strings.ContainsAny(name, "0123456789") {
		return name
	}
	var b strings.Builder
	digits := false
	for _, c := range name {
		if c >= '0' && c <= '9' {
			if !digits {
				b.WriteByte('#')
			}
			digits = true
			continue
		}
		digits = false
		b.WriteRune(c)
	}
	return b.String()
}
