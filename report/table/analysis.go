package table

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

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
	p.wrap("", view.Clean(title, 0)+": "+stepsText(a))
}

// stepsText says how many steps there are and how they were found.
func stepsText(a *trace.Analysis) string {
	kept, dropped := 0, 0
	for _, s := range a.Steps {
		if s.Dropped {
			dropped++
		} else {
			kept++
		}
	}
	if kept+dropped == 0 {
		return "no steps found, the whole trace is taken as one"
	}
	text := view.Plural(kept, "step") + " (" + view.Clean(a.StepSource, 40)
	if dropped > 0 {
		text += ", the first left out"
	}
	text += ")"
	if m := trace.MedianStep(a); m > 0 {
		text += ", median " + ns(m)
	}
	return text
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

// accounts is a row a device: every nanosecond of its span is in one column.
func (p *printer) accounts(a *trace.Analysis) error {
	if len(a.Devices) == 0 {
		return nil
	}
	cols := []column{{title: "device", left: true}, {title: "span"}, {title: "busy"}, {title: "starved"}, {title: "queued"}, {title: "unknown", drop: 2},
		{title: "kernels", drop: 3}, {title: "steps' use", drop: 1}}
	for _, d := range a.Devices {
		name := fmt.Sprint(d.ID)
		if len(a.Inputs) > 1 {
			name = fmt.Sprintf("%s:%d", rankName(a, d.Input), d.ID)
		}
		if d.Name != "" {
			name += " " + view.Clean(d.Name, 20)
		}
		for i, c := range []string{name, ns(d.SpanNS), share(d.BusyNS, d.SpanNS), share(d.StarvedNS, d.SpanNS), share(d.QueuedNS, d.SpanNS),
			share(d.UnknownNS, d.SpanNS), fmt.Sprint(d.Kernels), view.Percent(d.Utilisation)} {
			cols[i].cells = append(cols[i].cells, c)
		}
	}
	p.blank()
	return p.grid(cols, nil)
}

func rankName(a *trace.Analysis, input int) string {
	if input < len(a.Inputs) && a.Inputs[input].Rank >= 0 {
		return fmt.Sprintf("rank %d", a.Inputs[input].Rank)
	}
	return fmt.Sprintf("file %d", input+1)
}

const classRows = 8

// classes is where the busy time went, with the kernel that took most of each class.
func (p *printer) classes(a *trace.Analysis) error {
	total := map[trace.Class]int64{}
	var busy int64
	for _, d := range a.Devices {
		busy += d.BusyNS
		for c, v := range d.Classes {
			total[c] += v
		}
	}
	if busy == 0 {
		return p.operators(a)
	}
	top := map[trace.Class]string{}
	for _, k := range a.Kernels { // sorted by time
		if top[k.Class] == "" {
			top[k.Class] = k.Name
		}
	}
	order := trace.Classes()
	slices.SortStableFunc(order, func(x, y trace.Class) int { return cmp.Compare(total[y], total[x]) })
	cols := []column{{title: "busy with", left: true}, {title: "time"}, {title: "share"}, {title: "most of it", left: true, drop: 1}}
	for i, c := range order {
		if total[c] == 0 || i >= classRows {
			break
		}
		for j, cell := range []string{string(c), ns(total[c]), share(total[c], busy), view.Clean(top[c], max(p.o.width()-38, 20))} {
			cols[j].cells = append(cols[j].cells, cell)
		}
	}
	p.blank()
	return p.grid(cols, nil)
}

// operators stands in for classes where no device was recorded.
func (p *printer) operators(a *trace.Analysis) error {
	cols := []column{{title: "operator", left: true}, {title: "self"}, {title: "total"}, {title: "calls"}}
	ops := slices.SortedStableFunc(slices.Values(a.Operators), func(x, y trace.OperatorTime) int { return cmp.Compare(y.SelfNS, x.SelfNS) })
	for _, o := range ops[:min(len(ops), classRows)] {
		for j, cell := range []string{view.Clean(o.Name, 40), ns(o.SelfNS), ns(o.HostNS), fmt.Sprint(o.Count)} {
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
	cols := []column{{title: "rank"}, {title: "step"}, {title: "compute"}, {title: "communication"}, {title: "exposed"}, {title: "idle"}, {title: "", left: true}}
	for _, r := range a.Ranks {
		note := view.None
		if r.Straggler {
			note = "the others wait for it"
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
	if len(a.Findings) == 0 {
		p.wrap("", "No finding: no rule saw time that could be won back.")
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
		p.wrap(head, severityText(p, f)+view.Clean(f.Title, 0)+g.where(a))
		if p.o.Quiet {
			continue
		}
		if len(f.Sites) > 0 {
			p.item("at", siteText(f.Sites, p.o.width()))
		}
		p.item("change", view.Clean(f.Knob, 0))
		if f.ClaimNS > 0 {
			p.item("measure", view.Clean(f.Command, 0))
		}
	}
}

// jobFinding is a finding where it claims most, and on how many more inputs
// the same rule fired: the ranks of one job mostly share their problems.
type jobFinding struct {
	trace.Finding
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

func severityText(p *printer, f trace.Finding) string {
	color := plain
	switch f.Severity {
	case trace.High:
		color = red
	case trace.Medium:
		color = yellow
	}
	text := p.paint(color, string(f.Severity)) + " " + f.Rule
	if f.Suspect {
		text += " (suspected)"
	}
	return text + ": "
}

// siteText is the first place on one line; reports list the others.
func siteText(sites []trace.Site, width int) string {
	tail := " (" + view.Plural(sites[0].Count, "time") + ")"
	if more := len(sites) - 1; more > 0 {
		tail = fmt.Sprintf(" (%s) and %s", view.Plural(sites[0].Count, "time"), view.Plural(more, "other place"))
	}
	return view.Clean(sites[0].Where, max(width-14-len(tail), 16)) + tail
}

func (p *printer) traceWarnings(ws []trace.Warning) {
	const indent = 9
	for i, w := range ws {
		if i == 0 {
			p.blank()
		}
		for j, l := range fold(view.Clean(w.Text, 0), p.o.width()-indent) {
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
	p.wrap("", fmt.Sprintf("a step took %s and takes %s: %s", ns(c.StepOldNS), ns(c.StepNewNS), changeText(c.StepOldNS, c.StepNewNS)))
	if !o.Quiet {
		if err := p.changes("a step", c.Classes); err != nil {
			return err
		}
		if err := p.changes("operator", c.Operators); err != nil {
			return err
		}
	}
	p.blank()
	for _, f := range c.Findings {
		p.wrap("", f.Rule+", "+f.Outcome+": "+view.Clean(f.Statement, 0))
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

func (p *printer) changes(title string, cs []trace.Change) error {
	cols := []column{{title: title, left: true}, {title: "before"}, {title: "after"}, {title: "change"}}
	for _, c := range cs[:min(len(cs), classRows)] {
		change := ns(c.NewNS - c.OldNS)
		if c.NewNS > c.OldNS {
			change = "+" + change
		}
		for i, cell := range []string{view.Clean(c.Name, 40), ns(c.OldNS), ns(c.NewNS), change} {
			cols[i].cells = append(cols[i].cells, cell)
		}
	}
	if len(cols[0].cells) == 0 {
		return nil
	}
	p.blank()
	return p.grid(cols, nil)
}
