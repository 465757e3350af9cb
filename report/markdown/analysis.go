package markdown

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

func ns(v int64) string { return view.Seconds(float64(v) * 1e-9) }

func share(part, whole int64) string {
	if whole <= 0 || part == 0 {
		return view.None
	}
	return view.Percent(float64(part) / float64(whole))
}

// WriteAnalysis writes what a trace says: devices, then findings, all of them.
func WriteAnalysis(w io.Writer, a *trace.Analysis) error {
	d := &doc{}
	var names []string
	for _, in := range a.Inputs {
		names = append(names, filepath.Base(in.Path))
	}
	d.printf("## %s\n\n", text(strings.Join(names, ", ")))
	d.printf("%s\n\n", text(stepText(a)))
	title := stepTitle(a)
	var rows [][]string
	for _, dev := range a.Devices {
		row := []string{fmt.Sprint(dev.ID), view.Cut(dev.Name, 60), ns(dev.Step.Total()), share(dev.Step.BusyNS, dev.Step.Total())}
		for _, part := range dev.Step.Idle() {
			row = append(row, share(part.NS, dev.Step.Total()))
		}
		rows = append(rows, append(row, fmt.Sprint(dev.Kernels)))
	}
	if len(rows) > 0 {
		d.table(2, []string{"device", "name", title, "busy", "starved", "queued", "unknown", "outside", "kernels"}, rows)
	}
	rows = nil
	for _, part := range a.Step.Shown(0) {
		rows = append(rows, []string{part.Name, ns(part.NS), share(part.NS, a.Step.NS), view.Cut(a.Most(part), 80)})
	}
	if len(rows) > 0 && len(a.Devices) > 0 {
		d.table(1, []string{"of the " + title, "time", "share", "most of it"}, rows)
	}
	for _, e := range a.Explained {
		d.printf("%s\n\n", text(e.Text))
	}
	d.findings(a)
	d.traceWarnings(a.Warnings)
	_, err := io.WriteString(w, d.b.String())
	return err
}

// stepText says how long the mean step is, of how many steps.
func stepText(a *trace.Analysis) string {
	if a.Step.Count == 0 {
		return "Recording window " + ns(a.Step.NS) + " (no steps found)."
	}
	return fmt.Sprintf("Mean step %s (%s to %s), %s (%s).", ns(a.Step.NS), ns(a.Step.MinNS), ns(a.Step.MaxNS), view.Plural(a.Step.Count, "step"), a.StepSource)
}

func stepTitle(a *trace.Analysis) string {
	if a.Step.Count == 0 {
		return "window"
	}
	return "mean step"
}

func (d *doc) findings(a *trace.Analysis) {
	if a.Bound.Nothing {
		d.printf("%s\n\n", text(a.Bound.Text))
	}
	for i, f := range a.Findings {
		d.printf("%d. **%s** %s: %s\n", i+1, text(string(f.Severity)), text(f.Rule), text(f.Title))
		if f.PyTorch != "" {
			d.printf("   - change: %s\n", code(f.PyTorch))
		}
		if f.Command != "" {
			d.printf("   - measure: %s\n", code(f.Command))
		}
		for _, s := range f.Sites {
			d.printf("   - at %s, %s, %s in all\n", code(s.Where), view.Plural(int(s.Count), "time"), ns(s.NS))
		}
		for _, c := range f.Caveats {
			d.printf("   - but %s\n", text(c))
		}
	}
	d.printf("\n")
}

func (d *doc) traceWarnings(ws []gpuprof.Warning) {
	for _, w := range ws {
		d.printf("- **warning** %s\n", text(w.Sentence()))
	}
	if len(ws) > 0 {
		d.printf("\n")
	}
}

// sentence begins with a capital.
func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// WriteComparison writes what changed between two analyses of one program.
func WriteComparison(w io.Writer, c *trace.Comparison) error {
	d := &doc{}
	d.printf("## %s\n\n", text(sentence(c.Headline(ns))))
	for _, part := range []struct {
		title   string
		changes []trace.Change
	}{{"of the " + stepTitle(c.New), c.Classes}, {"operator, " + c.New.PerStep(), c.Operators}} {
		var rows [][]string
		for _, ch := range part.changes[:min(len(part.changes), 20)] {
			rows = append(rows, []string{view.Cut(ch.Name, 80), ns(ch.OldNS), ns(ch.NewNS), ns(ch.NewNS - ch.OldNS)})
		}
		if len(rows) > 0 {
			d.table(1, []string{part.title, "before", "after", "change"}, rows)
		}
	}
	for _, f := range c.Findings {
		d.printf("- **%s**, %s: %s\n", text(f.Rule), text(f.Outcome), text(f.Statement))
	}
	d.printf("\n")
	d.traceWarnings(c.Warnings)
	_, err := io.WriteString(w, d.b.String())
	return err
}
