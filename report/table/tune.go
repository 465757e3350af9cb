package table

import (
	"fmt"
	"io"
	"strings"

	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Tune prints what tuning found: the recommendation with its command and the
// lines to change, a row a knob and value, curves, and what failed. A result
// of claims prints those.
func Tune(w io.Writer, r *tune.Result, o Options) error {
	if r == nil {
		return view.ErrNoRun("a table")
	}
	p := &printer{o: o}
	if len(r.Claims) > 0 {
		if err := p.claims(r); err != nil {
			return err
		}
		_, err := io.WriteString(w, p.b.String())
		return err
	}
	p.wrap("", fmt.Sprintf("tune %s %s on %s (%s) · goal %s · %s of %s spent · %s", r.Workload, r.Preset, r.Device, r.DeviceDoc, r.Goal,
		view.Seconds(r.SpentS), view.Seconds(r.BudgetS), r.Status))
	if r.Reason != "" {
		p.wrap("", p.paint(yellow, string(r.Status)+": "+view.Cut(r.Reason, 200)))
	}
	p.blank()
	p.recommended(r)
	if !o.Quiet {
		if err := p.effects(r); err != nil {
			return err
		}
		if err := p.tuneCurves(r); err != nil {
			return err
		}
		p.tuneFailed(r)
	}
	_, err := io.WriteString(w, p.b.String())
	return err
}

func (p *printer) recommended(r *tune.Result) {
	rec, c := r.Recommended, r.Conclusion
	head, command := "recommended  ", "command      "
	switch {
	case c.Text == "":
		p.wrap("", "nothing is recommended yet; go on with --resume")
		return
	case rec == nil:
		head, command = "conclusion   ", "the default  "
	}
	p.wrap(head, c.Text)
	if c.Command != "" {
		p.wrap(command, c.Command)
	}
	if r.Default != nil && r.Default.Median > 0 {
		p.wrap("default      ", view.Cost(r.Default.Median, r.Unit)+" ("+view.PointInterval(r.Default.CI95, r.Unit)+")")
	}
	for _, t := range r.PeerLines() {
		p.wrap("beside it    ", view.Cut(t, 300))
	}
	if rec == nil {
		return
	}
	for i, l := range rec.PyTorch {
		head := "in PyTorch   "
		if i > 0 {
			head = "             "
		}
		p.line(head + l)
	}
	if rec.Error > 0 {
		p.wrap("error        ", fmt.Sprintf("%.2g against float64", rec.Error))
	}
	if rec.TimeRatio > 0 && r.Goal != tune.Time && r.Goal != tune.Throughput {
		p.wrap("time         ", fmt.Sprintf("x%.3f of the default's", rec.TimeRatio))
	}
	if rec.MemoryRatio > 0 {
		p.wrap("memory       ", fmt.Sprintf("x%.2f of the default's peak", rec.MemoryRatio))
	}
	if t := rec.OneTimeText(); t != "" {
		p.wrap("paid once    ", view.Cut(t, 300))
	}
}

// effects is a row a knob and value.
func (p *printer) effects(r *tune.Result) error {
	if len(r.Effects) == 0 {
		return nil
	}
	p.blank()
	cols := []column{{title: "knob", left: true}, {title: "from"}, {title: "to"}, {title: string(r.Goal) + " x"}, {title: r.IntervalText()},
		{title: "error", drop: 2}, {title: "memory x", drop: 3}, {title: "verdict", left: true}}
	var colors []string
	var notes []string
	for _, f := range r.Effects {
		for i, cell := range EffectCells(f) {
			cols[i].cells = append(cols[i].cells, view.Cut(cell, 24))
		}
		color := plain
		switch {
		case f.Verdict.Better():
			color = green
		case f.Verdict == tune.Slower || f.Verdict == tune.More || f.Verdict == tune.Failed:
			color = red
		case f.Verdict == tune.Inconclusive || f.Verdict == tune.Refused:
			color = yellow
		}
		colors = append(colors, color)
		if f.Reason != "" && f.Verdict == tune.Inconclusive {
			notes = append(notes, f.Knob+"="+f.To)
		}
	}
	if err := p.grid(cols, colors); err != nil {
		return err
	}
	if len(notes) > 0 {
		p.wrap("", "no time was left for "+strings.Join(notes, ", ")+"; give more with --budget")
	}
	return nil
}

// EffectCells are the cells of one knob's row: knob, from, to, ratio,
// interval, error, memory, verdict.
func EffectCells(f tune.Effect) []string {
	cells := []string{f.Knob, f.From, f.To, view.None, view.None, view.None, view.None, string(f.Verdict)}
	if f.Ratio > 0 {
		cells[3], cells[4] = fmt.Sprintf("%.3f", f.Ratio), fmt.Sprintf("%.3f-%.3f", f.CI95[0], f.CI95[1])
	}
	if f.Error > 0 {
		cells[5] = fmt.Sprintf("%.1e", f.Error)
	}
	if f.MemoryRatio > 0 {
		cells[6] = fmt.Sprintf("%.2f", f.MemoryRatio)
	}
	return cells
}

func (p *printer) tuneCurves(r *tune.Result) error {
	for _, c := range r.Curves {
		p.blank()
		p.wrap("", c.Knob+": "+c.KneeText())
		cols := []column{{title: c.Knob}, {title: c.Unit}, {title: "95 %"}, {title: "", left: true}}
		for _, pt := range c.Points {
			mark := ""
			if pt.Value == c.Knee {
				mark = "<- knee"
			}
			number := func(v float64) string {
				return strings.TrimSuffix(view.Cost(v, c.Unit), strings.TrimPrefix(c.Unit, "s"))
			}
			for i, cell := range []string{pt.Value, number(pt.Median), view.Interval(pt.CI95, number), mark} {
				cols[i].cells = append(cols[i].cells, cell)
			}
		}
		if err := p.grid(cols, nil); err != nil {
			return err
		}
	}
	return nil
}

func (p *printer) tuneFailed(r *tune.Result) {
	if len(r.Failed) == 0 {
		return
	}
	p.blank()
	p.wrap("", "not usable here")
	for _, f := range r.Failed {
		p.wrap("  "+FailedKnobs(f)+": ", view.Cut(f.Error, 300))
	}
}

// FailedKnobs names the setting of a failure.
func FailedKnobs(f tune.Failure) string {
	m := map[string]any{}
	for k, v := range f.Knobs {
		m[k] = v
	}
	return view.Cut(view.Pairs(m), 60)
}

// claims prints the table of guides' rules: measured ones first, in order.
func (p *printer) claims(r *tune.Result) error {
	p.wrap("", fmt.Sprintf("claims of tuning guides, measured on %s (%s); a speedup of x2 is twice as fast", r.Device, r.DeviceDoc))
	if r.Reason != "" {
		p.wrap("", p.paint(yellow, string(r.Status)+": "+view.Cut(r.Reason, 200)))
	}
	p.blank()
	cols := []column{{title: "id", left: true}, {title: "guide's figure", left: true, drop: 1}, {title: "measured"}, {title: "95 %"}, {title: "verdict", left: true}}
	for _, c := range r.Claims {
		for i, cell := range ClaimCells(c) {
			cols[i].cells = append(cols[i].cells, view.Cut(cell, 34))
		}
	}
	if err := p.grid(cols, nil); err != nil {
		return err
	}
	if p.o.Quiet {
		return nil
	}
	for _, c := range r.Claims {
		p.blank()
		p.wrap(c.ID+"  ", c.Claim+" ("+c.Guide+")")
		for _, t := range append([]string{c.AB, c.Reason}, c.Details...) {
			if t != "" {
				p.wrap("    ", view.Cut(t, 400))
			}
		}
	}
	return nil
}

// ClaimCells are the cells of one claim's row: id, figure, measured, interval,
// verdict.
func ClaimCells(c tune.ClaimRow) []string {
	cells := []string{c.ID, c.Figure, view.None, view.None, c.Verdict}
	if c.CI95 != [2]float64{} {
		if c.What == "" {
			cells[2], cells[3] = fmt.Sprintf("x%.3f", c.Measured), fmt.Sprintf("%.3f-%.3f", c.CI95[0], c.CI95[1])
		} else {
			cells[2], cells[3] = fmt.Sprintf("%.1f %%", 100*c.Measured), fmt.Sprintf("%.1f-%.1f %%", 100*c.CI95[0], 100*c.CI95[1])
		}
	}
	return cells
}
