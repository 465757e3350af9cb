package figure

import (
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// iciclePanel draws frames below their callers. A frame's width is its time or bytes, including its callees; most is
// the right end of the rightmost frame. amount formats a width for tooltips. The caller of iciclePanel sets the X axis.
func iciclePanel(calls []memsnap.Call, amount func(int64) string) (p Panel, most float64) {
	deepest := 0
	for _, c := range calls {
		deepest, most = max(deepest, c.Depth), max(most, float64(c.To))
		p.Marks = append(p.Marks, Mark{Kind: Bar, X0: float64(c.From), X1: float64(c.To), Y0: float64(c.Depth) + 0.05, Y1: float64(c.Depth) + 0.95, Tone: toneOf(c.Depth % 2),
			Text: view.CutPlace(c.Where, 60), Brief: calledIn(c.Where), Tip: view.CutPlace(c.Where, 100) + ": " + amount(c.To-c.From)})
	}
	p.Y = rowAxis(make([]string, deepest+1))
	p.Y.Bare = true
	p.Height = 22 * float64(deepest+1)
	return p, most
}

// calledIn returns the function of a frame: "forward" of "model.py:43 in forward".
func calledIn(frame string) string {
	if at := strings.LastIndex(frame, " in "); at >= 0 {
		frame = frame[at+len(" in "):]
	}
	return view.CutPlace(frame, 24)
}

// Limits of an icicle of sampled stacks: smallest width of a frame as a share of the step, and largest depth.
const (
	leastCallShare = 0.002
	deepestCall    = 32
)

// HostCalls draws the sampled stacks of the host thread as an icicle with the outermost frame at the top. The width is
// the mean step, or the window if there are no steps. Of outer frames that contain all samples, only the innermost is
// drawn.
func HostCalls(a *analyze.Analysis) *Figure {
	f := newAnalysisFigure("calls", "Host thread by call", "The frames of the sampled stacks of the host thread, the outermost at the top: each is as wide as its time and its callees' in the mean step or the recording window.", a)
	if a.Host == nil || len(a.Host.Stacks) == 0 {
		return f.setLacking("no sampled stack is beside the trace")
	}
	all := a.Host.Calls()
	outer := 0 // outer frames that contain all samples
	for outer+1 < len(all) && all[outer+1].Depth == outer+1 && all[outer+1].To == all[0].To {
		outer++
	}
	var calls []memsnap.Call
	var narrow, deep int
	for _, c := range all[outer:] {
		switch {
		case float64(c.To-c.From) < leastCallShare*float64(a.Host.Step()):
			narrow++
		case c.Depth-outer >= deepestCall:
			deep++
		default:
			c.Depth -= outer
			calls = append(calls, memsnap.Call(c))
		}
	}
	p, most := iciclePanel(calls, gpuprof.FormatNS)
	for i := range p.Marks { // ns to s
		p.Marks[i].X0, p.Marks[i].X1 = p.Marks[i].X0/1e9, p.Marks[i].X1/1e9
	}
	of := "mean step"
	if a.Host.Steps == 0 {
		of = "recording window"
	}
	p.X = secondsAxis("time in the "+of, most/1e9)
	f.Panels = []Panel{p}
	if a.Host.BareNS > 0 {
		of += " of those neither recorded nor sampled, " + gpuprof.FormatNS(a.Host.BareNS)
	}
	f.addNote(gpuprof.Plural(a.Host.Samples, "sample") + " of the stack, scaled to the " + of)
	if outer > 0 {
		f.addNote("not drawn: " + gpuprof.Plural(outer, "frame") + " around all samples")
	}
	if narrow > 0 {
		f.addNote("not drawn: " + gpuprof.Plural(narrow, "frame") + " of less than 0.2 % of the step")
	}
	if deep > 0 {
		f.addNote("not drawn: " + gpuprof.Plural(deep, "frame") + " below more than 31 others")
	}
	return f
}
