// Package page has the readable content of gpuprof's results, independent of the output format. A builder makes a Page
// from each kind of result (a run, an analysis, a comparison); report/table, report/markdown and report/html write it.
//
// The builders decide selection, words and digits; the writers decide the layout. To show a new field of a result,
// only its builder changes.
package page

import (
	"io"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/figure"
)

// Page is the report of one result: answer first, then title and meta, on a terminal as "Title, meta, meta".
type Page struct {
	Answer   gpuprof.Answer // required, with verdict, tone and sentence
	Title    string         // subject: "e3nn small"
	Meta     []string       // device, mode, samples: short texts
	Date     string         // HTML only
	Sections []Section
	Footer   string // HTML only

	// Static pages have no script, and their data is in a file next to the page: Data.Name.
	Static bool

	Tool string // name and version of the program that made the document: "gpuprof 1.2"
	Data Data
}

// Badge is a status in one or two words.
type Badge struct {
	Text string
	Tone Tone
}

// Data is the result as a JSON file, which an HTML page embeds so that a reader can save it.
type Data struct {
	Name   string // file name: "run.json"
	Encode func(io.Writer) error
	Note   string // which part of the result is embedded
	Pack   bool   // compress the file even if it is small
}

// Tone rates a text from good to bad. A terminal shows it as a colour, HTML as a CSS class.
type Tone int

// Tones.
const (
	Plain  Tone = iota
	Good        // complete, passed, improved
	Unsure      // partial, inconclusive, a warning
	Bad         // invalid, regressed, failed
	Faint       // a remark, or a minor finding
)

// Where is the set of formats that show a section, block, row or column.
type Where uint8

// Formats. Zero means all of them.
const (
	Terminal Where = 1 << iota
	Markdown
	HTML
	// Verbose limits an element and everything inside it to -v on a terminal. It is not a format: with no other bit
	// set, the element is in all formats.
	Verbose
)

// In reports whether the set w includes a format.
func (w Where) In(format Where) bool { return w&^Verbose == 0 || w&format != 0 }

// Section is a heading with blocks. An empty section is omitted. A terminal prints a blank line before each.
type Section struct {
	ID        string // unique in the page; required if HTML shows the heading
	Heading   string
	HeadingIn Where // 0: Markdown and HTML
	In        Where
	Blocks    []Block
	// Folded sections are closed at first, in formats that can, with Badge and Brief next to the heading.
	Folded bool
	Badge  Badge
	Brief  []string
	// Sections follow the blocks, one heading level deeper if this section has a heading.
	Sections []Section
	// Beside places Sections in columns if a page has room.
	Beside bool
}

// Block is Text, Lines, Table, List, Chart or Timeline.
type Block interface{ Shown() Where }

// Style is the purpose of a text.
type Style int

// Styles of a Text.
const (
	Paragraph Style = iota
	Lead            // summary in a sentence or two, large or bold
	Banner          // important, in the colour of its tone
	Remark          // small print
)

// Text is a paragraph. HTML shows command-line flags in it as code.
type Text struct {
	S    string
	As   Style
	Tone Tone
	Code bool // the whole text is a command
	In   Where
}

// Lines are labelled figures. Markdown joins adjacent Lines blocks into one table, or into a list if one is a command.
type Lines struct {
	Lines []Line
	Lead  bool // shown large, if the format can
	In    Where
}

// Line is a labelled figure with a remark.
type Line struct {
	Label string
	Value string
	Note  string
	Tone  Tone
	Code  bool   // the value is a command
	Link  string // HTML only: target of a link on the value
	Spare bool   // dropped first if the terminal has too few lines
	In    Where
}

// Table has rows of cells under columns.
type Table struct {
	Name    string // for screen readers: "Table of stages"
	Noun    string // "stage": the noun for counting rows that a terminal omits
	Caption string // HTML only; "" for the name
	Columns []Column
	Rows    []Row
	// Max limits the rows on a terminal, in Markdown and in HTML; 0 means no limit. Rows with Keep have a limit of
	// their own, five times as high. More is the text about omitted rows: "%d more in --format json".
	Max  [3]int
	More string
	// Folded is the summary line under which the table is hidden at first, in formats with such lines.
	Folded string
	In     Where
}

// Column is a column's title and layout. A terminal drops a column without any value.
type Column struct {
	Title string
	// Narrow is the title on a terminal narrower than 110 columns, which also uses the cells' Narrow texts.
	Narrow string
	Wide   bool // omitted on a terminal narrower than 110 columns
	Left   bool // left-aligned words; figures are right-aligned
	// Drop is the order in which a terminal drops columns of a table that is too wide: the highest first, 0 never.
	Drop  int
	Named bool // a terminal that drops the column names it below the table
	// Most limits a cell's width in terminal columns; 0 means no limit. Least is the width to which the column is
	// narrowed before any column is dropped; 0 forbids narrowing.
	Most, Least int
	Legend      string // text below the table if the column is shown, not in HTML
	Remark      bool   // long texts; an empty one prints nothing, where other columns print "-"
	In          Where
}

// Row has a cell for each column of the table.
type Row struct {
	Cells []Cell
	Tone  Tone
	Sub   bool // belongs to the row above, like a kernel to its stage
	Keep  bool // a terminal short of lines keeps the row: a regression
	// Size orders rows with equal Keep: a terminal short of lines drops the smallest first, and of equal ones the last.
	Size float64
	In   Where
}

// Cell is a text, or a formatted figure. Writers print Text; tests and data formats read Value.
type Cell struct {
	Text   string
	Value  float64 // the figure in base units
	Unit   string  // "s", "B/s", "1" for a ratio or share; "" for words
	Narrow string  // replaces Text on a narrow terminal; "" for Text
	Note   string  // HTML only: a short remark after the text
	Link   string  // HTML only: target of a link on the text
	Tone   Tone    // colour on a terminal
}

// List has items below each other.
type List struct {
	Items   []Item
	Ordered bool
	Alert   bool   // each item in a box, for warnings
	Label   string // before each item on a terminal: "warning", "finding"
	Noun    string // "failure": the noun for counting omitted items
	Max     int    // limit of items outside of HTML; 0 shows all
	In      Where
}

// Item is an entry of a list, "badge label: text", with facts below.
type Item struct {
	Badge Badge
	Label string // bold: a rule's name
	Text  string
	Tone  Tone     // colour on a terminal, of List.Label or else of the text
	Lines []Line   // evidence, command, change
	Sub   []string // further texts below the item, for example one per run
	// More is shown on demand under the title MoreText, in HTML only.
	More     []Block
	MoreText string
	// About is the rule or warning whose explanation the item links to in HTML. ID is set for items that are themselves
	// explanations: their anchor.
	About, ID string
	// Place is the finding's number in the page's timeline, from 1; 0 if the timeline does not show it.
	Place int
	In    Where
}

// Chart is a figure, HTML only. Figure is called when the chart is drawn; nil means no chart and no note.
type Chart struct {
	ID     string // unique in the page: "r2-stack"
	Figure func() *figure.Figure
	Note   string // paragraph above the chart
	Narrow bool   // has its own layout on a phone, where other figures scroll
	// Live returns the data for a script that zooms, or nil. Kind names the script, Name the picture.
	Live func() any
	Kind PictureKind
	Name string
}

// PictureKind is the script of a picture.
type PictureKind string

// Kinds of pictures.
const (
	Flame       PictureKind = "flame"  // calls below their callers, see FlameData
	MemoryTrace PictureKind = "memory" // allocations over events
)

// Timeline is the zoomable picture of a trace, HTML only, at most one per page. Draw returns the data for timeline.js
// and a note. Writers call it only if they show the picture: the boxes of a long trace take time and memory.
type Timeline struct {
	Draw func() (data any, note string)
}

// Shown implements Block.
func (b Text) Shown() Where { return b.In }

// Shown implements Block.
func (b Lines) Shown() Where { return b.In }

// Shown implements Block.
func (b Table) Shown() Where { return b.In }

// Shown implements Block.
func (b List) Shown() Where { return b.In }

// Shown implements Block.
func (Chart) Shown() Where { return HTML }

// Shown implements Block.
func (Timeline) Shown() Where { return HTML }
