package table

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/report/internal/verdict"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Most rows of each sort that are printed: a table of a thousand rows that
// say "same" hides the one that does not. The rest is counted.
const (
	gateLoud  = 300 // regressed, inconclusive, improved, gone, added
	gateQuiet = 60  // the same
	gateNotes = 20  // of differences, causes and failures
)

// Gate prints the verdict of compare and gate: a row a metric, what failed
// first, then budgets, where the change comes from, what differs between the
// sides and what to do next.
func Gate(w io.Writer, c *compare.Comparison, o Options) error {
	if c == nil {
		return view.ErrNoRun("a table")
	}
	p := &printer{o: o}
	p.wrap("", verdict.Subject(c))
	p.wrap("", verdict.How(c))
	p.blank()
	for _, l := range fold(verdict.Headline(c), o.width()) {
		p.line(p.paint(verdictColor(c.Verdict), l))
	}
	rows := verdict.Rows(c)
	if err := p.gateRows(rows); err != nil {
		return err
	}
	p.reasons(rows)
	p.budgets(c)
	p.list("failed", "failure", c.Failed, red)
	if !o.Quiet {
		p.causes(c)
		p.differences(c)
		p.suggestions(c)
	}
	p.gateWarnings(c)
	p.next(c)
	_, err := io.WriteString(w, p.b.String())
	return err
}

func verdictColor(v compare.Verdict) string {
	switch v {
	case compare.Regressed:
		return red
	case compare.Inconclusive:
		return yellow
	case compare.Improved, compare.Pass:
		return green
	}
	return plain
}

// gateRows prints the metrics. Quiet leaves out those that are the same.
func (p *printer) gateRows(rows []verdict.Row) error {
	shown, left := split(rows, p.o.Quiet)
	if len(shown) > 0 {
		p.blank()
		cols := []column{{title: "metric", left: true}, {title: "old"}, {title: "new"}, {title: "ratio"}, {title: "95 %"}, {title: "verdict", left: true}, {title: "MDE"}}
		var colors []string
		for _, r := range shown {
			old, now := figures(r, p.o.width() < wideAt)
			for i, cell := range []string{r.Name, old, now, strings.TrimPrefix(r.Ratio, "x"), strings.Replace(r.Interval, " to ", "-", 1), string(r.Verdict), r.MDE} {
				cols[i].cells = append(cols[i].cells, cell)
			}
			color := plain
			if r.Verdict != compare.Same {
				color = verdictColor(r.Verdict)
			}
			colors = append(colors, color)
		}
		if err := p.verdictGrid(gateFit(cols, p.o.width()), colors); err != nil {
			return err
		}
	}
	var parts []string
	for _, v := range []compare.Verdict{compare.Regressed, compare.Inconclusive, compare.Improved, compare.Gone, compare.Added, compare.Explains, compare.Same} {
		if n := left[v]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	if len(parts) > 0 {
		p.wrap("", "not listed: "+strings.Join(parts, ", ")+"; --format json has every metric")
	}
	return nil
}

// mostFigure is the widest figure that is printed whole.
const mostFigure = 16

// figures are old and new. Where room is scarce the old one leaves its unit to
// the new one, and a rate leaves out of what: "45.8 k/s" of the throughput.
func figures(r verdict.Row, scarce bool) (old, now string) {
	old, now = r.Old, r.New
	if scarce {
		if unit := r.Of.Unit; strings.HasSuffix(unit, "/s") && len(unit) > len("GB/s") && !r.Of.Exact {
			old, now = view.SI(float64(r.Of.Old), "/s"), view.SI(float64(r.Of.New), "/s")
		}
		figure, unit, _ := strings.Cut(old, " ")
		if _, other, _ := strings.Cut(now, " "); unit == other {
			old = figure
		}
	}
	return short(old, mostFigure), short(now, mostFigure)
}

// gateFit gives the names what room the figures leave. Where that is too
// little to tell them apart, figures go, the least needed first.
func gateFit(cols []column, width int) []column {
	const least = 16
	for _, drop := range []string{"", "MDE", "95 %", "old", "ratio"} {
		cols = slices.DeleteFunc(slices.Clone(cols), func(c column) bool { return drop != "" && c.title == drop })
		room := width
		for _, c := range cols[1:] {
			room -= c.width() + 2
		}
		if room >= min(cols[0].width(), least) || drop == "ratio" {
			for i, name := range cols[0].cells {
				cols[0].cells[i] = short(name, max(room, 8))
			}
			break
		}
	}
	return cols
}

// split is the rows to print and how many are left out, by verdict.
func split(rows []verdict.Row, quiet bool) (shown []verdict.Row, left map[compare.Verdict]int) {
	left = map[compare.Verdict]int{}
	loud, same := 0, 0
	for _, r := range rows {
		var keep bool
		if r.Verdict == compare.Same {
			keep = same < gateQuiet && !quiet
			same++
		} else {
			keep = loud < gateLoud
			loud++
		}
		if keep {
			shown = append(shown, r)
		} else {
			left[r.Verdict]++
		}
	}
	return shown, left
}

// verdictGrid is grid with the verdict painted, which is not the last column.
func (p *printer) verdictGrid(cols []column, colors []string) error {
	plainOut := &printer{o: p.o}
	if err := plainOut.grid(cols, nil); err != nil {
		return err
	}
	verdicts := cols[slices.IndexFunc(cols, func(c column) bool { return c.title == "verdict" })]
	row := -1 // the first line is the head
	for l := range strings.Lines(plainOut.b.String()) {
		l = strings.TrimSuffix(l, "\n")
		if row >= 0 && row < len(colors) && colors[row] != plain {
			word := " " + verdicts.cells[row]
			if at := strings.LastIndex(l, word); at >= 0 {
				l = l[:at+1] + p.paint(colors[row], word[1:]) + l[at+len(word):]
			}
		}
		p.line(l)
		row++
	}
	return nil
}

// reasons prints what the verdicts need said, once each, with the metrics it
// is about.
func (p *printer) reasons(rows []verdict.Row) {
	var order []string
	names := map[string][]string{}
	for _, r := range rows {
		if r.Reason == "" || r.Verdict == compare.Same && p.o.Quiet {
			continue
		}
		if names[r.Reason] == nil {
			order = append(order, r.Reason)
		}
		names[r.Reason] = append(names[r.Reason], r.Name)
	}
	for i, reason := range order {
		if i == 0 {
			p.blank()
		}
		if i == gateNotes {
			p.wrap("", view.Plural(len(order)-i, "reason")+" more in --format json")
			break
		}
		of := names[reason]
		head := of[0]
		if len(of) > 1 {
			head = fmt.Sprintf("%s and %d more", of[0], len(of)-1)
		}
		p.wrap("", head+": "+reason)
	}
}

func (p *printer) budgets(c *compare.Comparison) {
	for i := range c.Budgets {
		b := &c.Budgets[i]
		if i == 0 {
			p.blank()
		}
		if p.o.Quiet && b.Verdict == compare.Same {
			continue
		}
		color := verdictColor(b.Verdict)
		if b.Verdict == compare.Same {
			color = plain
		}
		for j, l := range fold(verdict.BudgetText(b), p.o.width()-8) {
			head := "budget: "
			if j > 0 {
				head = "        "
			}
			p.line(head + p.paint(color, l))
		}
		for j, where := range b.Where {
			if !b.Over || j == 3 {
				break
			}
			p.wrap("        at ", where)
		}
	}
}

func (p *printer) causes(c *compare.Comparison) {
	for i, cause := range c.Causes {
		if i == 0 {
			p.blank()
			p.line("where the change comes from")
		}
		if i == gateNotes {
			p.line(fmt.Sprintf("  %s more in --format json", view.Plural(len(c.Causes)-i, "stage")))
			break
		}
		p.wrap("  ", verdict.CauseText(cause))
	}
}

func (p *printer) differences(c *compare.Comparison) {
	for i, d := range c.Differences {
		if i == 0 {
			p.blank()
			p.line("what differs between the sides")
		}
		if i == gateNotes {
			p.line(fmt.Sprintf("  %s more in --format json", view.Plural(len(c.Differences)-i, "field")))
			break
		}
		text := verdict.DifferenceText(d)
		for j, l := range fold(text, p.o.width()-2) {
			if j == 0 && d.Hard && !d.Allowed {
				l = p.paint(yellow, l)
			}
			p.line("  " + l)
		}
	}
}

// suggestions prints what would close the gap, or explains the change.
func (p *printer) suggestions(c *compare.Comparison) {
	for i, s := range verdict.Suggestions(c) {
		if i == 0 {
			p.blank()
			p.line(verdict.SuggestionsTitle(c))
		}
		p.wrap(fmt.Sprintf("  %d. ", i+1), s.Why)
		for _, item := range [][2]string{{"change", s.Change}, {"try", s.Command}, {"PyTorch", s.PyTorch}} {
			if item[1] != "" {
				p.wrap(fmt.Sprintf("     %-8s", item[0]), item[1])
			}
		}
	}
	if more := verdict.MoreSuggestions(c); more != "" {
		p.line("  " + more)
	}
}

// list prints short texts under one label; noun is what one of them is.
func (p *printer) list(label, noun string, texts []string, color string) {
	head := label + ": "
	for i, t := range texts {
		if i == 0 {
			p.blank()
		}
		if i == gateNotes {
			p.wrap("", view.Plural(len(texts)-i, noun)+" more in --format json")
			break
		}
		for j, l := range fold(t, p.o.width()-twwidth.Width(head)) {
			if j == 0 {
				p.line(p.paint(color, head) + l)
				continue
			}
			p.line(strings.Repeat(" ", twwidth.Width(head)) + l)
		}
	}
}

func (p *printer) gateWarnings(c *compare.Comparison) {
	var texts []string
	for _, w := range c.Warnings {
		text := w.Text
		if w.Fix != "" {
			text += "; " + w.Fix
		}
		texts = append(texts, text)
	}
	p.list("warning", "warning", texts, yellow)
}

func (p *printer) next(c *compare.Comparison) {
	for i, n := range c.Next {
		if i == 0 {
			p.blank()
			p.line("what next")
		}
		p.wrap(fmt.Sprintf("  %d. ", i+1), n)
	}
}
