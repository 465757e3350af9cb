package model

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// What is kept of a file takes memory, in bytes: rows of the tables while they are
// gathered into one list, and what Index and Summarise make for each, at their
// most. Measured on generated traces (docs/analyze.md).
const (
	HostBytes   = 176
	GPUBytes    = 280
	MemoryBytes = 96
	NameBytes   = 768 // beside its text, which is there three times
	textTimes   = 3
)

// TextBytes is what a text, a name or a stack, takes.
func TextBytes(s string) int64 { return NameBytes + textTimes*int64(len(s)) }

// Room is the memory that a trace may take while it is read and analysed. A file
// with more is kept from its beginning up to an instant: everything that begins
// before it, wherever it stands in the file, so that the figures of that part are
// right.
type Room struct {
	most int64
	// Until is the instant, in ns of the file; math.MaxInt64 without one.
	Until int64
	// Left counts the events that begin at it or later.
	Left int
}

// NewRoom is the room of one trace, bytes; 0 for outside.TraceMemory.
func NewRoom(bytes int64) *Room {
	if bytes <= 0 {
		bytes = outside.TraceMemory()
	}
	return &Room{most: bytes, Until: math.MaxInt64}
}

// Keeps says whether an event that begins at an instant is kept, and counts it if
// not.
func (r *Room) Keeps(start int64) bool {
	if start < r.Until {
		return true
	}
	r.Left++
	return false
}

// Over says that so many bytes are more than the room.
func (r *Room) Over(bytes int64) bool { return bytes > r.most }

// AtMost is how many of n rows of so many bytes there is room for.
func (r *Room) AtMost(n int, bytes int64) int { return int(min(int64(n), r.most/bytes)) }

// After a cut there has to be room to read on.
const (
	keptShare   = 0.6 // of the events
	settledPart = 4   // quarters less one of the room are used at most
)

// Settled says that so many bytes leave enough room to read on.
func (r *Room) Settled(bytes int64) bool { return bytes <= r.most/settledPart*(settledPart-1) }

// Cut moves Until so that a part of the events, whose starts or some of them these
// are, begins before it. It is false where they all begin at once.
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

// sampled is how many starts are enough to cut by.
const sampled = 1 << 16

// Sample is every so manyth of n, so that there are not too many to sort.
func Sample(n int) int { return max(1, n/sampled) }

// Finish says in a trace that is finished what was left out, and ends there what was
// under way. shift is what was added to the times of the file.
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

// CutAt ends a finished trace at an instant. What was under way ends there; a step,
// or a range that repeats as steps do, is no measure of one then, and becomes a mark.
// So does one that ends after the last launch whose work is here: its own is not.
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

// Extent is the first start to the last end of anything recorded.
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
