package page

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Tune builds the page of a tuning: the recommendation with its command and lines to change, a row per knob and value,
// curves, and failures. If the result has tested claims of tuning guides, the page shows the claims instead.
func Tune(r *tune.Result) (*Page, error) {
	if r == nil {
		return nil, view.ErrNoRun("a tuning result")
	}
	p := &Page{Title: tuneTitle(r), Meta: tuneMeta(r), Date: view.Date(r.Started), Answer: r.Answer(), Footer: "A setting is recommended only if fresh processes confirmed it.", Tool: toolText(r.Tool), Data: jsonData("tune.json", r)}
	switch {
	case r.Program != nil:
		p.Footer = "A set of settings is recommended only if a gate confirmed it in fresh processes with the same training."
		p.Sections = tunedProgram(r)
		return p.addExplanations()
	case len(r.Claims) > 0:
		p.Sections = claimSections(r)
	default:
		p.Sections = append([]Section{conclusionSection(r), effectSection(r)}, curveSections(r)...)
	}
	p.Sections = append(p.Sections, notUsable(r), Section{ID: "search", Heading: "Method", In: HTML, Blocks: []Block{searchFacts(r)}})
	return p.addExplanations()
}

func tuneTitle(r *tune.Result) string {
	if r.Program != nil && len(r.Claims) > 0 {
		return "Claims of tuning guides on " + r.Program.CommandText()
	}
	if r.Program != nil {
		return "Tuning " + r.Program.CommandText()
	}
	if len(r.Claims) > 0 || r.Workload == "" {
		return "Claims of tuning guides"
	}
	return strings.TrimSpace("Tuning " + r.Workload + " " + r.Preset)
}

func tuneMeta(r *tune.Result) []string {
	if r.Program != nil {
		return programMeta(r)
	}
	device := r.DeviceDoc
	if r.Device != "" && r.Device != r.DeviceDoc {
		device = strings.TrimSpace(device + " [" + r.Device + "]")
	}
	out := []string{device}
	if len(r.Claims) == 0 && r.Goal != "" {
		out = append(out, "goal "+string(r.Goal))
	}
	return append(out, fmt.Sprintf("%s of %s spent", gpuprof.FormatSeconds(r.SpentS), gpuprof.FormatSeconds(r.BudgetS)))
}

// conclusionSection states the result of the search, and the recommendation's gain and cost.
func conclusionSection(r *tune.Result) Section {
	s := Section{ID: "recommended", Heading: "Conclusion", HeadingIn: HTML}
	rec, c := r.Recommended, r.Conclusion
	if c.Text == "" {
		return s
	}
	facts := Lines{}
	if rec == nil { // with a recommendation, the answer states the conclusion and the command
		facts.Lines = dropEmpty(Line{Label: "conclusion", Value: c.Text}, Line{Label: "the default", Value: c.Command, Code: true})
	}
	add := func(label, value, note string) {
		facts.Lines = append(facts.Lines, dropEmpty(Line{Label: label, Value: value, Note: note})...)
	}
	if rec != nil {
		for _, l := range rec.PyTorch {
			facts.Lines = append(facts.Lines, Line{Label: "in PyTorch", Value: l, Code: true})
		}
	}
	if d := r.Default; d != nil && gpuprof.IsFinite(d.Median) && d.Median > 0 {
		note := view.PointInterval(d.CI95, r.Unit)
		if d.CI95 != [2]float64{} {
			note = "95 % " + note
		}
		add("default", view.Cost(d.Median, r.Unit), note)
	}
	if r.Rate > 0 {
		add("rate", strconv.FormatFloat(r.Rate, 'g', 4, 64)+" requests/s", "of every measurement; p99 counts every scheduled request")
	}
	if late, blocks := r.SenderLate(); late > 0 {
		add("sender late", fmt.Sprintf("in %d of %d blocks", late, blocks), "their p99 measures the sender: measure again with less else running, or at a lower rate")
	}
	for _, t := range r.PeerLines() {
		add("beside it", t, "")
	}
	if rec != nil {
		add("error", formatPositive(rec.Error, "%.2g"), "relative, against float64")
		if r.Goal != tune.Time && r.Goal != tune.Throughput {
			add("time", formatPositive(rec.TimeRatio, "x%.3f"), "of the default's")
		}
		add("memory", formatPositive(rec.MemoryRatio, "x%.2f"), "of the default's peak")
		once, saved, _ := strings.Cut(rec.OneTimeText(), "; ")
		add("paid once", once, saved)
	}
	s.Blocks = append(s.Blocks, facts)
	return s
}

// formatPositive formats a measured figure; "" if it is not positive.
func formatPositive(v float64, format string) string {
	if v > 0 && gpuprof.IsFinite(v) {
		return fmt.Sprintf(format, v)
	}
	return ""
}

func ratioCells(ratio float64, ci [2]float64) [2]Cell {
	if !(ratio > 0) || !gpuprof.IsFinite(ratio) {
		return [2]Cell{{}, {}}
	}
	return [2]Cell{amountCell(gpuprof.FormatRatio(ratio), ratio, "1"), intervalCell(view.Interval(ci, gpuprof.FormatFactor))}
}

// intervalCell formats an interval: "1.1 to 1.2", on a narrow terminal "1.1-1.2".
func intervalCell(text string) Cell {
	return Cell{Text: text, Narrow: strings.Replace(text, " to ", "-", 1)}
}

// effectSection has a row per knob and value.
func effectSection(r *tune.Result) Section {
	goal := string(r.Goal)
	t := Table{Name: "Table of effects", Noun: "setting", Caption: "Error is the largest relative error against float64, memory the peak over that of the default.",
		Columns: append(numberColumns("knob", "from", "to", goal+" ratio", r.IntervalText()), Column{Title: "error", Drop: 2}, Column{Title: "memory", Drop: 3}, Column{Title: "verdict", Left: true},
			Column{Title: "reason, or PyTorch line", Remark: true, Left: true, In: HTML})}
	t.Columns[4].Narrow = "95 %"
	var starved []string
	for _, f := range r.Effects {
		ratio := ratioCells(f.Ratio, f.CI95)
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: f.Knob}, {Text: f.From}, {Text: f.To}, ratio[0], ratio[1],
			measuredCell(formatPositive(f.Error, "%.1e"), f.Error), measuredCell(formatPositive(f.MemoryRatio, "x%.2f"), f.MemoryRatio),
			{Text: string(f.Verdict), Tone: ToneOf(f.Verdict.Tone())}, {Text: cmp.Or(f.Reason, f.PyTorch, view.None)}}})
		if f.Reason != "" && f.Verdict == tune.Inconclusive {
			starved = append(starved, f.Knob+"="+f.To)
		}
	}
	s := Section{ID: "effects-of-knobs", Heading: "Effect of each knob", Blocks: []Block{Chart{ID: "effects", Narrow: true, Figure: func() *figure.Figure { return figure.KnobEffects(r) },
		Note: "One knob turned by itself, measured in turns with the default: " + goal + " of the setting over that of the default, with its interval. Settings that were taken to fresh processes come first, with the interval that decides."}, t}}
	if len(starved) > 0 {
		s.Blocks = append(s.Blocks, Text{S: "No time was left for " + strings.Join(starved, ", ") + "; give more with --budget.", In: Terminal | Markdown})
	}
	return s
}

func measuredCell(text string, v float64) Cell {
	if text == "" {
		return Cell{}
	}
	return Cell{Text: text, Value: v, Unit: "1"}
}

func curveSections(r *tune.Result) (out []Section) {
	for i, c := range r.Curves {
		knob, id := c.Knob, fmt.Sprintf("curve%d", i)
		base, work, _ := strings.Cut(c.Unit, " per ")
		t := Table{Name: "Table of the curve over " + knob, Noun: "point", Columns: []Column{{Title: knob}, {Title: "cost"}, {Title: "95 % interval"}, {Left: true}}}
		if work != "" {
			t.Columns[1].Title = "cost per " + work
		}
		cost := func(v float64) string { return view.Cost(v, base) }
		interval := func(ci [2]float64) string {
			if ci == [2]float64{} {
				return view.None
			}
			return view.Interval(ci, cost)
		}
		for _, p := range c.Points {
			mark := ""
			if p.Value == c.Knee {
				mark = "knee"
			}
			t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: p.Value}, {Text: cost(p.Median), Value: p.Median, Unit: c.Unit}, {Text: interval(p.CI95)}, {Text: mark}}})
		}
		out = append(out, Section{ID: id, Heading: "Scaling over " + knob, In: Verbose, Blocks: []Block{Text{S: knob + ": " + c.KneeText() + "."},
			Chart{ID: id + "-chart", Narrow: true, Figure: func() *figure.Figure { return figure.Curve(r, i) }}, t}})
	}
	return out
}

func notUsable(r *tune.Result) Section {
	out := List{Noun: "setting"}
	for _, f := range r.Failed {
		out.Items = append(out.Items, Item{Label: cmp.Or(view.Pairs(f.Knobs), "the default"), Text: f.Error})
	}
	return Section{ID: "failed", Heading: "Not usable here", HeadingIn: Terminal | Markdown | HTML, Blocks: []Block{out}}
}

// searchFacts describes the method of the search.
func searchFacts(r *tune.Result) Block {
	memory := ""
	if r.MaxMemory > 0 {
		memory = gpuprof.FormatBytes(float64(r.MaxMemory))
	}
	return Lines{Lines: dropEmpty(Line{Label: "device", Value: r.DeviceDoc}, Line{Label: "driver", Value: r.Driver}, Line{Label: "fixed", Value: view.Pairs(r.Set)},
		Line{Label: "turned only", Value: strings.Join(r.Only, ", ")}, Line{Label: "error limit", Value: formatPositive(r.MaxError, "%.2g"), Note: "relative, against float64"},
		Line{Label: "memory limit", Value: memory}, Line{Label: "seed", Value: fmt.Sprint(r.Seed)}, Line{Label: "measurements", Value: fmt.Sprint(len(r.Journal))})}
}
