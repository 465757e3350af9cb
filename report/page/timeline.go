package page

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Limits of a timeline over all rows, so that a page stays small. Above maxBoxes the shortest neighbours in a row are
// merged, until the boxes fit; a note below the picture states the remaining resolution.
const (
	maxBoxes = 30_000
	maxRows  = 40
	// mostPlaces limits the places of a finding, maxStacks the stacks of a page, maxFrames the frames of a stack.
	mostPlaces = 500
	maxStacks  = 3000
	maxFrames  = 40
)

// timelineData is the input of timeline.js. A box has five numbers: start (relative to the previous box) and length in
// ns, kind, name, number of operations.
type timelineData struct {
	Span    int64         `json:"span"`
	Names   []string      `json:"names"`
	Tones   []string      `json:"tones"` // CSS variables, by kind
	Ink     []string      `json:"ink"`
	Labels  []string      `json:"labels"`
	Kernels []bool        `json:"kernels"` // whether a kind is of kernels
	Rows    []timelineRow `json:"rows"`
	Finds   []foundPlaces `json:"finds,omitempty"`
	// Stacks lists each stack's frames, innermost first, as indices into Frames. Stack n of a row is Stacks[n-1].
	Stacks [][]int  `json:"stacks,omitempty"`
	Frames []string `json:"frames,omitempty"`
}

type timelineRow struct {
	Name  string  `json:"name"`
	Boxes []int64 `json:"boxes"`
	// Sums is "stream" or "idle" if the page sums the boxes in a selected range of time. Mix has, for each box of
	// several operations, the number of kinds in the box, and then for each kind: its index, its time in ns, its
	// operations.
	Sums   string  `json:"sums,omitempty"`
	Mix    []int64 `json:"mix,omitempty"`
	Hidden int     `json:"hidden,omitempty"` // operations that are not drawn (see boxRow)
	Stacks []int   `json:"stacks,omitempty"` // stack of each box, from 1; 0: none
}

// foundPlaces has the longest spans that a finding claims, in order of time: starts and lengths in ns.
type foundPlaces struct {
	Rule  string  `json:"rule"`
	Of    int     `json:"of"` // number of all places
	Spans []int64 `json:"spans"`
}

// timelineOf returns the timeline of all inputs; nil if there is nothing to draw.
func timelineOf(a *analyze.Analysis, xs []*analyze.Index) Block {
	if !slices.ContainsFunc(xs, func(x *analyze.Index) bool {
		return x.Span.Len() > 0 && (len(x.Steps) > 0 || len(x.Devices) > 0 || drawsHost(x))
	}) {
		return nil
	}
	return Timeline{Draw: func() (any, string) { return drawTimeline(a, xs) }}
}

// drawTimeline builds the rows of all inputs and merges boxes until a page can hold them.
func drawTimeline(a *analyze.Analysis, xs []*analyze.Index) (timelineData, string) {
	var rows []boxRow
	var span int64
	for i, x := range xs {
		prefix := ""
		if len(xs) > 1 {
			prefix = inputName(a, i) + " "
		}
		for _, r := range rowsOf(x, claimsOf(a, i), prefix) {
			r.input = i
			rows = append(rows, r)
		}
		span = max(span, x.Span.Len())
	}
	rows = rows[:min(len(rows), maxRows)]
	note := "Every operation is in the timeline."
	if resolution := thinRows(rows); resolution > 0 {
		note = fmt.Sprintf("Neighbours that together last less than %s are drawn as one; the tables hold every operation.", gpuprof.FormatNS(resolution))
	}
	d := timelineData{Span: span, Names: []string{}, Finds: placesOf(a, xs)}
	for _, k := range boxKinds() {
		d.Tones, d.Ink, d.Labels, d.Kernels = append(d.Tones, k.tone), append(d.Ink, k.ink), append(d.Labels, k.label), append(d.Kernels, k.kernel)
	}
	names := numbered{at: map[string]int{}}
	stacks := &stackTable{at: map[string]int{}, frames: numbered{at: map[string]int{}}}
	for _, r := range rows {
		d.Rows = append(d.Rows, rowData(r, &names, stacks, xs[r.input]))
	}
	d.Names = append(d.Names, names.all...)
	for i, n := range d.Names {
		d.Names[i] = view.Cut(n, 90)
	}
	d.Stacks, d.Frames = stacks.all, stacks.frames.all
	return d, note
}

// rowData encodes a row for timeline.js.
func rowData(r boxRow, names *numbered, stacks *stackTable, x *analyze.Index) timelineRow {
	row := timelineRow{Name: view.Cut(r.name, 40), Boxes: []int64{}, Sums: r.sums, Hidden: r.hidden}
	last, stacked := int64(0), false
	for _, b := range r.boxes {
		row.Boxes = append(row.Boxes, b.from-last, b.to-b.from, int64(b.kind), int64(names.idOf(b.name)), int64(b.count))
		last = b.from
		if r.sums != "" && b.count > 1 {
			row.Mix = append(row.Mix, int64(len(b.parts)))
			for _, p := range b.parts {
				row.Mix = append(row.Mix, int64(p.kind), p.ns, int64(p.count))
			}
		}
		stack := 0
		if b.host > 0 {
			stack = stacks.idOf(x.Frames(b.host - 1))
		}
		row.Stacks, stacked = append(row.Stacks, stack), stacked || stack > 0
	}
	if !stacked {
		row.Stacks = nil
	}
	return row
}

// numbered assigns numbers to texts, in the order of their first use.
type numbered struct {
	at  map[string]int
	all []string
}

func (n *numbered) idOf(text string) int {
	id, ok := n.at[text]
	if !ok {
		id = len(n.all)
		n.at[text] = id
		n.all = append(n.all, text)
	}
	return id
}

// stackTable has the stacks of a page, each once.
type stackTable struct {
	at     map[string]int
	all    [][]int
	frames numbered
}

// idOf returns a stack's number, from 1; 0 without frames and above maxStacks.
func (s *stackTable) idOf(frames []string) int {
	if len(frames) == 0 {
		return 0
	}
	frames = frames[:min(len(frames), maxFrames)]
	var list []int
	for _, f := range frames {
		list = append(list, s.frames.idOf(view.CutPlace(f, 120)))
	}
	key := fmt.Sprint(list)
	id, ok := s.at[key]
	if !ok {
		if len(s.all) == maxStacks {
			return 0
		}
		s.all = append(s.all, list)
		id = len(s.all)
		s.at[key] = id
	}
	return id
}

// claimsOf lists the findings of an input that claim time, with the claimed spans, in the order of the findings.
func claimsOf(a *analyze.Analysis, input int) []claimed {
	var out []claimed
	for i, spans := range a.Claimed {
		if f := &a.Findings[i]; f.Input == input && len(spans) > 0 {
			out = append(out, claimed{f.Rule, spans})
		}
	}
	return out
}

// claimed has the time spans that a rule's finding claims.
type claimed struct {
	rule  string
	spans []model.Span
}

// hasPlace reports whether a finding claims time that the timeline can show.
func hasPlace(a *analyze.Analysis, xs []*analyze.Index, finding int) bool {
	return len(a.ClaimedBy(finding)) > 0 && a.Findings[finding].Input < len(xs)
}

// placesOf returns the places of findings, in the order of the findings.
func placesOf(a *analyze.Analysis, xs []*analyze.Index) []foundPlaces {
	var out []foundPlaces
	for i := range a.Findings {
		if !hasPlace(a, xs, i) {
			continue
		}
		f, spans, origin := &a.Findings[i], slices.Clone(a.ClaimedBy(i)), xs[a.Findings[i].Input].Span.Start
		p := foundPlaces{Rule: f.Rule, Of: len(spans)}
		slices.SortStableFunc(spans, func(x, y model.Span) int { return cmp.Compare(y.Len(), x.Len()) })
		spans = spans[:min(len(spans), mostPlaces)]
		slices.SortFunc(spans, func(x, y model.Span) int { return cmp.Compare(x.Start, y.Start) })
		for _, s := range spans {
			p.Spans = append(p.Spans, s.Start-origin, s.Len())
		}
		out = append(out, p)
	}
	return out
}
