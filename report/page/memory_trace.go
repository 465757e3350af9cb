package page

import (
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// mostLives limits a page to the largest allocations.
const mostLives = 3000

// memoryTraceData has a device's allocations over its events, for memory.js.
type memoryTraceData struct {
	Events int      `json:"events"`
	Kinds  []string `json:"kinds"`
	Tones  []string `json:"tones"` // CSS variables, by category
	// Lives has five numbers per allocation: event (as difference to the previous one), number of events until it is
	// freed, bytes, category, and stack from 1 (0: none). Event -1 is before the recording.
	Lives  []int64  `json:"lives"`
	Others int      `json:"others,omitempty"` // number of smaller allocations; Bytes is their sum
	Bytes  int64    `json:"other_bytes,omitempty"`
	Stacks [][]int  `json:"stacks"` // the innermost frame first
	Frames []string `json:"frames"`
	// Event, Requested and Reserved have an entry for each column of the chart: the event with the most bytes, and
	// the largest requested and reserved bytes.
	Event     []int   `json:"event"`
	Requested []int64 `json:"requested"`
	Reserved  []int64 `json:"reserved"`
	Peak      int     `json:"peak"`
	PeakBytes int64   `json:"peak_bytes"`
	Steps     []int   `json:"steps,omitempty"` // first event after each step
	OOMs      []int   `json:"ooms,omitempty"`
}

// memoryTrace returns the data of memory.js; nil for an analysis read from JSON, which has no single allocations.
func memoryTrace(d *memsnap.Device) any {
	lives, others, bytes := d.Lives(mostLives)
	if len(lives) == 0 || len(d.Series.Event) == 0 {
		return nil
	}
	out := &memoryTraceData{Events: d.Events, Others: others, Bytes: bytes, Event: d.Series.Event, Requested: d.Series.Requested, Reserved: d.Series.Reserved,
		Peak: d.Peak.Event, PeakBytes: d.Peak.Requested, Lives: []int64{}, Kinds: []string{}, Tones: []string{}}
	for i, k := range d.Series.Kinds { // the same colours as in the static chart
		tone := "rest"
		if i < view.MaxTones {
			tone = fmt.Sprintf("t%d", i)
		}
		out.Kinds, out.Tones = append(out.Kinds, k.Category), append(out.Tones, tone)
	}
	stacks := &stackTable{at: map[string]int{}, frames: numbered{at: map[string]int{}}}
	last := 0
	for _, l := range lives {
		kind := slices.Index(out.Kinds, l.Category.String())
		if kind < 0 {
			kind = len(out.Kinds)
			out.Kinds, out.Tones = append(out.Kinds, l.Category.String()), append(out.Tones, "rest")
		}
		out.Lives = append(out.Lives, int64(l.Born-last), int64(l.Done-l.Born), l.Bytes, int64(kind), int64(stacks.idOf(d.StackOf(l))))
		last = l.Born
	}
	out.Stacks, out.Frames = stacks.all, stacks.frames.all
	for _, s := range d.Steps {
		if s.Last > 0 && s.Last < d.Events {
			out.Steps = append(out.Steps, s.Last)
		}
	}
	for _, o := range d.OOMs {
		out.OOMs = append(out.OOMs, o.Event)
	}
	return out
}
