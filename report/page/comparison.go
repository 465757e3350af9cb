package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/internal/verdict"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Limits of a comparison's lists: many unchanged metrics would hide a changed one. For failures the limits are five
// times as high.
const (
	maxMetrics     = 60
	maxListed      = 20
	maxPlaces      = 3 // of an exceeded budget
	maxSuggestions = 5
)

// Comparison builds the page of compare and gate: a row per metric, origin of the change, differences, next steps.
func Comparison(c *compare.Comparison) (*Page, error) {
	if c == nil {
		return nil, view.ErrNoRun("a comparison")
	}
	rows := verdict.Rows(c)
	answer := c.Answer()
	next := listOf(List{Ordered: true, Noun: "step"}, furtherSteps(c, answer))
	metrics := metricTables(rows)
	p := &Page{
		Title: cmp.Or(verdict.Subject(c), "Comparison"), Meta: []string{verdict.How(c)}, Answer: answer,
		Footer: fmt.Sprintf("A ratio is new over old; the replicate of every interval is the process. Exit code %d.", c.ExitCode),
		Tool:   toolText(c.Tool), Data: jsonData("comparison.json", c),
	}
	why := Section{ID: "reasons", Heading: "Reasons", HeadingIn: HTML, Blocks: reasonBlocks(rows)}
	unsure := Section{} // an inconclusive verdict shows the reasons early
	if c.Verdict.Open() {
		unsure, why = why, unsure
	}
	p.Sections = []Section{
		countSection(c),
		{ID: "next", Heading: "Further steps", In: HTML, Blocks: []Block{next}},
		{ID: "failed", Heading: "Failed", HeadingIn: HTML, Blocks: []Block{listOf(List{Label: "failed", Noun: "failure", Max: maxListed}, c.Failed)}},
		unsure,
		{ID: "budgets", Heading: "Budgets", HeadingIn: HTML, Blocks: budgetBlocks(c)},
		originSection(c, rows),
		{ID: "findings", Heading: suggestionsTitle(c), HeadingIn: Terminal | Markdown | HTML, Blocks: []Block{suggestionBlock(c)}},
		{In: Terminal | Markdown, Blocks: metrics},
		why,
		{ID: "metrics", Heading: "Metrics", In: HTML, Blocks: append([]Block{
			Chart{ID: "effects", Narrow: true, Figure: func() *figure.Figure { return figure.Effects(c) }, Note: "A row for each metric: the ratio of new to old with its 95 % interval. Dashed: the threshold."}}, metrics...)},
		{ID: "distributions", Heading: "Distributions", Blocks: []Block{Chart{ID: "overlay", Figure: func() *figure.Figure { return figure.Overlay(c) }, Note: overlayNote}}},
		differenceSection(c),
		warningList(c.Warnings),
		{Heading: "Further steps", HeadingIn: Terminal | Markdown, In: Terminal | Markdown, Blocks: []Block{next}},
		{In: Markdown, Blocks: []Block{Text{S: fmt.Sprintf("Exit code %d.", c.ExitCode)}}},
	}
	return p.addExplanations()
}

const overlayNote = "All samples of a metric, the old side as an outline, the new side as an area, each to its own height, from the 1st to the 95th percentile; below them a mark at the median of every process, from which the verdict is drawn. Each row has an axis of its own."

// countSection counts the metrics by verdict; empty for a single metric or budget.
func countSection(c *compare.Comparison) Section {
	if len(c.Metrics)+len(c.Budgets) < 2 {
		return Section{}
	}
	return Section{In: Verbose, Blocks: []Block{Text{S: verdict.Counts(c) + "."}}}
}

// furtherSteps lists the next steps without the answer's action.
func furtherSteps(c *compare.Comparison, a gpuprof.Answer) []string {
	return slices.DeleteFunc(slices.Clone(c.Next), func(step string) bool { return a.Action != nil && gpuprof.AsSentence(step) == a.Action.Text })
}

// metricTables lists the metrics, failures first. Markdown folds the unchanged ones.
func metricTables(rows []verdict.Row) []Block {
	t := Table{Name: "Table of metrics", Noun: "metric", Max: [3]int{maxMetrics, 0, 5 * maxMetrics}, More: "not listed: %d metrics; --format json has every metric",
		Caption: "Medians of the run medians; p is one-sided, of not being worse than the equivalence margin, adjusted where several were tested. MDE is the least slowdown that data like these would find.",
		Columns: []Column{{Title: "metric", Left: true, Least: 16}, {Title: "old", Drop: 2, Most: 16}, {Title: "new", Most: 16}, {Title: "ratio", Drop: 1}, {Title: "95 % interval", Narrow: "95 %", Drop: 3},
			{Title: "p", In: HTML}, {Title: "runs", In: HTML}, {Title: "verdict", Left: true}, {Title: "MDE", Drop: 4}}}
	same := t
	for _, r := range rows {
		row := metricRow(r)
		if r.Verdict == compare.Same || r.Verdict == compare.TooSmall {
			same.Rows = append(same.Rows, row)
			row.In, row.Keep = Terminal|HTML, false
			if r.Name != "step" {
				row.In |= Verbose
			}
		}
		t.Rows = append(t.Rows, row)
	}
	same.Folded, same.In = gpuprof.Plural(len(same.Rows), "metric")+" the same", Markdown
	return []Block{t, same}
}

func metricRow(r verdict.Row) Row {
	m := r.Of
	unit := cmp.Or(m.Unit, "1")
	old, now := amountCell(r.Old, float64(m.Old), unit), amountCell(r.New, float64(m.New), unit)
	old.Narrow, now.Narrow = r.Narrow()
	row := Row{Keep: true, Cells: []Cell{
		{Text: r.Name}, old, now, amountCell(r.Ratio, float64(m.Ratio), "1"), intervalCell(r.Interval), {Text: r.P},
		{Text: fmt.Sprintf("%d and %d", m.Runs[0], m.Runs[1])}, {Text: string(r.Verdict), Tone: ToneOf(r.Verdict.Tone())}, amountCell(r.MDE, float64(m.MDE), "1")}}
	if r.Verdict == compare.Regressed {
		row.Tone = Bad
	}
	return row
}

// reasonBlocks lists each reason for a verdict once, with the metrics that have it.
func reasonBlocks(rows []verdict.Row) []Block {
	loud, same := List{Noun: "reason", Max: maxListed}, List{Noun: "reason", Max: maxListed, In: Terminal | Verbose}
	names := map[string][]string{}
	for _, r := range rows {
		names[r.Reason] = append(names[r.Reason], r.Name)
	}
	for _, r := range rows {
		of := names[r.Reason]
		if r.Reason == "" || of == nil {
			continue
		}
		delete(names, r.Reason) // list a reason once
		item := Item{Label: of[0], Text: r.Reason}
		if len(of) > 1 {
			item.Label = fmt.Sprintf("%s and %d more", of[0], len(of)-1)
		}
		if r.Verdict == compare.Same || r.Verdict == compare.TooSmall {
			same.Items = append(same.Items, item)
			continue
		}
		loud.Items = append(loud.Items, item)
	}
	return []Block{loud, same}
}

// budgetBlocks lists exceeded and unknown budgets, then kept ones.
func budgetBlocks(c *compare.Comparison) []Block {
	broken := List{Label: "budget", Noun: "budget", Max: maxListed}
	kept := List{Label: "budget", Noun: "budget", Max: maxListed}
	for i := range c.Budgets {
		b := &c.Budgets[i]
		item := Item{Text: verdict.BudgetText(b), Tone: ToneOf(b.Verdict.Tone())}
		if b.Verdict == compare.Same {
			kept.Items = append(kept.Items, item)
			continue
		}
		for _, where := range b.Where[:min(len(b.Where), maxPlaces)] {
			item.Sub = append(item.Sub, "at "+view.CutPlace(where, 60))
		}
		broken.Items = append(broken.Items, item)
	}
	return []Block{broken, kept}
}

// originSection attributes the change of the step to its stages.
func originSection(c *compare.Comparison, rows []verdict.Row) Section {
	s := Section{ID: "attribution", Heading: "Attribution of the step", HeadingIn: Terminal | Markdown | HTML}
	list := List{Noun: "stage", Max: maxListed}
	for _, cause := range c.Causes {
		list.Items = append(list.Items, Item{Text: verdict.CauseText(cause)})
	}
	if len(list.Items) > 0 {
		s.Blocks = []Block{Chart{ID: "waterfall", Narrow: true, Figure: func() *figure.Figure { return figure.Waterfall(c) },
			Note: "A bar for each stage that made at least 1 % of the change. " + verdict.AttributionNote}, list}
		return s
	}
	timed := slices.ContainsFunc(rows, func(r verdict.Row) bool { return r.Name == "step" && !r.Of.Exact })
	if timed && slices.ContainsFunc(rows, func(r verdict.Row) bool { return strings.HasPrefix(r.Name, "step/") }) {
		s.Blocks = []Block{Text{S: "The step's change is not large or not sure enough to be attributed to stages.", In: HTML}}
	}
	return s
}

// suggestionBlock lists the settings to change so that both sides take equal times, or the causes of the difference.
func suggestionBlock(c *compare.Comparison) Block {
	out := List{Ordered: true, Noun: "suggestion", Max: maxSuggestions}
	for _, f := range c.Findings {
		why, _ := f.Evidence["explained_by"].(string)
		rest := maps.Clone(f.Evidence)
		delete(rest, "explained_by") // the item's text has it
		item := Item{Text: cmp.Or(why, f.Rule+" in "+f.Stage), About: aboutRule(f.Rule)}
		change, claims := "", gpuprof.IsFinite(f.ClaimS) && f.ClaimS > 0
		switch {
		case f.Knob != "" && claims:
			change = fmt.Sprintf("set %s from %s to %s: saves up to %s per step", f.Knob, f.From, f.To, gpuprof.FormatSeconds(f.ClaimS))
		case f.Knob != "":
			change = fmt.Sprintf("%s went from %s to %s", f.Knob, f.From, f.To)
		case claims:
			change = "saves up to " + gpuprof.FormatSeconds(f.ClaimS) + " per step"
		}
		item.Lines = dropEmpty(Line{Label: "change", Value: change}, Line{Label: "evidence", Value: evidenceText(rest), In: HTML},
			Line{Label: "try", Value: f.Command, Code: true}, Line{Label: "PyTorch", Value: f.PyTorch, Code: true, In: Verbose})
		out.Items = append(out.Items, item)
	}
	return out
}

// suggestionsTitle returns the title of suggestionBlock: a suggestion if changing a knob would save time, else an
// explanation.
func suggestionsTitle(c *compare.Comparison) string {
	if slices.ContainsFunc(c.Findings, func(f gpuprof.Finding) bool { return f.Knob != "" && f.ClaimS > 0 }) {
		return "Suggested changes"
	}
	return "Explanation"
}

// differenceSection lists the fields that differ between the sides: in HTML a table per kind, equal fields folded.
func differenceSection(c *compare.Comparison) Section {
	s := Section{ID: "differences", Heading: "Differences in setup", HeadingIn: Terminal | Markdown | HTML}
	list := List{Noun: "field", Max: maxListed, In: Terminal | Markdown}
	kinds := []string{"knob", "environment", "code", ""}
	tables := map[string]*Table{}
	for i, name := range []string{"Knobs", "Environment", "Code", "Other differences"} {
		tables[kinds[i]] = &Table{Name: name, In: HTML, Columns: wordColumns("field", "old", "new", "must agree")}
	}
	for _, d := range c.Differences {
		tone, must := Plain, "no"
		switch {
		case d.Hard && d.Allowed:
			must = "yes; allowed to differ"
		case d.Hard:
			tone, must = Unsure, "yes"
		}
		item := Item{Text: verdict.DifferenceText(d), Tone: tone}
		if !d.Hard || d.Allowed {
			item.In = Verbose
		}
		list.Items = append(list.Items, item)
		t := tables[d.Kind]
		if t == nil {
			t = tables[""]
		}
		t.Rows = append(t.Rows, textRow(d.Field, verdict.Known(d.Old), verdict.Known(d.New), must))
	}
	s.Blocks = []Block{list}
	for _, kind := range kinds {
		s.Blocks = append(s.Blocks, *tables[kind])
	}
	switch {
	case len(c.Differences) > 0:
	case c.Fingerprints.Old == nil || c.Fingerprints.New == nil:
		s.Blocks = append(s.Blocks, Text{S: "There is no second side to differ from.", In: HTML})
	default:
		s.Blocks = append(s.Blocks, Text{S: "No recorded field differs.", In: HTML})
	}
	s.Blocks = append(s.Blocks, alikeTables(c)...)
	return s
}

// alikeTables lists knobs, environment and facts that are equal on both sides; they describe the machine.
func alikeTables(c *compare.Comparison) (out []Block) {
	old, now := c.Fingerprints.Old, c.Fingerprints.New
	if now == nil {
		return nil
	}
	if old == nil {
		old = now
	}
	knobs := func(f *compare.Fingerprint) map[string]string {
		out := map[string]string{}
		for name, k := range f.Knobs {
			out[name] = k.Value
		}
		return out
	}
	for _, part := range []struct {
		name string
		a, b map[string]string
	}{{"Knobs that are the same", knobs(old), knobs(now)}, {"Environment that is the same", old.Env, now.Env}, {"Further facts that are the same", old.Facts, now.Facts}} {
		t := Table{Name: part.name, Folded: part.name, In: HTML, Columns: wordColumns("field", "value")}
		for _, field := range slices.Sorted(maps.Keys(part.b)) {
			if value, has := part.a[field]; has && value == part.b[field] {
				t.Rows = append(t.Rows, textRow(field, value))
			}
		}
		out = append(out, t)
	}
	return out
}
