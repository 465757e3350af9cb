// Package figure holds every chart as marks over axes, independent of the
// format it is drawn in: builders make a Figure of a document, one layout turns
// it into shapes, and two backends draw those as SVG (in a page, or a file of its
// own) and as PNG. So the same figure has the same numbers everywhere.
//
// A new chart is a builder, and a line in the table of its document (kinds.go).
package figure

import (
	"strings"

	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Figure is one chart: panels under a title and a legend. Its figures are in base units; an axis has the divisor of its
// ticks.
type Figure struct {
	ID    string // what --plot calls it: "stages", "roofline"
	Title string
	// Desc describes the chart for readers who do not see it.
	Desc   string
	Legend []Entry
	Panels []Panel // from the top down
	Behind []Mark  // bands behind all panels, which share their X axis
	Notes  []string

	// A file of its own has these too: what the document is about, its device
	// and date, and remarks that a page makes elsewhere.
	Subject string
	Context []string
	Remarks []string
	Tool    string // the version that made the document

	// Lacks is the reason why the document cannot give this figure. Notice replaces the panels: the reason, or that the
	// run has no times.
	Lacks  string
	Notice string
}

// Empty reports whether there is nothing to draw.
func (f *Figure) Empty() bool { return len(f.Panels) == 0 }

// setLacking marks a figure that the document cannot give, with the reason.
func (f *Figure) setLacking(why string) *Figure {
	f.Panels, f.Legend = nil, nil
	f.Lacks, f.Notice = why, strings.ToUpper(why[:1])+why[1:]+"."
	return f
}

// Entry is one line of a legend.
type Entry struct {
	Text  string
	Tone  Tone
	Form  Form
	Dot   bool // a mark of Shape, not a swatch
	Shape Shape
}

// Panel is a pair of axes with marks on them.
type Panel struct {
	Name, Sub string   // left of it
	Title     string   // above it
	Right     []string // right of it, lines
	RowNotes  []string // right of each row of a Rows axis
	X, Y      Axis
	Height    float64 // of the plot area where there is room for it
	Marks     []Mark
	Side      *Panel // right of it, over the same Y axis
}

// Scale maps an axis's values to positions.
type Scale int

// Scales. Row i of Rows extends from i to i+1, the first one at the top.
const (
	Linear Scale = iota
	Log
	Rows
)

// Axis is the range of a panel in one direction.
type Axis struct {
	Scale    Scale
	Min, Max float64
	Unit     float64 // what ticks are divided by to print them; 0 is 1
	Label    string  // with the unit: "step time (ms)"
	Ticks    []Tick  // nil: round values
	Changes  bool    // a logarithmic axis of ratios: ticks as +5 % and x2
	Bare     bool    // no ticks and no line
	Names    []string
}

// Tick is a labelled place on an axis.
type Tick struct {
	At    float64
	Label string
}

// Kind is the drawn form of a mark.
type Kind int

// Kinds of marks.
const (
	Bar     Kind = iota // X0 to X1, Y0 to Y1
	Boxes               // many bars of one tone: Points are X0 Y0 X1 Y1 in pairs
	Line                // through Points; one that is not a number breaks it
	Area                // between Points and Y0
	Samples             // a small dot at each of Points
	Dot                 // at X0, Y0
	Range               // an interval from X0, Y0 to X1, Y1, one of them the same
	Rule                // across the panel: at X0, with its text away from Y0, or at Y0 where Across
	Band                // X0 to X1 over the whole height
	Flags               // a short mark at the top at the X of each of Points
	Label               // Text at X0, Y0
)

// Mark is one thing drawn in a panel, in the units of its axes.
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
	Brief          string // of Text, for a bar that it does not fit
	Place          Place
}

// Place is the position of a mark's text.
type Place int

// Places.
const (
	Inside Place = iota // in the middle of a bar, where it fits
	After               // right of the mark; the axis is stretched to hold it
	Near                // where there is room about it
	Left                // ends at the mark, above it
)

// Shape is the form of a Dot.
type Shape int

// Shapes.
const (
	Circle Shape = iota
	Square
	Ring
)

// rowAxis is the Y axis of a panel of rows.
func rowAxis(names []string) Axis { return Axis{Scale: Rows, Max: float64(len(names)), Names: names} }

// secondsAxis is an axis of times from zero up to most, in seconds.
func secondsAxis(label string, most float64) Axis {
	unit, name := view.Scale(most)
	return Axis{Max: most, Unit: unit, Label: label + " (" + name + ")"}
}

// addRemark adds a text below the panels of a file of its own.
func (f *Figure) addRemark(s string) { f.Remarks = append(f.Remarks, s) }

// addNote adds a text below the panels, in pages and in files.
func (f *Figure) addNote(s string) { f.Notes = append(f.Notes, s) }

const mostSpoken = 40 // marks that the description names

// Words is the description with the figures that tooltips hold, for readers who
// do not see the chart.
func (f *Figure) Words() string {
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
