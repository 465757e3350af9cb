// Package markdown writes runs as GitHub-flavoured Markdown: what a comment
// on a change or a page of a wiki shows. It is a pure function of the runs.
package markdown

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Write writes one run, or a sweep as one table followed by each run.
func Write(w io.Writer, runs []*gpuprof.Run) error {
	runs = view.Compact(runs)
	if len(runs) == 0 {
		return view.ErrNoRun("Markdown")
	}
	d := &doc{}
	if len(runs) == 1 {
		d.run(runs[0], "##", view.Subject(runs[0])+" on "+view.DeviceName(runs[0]))
	} else {
		d.sweep(runs)
	}
	_, err := io.WriteString(w, d.b.String())
	return err
}

type doc struct{ b strings.Builder }

func (d *doc) printf(format string, args ...any) { fmt.Fprintf(&d.b, format, args...) }

// special are the characters that mean something to Markdown inside a line, or
// to GitHub: mathematics, users, issues, links.
var special = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `\`, `\\`, "`", "&#96;", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "|", `\|`, "~", `\~`, "$", `\$`,
	"@", "@\u200b", "#", "\\#\u200b", "://", ":\u200b//", "www.", "www\u200b.")

// mention keeps what stands in HTML, where Markdown's marks mean nothing, from
// being a user, an issue or a link.
var mention = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "@\u200b", "#", "#\u200b", "://", ":\u200b//", "www.", "www\u200b.")

// text makes foreign text inert: no markup, no HTML, no table cell, no link
// and no mention of a user or an issue.
func text(s string) string { return special.Replace(s) }

// code puts text into a code span whose fence is longer than any run of
// back-quotes inside it. It is not for tables, where a bar ends the cell.
func code(s string) string {
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		return fence + " " + s + " " + fence
	}
	return fence + s + fence
}

// table writes a table; left is how many leading columns hold words.
func (d *doc) table(left int, head []string, rows [][]string) {
	d.row(head)
	marks := make([]string, len(head))
	for i := range marks {
		marks[i] = "---:"
		if i < left {
			marks[i] = ":---"
		}
	}
	d.printf("| %s |\n", strings.Join(marks, " | "))
	for _, r := range rows {
		d.row(r)
	}
	d.printf("\n")
}

func (d *doc) row(cells []string) {
	out := make([]string, len(cells))
	for i, c := range cells {
		out[i] = text(c)
	}
	d.printf("| %s |\n", strings.Join(out, " | "))
}

func (d *doc) run(r *gpuprof.Run, level, title string) {
	d.printf("%s %s\n\n", level, text(title))
	d.printf("Status: **%s**", text(view.Headline(r)))
	if how := view.HowMeasured(r); how != "" {
		d.printf(", %s", text(how))
	}
	d.printf(".\n\n")
	if view.HasTimes(r) {
		d.stages(r)
	} else {
		d.printf("No times are reported.\n\n")
	}
	d.summary(r)
	d.notes(r)
}

// bins of a stage's sparkline.
const bins = 12

func (d *doc) stages(r *gpuprof.Run) {
	head := []string{"stage", "exposed", "share", "device", "95 % interval", "host", "GB/s", "GF/s", "of roofline bound", "p05 to p95", "spread"}
	var rows [][]string
	for _, s := range view.Stages(r) {
		rows = append(rows, []string{view.Cut(s.Name, 60), view.Cell(s.Exposed), view.ShareCell(s), view.Cell(s.Device), view.SeriesInterval(s.Device),
			view.Cell(s.Host), view.Rate(s.BytesPerS), view.Rate(s.FlopsPerS), view.FloorText(s), view.Range(s.Typical()), view.Spark(s.Typical(), bins)})
	}
	if len(rows) > 0 {
		d.table(1, head, rows)
		d.printf("Spread: samples of the device's time (else the host's), from the 2nd to the 98th percentile.\n\n")
		for _, why := range view.NoBounds(view.Stages(r)) {
			d.printf("%s\n\n", text(why))
		}
	}
	d.kernels(r)
}

// kernels lists them folded away: most readers want the stages.
func (d *doc) kernels(r *gpuprof.Run) {
	var rows [][]string
	for _, s := range view.Stages(r) {
		for _, k := range view.Kernels(r, s.Name) {
			rows = append(rows, []string{view.Cut(s.Name, 60), view.Cut(k.Name, 60), view.Cell(view.Usable(k.Device)), view.SeriesInterval(k.Device), view.KernelMethod(k)})
		}
	}
	if len(rows) == 0 {
		return
	}
	d.printf("<details><summary>%s, from a pass of their own</summary>\n\n", view.Plural(len(rows), "kernel"))
	d.table(2, []string{"stage", "kernel", "device", "95 % interval", "timed by"}, rows)
	d.printf("</details>\n\n")
}

func (d *doc) summary(r *gpuprof.Run) {
	var rows [][]string
	for _, l := range view.Summary(r) {
		rows = append(rows, []string{l.Label, l.Value, l.Note})
	}
	rows = append(rows, []string{"checks", view.CheckSummary(r), ""})
	d.table(3, []string{"figure", "value", "remark"}, rows)
	for _, f := range view.FailedChecks(r) {
		d.printf("- **check failed** %s\n", text(f))
	}
	if len(r.Failed()) > 0 {
		d.printf("\n")
	}
}

func (d *doc) notes(r *gpuprof.Run) {
	d.warnings([]*gpuprof.Run{r})
	for i, f := range view.Findings(r) {
		d.printf("%d. %s\n", i+1, text(f.Head))
		if f.Evidence != "" {
			d.printf("   - evidence: %s\n", text(f.Evidence))
		}
		if f.Command != "" {
			d.printf("   - try: %s\n", code(f.Command))
		}
		if f.PyTorch != "" {
			d.printf("   - PyTorch: %s\n", code(f.PyTorch))
		}
	}
	if len(r.Findings) > 0 {
		d.printf("\n")
	}
}

func (d *doc) warnings(runs []*gpuprof.Run) {
	all := view.Notices(runs)
	for _, n := range all {
		d.printf("- **%s**: %s", text(n.Head()), text(n.Text))
		if n.Text != "" && n.Fix != "" {
			d.printf("; ")
		}
		d.printf("%s\n", text(n.Fix))
		for _, each := range n.Each {
			d.printf("  - %s\n", text(each))
		}
	}
	if len(all) > 0 {
		d.printf("\n")
	}
}

func (d *doc) sweep(runs []*gpuprof.Run) {
	d.printf("## %s\n\n", text(view.SweepTitle(runs)))
	names, points := view.Points(runs)
	var rows [][]string
	for _, p := range points {
		rows = append(rows, append(p.Setting, p.Cells()...))
	}
	d.table(0, append(slices.Clone(names), view.CellTitles()...), rows)
	if stages, shares := view.Shares(runs); len(stages) > 0 {
		d.printf("%s.\n\n", text(view.SharesText))
		for i, p := range points {
			rows[i] = append(slices.Clone(p.Setting), shares[i]...)
		}
		d.table(0, append(names, stages...), rows)
	}
	d.warnings(runs)
	for i, r := range runs {
		title := view.SettingText(r, view.Vary(runs))
		if title == "" {
			title = fmt.Sprintf("run %d", i+1)
		}
		d.printf("<details><summary>%s</summary>\n\n", mention.Replace(title))
		d.run(r, "###", title)
		d.printf("</details>\n\n")
	}
}
