// Package figure has every chart as marks over axes, independent of the output format. A builder makes a Figure from a
// document, one layout converts the figure to shapes, and two backends draw shapes as SVG and PNG: so every format
// shows the same values. A new chart needs a builder, and an entry in the table of its document (kinds.go).
package figure

import (
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Figure is one chart: panels under a title and a legend. Values are in base units; Axis.Unit divides tick labels.
type Figure struct {
	ID    string // value of --plot: "stages", "roofline"
	Title string
	// Desc describes the chart for readers who cannot see it.
	Desc   string
	Legend []Entry
	Panels []Panel // from top to bottom
	Behind []Mark  // bands behind all panels, which share an X axis
	Notes  []string

	// Texts that only a standalone file shows, since a page has them elsewhere: subject, device and date, remarks.
	Subject string
	Context []string
	Remarks []string
	Tool    string // version of gpuprof that made the document

	// Lacks is the reason why the document has no such figure; "" if it has one. Notice is the text drawn instead of
	// panels: the same reason as a sentence, or why the run has no times.
	Lacks  string
	Notice string
}

// Empty reports whether there is nothing to draw.
func (f *Figure) Empty() bool { return len(f.Panels) == 0 }

// setLacking removes the panels and the legend, and sets Lacks and Notice to the reason why.
func (f *Figure) setLacking(why string) *Figure {
	f.Panels, f.Legend = nil, nil
	f.Lacks, f.Notice = why, strings.ToUpper(why[:1])+why[1:]+"."
	return f
}

// Entry is a line of the legend.
type Entry struct {
	Text  string
	Tone  Tone
	Form  Form
	Dot   bool // the text follows a dot of Shape, else a swatch
	Shape Shape
}

// Panel is a pair of axes with marks.
type Panel struct {
	Name, Sub string   // left of the plot area
	Title     string   // above the plot area
	Right     []string // lines right of the plot area
	RowNotes  []string // right of each row of a Rows axis
	X, Y      Axis
	Height    float64 // preferred height of the plot area
	Marks     []Mark
	Side      *Panel // panel to the right, on the same Y axis
}

// Scale maps values on an axis to positions.
type Scale int

// Scales. On Rows, row i extends from i to i+1; row 0 is at the top.
const (
	Linear Scale = iota
	Log
	Rows
)

// Axis is the range and labelling of a panel in one direction.
type Axis struct {
	Scale    Scale
	Min, Max float64
	Unit     float64  // divisor of tick labels; 0 means 1
	Label    string   // with the unit: "step time (ms)"
	Ticks    []Tick   // nil: round values
	Changes  bool     // logarithmic axis of ratios, with ticks such as +5 % and x2
	Bare     bool     // no ticks and no line
	Names    []string // one per row, for Rows
}

// Tick is a labelled position on an axis.
type Tick struct {
	At    float64
	Label string
}

// Kind is the form of a mark.
type Kind int

// Kinds of marks.
const (
	Bar     Kind = iota // X0 to X1, Y0 to Y1
	Boxes               // many bars of one tone; Points has X0 Y0 X1 Y1 as pairs
	Line                // through Points; a NaN interrupts it
	Area                // between Points and Y0
	Samples             // a small dot at each of Points
	Dot                 // at X0, Y0
	Range               // interval from X0, Y0 to X1, Y1, horizontal or vertical
	Rule                // vertical line at X0, with its text at the end away from Y0; horizontal at Y0 if Across
	Band                // X0 to X1 over the whole height
	Flags               // short marks at the top, at the X of Points
	Label               // Text at X0, Y0
)

// Mark is an element of a panel, in the units of the axes.
type Mark struct {
	Kind           Kind
	X0, X1, Y0, Y1 float64
	Points         [][2]float64
	Tone           Tone
	Form           Form
	Shape          Shape
	Small, Across  bool
	Tip            string // tooltip
	Text           string
	Brief          string // short form of Text, for a bar too narrow for it
	Place          Place
}

// Place is the position of a mark's text relative to the mark.
type Place int

// Places.
const (
	Inside Place = iota // in the middle of a bar, if it fits
	After               // right of the mark; the axis is extended to make room
	Near                // in free space around the mark
	Left                // above the mark, ending at it
)

// Shape is the form of a Dot.
type Shape int

// Shapes.
const (
	Circle Shape = iota
	Square
	Ring
)

// rowAxis returns the Y axis of a panel of rows.
func rowAxis(names []string) Axis { return Axis{Scale: Rows, Max: float64(len(names)), Names: names} }

// secondsAxis returns an axis of times in seconds, from 0 to the value most.
func secondsAxis(label string, most float64) Axis {
	unit, name := view.Scale(most)
	return Axis{Max: most, Unit: unit, Label: label + " (" + name + ")"}
}

// addRemark adds a text below the panels that only a standalone file shows.
func (f *Figure) addRemark(s string) { f.Remarks = append(f.Remarks, s) }

// addEntry adds an entry to the legend, once.
func (f *Figure) addEntry(e Entry) {
	if !slices.Contains(f.Legend, e) {
		f.Legend = append(f.Legend, e)
	}
}

func (f *Figure) addNote(s string) { f.Notes = append(f.Notes, s) }

const mostSpoken = 40 // with more tooltips, the description has none

// AltText returns the description with the texts of the tooltips, for readers who cannot see the chart.
func (f *Figure) AltText() string {
	var tips []string
	for i := range f.Panels {
		for p := &f.Panels[i]; p != nil; p = p.Side {
			for _, m := range p.Marks {
				if m.Tip != "" && m.Kind != Band {
					tips = append(tips, m.Tip)
				}
			}
		}
	}
	if len(tips) == 0 || len(tips) > mostSpoken {
		return f.Desc
	}
	return f.Desc + " " + view.Cut(strings.Join(tips, "; "), 2000) + "."
}
