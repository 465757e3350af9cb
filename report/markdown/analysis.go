package markdown

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

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
	if m := trace.MedianStep(a); m > 0 {
		d.printf("Median step %s (%s).\n\n", ns(m), text(a.StepSource))
	}
	var rows [][]string
	for _, dev := range a.Devices {
		rows = append(rows, []string{fmt.Sprint(dev.ID), view.Clean(dev.Name, 60), ns(dev.SpanNS), share(dev.BusyNS, dev.SpanNS), share(dev.StarvedNS, dev.SpanNS),
			share(dev.QueuedNS, dev.SpanNS), share(dev.UnknownNS, dev.SpanNS), fmt.Sprint(dev.Kernels)})
	}
	if len(rows) > 0 {
		d.table(2, []string{"device", "name", "span", "busy", "starved", "queued", "unknown", "kernels"}, rows)
	}
	d.findings(a)
	d.traceWarnings(a.Warnings)
	_, err := io.WriteString(w, d.b.String())
	return err
}

func (d *doc) findings(a *trace.Analysis) {
	if len(a.Findings) == 0 {
		d.printf("No finding: no rule saw time that could be won back.\n\n")
	}
	for i, f := range a.Findings {
		d.printf("%d. **%s** %s: %s\n", i+1, text(string(f.Severity)), text(f.Rule), text(f.Title))
		if f.Knob != "" {
			d.printf("   - change: %s\n", code(f.Knob))
		}
		if f.Command != "" {
			d.printf("   - measure: %s\n", code(f.Command))
		}
		for _, s := range f.Sites {
			d.printf("   - at %s, %s, %s\n", code(s.Where), view.Plural(s.Count, "time"), ns(s.NS))
		}
		for _, c := range f.Caveats {
			d.printf("   - but %s\n", text(c))
		}
	}
	d.printf("\n")
}

func (d *doc) traceWarnings(ws []trace.Warning) {
	for _, w := range ws {
		d.printf("- **warning** %s\n", text(w.Text))
	}
	if len(ws) > 0 {
		d.printf("\n")
	}
}

// WriteComparison writes what changed between two analyses of one program.
func WriteComparison(w io.Writer, c *trace.Comparison) error {
	d := &doc{}
	d.printf("## A step took %s and takes %s\n\n", ns(c.StepOldNS), ns(c.StepNewNS))
	for _, part := range []struct {
		title   string
		changes []trace.Change
	}{{"class", c.Classes}, {"operator", c.Operators}} {
		var rows [][]string
		for _, ch := range part.changes[:min(len(part.changes), 20)] {
			rows = append(rows, []string{view.Clean(ch.Name, 80), ns(ch.OldNS), ns(ch.NewNS), ns(ch.NewNS - ch.OldNS)})
		}
		if len(rows) > 0 {
			d.table(1, []string{part.title, "before, a step", "after", "change"}, rows)
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
