package page

import (
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// jsonData returns a document as an embedded JSON file.
func jsonData(name string, v any) Data {
	return Data{Name: name, Encode: func(w io.Writer) error { return json.NewEncoder(w).Encode(document.WithAnswer(v)) }}
}

func toolText(t gpuprof.Tool) string {
	return strings.TrimSpace("gpuprof " + view.Cut(t.Version, 40))
}

// listOf appends an item for each text.
func listOf(l List, all []string) List {
	for _, t := range all {
		l.Items = append(l.Items, Item{Text: t})
	}
	return l
}

// warningList returns the section of a document's warnings.
func warningList(ws []gpuprof.Warning) Section {
	list := List{Label: "warning", Noun: "warning", Alert: true, Max: maxListed}
	for _, w := range ws {
		list.Items = append(list.Items, Item{Label: w.Code, Text: w.Sentence(), Tone: Unsure, About: aboutWarning(w.Code)})
	}
	return warningSection("", Markdown|HTML, list)
}

// warningSection returns a section of warnings, folded under their number in formats that can.
func warningSection(id string, headingIn Where, list List) Section {
	return Section{ID: id + "warnings", Heading: "Warnings", HeadingIn: headingIn, In: Verbose, Folded: true, Brief: []string{gpuprof.Plural(len(list.Items), "warning")}, Blocks: []Block{list}}
}

// numberColumns returns a column of names and columns of figures.
func numberColumns(titles ...string) []Column {
	out := make([]Column, len(titles))
	for i, t := range titles {
		out[i] = Column{Title: t, Left: i == 0}
	}
	return out
}

func wordColumns(titles ...string) []Column {
	out := numberColumns(titles...)
	for i := range out {
		out[i].Left = true
	}
	return out
}

func onlyHTML(columns []Column) []Column {
	out := slices.Clone(columns)
	for i := range out {
		out[i].In, out[i].Left = HTML, false
	}
	return out
}

func textRow(cells ...string) Row {
	var r Row
	for _, c := range cells {
		r.Cells = append(r.Cells, Cell{Text: c})
	}
	return r
}

func dropEmpty(lines ...Line) []Line {
	return slices.DeleteFunc(lines, func(l Line) bool { return l.Value == "" })
}

// onlyOnPage limits the paragraphs among blocks to HTML, and drops other blocks.
func onlyOnPage(blocks []Block) []Block {
	var out []Block
	for _, b := range blocks {
		if t, ok := b.(Text); ok {
			t.In = HTML
			out = append(out, t)
		}
	}
	return out
}
