package markdown

import (
	"fmt"
	"io"
	"strings"

	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/report/internal/verdict"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// gateItems is how many causes, differences, failures and reasons are listed.
const gateItems = 20

// WriteGate writes the verdict of compare and gate: a headline, what failed,
// why, and all metrics folded away below. limit is how many bytes it may
// have; 0 is CommentLimit. Rows that find no room are counted, never the ones
// that failed first.
func WriteGate(w io.Writer, c *compare.Comparison, limit int) error {
	if c == nil {
		return view.ErrNoRun("Markdown")
	}
	if limit <= 0 {
		limit = CommentLimit
	}
	head, tail := &doc{}, &doc{}
	head.printf("## %s %s\n\n", verdictMark(c.Verdict), text(verdict.Headline(c)))
	head.printf("%s (%s).\n\n", text(verdict.Subject(c)), text(verdict.How(c)))
	tail.gateBudgets(c)
	tail.gateCauses(c)
	tail.gateDifferences(c)
	tail.gateSuggestions(c)
	tail.gateList("Failed", c.Failed)
	tail.gateWarnings(c)
	tail.gateNext(c)
	tail.printf("Exit code %d.\n", c.ExitCode)
	room := limit - head.b.Len() - tail.b.Len() - 600 // the frame of the tables
	rows := verdict.Rows(c)
	loud := 0
	for loud < len(rows) && rows[loud].Verdict != compare.Same {
		loud++
	}
	d := &doc{}
	room -= d.gateTable(rows[:loud], room, "")
	d.gateReasons(rows[:loud], &room)
	d.gateTable(rows[loud:], room, view.Plural(len(rows)-loud, "metric")+" the same")
	out := head.b.String() + d.b.String() + tail.b.String()
	if len(out) > limit { // the fixed parts alone are too long: cut at a line
		out = cutLines(out, limit)
	}
	_, err := io.WriteString(w, out)
	return err
}

// verdictMark is a sign that is seen while scrolling.
func verdictMark(v compare.Verdict) string {
	switch v {
	case compare.Regressed:
		return "❌"
	case compare.Inconclusive:
		return "❔"
	}
	return "✅"
}

const gateHead = "| metric | old | new | ratio | 95 % interval | verdict | MDE |\n| :--- | ---: | ---: | ---: | ---: | :--- | ---: |\n"

// gateTable writes as many rows as find room and says how many do not; folded
// under a summary when that is given. It returns the bytes it took.
func (d *doc) gateTable(rows []verdict.Row, room int, summary string) int {
	if len(rows) == 0 {
		return 0
	}
	before := d.b.Len()
	if summary != "" {
		d.printf("<details><summary>%s</summary>\n\n", text(summary))
	}
	d.b.WriteString(gateHead)
	left := 0
	for i, r := range rows {
		one := &doc{}
		one.row([]string{view.Cut(r.Name, 200), r.Old, r.New, r.Ratio, r.Interval, string(r.Verdict), r.MDE})
		if d.b.Len()-before+one.b.Len() > room {
			left = len(rows) - i
			break
		}
		d.b.WriteString(one.b.String())
	}
	d.printf("\n")
	if left > 0 {
		d.printf("%s not listed for want of room; the JSON output has every metric.\n\n", view.Plural(left, "metric"))
	}
	if summary != "" {
		d.printf("</details>\n\n")
	}
	return d.b.Len() - before
}

// gateReasons says once each what verdicts need said.
func (d *doc) gateReasons(rows []verdict.Row, room *int) {
	before := d.b.Len()
	seen := map[string]int{}
	var order []verdict.Row
	for _, r := range rows {
		if r.Reason == "" {
			continue
		}
		if seen[r.Reason]++; seen[r.Reason] == 1 {
			order = append(order, r)
		}
	}
	for i, r := range order {
		line := fmt.Sprintf("- %s: %s\n", code(view.Cut(r.Name, 200)), text(r.Reason))
		if n := seen[r.Reason]; n > 1 {
			line = fmt.Sprintf("- %s and %d more: %s\n", code(view.Cut(r.Name, 200)), n-1, text(r.Reason))
		}
		if i == gateItems || d.b.Len()-before+len(line) > *room {
			d.printf("- and %s more\n", view.Plural(len(order)-i, "reason"))
			break
		}
		d.b.WriteString(line)
	}
	if len(order) > 0 {
		d.printf("\n")
	}
	*room -= d.b.Len() - before
}

func (d *doc) gateBudgets(c *compare.Comparison) {
	for i := range c.Budgets {
		if i == gateItems {
			d.printf("- %s more\n", view.Plural(len(c.Budgets)-i, "budget"))
			break
		}
		b := &c.Budgets[i]
		d.printf("- **budget** %s\n", text(verdict.BudgetText(b)))
		for j, where := range b.Where {
			if b.Over && j < 3 {
				d.printf("  - at %s\n", code(view.Cut(where, 200)))
			}
		}
	}
	if len(c.Budgets) > 0 {
		d.printf("\n")
	}
}

func (d *doc) gateCauses(c *compare.Comparison) {
	var lines []string
	for _, cause := range c.Causes {
		lines = append(lines, verdict.CauseText(cause))
	}
	d.gateList("Where the change comes from", lines)
}

func (d *doc) gateDifferences(c *compare.Comparison) {
	var lines []string
	for _, diff := range c.Differences {
		lines = append(lines, verdict.DifferenceText(diff))
	}
	d.gateList("What differs between the sides", lines)
}

func (d *doc) gateSuggestions(c *compare.Comparison) {
	all := verdict.Suggestions(c)
	if len(all) == 0 {
		return
	}
	title := verdict.SuggestionsTitle(c)
	d.printf("**%s**\n\n", strings.ToUpper(title[:1])+title[1:])
	for i, s := range all {
		d.printf("%d. %s\n", i+1, text(s.Why))
		if s.Change != "" {
			d.printf("   - change: %s\n", text(s.Change))
		}
		if s.Command != "" {
			d.printf("   - try: %s\n", code(s.Command))
		}
		if s.PyTorch != "" {
			d.printf("   - PyTorch: %s\n", code(s.PyTorch))
		}
	}
	if more := verdict.MoreSuggestions(c); more != "" {
		d.printf("\n%s\n", text(more))
	}
	d.printf("\n")
}

func (d *doc) gateWarnings(c *compare.Comparison) {
	var lines []string
	for _, w := range c.Warnings {
		line := w.Text
		if w.Fix != "" {
			line += "; " + w.Fix
		}
		lines = append(lines, line)
	}
	d.gateList("Warnings", lines)
}

func (d *doc) gateNext(c *compare.Comparison) { d.gateList("What next", c.Next) }

func (d *doc) gateList(title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	d.printf("**%s**\n\n", text(title))
	for i, l := range lines {
		if i == gateItems {
			d.printf("- and %d more\n", len(lines)-i)
			break
		}
		d.printf("- %s\n", text(view.Cut(l, 500)))
	}
	d.printf("\n")
}
