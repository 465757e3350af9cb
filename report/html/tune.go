package html

import (
	"fmt"
	"io"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// tuneView is what tune.tmpl shows of a tuning result. Every text is clean.
type tuneView struct {
	Banner   *badge
	IsSearch bool // a search for a setting, not a test of claims
	Goal     string

	Headline, Command string
	Lead, Facts       []view.Line
	PyTorch           []string

	Effects      gridView
	Forest       *chart
	ForestLegend []legendItem
	Curves       []tuneCurve

	Claims        gridView
	ClaimHeadline string
	ClaimForest   *chart
	ClaimLegend   []legendItem
	ClaimNotes    []claimNote

	Failed []labelled
	Search []labelled
}

type tuneCurve struct {
	ID, Knob, Note string
	Chart          *chart
	Table          gridView
}

type claimNote struct {
	ID, Claim, Guide string
	Lines            []string
}

// WriteTune writes the page of a tuning result: of a search, or of claims.
func WriteTune(w io.Writer, r *tune.Result) error {
	if r == nil {
		return view.ErrNoRun("a report")
	}
	v := &tuneView{IsSearch: len(r.Claims) == 0, Goal: view.Cut(string(r.Goal), 20)}
	if r.Status != gpuprof.Complete {
		v.Banner = &badge{"", strings.ToUpper(view.Cut(string(r.Status), 20)) + ": " + view.Cut(r.Reason, 300)}
		if r.Reason == "" {
			v.Banner.Value = "Not complete: the search did not come to its end; go on with --resume."
		}
	}
	v.recommend(r)
	v.effects(r)
	for i, c := range r.Curves {
		v.Curves = append(v.Curves, newTuneCurve(i, c))
	}
	v.claims(r)
	for _, f := range r.Failed {
		v.Failed = append(v.Failed, labelled{settingsText(f.Knobs), view.Cut(f.Error, 600)})
	}
	v.search(r)
	status := view.Cut(string(r.Status), 20)
	p := &document{Title: tuneTitle(r), Meta: tuneMeta(r), Tune: v, Badge: &badge{status, status},
		Footer: "Nothing is recommended that fresh processes did not confirm."}
	if status == "" {
		p.Badge.Value = "unknown status"
	}
	return p.write(w, r.Tool, "tune.json", r)
}

func tuneTitle(r *tune.Result) string {
	if r.Workload == "" {
		return "Claims of tuning guides"
	}
	return strings.TrimSpace("Tuning " + view.Cut(r.Workload, 40) + " " + view.Cut(r.Preset, 24))
}

func tuneMeta(r *tune.Result) string {
	parts := []string{view.Cut(r.DeviceDoc, 60)}
	if r.Device != "" && r.Device != r.DeviceDoc {
		parts[0] += " [" + view.Cut(r.Device, 16) + "]"
	}
	if len(r.Claims) == 0 && r.Goal != "" {
		parts = append(parts, "goal "+view.Cut(string(r.Goal), 20))
	}
	parts = append(parts, fmt.Sprintf("%s of %s spent", view.Seconds(r.SpentS), view.Seconds(r.BudgetS)))
	if !r.Started.IsZero() {
		parts = append(parts, r.Started.UTC().Format("2006-01-02 15:04 UTC"))
	}
	return strings.Join(parts, " · ")
}

// recommend words the conclusion, and the recommendation with what it costs.
func (v *tuneView) recommend(r *tune.Result) {
	rec := r.Recommended
	v.Headline, v.Command = r.Conclusion.Text, view.Cut(r.Conclusion.Command, 600)
	if v.Headline == "" {
		v.Headline = "Nothing is recommended yet; go on with --resume."
		return
	}
	add := func(label, value, note string) {
		v.Facts = append(v.Facts, view.Line{Label: label, Value: value, Note: note})
	}
	if d := r.Default; d != nil && view.Finite(d.Median) && d.Median > 0 {
		add("default", view.Cost(d.Median, r.Unit), pointNote(d.CI95, r.Unit))
	}
	for _, t := range r.PeerLines() {
		add("beside it", view.Cut(t, 300), "")
	}
	if rec == nil {
		return
	}
	for _, l := range rec.PyTorch {
		v.PyTorch = append(v.PyTorch, view.Cut(l, 300))
	}
	if rec.Ratio > 0 && view.Finite(rec.Ratio) {
		v.Lead = append(v.Lead, view.Line{Label: v.Goal + ", recommended over default", Value: "x" + factor(rec.Ratio),
			Note: "95 % " + factorSpan(rec.CI95) + "; paired blocks in " + view.Plural(rec.Processes, "fresh process")})
	}
	if rec.Error > 0 && view.Finite(rec.Error) {
		add("error", fmt.Sprintf("%.2g", rec.Error), "relative, against float64")
	}
	if rec.MemoryRatio > 0 && view.Finite(rec.MemoryRatio) {
		add("memory", fmt.Sprintf("x%.2f", rec.MemoryRatio), "of the default's peak")
	}
	if t := rec.OneTimeText(); t != "" {
		once, saved, _ := strings.Cut(t, "; ")
		add("paid once", view.Cut(once, 200), view.Cut(saved, 100))
	}
}

func pointNote(ci [2]float64, unit string) string {
	if ci == [2]float64{} {
		return view.PointInterval(ci, unit)
	}
	return "95 % " + view.PointInterval(ci, unit)
}

// factor prints a ratio with three digits behind the point.
func factor(v float64) string {
	switch {
	case !view.Finite(v):
		return view.None
	case v >= 1000 || v < 0.001 && v > 0:
		return fmt.Sprintf("%.3g", v)
	}
	return fmt.Sprintf("%.3f", v)
}

func factorSpan(ci [2]float64) string { return view.Interval(ci, factor) }

// effects fills the forest plot and the table of knobs.
func (v *tuneView) effects(r *tune.Result) {
	v.Effects = gridView{Heading: "Table of effects", Titles: []string{"knob", "from", "to", v.Goal + " ratio", r.IntervalText(), "error", "memory", "verdict", "why, or in PyTorch"}, LastIsRemark: true,
		Caption: "Error is the largest relative error against float64, memory the peak over that of the default."}
	var rows []effect
	for _, c := range r.Confirmations {
		rows = append(rows, confirmationRow(c))
	}
	for _, f := range r.Effects {
		row := []string{view.Cut(f.Knob, 30), view.Cut(f.From, 24), view.Cut(f.To, 24), view.None, view.None, view.None, view.None, view.Cut(string(f.Verdict), 20), orNone(view.Cut(f.PyTorch, 200))}
		note := row[7]
		if f.Ratio > 0 && view.Finite(f.Ratio) {
			row[3], row[4] = factor(f.Ratio), factorSpan(f.CI95)
			note = "x" + row[3] + "  " + row[4]
		}
		if f.Error > 0 && view.Finite(f.Error) {
			row[5] = fmt.Sprintf("%.1e", f.Error)
		}
		if f.MemoryRatio > 0 && view.Finite(f.MemoryRatio) {
			row[6] = fmt.Sprintf("x%.2f", f.MemoryRatio)
		}
		if f.Reason != "" {
			row[8] = view.Cut(f.Reason, 300)
		}
		v.Effects.Rows = append(v.Effects.Rows, row)
		rows = append(rows, effect{label: row[0] + "=" + row[2], ratio: f.Ratio, lo: f.CI95[0], hi: f.CI95[1], class: tuneClass(f.Verdict), note: note})
	}
	// The same equivalence margin as the verdicts'.
	v.Forest = forest("effects", "Effect of each knob", v.Goal+" of the setting over the default's", rows, 0.98, 1.02)
	v.ForestLegend = []legendItem{{"v-good", "better", ""}, {"v-bad", "worse or failed", ""}, {"v-even", "none: within 2 %, the dashed lines", ""}, {"v-unsure", "inconclusive or refused", ""}}
}

// confirmationRow is a setting as fresh processes saw it, with the interval that
// decides.
func confirmationRow(c tune.Confirmation) effect {
	class, word := "unsure", "not confirmed"
	if c.Confirmed {
		class, word = "good", "confirmed"
	}
	e := effect{label: word + ": " + settingsText(c.Knobs), ratio: c.Ratio, lo: c.Interval[0], hi: c.Interval[1], class: class, note: word}
	if c.Ratio > 0 && view.Finite(c.Ratio) {
		e.note = "x" + factor(c.Ratio) + "  " + factorSpan(c.Interval)
	}
	return e
}

func tuneClass(v tune.Verdict) string {
	switch {
	case v.Better():
		return "good"
	case v == tune.Slower || v == tune.More || v == tune.Failed:
		return "bad"
	case v == tune.None:
		return "even"
	}
	return "unsure"
}

func newTuneCurve(i int, c tune.Curve) tuneCurve {
	knob := view.Cut(c.Knob, 40)
	t := tuneCurve{ID: fmt.Sprintf("curve%d", i), Knob: knob, Table: gridView{Heading: "Table of the curve over " + knob, Titles: []string{knob, "cost", "95 % interval", "knee"}}}
	t.Note = "No value is within reach of a knee."
	if c.Knee != "" {
		t.Note = fmt.Sprintf("The knee is at %s: the smallest value within 5 %% of the best.", view.Cut(c.Knee, 24))
	}
	format := func(x float64) string { return view.Cost(x, c.Unit) }
	for _, p := range c.Points {
		mark := ""
		if p.Value == c.Knee {
			mark = "knee"
		}
		t.Table.Rows = append(t.Table.Rows, []string{view.Cut(p.Value, 24), format(p.Median), view.Interval(p.CI95, format), mark})
	}
	t.Chart = kneeChart(t.ID, knob, c)
	return t
}

func settingsText(s gpuprof.Settings) string {
	m := map[string]any{}
	for k, v := range s {
		m[k] = v
	}
	if len(m) == 0 {
		return "the default"
	}
	return view.Cut(view.Pairs(m), 120)
}

// search says how the figures came about.
func (v *tuneView) search(r *tune.Result) {
	add := func(label, value string) {
		if value != "" {
			v.Search = append(v.Search, labelled{label, value})
		}
	}
	add("device", view.Cut(r.DeviceDoc, 80))
	add("fixed", view.Cut(view.Pairs(anyOf(r.Set)), 300))
	add("turned only", view.Cut(strings.Join(r.Only, ", "), 300))
	if r.MaxError > 0 {
		add("error limit", fmt.Sprintf("%.2g, relative, against float64", r.MaxError))
	}
	if r.MaxMemory > 0 {
		add("memory limit", gpuprof.FormatBytes(float64(r.MaxMemory)))
	}
	add("seed", fmt.Sprint(r.Seed))
	add("measurements", fmt.Sprint(len(r.Journal)))
}

func anyOf(s gpuprof.Settings) map[string]any {
	m := map[string]any{}
	for k, v := range s {
		m[k] = v
	}
	return m
}
