package page

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// hostPlaceRows limits the places outside of operators on a terminal and in Markdown.
const hostPlaceRows = 5

// hostTable has a row per part of the host thread's time in the mean step. The rows add up to the step.
func hostTable(a *analyze.Analysis) Table {
	sizes := "Sizes are of recorded steps, in which no stack is sampled; they"
	if isPlain(a) {
		sizes = "Sizes are of the thread's clocks; they"
	}
	t := Table{Name: "Parts of the host thread's " + stepTitle(a), Noun: "part", Caption: sizes + " add up to the " + stepTitle(a) + ".",
		Columns: []Column{{Title: "host thread", Left: true}, {Title: "time"}, {Title: "share"}, {Title: "most of it", Left: true, Remark: true, Drop: 1, Least: 20}}}
	if a.Host == nil {
		return t
	}
	for _, part := range a.Host.Parts {
		t.Rows = append(t.Rows, Row{Keep: isLarge(part.NS, a.Host.NS), Cells: []Cell{{Text: a.HostPartName(part.Name)}, nsCell(part.NS), shareOf(part.NS, a.Host.NS), {Text: hostMost(a.Host, part.Name)}}})
	}
	return t
}

// isPlain reports whether a Python program without torch was recorded.
func isPlain(a *analyze.Analysis) bool {
	return a.Recording != nil && a.Recording.Program == analyze.Python
}

// hostMost returns the place with the most time in the named part, outside of operators.
func hostMost(h *analyze.HostAccount, part string) string {
	kinds := map[string][]string{
		analyze.HostOnCPU:        {analyze.CauseCPU, analyze.CauseCheckpoint, analyze.CauseLogging, analyze.CauseWorkers},
		analyze.HostBlocked:      {analyze.CauseBlocked, analyze.CauseCheckpoint, analyze.CauseLogging, analyze.CauseWorkers},
		analyze.HostBlockedDelay: {analyze.CauseBlocked, analyze.CauseCheckpoint, analyze.CauseLogging, analyze.CauseWorkers},
		analyze.HostLock:         {analyze.CauseLock},
	}[part]
	for _, kind := range kinds {
		for i := range h.Causes {
			if c := &h.Causes[i]; c.Kind == kind {
				return hostCauseText(c)
			}
		}
	}
	return view.None
}

func hostCauseText(c *analyze.HostCause) string {
	text := view.CutPlace(c.Where, 60)
	if c.Text != "" {
		text += " " + c.Text
	}
	return text
}

// hostPlaces lists the places outside of operators, by samples.
func hostPlaces(a *analyze.Analysis) Table {
	t := Table{Name: "Places outside operators", Noun: "place", Max: [3]int{hostPlaceRows, hostPlaceRows, traceRows}, More: "%d more places in --format json",
		Columns: []Column{{Title: "outside operators", Left: true}, {Title: "kind", Left: true}, {Title: "time"}, {Title: "samples", Drop: 2}, {Title: "most of it in", Left: true, Remark: true, Drop: 1, Least: 20}}, In: HTML}
	if a.Host == nil {
		return t
	}
	when := gpuprof.Plural(a.Host.Sampled, "step") + " after the recorded ones"
	if a.Host.Sampled == 0 {
		when = "a window of time"
	}
	t.Caption = fmt.Sprintf("%s of the host thread's stack in %s. A line stands for all that it calls, where nearly all of that is outside operators.", gpuprof.Plural(a.Host.Samples, "sample"), when)
	for i := range a.Host.Causes {
		c := &a.Host.Causes[i]
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: hostCauseText(c)}, {Text: c.Kind}, nsCell(c.NS), countCell(c.Count), {Text: c.Inner}}})
	}
	return t
}

// hostCalls draws the sampled stacks as a flame graph; nothing without samples.
func hostCalls(a *analyze.Analysis) []Block {
	if a.Host == nil || len(a.Host.Stacks) == 0 {
		return nil
	}
	return []Block{Chart{ID: "host-calls", Figure: func() *figure.Figure { return figure.HostCalls(a) }, Narrow: true,
		Live: func() any { return hostFlame(a.Host) }, Kind: Flame, Name: "Host thread by call"}}
}

// hostStacks lists the sampled stacks with the most time.
func hostStacks(a *analyze.Analysis) Table {
	t := Table{Name: "Sampled stacks", Noun: "stack", Max: [3]int{0, 0, traceRows}, More: "%d more stacks are in the data.", Folded: "sampled stacks of the host thread", In: HTML,
		Columns: []Column{{Title: "stack", Left: true}, {Title: "time"}, {Title: "share"}}}
	if a.Host == nil {
		return t
	}
	var whole int64
	for _, s := range a.Host.Stacks {
		whole += s.NS
	}
	for _, s := range a.Host.Stacks {
		frames := s.Frames[max(0, len(s.Frames)-6):]
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: strings.Join(frames, " > ")}, nsCell(s.NS), shareOf(s.NS, whole)}})
	}
	return t
}
