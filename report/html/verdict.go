package html

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/report/internal/verdict"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// verdictView is what verdict.tmpl shows of a comparison. Every text is clean.
type verdictView struct {
	Banner        *badge
	Headline, How string
	Lead          []view.Line
	Reasons       []labelled
	Next, Failed  []string
	Budgets       []labelled

	HasTimes  bool // a step on both sides, whose change has an origin
	Waterfall *chart
	CauseNote string
	Causes    []string

	Findings     []view.Finding
	MoreFindings int

	Metrics      gridView
	Forest       *chart
	ForestNote   string
	ForestLegend []legendItem

	Overlay       *chart
	OverlayNote   string
	OverlayLegend []legendItem

	Differences []gridView
	SameNote    string
	Alike       []gridView
	Warnings    []notice
}

const (
	maxForest  = 40
	maxMetrics = 300
	maxReasons = 12
)

// WriteVerdict writes the page of a comparison or gate.
func WriteVerdict(w io.Writer, c *compare.Comparison) error {
	if c == nil {
		return view.ErrNoRun("a report")
	}
	rows := verdict.Rows(c)
	v := &verdictView{Headline: verdict.Headline(c), How: verdict.How(c)}
	v.say(c, rows)
	v.origin(c)
	v.metrics(c, rows)
	v.Overlay, v.OverlayNote, v.OverlayLegend = overlayOf(c)
	v.surroundings(c)
	p := &document{Title: cmp.Or(verdict.Subject(c), "Comparison"), Meta: kindText(c), Verdict: v, Badge: &badge{verdictClass(c.Verdict), string(c.Verdict)},
		Footer: "A ratio is new over old; the replicate of every interval is the process."}
	return p.write(w, c.Tool, "comparison.json", c)
}

func kindText(c *compare.Comparison) string {
	parts := []string{map[string]string{"gate": "Gate: both sides measured in one job", "files": "Comparison of two result files",
		"baseline": "Comparison with a stored baseline", "budget": "Budgets on exact counters"}[c.Kind]}
	if parts[0] == "" {
		parts[0] = "Comparison"
	}
	return strings.Join(append(parts, fmt.Sprintf("exit code %d", c.ExitCode)), " · ")
}

// verdictClass is the colour of a verdict's badge.
func verdictClass(v compare.Verdict) string {
	switch v {
	case compare.Regressed:
		return "invalid"
	case compare.Pass, compare.Improved, compare.Same:
		return "complete"
	}
	return "partial"
}

// say words the verdict: the figures first, then why, then what to do.
func (v *verdictView) say(c *compare.Comparison, rows []verdict.Row) {
	switch {
	case len(c.Failed) > 0:
		v.Banner = &badge{"invalid", "Something gave no figure; the comparison is not whole."}
	case c.Verdict == compare.Inconclusive:
		v.Banner = &badge{"", "Inconclusive: the data at hand cannot tell. This is no pass and no regression."}
	}
	for _, name := range []string{"step", "throughput"} {
		for _, r := range rows {
			if r.Name == name && r.Ratio != view.None {
				v.Lead = append(v.Lead, view.Line{Label: name, Value: r.Ratio, Note: leadNote(r)})
			}
		}
	}
	seen := map[string]int{}
	for _, r := range rows {
		if r.Verdict == compare.Same || r.Reason == "" {
			continue
		}
		if at, has := seen[r.Reason]; has {
			v.Reasons[at].Label += ", " + r.Name
			continue
		}
		seen[r.Reason] = len(v.Reasons)
		v.Reasons = append(v.Reasons, labelled{r.Name, r.Reason})
	}
	for i := range v.Reasons {
		v.Reasons[i].Label = view.Cut(v.Reasons[i].Label, 160)
	}
	if n := len(v.Reasons); n > maxReasons {
		v.Reasons = append(v.Reasons[:maxReasons], labelled{"", fmt.Sprintf("%d more reasons are in the table's data.", n-maxReasons)})
	}
	for _, t := range c.Next {
		v.Next = append(v.Next, view.Cut(t, 600))
	}
	for _, t := range c.Failed {
		v.Failed = append(v.Failed, view.Cut(t, 600))
	}
	for i := range c.Budgets {
		word := "kept"
		switch b := &c.Budgets[i]; {
		case b.Verdict == compare.Inconclusive:
			word = "not known"
		case b.Over:
			word = "over"
		}
		v.Budgets = append(v.Budgets, labelled{word, budgetText(&c.Budgets[i])})
	}
}

func budgetText(b *compare.BudgetResult) string {
	text := verdict.BudgetText(b)
	for i, where := range b.Where {
		if i == 3 || !b.Over {
			break
		}
		text += "; at " + view.Cut(where, 120)
	}
	return text
}

func leadNote(r verdict.Row) string {
	note := r.Old + " to " + r.New
	if r.Interval != view.None {
		note = "95 % " + r.Interval + "; " + note
	}
	return note + "; " + string(r.Verdict)
}

// origin attributes the change of the step to its stages.
func (v *verdictView) origin(c *compare.Comparison) {
	var step *compare.MetricResult
	stages := false
	for i := range c.Metrics {
		if m := &c.Metrics[i]; m.Name == "step" && !m.Exact {
			step = m
		}
		stages = stages || strings.HasPrefix(c.Metrics[i].Name, "step/")
	}
	v.Findings = view.Findings(&gpuprof.Run{Findings: c.Findings})
	v.MoreFindings = max(len(c.Findings)-len(v.Findings), 0)
	if len(c.Causes) == 0 {
		if v.HasTimes = step != nil && stages; v.HasTimes {
			v.CauseNote = "The step's change is not large or not sure enough to be attributed to stages."
		}
		return
	}
	v.HasTimes = true
	var falls []fall
	for _, cause := range c.Causes {
		falls = append(falls, fall{cause.Stage, float64(cause.Change)})
		v.Causes = append(v.Causes, verdict.CauseText(cause))
	}
	if a := c.Attribution; a != nil {
		v.Waterfall = waterfall(float64(a.Old), float64(a.New), falls, "the rest")
	}
	if v.Waterfall != nil {
		v.CauseNote = "A bar for each stage that made at least 1 % of the change. " + verdict.AttributionNote
	}
}

// metrics fills the forest plot and the table.
func (v *verdictView) metrics(c *compare.Comparison, rows []verdict.Row) {
	var drawn []effect
	threshold, common := 0.0, true
	left := 0
	for _, r := range rows {
		m := r.Of
		if r.Ratio == view.None || m.Exact && m.Old == m.New {
			continue
		}
		if len(drawn) == maxForest {
			left++
			continue
		}
		common = common && (len(drawn) == 0 || m.Threshold == threshold || m.Exact)
		threshold = max(threshold, m.Threshold)
		e := effect{label: r.Name, ratio: float64(m.Ratio), lo: float64(m.CI95[0]), hi: float64(m.CI95[1]), class: effectClass(m.Verdict), note: r.Ratio + " " + string(m.Verdict)}
		if r.Interval != view.None {
			e.note = r.Ratio + "  " + r.Interval
		}
		drawn = append(drawn, e)
	}
	var marks []float64
	if common && threshold > 0 {
		marks = []float64{1 + threshold, 1 / (1 + threshold)}
	}
	v.Forest = forest("effects", "Ratio of new to old", "new over old", drawn, marks...)
	v.ForestLegend = []legendItem{{"v-bad", "regressed", ""}, {"v-unsure", "inconclusive", ""}, {"v-good", "improved", ""}, {"v-even", "the same", ""}}
	if left > 0 {
		v.ForestNote = fmt.Sprintf("%d more are in the table.", left)
	}
	v.Metrics = gridView{ID: "metrics", Heading: "Table of metrics", Caption: "Medians of the run medians; p is one-sided, of not being worse than the equivalence margin, adjusted where several were tested. The last column is the least slowdown that data like these would find.",
		Titles: []string{"metric", "old", "new", "ratio", "95 % interval", "p", "runs", "verdict", "finds from"}}
	if len(rows) > maxMetrics {
		v.Metrics.Caption += fmt.Sprintf(" The first %d of %d; all are in the data.", maxMetrics, len(rows))
	}
	for _, r := range rows[:min(len(rows), maxMetrics)] {
		class := ""
		if r.Verdict == compare.Regressed {
			class = "failed"
		}
		v.Metrics.Classes = append(v.Metrics.Classes, class)
		v.Metrics.Rows = append(v.Metrics.Rows, []string{view.Cut(r.Name, 90), r.Old, r.New, r.Ratio, r.Interval, r.P,
			fmt.Sprintf("%d and %d", r.Of.Runs[0], r.Of.Runs[1]), string(r.Verdict), r.MDE})
	}
}

func effectClass(v compare.Verdict) string {
	switch v {
	case compare.Regressed:
		return "bad"
	case compare.Improved:
		return "good"
	case compare.Inconclusive:
		return "unsure"
	}
	return "even"
}

func overlayOf(c *compare.Comparison) (ch *chart, note string, legend []legendItem) {
	ch, left := overlayChart(c)
	if left > 0 {
		note = fmt.Sprintf("%s more are in the data.", view.Plural(left, "metric"))
	}
	return ch, note, []legendItem{{"hill-old", "old: " + view.Cut(cmp.Or(c.Old, "the old side"), 60), ""}, {"s-new", "new: " + view.Cut(cmp.Or(c.New, "the new side"), 60), ""}}
}

// surroundings lists what differs, by kind, and on request what does not.
func (v *verdictView) surroundings(c *compare.Comparison) {
	for _, kind := range []struct{ name, heading string }{{"knob", "Knobs"}, {"environment", "Environment"}, {"code", "Code"}, {"", "Others"}} {
		g := gridView{Heading: kind.heading + " that differ", Caption: kind.heading + " that differ.", Titles: []string{"field", "old", "new", "must agree"}, Words: true}
		for _, d := range c.Differences {
			known := d.Kind == "knob" || d.Kind == "environment" || d.Kind == "code"
			if d.Kind != kind.name && (known || kind.name != "") {
				continue
			}
			note := "no"
			switch {
			case d.Hard && d.Allowed:
				note = "yes; allowed to differ"
			case d.Hard:
				note = "yes"
			}
			g.Rows = append(g.Rows, []string{view.Cut(d.Field, 60), orUnknown(d.Old), orUnknown(d.New), note})
		}
		if len(g.Rows) > 0 {
			v.Differences = append(v.Differences, g)
		}
	}
	v.SameNote = "Nothing that was recorded differs."
	if c.Fingerprints.Old == nil || c.Fingerprints.New == nil {
		v.SameNote = "There is no second side to differ from."
	}
	v.Alike = alike(c)
	v.Warnings = notices([]*gpuprof.Run{{Warnings: c.Warnings}})
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return view.Cut(s, 120)
}

// alike is the environment and the knobs that both sides share, for readers
// who ask what was measured on.
func alike(c *compare.Comparison) []gridView {
	old, now := c.Fingerprints.Old, c.Fingerprints.New
	if now == nil {
		return nil
	}
	knobs := func(f *compare.Fingerprint) map[string]string {
		out := map[string]string{}
		for name, k := range f.Knobs {
			out[name] = k.Value
		}
		return out
	}
	if old == nil {
		old = now
	}
	var out []gridView
	for _, part := range []struct {
		heading string
		a, b    map[string]string
	}{{"Knobs that are the same", knobs(old), knobs(now)}, {"Environment that is the same", old.Env, now.Env}, {"Further facts that are the same", old.Facts, now.Facts}} {
		g := gridView{Heading: part.heading, Caption: part.heading + ".", Titles: []string{"field", "value"}, Words: true}
		for _, field := range slices.Sorted(maps.Keys(part.b)) {
			if value, has := part.a[field]; has && value == part.b[field] {
				g.Rows = append(g.Rows, []string{view.Cut(field, 60), view.Cut(value, 160)})
			}
		}
		if len(g.Rows) > 0 {
			out = append(out, g)
		}
	}
	return out
}
