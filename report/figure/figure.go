// Package figure holds every chart as marks over axes, independent of the
// format it is drawn in: builders make a Figure of a document, one layout turns
// it into shapes, and two backends draw those as SVG (in a page, or a file of its
// own) and as PNG. So the same figure has the same numbers everywhere.
package figure

// Figure is one chart: panels under a title and a legend.
type Figure struct {
	ID    string // "stages", "roofline": what --plot calls it
	Title string
	// Desc says in words what the chart shows, for readers who do not see it.
	Desc string
}
