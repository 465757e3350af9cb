package model

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// Peak memory per row of a table and per name, bytes, while a trace is read and analysed. Measured on generated traces
// (docs/analyze.md).
const (
	HostBytes   = 176
	GPUBytes    = 280
	MemoryBytes = 96
	NameBytes   = 768 // plus textTimes copies of the text
	textTimes   = 3
)

// TextBytes returns the memory of a name or a stack, bytes.
func TextBytes(s string) int64 { return NameBytes + textTimes*int64(len(s)) }

// MemoryBudget is the memory budget of a trace. If a file exceeds the budget, the trace keeps only the events that begin before
// Until. It keeps all of these, wherever they are in the file, so that the figures up to Until are right.
type MemoryBudget struct {
	budget int64
	// Until is the end of the kept part, ns of the file; math.MaxInt64 if everything is kept.
	Until int64
	// Left counts the events that begin at Until or later.
	Left int
}

// NewMemoryBudget makes the budget of one trace, bytes; 0 means outside.TraceMemory.
func NewMemoryBudget(bytes int64) *MemoryBudget {
	if bytes <= 0 {
		bytes = outside.TraceMemory()
	}
	return &MemoryBudget{budget: bytes, Until: math.MaxInt64}
}

// Keeps reports whether an event begins before Until. Otherwise it counts the event in Left.
func (r *MemoryBudget) Keeps(start int64) bool {
	if start < r.Until {
		return true
	}
	r.Left++
	return false
}

// Over reports whether the given memory exceeds the budget.
func (r *MemoryBudget) Over(bytes int64) bool { return bytes > r.budget }

// AtMost returns how many of n rows of the given size, bytes, fit into the budget.
func (r *MemoryBudget) AtMost(n int, bytes int64) int { return int(min(int64(n), r.budget/bytes)) }

const (
	keptShare   = 0.6 // share of the events that MemoryBudget.Cut keeps
	settledPart = 4   // after a cut, at most (settledPart-1)/settledPart of the budget is used
)

// Settled reports whether the given memory leaves enough of the budget to read on before the next cut.
func (r *MemoryBudget) Settled(bytes int64) bool {
	return bytes <= r.budget/settledPart*(settledPart-1)
}

// Cut moves Until so that keptShare of the events begin before it. starts are the start times, ns, of all events or of
// a sample. Cut returns false if no such time exists, because too many events begin at the first time.
func (r *MemoryBudget) Cut(starts []int64) bool {
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

// sampledStarts is the size of a sample that suffices to choose a cut.
const sampledStarts = 1 << 16

// Sample returns the stride for a sample of n events that is small enough to sort.
func Sample(n int) int { return max(1, n/sampledStarts) }

// Finish cuts a finished trace at Until, if set, and warns. shift was added to the file's times, ns.
func (r *MemoryBudget) Finish(t *Trace, shift int64) {
	if r.Until == math.MaxInt64 {
		return
	}
	until := r.Until + shift
	t.CutAt(until)
	first := Extent(t).Start
	t.Truncated = true
	t.Warn("truncated", fmt.Sprintf("the recording holds more events than %s of memory have room for: the first %s of it are analysed, and %d events that begin later are left out",
		outside.MemoryText(r.budget), gpuprof.FormatSeconds(gpuprof.Seconds(until-first)), r.Left),
		fmt.Sprintf("set %s=%s to analyse more", outside.MemoryVariable, outside.MemoryText(4*outside.TraceMemory())))
}

// CutAt ends all events of a finished trace at until, ns, at the latest. A step that ends after the last launch with
// recorded device work is incomplete, and becomes an Instant. So does such an annotation if a complete one in its lane
// has the same name up to numbers, because annotations that repeat may mark steps.
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

// Extent returns the span from the first start to the last end of all events. Overhead of the profiler does not
// extend the end, unless the trace has nothing else.
func Extent(t *Trace) Span {
	s := Span{math.MaxInt64, math.MinInt64}
	overhead := int64(math.MinInt64)
	for i := range t.Host {
		h := &t.Host[i]
		s.Start = min(s.Start, h.Start)
		if h.Kind == Overhead {
			overhead = max(overhead, h.End)
		} else {
			s.End = max(s.End, h.End)
		}
	}
	for i := range t.GPU {
		s.Start, s.End = min(s.Start, t.GPU[i].Start), max(s.End, t.GPU[i].End)
	}
	if s.End == math.MinInt64 {
		s.End = overhead
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
