// Package page holds the readable content of a document, independent of the output format: a builder makes a Page for
// each kind of document, and report/table, report/markdown and report/html write it.
//
// The builders of this package decide the selection, the words and the digits; a writer decides the layout. A new field
// of a document is one edit in its builder.
package page

import (
	"io"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/figure"
)

// Page is one document. Its answer opens every format; title and meta follow, on a
// terminal as one line, "Title, meta, meta", where it fits.
type Page struct {
	Answer   gpuprof.Answer // required: verdict, tone and sentence are never empty
	Title    string         // what it is about: "e3nn small"
	Meta     []string       // device, mode, samples: short texts
	Date     string         // HTML only
	Sections []Section
	Footer   string // HTML only

	// Static pages have no script, and a file next to the page has their data: Data.Name.
	Static bool

	Tool string // name and version of the program that made the document: "gpuprof 1.2"
	Data Data
}

// Badge is a status in one or two words.
type Badge struct {
	Text string
	Tone Tone
}

// Data is the document itself, which an HTML page embeds and offers to save.
type Data struct {
	Name   string // of the file: "run.json"
	Encode func(io.Writer) error
	Note   string // what of the document it holds
	Pack   bool   // compressed even where it is small
}

// Tone classifies news from good to bad. A terminal paints it, a page has a class for it.
type Tone int

// Tones.
const (
	Plain  Tone = iota
	Good        // complete, passed, improved
	Unsure      // partial, inconclusive, a warning
	Bad         // invalid, regressed, failed
	Faint       // a remark, a finding of little weight
)

// Where is the set of formats that show a section, block, row or column.
type Where uint8

// Formats. The zero value is all of them.
const (
	Terminal Where = 1 << iota
	Markdown
	HTML
	// Verbose things are on a terminal with -v only. It is not a format: what has no
	// other bit is in all of them. Everything inside a verbose section or block is so.
	Verbose
)

// In reports whether a format shows an element with the formats w.
func (w Where) In(format Where) bool { return w&^Verbose == 0 || w&format != 0 }

// Section is a heading with blocks below it. Formats leave out a section of
// which nothing is shown. A terminal puts a blank line before each and none inside.
type Section struct {
	ID        string // unique in the page; needed where HTML shows the heading
	Heading   string
	HeadingIn Where // zero: Markdown and HTML
	In        Where
	Blocks    []Block
	// Folded sections are closed at first, where a format can, with Badge and Brief next to the heading.
	Folded bool
	Badge  Badge
	Brief  []string
	// Sections follow the blocks, one level down if the section has a heading.
	Sections []Section
	// Beside sets its Sections in columns where a page has room.
	Beside bool
}

// Block is one of Text, Lines, Table, List, Chart and Timeline.
type Block interface{ Shown() Where }

// Style classifies a text by its purpose.
type Style int

// Styles.
const (
	Paragraph Style = iota
	Lead            // the document in a sentence or two: large, or bold
	Banner          // what must not be missed, in the colour of its tone
	Remark          // small print
)

// Text is a paragraph. In HTML a flag of the command line inside it is code.
type Text struct {
	S    string
	As   Style
	Tone Tone
	Code bool // the whole text is to be typed
	In   Where
}

// Lines are labelled figures: a step's summary, facts about a machine. Markdown
// makes one table of neighbouring ones, a list where something is to be typed.
type Lines struct {
	Lines []Line
	Lead  bool // shown large, where a format can
	In    Where
}

// Line is one figure: its label, the figure, and a remark.
type Line struct {
	Label string
	Value string
	Note  string
	Tone  Tone
	Code  bool   // the value is to be typed
	Link  string // HTML only: the page that the value leads to
	Spare bool   // the first to go where a terminal is short of lines
	In    Where
}

// Table is rows of cells under columns.
type Table struct {
	Name    string // what a reader who hears the page is told: "Table of stages"
	Noun    string // what a row is, to count those that a terminal leaves out: "stage"
	Caption string // HTML only; "" for the name
	Columns []Column
	Rows    []Row
	// Max limits the rows by format: terminal, Markdown, HTML; of Keep rows to five times as many; 0 shows all. More
	// counts the other rows: "%d more in --format json".
	Max  [3]int
	More string
	// Folded is the summary of a table that is closed at first where a format can.
	Folded string
	In     Where
}

// Column is a column's title and layout. A terminal drops a column without a value in any cell.
type Column struct {
	Title string
	// Narrow is the title on a terminal narrower than 110 columns, where the
	// cells' Narrow texts are shown too.
	Narrow string
	Wide   bool // a terminal narrower than 110 columns leaves it out
	Left   bool // words; figures are set to the right
	// Drop ranks the columns that a terminal drops if the table is too wide: the highest goes first, 0 stays.
	Drop  int
	Named bool // when dropped, it is named below the table
	// Most limits a cell's width in columns of a terminal, 0 does not. Least limits how far the column narrows before
	// another one is dropped; 0 forbids narrowing.
	Most, Least int
	Legend      string // below the table where the column is shown, not in HTML
	Remark      bool   // holds a remark that may be long; an empty one stays empty, other empty cells print "-"
	In          Where
}

// Row is the cells of a row, one for each column of the table.
type Row struct {
	Cells []Cell
	Tone  Tone
	Sub   bool // belongs to the row above: a kernel of its stage
	Keep  bool // matters more than others: a regression
	// Size orders rows of equal priority: if lines are short, the smallest row is dropped first, and of equal ones
	// the last.
	Size float64
	In   Where
}

// Cell is a text, or a formatted figure. Formats print Text alone; tests and data formats read Value.
type Cell struct {
	Text   string
	Value  float64 // the figure in base units
	Unit   string  // "s", "B/s", "1" for a ratio or share; "" where the cell is words
	Narrow string  // the text where room is scarce, "" for Text
	Note   string  // HTML only: a short remark after the text
	Link   string  // HTML only: the page that the text leads to
	Tone   Tone    // of a terminal's text
}

// List is items below each other.
type List struct {
	Items   []Item
	Ordered bool
	Alert   bool   // each stands in a box of its own: warnings
	Label   string // before each item on a terminal: "warning", "finding"
	Noun    string // what one of them is, to count the rest: "failure"
	Max     int    // most that are shown outside HTML; 0 is all
	In      Where
}

// Item is an entry of a list, "badge label: text", and facts below it.
type Item struct {
	Badge Badge
	Label string // bold: a rule's name
	Text  string
	Tone  Tone     // a terminal paints List.Label with it, or the text without one
	Lines []Line   // evidence, command, change
	Sub   []string // what was said of each run
	// More is shown on request, in HTML only, under MoreText.
	More     []Block
	MoreText string
	// About names the rule or warning behind the item, "rule-item", to which HTML links; ID is the anchor of an item that
	// explains one.
	About, ID string
	// Place numbers the findings that the timeline of the page shows, from 1; 0 has none.
	Place int
	In    Where
}

// Chart is a figure, HTML only. Figure is called when it is drawn; nil is no
// chart, and its note goes with it.
type Chart struct {
	ID     string // unique in the page: "r2-stack"
	Figure func() *figure.Figure
	Note   string // the paragraph above it
	Narrow bool   // laid out anew for a phone, where other figures are scrolled
	// Live returns the data of the same picture for a script that zooms it; nil has no script. Kind names the script,
	// Name the picture for a screen reader.
	Live func() any
	Kind PictureKind
	Name string
}

// PictureKind names the script of a picture.
type PictureKind string

// Kinds of pictures.
const (
	Flame       PictureKind = "flame"  // calls below their callers: a FlameData
	MemoryTrace PictureKind = "memory" // allocations over events
)

// Timeline is the picture of a trace that can be zoomed, HTML only and once in a
// page. Draw gives what timeline.js reads, and the note below the picture; it is called
// where the picture is shown, as the boxes of a long trace take time and memory.
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
