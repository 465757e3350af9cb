package page

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// tunedProgram returns the sections of a tuning of the user's own program.
func tunedProgram(r *tune.Result) []Section {
	first := []Section{programConclusion(r), settingSection(r)}
	if len(r.Claims) > 0 {
		first = claimSections(r)
	}
	return append(first, claimedSection(r.Program), leftOut(r.Program), notUsable(r),
		Section{ID: "search", Heading: "Method", In: HTML, Blocks: []Block{programFacts(r)}})
}

// claimedSection compares the claims of the recording's findings with measured gains.
func claimedSection(p *tune.Program) Section {
	if len(p.Findings) == 0 {
		return Section{}
	}
	t := Table{Name: "Table of findings", Noun: "finding",
		Caption: "A finding's claim is the largest speedup that it allows; the gain was measured with the setting that removes its cause.",
		Columns: append(numberColumns("finding", "setting", "claim", "times faster", "95 %"),
			Column{Title: "verdict", Left: true})}
	for _, f := range p.Findings {
		gain := ratioCells(f.Gain, f.CI95)
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: f.Rule}, {Text: f.Setting},
			measuredCell(formatPositive(f.Claim, "x%.2f"), f.Claim),
			gain[0], gain[1], {Text: string(f.Verdict)}}})
	}
	return Section{ID: "claims-and-gains", Heading: "Claims and gains", HeadingIn: Terminal | Markdown | HTML,
		Blocks: []Block{t}}
}

func programMeta(r *tune.Result) []string {
	p := r.Program
	out := []string{gpuprof.Plural(p.CPUs, "CPU")}
	if p.Device != "" && p.Device != "cpu" {
		out = append(out, p.Device)
	}
	return append(out, gpuprof.Plural(len(p.Runs), "run"), fmt.Sprintf("%s of %s spent", gpuprof.FormatSeconds(r.SpentS), gpuprof.FormatSeconds(r.BudgetS)))
}

// programConclusion states the result of the search, with the lines to change.
func programConclusion(r *tune.Result) Section {
	s := Section{ID: "recommended", Heading: "Conclusion", HeadingIn: HTML}
	facts := Lines{}
	add := func(label, value, note string, code bool) {
		facts.Lines = append(facts.Lines, dropEmpty(Line{Label: label, Value: value, Note: note, Code: code})...)
	}
	if rec := r.Recommended; rec != nil {
		for _, l := range r.Program.Patch {
			add("change", l, "", true)
		}
	} else {
		add("conclusion", r.Conclusion.Text, "", false)
		add("command", cmp.Or(r.Conclusion.Command, r.Program.CommandText()), "", true)
	}
	if d := r.Default; d != nil && gpuprof.IsFinite(d.Median) && d.Median > 0 {
		note := ""
		if d.CI95 != [2]float64{} {
			note = "95 % " + view.PointInterval(d.CI95, r.Unit)
		}
		add("as it is", view.Cost(d.Median, r.Unit), note, false)
	}
	add("its energy", perStep(r.Program.Joules), "", false)
	if r.Program.Device == "cuda" {
		facts.Lines = append(facts.Lines, dropEmpty(energyUnknown(r.Program))...)
	}
	add("its losses", r.Program.Losses.Text(), unchangedLosses(r.Program), false)
	if rec := r.Recommended; rec != nil {
		add("memory", formatPositive(rec.MemoryRatio, "x%.2f"), "of the peak of the program as it is", false)
		add("energy", formatPositive(rec.EnergyRatio, "x%.2f"), "of the program as it is: "+perStep(rec.Joules), false)
		add("paid once", rec.OneTimeText(), "", false)
	}
	s.Blocks = append(s.Blocks, facts)
	return s
}

// energyUnknown states why no energy is shown; an empty line if it is known.
func energyUnknown(p *tune.Program) Line {
	if p.EnergyUnknown == "" {
		return Line{}
	}
	return Line{Label: "its energy", Value: "unknown", Note: p.EnergyUnknown}
}

// perStep formats joules as a figure per step; "" if they are unknown.
func perStep(joules float64) string {
	if text := joulesCell(joules).Text; text != "" {
		return text + " per step"
	}
	return ""
}

// unchangedLosses describes how well the losses of two runs of the unchanged program agree.
func unchangedLosses(p *tune.Program) string {
	switch p.Losses.Verdict {
	case tune.NotChecked:
		return "no value was handed to backward"
	case tune.Incomparable:
		return "runs of the program as it is differ: seed it to have its losses compared"
	}
	return fmt.Sprintf("between runs of the program as it is, %s each", gpuprof.Plural(p.Losses.Compared, "value"))
}

// settingSection has a row per setting that applies to the program.
func settingSection(r *tune.Result) Section {
	t := Table{Name: "Table of settings", Noun: "setting", Caption: "Times faster are against the program as it is, measured next to it; losses are compared with its own, memory is the peak over that of the program as it is.",
		Columns: append(numberColumns("setting", "from", "to", "times faster", "95 %"), Column{Title: "losses", Left: true}, Column{Title: "memory", Drop: 3}, Column{Title: "CPU time", Drop: 2},
			Column{Title: "verdict", Left: true}, Column{Title: "line, or reason", Remark: true, Left: true, In: Verbose | HTML | Markdown})}
	energy := slices.ContainsFunc(r.Effects, func(f tune.Effect) bool { return f.Joules > 0 })
	if energy {
		t.Columns = slices.Insert(t.Columns, energyAt, Column{Title: "energy per step", Drop: 4})
	}
	for _, f := range r.Effects {
		ratio := ratioCells(f.Ratio, f.CI95)
		if f.Ratio > 0 && f.CI95 == [2]float64{} {
			ratio[1] = Cell{}
		}
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: f.Knob}, {Text: f.From}, {Text: f.To}, ratio[0], ratio[1],
			{Text: f.Losses.Text(), Tone: lossTone(f.Losses)}, measuredCell(formatPositive(f.MemoryRatio, "x%.2f"), f.MemoryRatio), measuredCell(formatPositive(f.CPURatio, "x%.2f"), f.CPURatio),
			{Text: string(f.Verdict), Tone: ToneOf(f.Verdict.Tone())}, {Text: cmp.Or(f.Reason, f.PyTorch, view.None)}}})
		if last := &t.Rows[len(t.Rows)-1]; energy {
			last.Cells = slices.Insert(last.Cells, energyAt, joulesCell(f.Joules))
		}
	}
	chart := Chart{ID: "effects", Narrow: true, Figure: func() *figure.Figure { return figure.KnobEffects(r) },
		Note: "One setting by itself, each run between two of the program as it is. Sets that were taken to a gate in fresh processes come first."}
	return Section{ID: "effects-of-knobs", Heading: "Effect of each setting", Blocks: []Block{chart, t}}
}

// energyAt is the position of the energy column in tables that have one.
const energyAt = 8

func joulesCell(joules float64) Cell {
	if !(joules > 0) || !gpuprof.IsFinite(joules) {
		return Cell{}
	}
	return amountCell(gpuprof.FormatSI(joules, "J"), joules, "J")
}

func lossTone(l *tune.LossCheck) Tone {
	switch {
	case l == nil:
		return Plain
	case l.Verdict == tune.SameBits || l.Verdict == tune.Within:
		return Good
	case l.Verdict == tune.Changed:
		return Bad
	}
	return Unsure
}

func leftOut(p *tune.Program) Section {
	out := List{Noun: "setting"}
	for _, l := range p.Left {
		out.Items = append(out.Items, Item{Label: l.Setting, Text: l.Reason})
	}
	return Section{ID: "left-out", Heading: "Settings that do not apply", HeadingIn: Terminal | Markdown | HTML, In: Verbose | Markdown | HTML, Blocks: []Block{out}}
}

// programFacts describes the method of the search.
func programFacts(r *tune.Result) Block {
	p := r.Program
	steps := ""
	if p.Steps > 0 {
		steps = fmt.Sprintf("%d in each run, after %d that are left out", p.Steps, p.Warm)
	}
	folder := "the working folder itself"
	if p.Copied {
		folder = "a copy of the working folder, restored before each run"
	}
	epoch, threads := "", ""
	if p.Epoch > 0 {
		epoch = gpuprof.Plural(p.Epoch, "step")
	}
	if p.Threads > 0 {
		threads = fmt.Sprint(p.Threads)
	}
	return Lines{Lines: dropEmpty(Line{Label: "command", Value: p.CommandText(), Code: true}, Line{Label: "steps", Value: steps}, Line{Label: "epoch", Value: epoch},
		Line{Label: "threads", Value: threads}, Line{Label: "noise", Value: view.Percent(p.Noise), Note: "between two runs of the program as it is"}, Line{Label: "folder", Value: folder},
		energyUnknown(p),
		Line{Label: "loss limit", Value: formatPositive(r.MaxError, "%.2g"), Note: "of the first loss"}, Line{Label: "runs", Value: fmt.Sprint(len(p.Runs))})}
}
