package markdown

import (
	"fmt"
	"io"

	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// WriteTune writes what tuning found, or the table of claims.
func WriteTune(w io.Writer, r *tune.Result) error {
	if r == nil {
		return view.ErrNoRun("Markdown")
	}
	d := &doc{}
	if len(r.Claims) > 0 {
		d.claims(r)
	} else {
		d.tune(r)
	}
	_, err := io.WriteString(w, d.b.String())
	return err
}

func (d *doc) tune(r *tune.Result) {
	d.printf("## Tuning %s %s on %s\n\n", text(r.Workload), text(r.Preset), text(r.DeviceDoc))
	d.printf("Goal %s, %s of %s spent, %s.\n\n", text(string(r.Goal)), view.Seconds(r.SpentS), view.Seconds(r.BudgetS), text(string(r.Status)))
	if c := r.Conclusion; c.Text != "" {
		d.printf("**%s**\n\n", text(c.Text))
		if c.Command != "" {
			d.printf("%s\n\n", code(c.Command))
		}
		for _, l := range r.PeerLines() {
			d.printf("%s\n\n", text(l))
		}
		d.facts(r)
	}
	var rows [][]string
	for _, f := range r.Effects {
		rows = append(rows, d.effect(f))
	}
	if len(rows) > 0 {
		d.table(3, []string{"knob", "from", "to", string(r.Goal) + " ratio", r.IntervalText(), "error", "memory", "verdict"}, rows)
	}
	for _, c := range r.Curves {
		d.printf("### %s\n\n%s.\n\n", text(c.Knob), text(c.KneeText()))
		rows = nil
		for _, p := range c.Points {
			rows = append(rows, []string{p.Value, fmt.Sprintf("%.4g", p.Median), fmt.Sprintf("%.4g to %.4g", p.CI95[0], p.CI95[1])})
		}
		d.table(1, []string{c.Knob, c.Unit, "95 % interval"}, rows)
	}
	if len(r.Failed) > 0 {
		d.printf("### Not usable here\n\n")
		for _, f := range r.Failed {
			m := map[string]any{}
			for k, v := range f.Knobs {
				m[k] = v
			}
			d.printf("- %s: %s\n", text(view.Pairs(m)), text(f.Error))
		}
		d.printf("\n")
	}
}

// facts are the lines to change, the cost of the default, and what the
// recommendation costs beside its gain.
func (d *doc) facts(r *tune.Result) {
	rec := r.Recommended
	if rec != nil && len(rec.PyTorch) > 0 {
		for _, l := range rec.PyTorch {
			d.printf("- %s\n", code(l))
		}
		d.printf("\n")
	}
	if p := r.Default; p != nil && p.Median > 0 {
		d.printf("- default: %s (%s)\n", view.Cost(p.Median, r.Unit), view.PointInterval(p.CI95, r.Unit))
	}
	if rec != nil {
		if rec.Error > 0 {
			d.printf("- error: %.2g against float64\n", rec.Error)
		}
		if rec.MemoryRatio > 0 {
			d.printf("- memory: x%.2f of the default's peak\n", rec.MemoryRatio)
		}
		if t := rec.OneTimeText(); t != "" {
			d.printf("- paid once: %s\n", text(t))
		}
	}
	d.printf("\n")
}

func (*doc) effect(f tune.Effect) []string {
	row := []string{f.Knob, f.From, f.To, view.None, view.None, view.None, view.None, string(f.Verdict)}
	if f.Ratio > 0 {
		row[3], row[4] = fmt.Sprintf("%.3f", f.Ratio), fmt.Sprintf("%.3f to %.3f", f.CI95[0], f.CI95[1])
	}
	if f.Error > 0 {
		row[5] = fmt.Sprintf("%.1e", f.Error)
	}
	if f.MemoryRatio > 0 {
		row[6] = fmt.Sprintf("x%.2f", f.MemoryRatio)
	}
	return row
}

func (d *doc) claims(r *tune.Result) {
	d.printf("## Claims of tuning guides on %s\n\nA speedup of x2 is twice as fast.\n\n", text(r.DeviceDoc))
	var rows [][]string
	for _, c := range r.Claims {
		row := []string{c.ID, c.Claim, c.Figure, view.None, view.None, c.Verdict, c.Reason}
		if c.CI95 != [2]float64{} {
			row[3], row[4] = fmt.Sprintf("x%.3f", c.Measured), fmt.Sprintf("%.3f to %.3f", c.CI95[0], c.CI95[1])
			if c.What != "" {
				row[3] = fmt.Sprintf("%.1f %% (%s)", 100*c.Measured, c.What)
				row[4] = fmt.Sprintf("%.1f to %.1f %%", 100*c.CI95[0], 100*c.CI95[1])
			}
		}
		rows = append(rows, row)
	}
	d.table(3, []string{"id", "claim", "guide's figure", "measured", "95 % interval", "verdict", "why"}, rows)
}
