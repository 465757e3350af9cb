package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Health builds the page of a machine's GPUs: a row per metric, a column per GPU, deviations, notes and verdict.
func Health(r *health.Report) (*Page, error) {
	if r == nil {
		return nil, view.ErrNoRun("a health report")
	}
	t, unknown := healthTable(r)
	off := List{Label: "off", Noun: "figure"}
	for _, o := range r.Off {
		seen := ""
		if !o.Evidence {
			seen = "not seen on the device"
		}
		off.Items = append(off.Items, Item{Text: o.Metric + " of " + r.Identity(o.Device) + offText(o), Tone: Bad, Lines: dropEmpty(Line{Label: "cause", Value: o.Cause, Note: seen}, Line{Label: "fix", Value: o.Fix})})
	}
	return &Page{Title: "Health of " + healthOf(r), Answer: r.Answer(), Tool: toolText(r.Tool), Data: jsonData("health.json", r), Sections: []Section{
		{ID: "off", Heading: "Slow or faulty", HeadingIn: Markdown | HTML, Blocks: []Block{off}},
		{ID: "figures", Heading: "Figures", HeadingIn: Markdown | HTML, Blocks: append([]Block{t}, unknown...)},
		{ID: "links", Heading: "Between the GPUs", HeadingIn: Markdown | HTML, Blocks: healthLinks(r)},
		{ID: "notes", Heading: "Notes", HeadingIn: Markdown | HTML, Blocks: []Block{listOf(List{Label: "note", Noun: "note"}, r.Notes)}},
	}}, nil
}

// healthOf returns the GPUs of a node with their number: "8 GPUs of node1". If the report covers all GPUs as one
// device, the text has no number.
func healthOf(r *health.Report) string {
	text := gpuprof.Plural(len(r.Devices), "GPU")
	if slices.ContainsFunc(r.Devices, func(c health.Card) bool { return c.Device == health.AllGPUs }) {
		text = "the GPUs"
	}
	if r.Node != "" {
		text += " of " + r.Node
	}
	return text
}

// sourcesRow counts, for each GPU, the sources of fault reports (such as the kernel log) that answered. ok is false if
// no source was asked on any GPU.
func sourcesRow(r *health.Report) (row Row, ok bool) {
	row = Row{Cells: []Cell{{Text: "fault sources"}}}
	for _, c := range r.Devices {
		answered := 0
		for _, s := range c.Sources {
			if s.Answer != health.Unanswered {
				answered++
			}
		}
		text := "not asked"
		if len(c.Sources) > 0 {
			ok, text = true, fmt.Sprintf("%d of %d answered", answered, len(c.Sources))
		}
		row.Cells = append(row.Cells, Cell{Text: text})
	}
	return row, ok
}

func healthTable(r *health.Report) (t Table, unknown []Block) {
	t = Table{Name: "Table of devices", Noun: "metric", Columns: []Column{{Title: "metric", Left: true}}}
	name := Row{Cells: []Cell{{Text: "device"}}}
	for _, c := range r.Devices {
		t.Columns = append(t.Columns, Column{Title: c.Device, Left: true})
		name.Cells = append(name.Cells, Cell{Text: cmp.Or(c.Name, "unknown")})
	}
	t.Rows = []Row{name}
	if row, ok := sourcesRow(r); ok {
		t.Rows = append(t.Rows, row)
	}
	for _, metric := range health.Names() {
		row, any, why := Row{Cells: []Cell{{Text: metric}}}, false, ""
		for i := range r.Devices {
			m, ok := r.Devices[i].Metric(metric)
			cell := Cell{Text: "unknown"}
			if ok {
				any, cell = true, Cell{Text: health.FormatFigure(float64(m.Value), health.Unit(metric)), Value: float64(m.Value), Unit: health.Unit(metric)}
			}
			if m.Why != "" {
				why = m.Why
			}
			row.Cells = append(row.Cells, cell)
		}
		if any || why != "" {
			t.Rows = append(t.Rows, row)
		}
		if why != "" {
			unknown = append(unknown, Text{S: metric + " is unknown: " + why})
		}
	}
	return t, unknown
}

// healthLinks returns the matrix of copy rates between GPUs, and the all-reduce.
func healthLinks(r *health.Report) (out []Block) {
	if len(r.Links) > 0 {
		t := Table{Name: "Table of links", Noun: "GPU", Caption: "Copies from the memory of the GPU in the row to that of the GPU in the column, one pair at a time. A rate with a star goes through the host's memory.",
			Columns: []Column{{Title: "from", Left: true}}}
		for _, c := range r.Devices {
			t.Columns = append(t.Columns, Column{Title: "to " + c.Device, Left: true})
		}
		var unknown []Block
		for _, from := range r.Devices {
			row := Row{Cells: []Cell{{Text: from.Device}}}
			for _, to := range r.Devices {
				row.Cells = append(row.Cells, linkCell(r.Links, from.Device, to.Device))
			}
			t.Rows = append(t.Rows, row)
		}
		for _, l := range r.Links {
			if l.Why != "" {
				unknown = append(unknown, Text{S: "the link from " + l.From + " to " + l.To + " is unknown: " + l.Why})
			}
		}
		out = append([]Block{t}, unknown...)
	}
	switch a := r.AllReduce; {
	case a == nil:
	case a.Why != "":
		out = append(out, Text{S: "the all-reduce is unknown: " + a.Why})
	default:
		out = append(out, Text{S: fmt.Sprintf("all-reduce of %s over %d GPUs with %s: %s, bus bandwidth %s", gpuprof.FormatBytes(float64(a.Bytes)), a.GPUs, a.Library,
			gpuprof.FormatSeconds(float64(a.TookS)), gpuprof.FormatSI(float64(a.BusPerS), "B/s"))})
	}
	return out
}

func linkCell(links []health.Link, from, to string) Cell {
	for _, l := range links {
		switch v := float64(l.BytesPerS); {
		case l.From != from || l.To != to:
		case !(v > 0):
			return Cell{Text: "unknown"}
		case l.Direct:
			return Cell{Text: health.FormatFigure(v, "B/s"), Value: v, Unit: "B/s"}
		default:
			return Cell{Text: health.FormatFigure(v, "B/s") + " *", Value: v, Unit: "B/s"}
		}
	}
	return Cell{Text: "-"}
}

// offText formats the figures of a deviation; "" if it has none.
func offText(o health.Off) string {
	if math.IsNaN(float64(o.Value)) {
		return ""
	}
	return fmt.Sprintf(": %s, %s %s (%s worse)", health.FormatFigure(float64(o.Value), o.Unit), o.Expectation(), health.FormatFigure(float64(o.Expected), o.Unit), gpuprof.FormatPercent(float64(o.Worse), 2))
}
