package page

import (
	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// FlameData is the input of flame.js: calls below their callers.
type FlameData struct {
	Unit  string   `json:"unit"` // "ns" or "B"
	Of    string   `json:"of"`   // the whole: "mean step"
	Span  int64    `json:"span"` // width of the whole, in Unit
	Names []string `json:"names"`
	// Calls has four numbers per call: depth, start and width in Unit, and index in Names. A caller precedes its
	// callees.
	Calls []int64 `json:"calls"`
	Left  int     `json:"left,omitempty"` // number of calls too narrow to draw
}

// leastFlame limits the drawn calls: those narrower than 1/leastFlame of the whole are omitted.
const leastFlame = 10_000

// newFlame lays out calls, with widths in unit, for flame.js; nil without calls.
func newFlame(unit, of string, calls []memsnap.Call) any {
	if len(calls) == 0 {
		return nil
	}
	d := &FlameData{Unit: unit, Of: of, Calls: []int64{}}
	for _, c := range calls {
		d.Span = max(d.Span, c.To)
	}
	names := numbered{at: map[string]int{}}
	for _, c := range calls {
		if (c.To-c.From)*leastFlame < d.Span {
			d.Left++
			continue
		}
		d.Calls = append(d.Calls, int64(c.Depth), c.From, c.To-c.From, int64(names.idOf(view.CutPlace(c.Where, 160))))
	}
	d.Names = names.all
	return d
}

// hostFlame returns the sampled stacks of the host thread in the mean step; nil without samples.
func hostFlame(h *analyze.HostAccount) any {
	of := "mean step"
	if h.Steps == 0 {
		of = "recording window"
	}
	var calls []memsnap.Call
	for _, c := range h.Calls() {
		calls = append(calls, memsnap.Call(c))
	}
	return newFlame("ns", of, calls)
}
