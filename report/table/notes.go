package table

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// The three colours have one meaning each; everything else is plain.
const (
	plain  = ""
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	red    = "\x1b[31m"
	reset  = "\x1b[0m"
)

func (p *printer) paint(color, s string) string {
	if !p.o.Color || color == plain {
		return s
	}
	return color + s + reset
}

func statusColor(s gpuprof.Status) string {
	switch s {
	case gpuprof.Complete:
		return green
	case gpuprof.Invalid:
		return red
	}
	return yellow
}

// notes prints checks, warnings and findings.
func (p *printer) notes(r *gpuprof.Run) {
	p.checks(r)
	p.warnings([]*gpuprof.Run{r})
	if p.o.Quiet {
		return
	}
	for i, f := range view.Findings(r) {
		if i == 0 {
			p.blank()
		}
		p.wrap(fmt.Sprintf("finding %d: ", i+1), f.Head)
		p.item("evidence", f.Evidence)
		p.item("try", f.Command)
		p.item("PyTorch", f.PyTorch)
	}
	if n := len(r.Findings) - view.MaxFindings; n > 0 {
		p.line(fmt.Sprintf("%d more in run.json", n))
	}
}

func (p *printer) item(label, text string) {
	if text != "" {
		p.wrap(fmt.Sprintf("  %-10s", label), text)
	}
}

func (p *printer) checks(r *gpuprof.Run) {
	failed := view.FailedChecks(r)
	if len(failed) == 0 && p.o.Quiet {
		return
	}
	p.wrap(fmt.Sprintf("%-*s", labelWidth, "checks"), view.CheckSummary(r))
	for _, f := range failed {
		for i, l := range fold(f, p.o.width()-9) {
			head := "  failed "
			if i > 0 {
				head = "         "
			}
			p.line(head + p.paint(red, l))
		}
	}
}

// warnings prints each kind once; what it said of each run hangs below it.
func (p *printer) warnings(runs []*gpuprof.Run) {
	const indent = 9
	for i, n := range view.Notices(runs) {
		if i == 0 {
			p.blank()
		}
		var parts []string
		for _, s := range []string{n.Text, n.Fix} {
			if s != "" {
				parts = append(parts, s)
			}
		}
		text := n.Head() + ": " + strings.Join(parts, "; ")
		for i, l := range fold(text, p.o.width()-indent) {
			if i == 0 {
				p.line(p.paint(yellow, "warning: ") + l)
				continue
			}
			p.line(strings.Repeat(" ", indent) + l)
		}
		for _, each := range n.Each {
			p.wrap(strings.Repeat(" ", indent)+"- ", each)
		}
	}
}

// sweepNotes prints what must not be missed of the runs of a sweep: failures
// by run, each kind of warning once.
func (p *printer) sweepNotes(runs []*gpuprof.Run) {
	names := view.Vary(runs)
	for _, r := range runs {
		failed := view.FailedChecks(r)
		if r.Status == gpuprof.Complete && len(failed) == 0 {
			continue
		}
		p.blank()
		p.wrap("", strings.TrimSpace(view.SettingText(r, names)))
		for _, l := range fold(view.Headline(r), p.o.width()) {
			p.line(p.paint(statusColor(r.Status), l))
		}
		if len(failed) > 0 {
			p.checks(r)
		}
	}
	p.warnings(runs)
}

// hidden names the settings that found no room.
func (p *printer) hidden(cols []column) {
	shown := map[string]bool{}
	for _, c := range fit(cols, p.o.width()) {
		shown[c.title] = true
	}
	var out []string
	for _, c := range cols {
		if c.setting && !shown[c.title] {
			out = append(out, c.title)
		}
	}
	if len(out) > 0 {
		p.wrap("", "no room for: "+strings.Join(out, ", "))
	}
}
