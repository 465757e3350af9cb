// Package page holds what a person reads of a document, independent of the
// format it is read in: a Page is built once for each kind of document and
// written by report/table, report/markdown and report/html.
//
// The builders of this package decide what is shown and in which words and
// digits; a writer decides how that looks. A new field of a document is one
// edit in its builder.
package page

import "github.com/gpuprof/gpuprof/report/figure"

// Page is one document.
type Page struct {
	Title    string   // what it is about: "e3nn small on host"
	Badge    Badge    // its status or verdict
	Meta     []string // device, mode, samples, date: short texts in one line
	Sections []Section
	Footer   string

	Tool string // name and version of the program that made the document
	// Data is the document itself, which an HTML page embeds under DataName.
	Data     any
	DataName string
}

// Badge is a status in one or two words.
type Badge struct {
	Text string
	Tone Tone
}

// Tone is how good the news is. A terminal paints it, a page has a class for it.
type Tone int

// Tones.
const (
	Plain  Tone = iota
	Good        // complete, passed, improved
	Unsure      // partial, inconclusive, a warning
	Bad         // invalid, regressed, failed
	Faint       // a remark, a kernel below its stage
)

// Where is the set of formats that show a section, block or column.
type Where uint8

// Formats. The zero value is all of them.
const (
	Terminal Where = 1 << iota
	Markdown
	HTML
	Quiet // a terminal with --quiet shows it too
)

// In says whether something for w is shown in a format.
func (w Where) In(format Where) bool {
	if format == Quiet { // has to be asked for
		return w&Quiet != 0
	}
	return w&^Quiet == 0 || w&format != 0
}

// Section is a heading with what stands below it.
type Section struct {
	ID      string // unique in the page
	Heading string // a terminal prints it only where HeadingIn says so
	// HeadingIn is where the heading is shown; zero is Markdown and HTML.
	HeadingIn Where
	In        Where
	Blocks    []Block
	// Folded sections are closed at first, with Brief beside the heading.
	Folded bool
	Badge  Badge
	Brief  []string
	// Sections inside it, one level down: the runs of a sweep.
	Sections []Section
}

// Block is one of Text, Lines, Table, List and Chart.
type Block interface{ where() Where }

// Text is a paragraph.
type Text struct {
	S    string
	Tone Tone
	In   Where
	// Code is set where the whole text is to be typed.
	Code bool
}

// Lines are labelled figures: a step's summary, facts about a machine.
type Lines struct {
	Lines []Line
	Lead  bool // shown large, where a format can
	In    Where
}

// Line is one figure: what it is, the figure, and a remark.
type Line struct {
	Label string
	Value string
	Note  string
	Tone  Tone
	Code  bool // the value is to be typed
	In    Where
}

// Table is rows of cells under columns.
type Table struct {
	ID      string
	Caption string // Markdown and HTML
	Columns []Column
	Rows    []Row
	// Max is how many rows a format shows: terminal, Markdown, HTML; 0 is all.
	// The rest is counted in the text More: "%d more metrics in --format json".
	Max  [3]int
	More string
	// Folded is the summary of a table that is closed at first where a format can.
	Folded string
	In     Where
}

// Column is a column's title and how it behaves.
type Column struct {
	Title string
	// Narrow is the title on a terminal narrower than 110 columns, where the
	// cells' Narrow texts are shown too.
	Narrow string
	Left   bool // words; figures are set to the right
	// Drop is how early the column goes where room is scarce: the highest goes
	// first, 0 stays.
	Drop   int
	Named  bool // when dropped, it is named below the table
	Remark bool // holds a remark that may be long
	In     Where
}

// Row is the cells of a row, one for each column.
type Row struct {
	Cells []Cell
	Tone  Tone
	Sub   bool // belongs to the row above: a kernel of its stage
	// Keep rows are shown whatever Max says and with --quiet: regressions.
	Keep bool
}

// Cell is a text, or a figure with its unit as it is printed.
type Cell struct {
	Text string
	// Value is the figure behind the text in base units (seconds, bytes, a
	// ratio); it has one where Has is set. Writers print Text; tests and data
	// formats read Value.
	Value  float64
	Unit   string
	Has    bool
	Tone   Tone
	Narrow string // the text where room is scarce, "" for Text
	Code   bool
}

// List is items below each other.
type List struct {
	Items   []Item
	Ordered bool
	Label   string // before each item on a terminal: "warning", "budget"
	Noun    string // what one of them is, to count the rest: "failure"
	Max     int    // most that are shown outside HTML; 0 is all
	In      Where
}

// Item is an entry of a list: a text, and facts below it.
type Item struct {
	Label string // bold: a rule's name, "budget"
	Badge Badge
	Text  string
	Tone  Tone
	Lines []Line   // evidence, command, change
	Sub   []string // what was said of each run
	// More is shown on request: tables of evidence.
	More     []Block
	MoreText string
	In       Where
}

// Chart is a figure. Note is the sentence above it.
type Chart struct {
	Figure *figure.Figure
	Note   string
	In     Where
}

func (b Text) where() Where  { return b.In }
func (b Lines) where() Where { return b.In }
func (b Table) where() Where { return b.In }
func (b List) where() Where  { return b.In }
func (b Chart) where() Where { return b.In }
