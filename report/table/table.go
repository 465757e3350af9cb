// Package table prints runs as text for a terminal: a row a stage, then the
// figures of the whole step, checks, warnings and findings. It is a pure
// function of the run and of the width it is given.
package table

import (
	"fmt"
	"io"
	"strings"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Options shape the output.
type Options struct {
	Width int  // columns to fit; 0 means 80
	Color bool // ANSI colour, for status, failed checks and warnings only
	// Quiet leaves the title, the step's own figures, failed checks and
	// warnings: what must not be missed.
	Quiet bool
}

func (o Options) width() int {
	if o.Width <= 0 {
		return 80
	}
	return max(o.Width, 40)
}

// Run prints one run.
func Run(w io.Writer, r *gpuprof.Run, o Options) error {
	if r == nil {
		return view.ErrNoRun("a table")
	}
	p := &printer{o: o}
	p.title(r)
	if view.HasTimes(r) && !o.Quiet {
		p.blank()
		cols := stageColumns(r, o.width() >= wideAt)
		if err := p.grid(cols, nil); err != nil {
			return err
		}
		p.legend(r, cols)
	}
	p.summary(r)
	p.notes(r)
	_, err := io.WriteString(w, p.b.String())
	return err
}

// Sweep prints several runs in one table, a row a run; one run prints as Run does.
func Sweep(w io.Writer, runs []*gpuprof.Run, o Options) error {
	runs = view.Compact(runs)
	if len(runs) == 0 {
		return view.ErrNoRun("a table")
	}
	if len(runs) == 1 {
		return Run(w, runs[0], o)
	}
	p := &printer{o: o}
	p.wrap("", view.SweepTitle(runs))
	p.blank()
	cols, colors := sweepColumns(runs)
	if err := p.grid(cols, colors); err != nil {
		return err
	}
	p.hidden(cols)
	if view.Usable(runs[0].Step) != nil {
		p.blank()
		p.wrap("", "x first is the step's median over the first row's; intervals are "+view.SweepIntervals(runs)+".")
	}
	if shares := shareColumns(runs); shares != nil {
		p.blank()
		p.wrap("", view.SharesText+".")
		p.blank()
		if err := p.grid(shares, nil); err != nil {
			return err
		}
	}
	p.sweepNotes(runs)
	_, err := io.WriteString(w, p.b.String())
	return err
}

// printer gathers the text; it is written once, so that a failure to lay
// out leaves nothing half-written.
type printer struct {
	b strings.Builder
	o Options
}

func (p *printer) line(s string) { p.b.WriteString(strings.TrimRight(s, " ") + "\n") }
func (p *printer) blank()        { p.b.WriteByte('\n') }

// wrap prints text behind a head, continued under the text, within the width.
func (p *printer) wrap(head, text string) {
	indent := twwidth.Width(head)
	room := max(p.o.width()-indent, 20)
	for i, l := range fold(text, room) {
		if i == 0 {
			p.line(head + l)
			continue
		}
		p.line(strings.Repeat(" ", indent) + l)
	}
}

// fold breaks text at blanks into lines of at most room columns, not between
// a number and its unit; a longer word is cut, so that a hostile label cannot
// widen the report.
func fold(text string, room int) []string {
	var out []string
	cur := ""
	for _, word := range glued(text) {
		for twwidth.Width(word) > room {
			if cur != "" {
				out, cur = append(out, cur), ""
			}
			head := cutAt(word, room)
			out, word = append(out, head), word[len(head):]
		}
		switch {
		case word == "":
		case cur == "":
			cur = word
		case twwidth.Width(cur)+1+twwidth.Width(word) <= room:
			cur += " " + word
		default:
			out, cur = append(out, cur), word
		}
	}
	if cur != "" || len(out) == 0 {
		out = append(out, cur)
	}
	return out
}

// glued is the words of a text, a number together with its unit.
func glued(text string) []string {
	var out []string
	for _, w := range strings.Fields(text) {
		n := len(out)
		if n > 0 && endsInDigit(out[n-1]) && isUnit(strings.TrimRight(w, ";,.:)")) {
			out[n-1] += " " + w
			continue
		}
		out = append(out, w)
	}
	return out
}

func endsInDigit(s string) bool { return s[len(s)-1] >= '0' && s[len(s)-1] <= '9' }

func isUnit(s string) bool {
	switch s {
	case "%", "s", "ms", "us", "ns", "B", "KiB", "MiB", "GiB", "TiB":
		return true
	}
	return strings.HasSuffix(s, "/s")
}

// cutAt is the longest prefix of s that fits room columns, one rune at least.
func cutAt(s string, room int) string {
	end := 0
	for i, c := range s {
		next := i + len(string(c))
		if end > 0 && twwidth.Width(s[:next]) > room {
			break
		}
		end = next
	}
	return s[:end]
}

func (p *printer) title(r *gpuprof.Run) {
	head := view.Headline(r)
	text := view.Title(r)
	if twwidth.Width(text)+2+len(head) <= p.o.width() {
		p.line(text + ", " + p.paint(statusColor(r.Status), head))
		return
	}
	p.wrap("", view.Subject(r)+", "+view.DeviceName(r))
	if how := view.HowMeasured(r); how != "" && twwidth.Width(how)+2+len(head) <= p.o.width() {
		p.line(how + ", " + p.paint(statusColor(r.Status), head))
		return
	} else if how != "" {
		p.wrap("", how)
	}
	for _, l := range fold(head, p.o.width()) {
		p.line(p.paint(statusColor(r.Status), l))
	}
}

const labelWidth = 16

func (p *printer) summary(r *gpuprof.Run) {
	lines := view.Summary(r)
	if p.o.Quiet {
		lines = lines[:min(len(lines), 2)]
	}
	if len(lines) > 0 {
		p.blank()
	}
	for _, l := range lines {
		p.wrap(fmt.Sprintf("%-*s", labelWidth, l.Label), l.Text())
	}
	if !view.HasTimes(r) {
		p.blank()
		p.wrap("", noTimes(r))
		p.blank()
	}
}

func noTimes(r *gpuprof.Run) string {
	if r.Status == gpuprof.Invalid {
		return "No times are reported: the run is invalid."
	}
	return "No times are reported: nothing was measured."
}
