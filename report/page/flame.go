package page

import (
	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// FlameData has calls below their callers, for flame.js.
type FlameData struct {
	Unit  string   `json:"unit"` // "ns" or "B"
	Of    string   `json:"of"`   // the whole: "mean step"
	Span  int64    `json:"span"`
	Names []string `json:"names"`
	// Calls has four numbers per call: depth, start, width, name. A caller precedes its callees.
	Calls []int64 `json:"calls"`
	Left  int     `json:"left,omitempty"` // number of calls too narrow to draw
}

// leastFlame: calls narrower than 1/leastFlame of the whole are not drawn.
const leastFlame = 10_000

func (d *FlameData) add(names *numbered, where string, depth int, from, to int64) {
	if (to-from)*leastFlame < d.Span {
		d.Left++
		return
	}
	d.Calls = append(d.Calls, int64(depth), from, to-from, int64(names.idOf(view.CutPlace(where, 160))))
}

// hostFlame returns the sampled stacks of the host thread in the mean step; nil without samples.
func hostFlame(h *analyze.HostAccount) any {
	calls := h.Calls()
	if len(calls) == 0 {
		return nil
	}
	d := &FlameData{Unit: "ns", Of: "mean step", Calls: []int64{}}
	if h.Steps == 0 {
		d.Of = "recording window"
	}
	for _, c := range calls {
		d.Span = max(d.Span, c.To)
	}
	names := numbered{at: map[string]int{}}
	for _, c := range calls {
		d.add(&names, c.Where, c.Depth, c.From, c.To)
	}
	d.Names = names.all
	return d
}

// memoryFlame returns the stacks that hold memory at the reported moment; nil without stacks.
func memoryFlame(m *memsnap.Moment) any {
	if len(m.Calls) == 0 {
		return nil
	}
	d := &FlameData{Unit: "B", Of: "bytes with a stack", Calls: []int64{}}
	for _, c := range m.Calls {
		d.Span = max(d.Span, c.To)
	}
	names := numbered{at: map[string]int{}}
	for _, c := range m.Calls {
		d.add(&names, c.Where, c.Depth, c.From, c.To)
	}
	d.Names = names.all
	return d
}
