package table

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Analysis prints what a trace says: where the devices' time went, then the
// findings with what to change.
func Analysis(w io.Writer, a *trace.Analysis, o Options) error {
	p := &printer{o: o}
	p.analysisTitle(a)
	if !o.Quiet {
		if err := p.accounts(a); err != nil {
			return err
		}
		if err := p.classes(a); err != nil {
			return err
		}
		p.explained(a)
		if err := p.ranks(a); err != nil {
			return err
		}
	}
	p.traceFindings(a)
	p.traceWarnings(a.Warnings)
	_, err := io.WriteString(w, p.b.String())
	return err
}

func (p *printer) analysisTitle(a *trace.Analysis) {
	var names []string
	for _, in := range a.Inputs {
		names = append(names, filepath.Base(in.Path))
	}
	title := strings.Join(names, ", ")
	if len(names) > 3 {
		title = fmt.Sprintf("%s and %d more", names[0], len(names)-1)
	}
	p.wrap("", title+": "+stepsText(a))
}

// stepsText says how long the mean step is, of how many, and how they were found.
func stepsText(a *trace.Analysis) string {
	if a.Step.Count == 0 {
		return "recording window " + ns(a.Step.NS) + " (no steps found)"
	}
	text := "mean step " + ns(a.Step.NS)
	if a.Step.Count > 1 {
		text += fmt.Sprintf(" (%s to %s)", ns(a.Step.MinNS), ns(a.Step.MaxNS))
	}
	text += ", " + view.Plural(a.Step.Count, "step") + " (" + view.Cut(a.StepSource, 40)
	if slices.ContainsFunc(a.Steps, func(s trace.StepTime) bool { return s.Dropped }) {
		text += ", the first left out"
	}
	return text + ")"
}

func ns(v int64) string { return view.Seconds(float64(v) * 1e-9) }

func nsCell(v int64) string {
	if v == 0 {
		return view.None
	}
	return ns(v)
}

func share(part, whole int64) string {
	if whole <= 0 || part == 0 {
		return view.None
	}
	return view.Percent(float64(part) / float64(whole))
}

// accounts is a row a device: where its time goes in the mean step.
func (p *printer) accounts(a *trace.Analysis) error {
	if len(a.Devices) == 0 {
		return nil
	}
	cols := []column{{title: "device", left: true}, {title: stepTitle(a)}, {title: "busy"}}
	for i, part := range new(trace.Parts).Idle() {
		cols = append(cols, column{title: part.Name, drop: max(i-1, 0)})
	}
	cols = append(cols, column{title: "kernels", drop: 4})
	for _, d := range a.Devices {
		name := fmt.Sprint(d.ID)
		if len(a.Inputs) > 1 {
			name = fmt.Sprintf("%s:%d", rankName(a, d.Input), d.ID)
		}
		if d.Name != "" {
			name += " " + view.Cut(d.Name, 20)
		}
		whole := d.Step.Total()
		cells := []string{name, ns(whole), share(d.Step.BusyNS, whole)}
		for _, part := range d.Step.Idle() {
			cells = append(cells, share(part.NS, whole))
		}
		for i, c := range append(cells, fmt.Sprint(d.Kernels)) {
			cols[i].cells = append(cols[i].cells, c)
		}
	}
	p.blank()
	return p.grid(cols, nil)
}

// stepTitle names the time that the parts of a table add up to.
func stepTitle(a *trace.Analysis) string {
	if a.Step.Count == 0 {
		return "window"
	}
	return "mean step"
}

func rankName(a *trace.Analysis, input int) string {
	if input < len(a.Inputs) && a.Inputs[input].Rank >= 0 {
		return fmt.Sprintf("rank %d", a.Inputs[input].Rank)
	}
	return fmt.Sprintf("file %d", input+1)
}

const (
	classRows  = 8
	changeRows = 18 // every class and every idle state, so that they add up
)

// classes is what the mean step is made of, with the kernel that took most of
// each class. The rows add up to the step.
func (p *printer) classes(a *trace.Analysis) error {
	if len(a.Devices) == 0 {
		return p.operators(a)
	}
	cols := []column{{title: "of the " + stepTitle(a), left: true}, {title: "time"}, {title: "share"}, {title: "most of it", left: true, drop: 1}}
	room := max(p.o.width()-38, 20)
	for _, part := range a.Step.Shown(classRows) {
		for j, cell := range []string{part.Name, ns(part.NS), share(part.NS, a.Step.NS), view.Cut(a.Most(part), room)} {
			cols[j].cells = append(cols[j].cells, cell)
		}
	}
	if len(cols[0].cells) == 0 {
		return nil
	}
	p.blank()
	return p.grid(cols, nil)
}

// explained says what stands behind the largest parts of the step.
func (p *printer) explained(a *trace.Analysis) {
	if len(a.Explained) > 0 {
		p.blank()
	}
	for _, e := range a.Explained {
		p.wrap("", e.Text)
	}
}

// operators stands in for classes where no device was recorded.
func (p *printer) operators(a *trace.Analysis) error {
	cols := []column{{title: "operator", left: true}, {title: "self, " + a.PerStep()}}
	ops := slices.SortedStableFunc(slices.Values(a.Operators), func(x, y trace.OperatorTime) int { return cmp.Compare(y.StepSelfNS, x.StepSelfNS) })
	for _, o := range ops[:min(len(ops), classRows)] {
		for j, cell := range []string{view.Cut(o.Name, 40), ns(o.StepSelfNS)} {
			cols[j].cells = append(cols[j].cells, cell)
		}
	}
	if len(cols[0].cells) == 0 {
		return nil
	}
	p.blank()
	return p.grid(cols, nil)
}

func (p *printer) ranks(a *trace.Analysis) error {
	if len(a.Ranks) < 2 {
		return nil
	}
	cols := []column{{title: "rank"}, {title: stepTitle(a)}, {title: "compute"}, {title: "communication"}, {title: "exposed"}, {title: "idle"}, {title: "", left: true}}
	for _, r := range a.Ranks {
		note := view.None
		if r.Straggler {
			note = "the others wait for it"
			if r.Cause != "" {
				note += ": " + r.Cause
			}
		}
		for i, c := range []string{fmt.Sprint(r.Rank), nsCell(r.StepNS), ns(r.ComputeNS), ns(r.CommNS), ns(r.ExposedCommNS), ns(r.IdleNS), note} {
			cols[i].cells = append(cols[i].cells, c)
		}
	}
	p.blank()
	return p.grid(cols, nil)
}

const printedFindings = 5

func (p *printer) traceFindings(a *trace.Analysis) {
	p.blank()
	if a.Bound.Nothing {
		p.wrap("", a.Bound.Text)
	}
	if len(a.Findings) == 0 {
		return
	}
	findings := oncePerRule(a)
	for i, g := range findings {
		f := g.Finding
		if i == printedFindings {
			p.line(fmt.Sprintf("%s more in -o report.html and --format json, with what each rests on", view.Plural(len(findings)-i, "finding")))
			break
		}
		head := fmt.Sprintf("%d. ", i+1)
		p.wrap(head, severityText(p, f)+f.Title+g.where(a))
		if p.o.Quiet {
			continue
		}
		if len(f.Sites) > 0 {
			p.item("at", siteText(f.Sites, p.o.width()))
		}
		p.item("change", f.PyTorch)
		if f.ClaimNS > 0 {
			p.item("measure", f.Command)
		}
	}
}

// jobFinding is a finding where it claims most, and on how many more inputs
// the same rule fired: the ranks of one job mostly share their problems.
type jobFinding struct {
	gpuprof.Finding
	others int
}

func (g jobFinding) where(a *trace.Analysis) string {
	if len(a.Inputs) < 2 {
		return ""
	}
	s := " (" + rankName(a, g.Input)
	if g.others > 0 {
		s += fmt.Sprintf(", and less on %d more", g.others)
	}
	return s + ")"
}

func oncePerRule(a *trace.Analysis) []jobFinding {
	var out []jobFinding
	for _, f := range a.Findings {
		at := slices.IndexFunc(out, func(g jobFinding) bool { return g.Rule == f.Rule && g.Input != f.Input })
		if at < 0 {
			out = append(out, jobFinding{f, 0})
			continue
		}
		out[at].others++
	}
	return out
}

func severityText(p *printer, f gpuprof.Finding) string {
	color := plain
	switch f.Severity {
	case gpuprof.High:
		color = red
	case gpuprof.Medium:
		color = yellow
	}
	text := p.paint(color, string(f.Severity)) + " " + f.Rule
	if f.Suspect {
		text += " (suspected)"
	}
	return text + ": "
}

// siteText is the first place on one line; reports list the others.
func siteText(sites []gpuprof.Site, width int) string {
	tail := " (" + view.Plural(int(sites[0].Count), "time") + ")"
	if more := len(sites) - 1; more > 0 {
		tail = fmt.Sprintf(" (%s) and %s", view.Plural(int(sites[0].Count), "time"), view.Plural(more, "other place"))
	}
	return view.Cut(sites[0].Where, max(width-14-len(tail), 16)) + tail
}

func (p *printer) traceWarnings(ws []gpuprof.Warning) {
	const indent = 9
	for i, w := range ws {
		if i == 0 {
			p.blank()
		}
		for j, l := range fold(w.Sentence(), p.o.width()-indent) {
			if j == 0 {
				p.line(p.paint(yellow, "warning: ") + l)
				continue
			}
			p.line(strings.Repeat(" ", indent) + l)
		}
	}
}

// Comparison prints what changed between two analyses of one program.
func Comparison(w io.Writer, c *trace.Comparison, o Options) error {
	p := &printer{o: o}
	head := c.Headline(ns)
	if c.Comparable() {
		head += ": " + changeText(c.StepOldNS, c.StepNewNS)
	}
	p.wrap("", head)
	if !o.Quiet {
		if err := p.changes("of the "+stepTitle(c.New), c.Classes, changeRows); err != nil {
			return err
		}
		if err := p.changes("operator, "+c.New.PerStep(), c.Operators, classRows); err != nil {
			return err
		}
	}
	p.blank()
	for _, f := range c.Findings {
		p.wrap("", f.Rule+", "+f.Outcome+": "+f.Statement)
	}
	if len(c.Findings) == 0 {
		p.wrap("", "No finding on either side.")
	}
	p.traceWarnings(c.Warnings)
	_, err := io.WriteString(w, p.b.String())
	return err
}

func changeText(old, now int64) string {
	switch {
	case old <= 0 || now <= 0:
		return "not comparable"
	case now < old:
		return fmt.Sprintf("%s less (%s)", ns(old-now), view.Percent(float64(old-now)/float64(old)))
	case now > old:
		return fmt.Sprintf("%s more (%s)", ns(now-old), view.Percent(float64(now-old)/float64(old)))
	}
	return "no change"
}

func (p *printer) changes(title string, cs []trace.Change, rows int) error {
	cols := []column{{title: title, left: true}, {title: "before"}, {title: "after"}, {title: "change"}}
	for _, c := range cs[:min(len(cs), rows)] {
		change := ns(c.NewNS - c.OldNS)
		if c.NewNS > c.OldNS {
			change = "+" + change
		}
		for i, cell := range []string{view.Cut(c.Name, 40), ns(c.OldNS), ns(c.NewNS), change} {
			cols[i].cells = append(cols[i].cells, cell)
		}
	}
	if len(cols[0].cells) == 0 {
		return nil
	}
	p.blank()
	return p.grid(cols, nil)
}
