package report_test

import (
	"html"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/compare/results"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/report/figure"
	htmlreport "github.com/gpuprof/gpuprof/report/html"
	"github.com/gpuprof/gpuprof/report/internal/verdict"
	"github.com/gpuprof/gpuprof/report/junit"
	"github.com/gpuprof/gpuprof/report/markdown"
	"github.com/gpuprof/gpuprof/report/page"
	"github.com/gpuprof/gpuprof/report/table"
)

// printed is a document in every format that a page is written in.
type printed struct{ table, narrow, markdown, html string }

func everyFormat[D any](t *testing.T, build func(D) (*page.Page, error), doc D) printed {
	t.Helper()
	p, err := build(doc)
	if err != nil {
		t.Fatal(err)
	}
	return printed{
		table:    rendered(t, func(w io.Writer) error { return table.Write(w, p, table.Options{Width: 240}) }),
		narrow:   rendered(t, func(w io.Writer) error { return table.Write(w, p, table.Options{Width: 80}) }),
		markdown: rendered(t, func(w io.Writer) error { return markdown.Write(w, p, 0) }),
		html:     rendered(t, func(w io.Writer) error { return htmlreport.Write(w, p) }),
	}
}

func (p printed) figures() map[string]figures {
	return map[string]figures{"table": ofTable(p.table), "narrow": ofTable(p.narrow), "markdown": ofMarkdown(p.markdown), "html": ofHTML(p.html)}
}

// comparisons returns the comparisons of the gallery's runs, and synthetic ones.
func comparisons(t *testing.T) map[string]*compare.Comparison {
	t.Helper()
	out := map[string]*compare.Comparison{
		"regressed": fixture.GateRegressed(), "passed": fixture.GatePassed(), "unsure": fixture.GateUnsure(), "many": fixture.GateMany(40, 7),
	}
	read := func(name string) *compare.Result {
		got, _, err := results.Read(filepath.Join("..", "testdata", "gallery", name+".json.gz"), results.OS)
		if err != nil || len(got) != 1 {
			t.Fatalf("%s: %d results, %v", name, len(got), err)
		}
		return got[0]
	}
	for _, pair := range [][2]string{{"e3nn-csr", "e3nn-unfused"}, {"e3nn-unfused", "e3nn-csr"}} {
		c, err := compare.Compare(read(pair[0]), read(pair[1]), compare.Options{})
		if err != nil {
			t.Fatal(err)
		}
		out[pair[0]+" to "+pair[1]] = c
	}
	return out
}

// The same quantity of a comparison reads the same in every format, and every
// waterfall goes from the same step to the same step by the same changes.
func TestComparisonsReadTheSameEverywhere(t *testing.T) {
	for name, c := range comparisons(t) {
		texts := everyFormat(t, page.Comparison, c)
		formats := texts.figures()
		formats["figure"] = ofFigure("effects", figure.Effects(c))
		if shared := agree(t, name, formats); shared < 3*min(len(c.Metrics), 20) {
			t.Errorf("%s: only %d figures of %d metrics are in two formats", name, shared, len(c.Metrics))
		}
		ratiosOf(t, name, c, formats["table"])
		waterfalls(t, name, c, texts.html)
	}
}

// ratiosOf wants the ratio of each regressed metric in JUnit's and benchstat's
// files too.
func ratiosOf(t *testing.T, name string, c *compare.Comparison, printed figures) {
	t.Helper()
	xml := rendered(t, func(w io.Writer) error { return junit.Write(w, c, junit.Options{}) })
	for _, m := range c.Metrics {
		if ratio := printed[[2]string{m.Name, "ratio"}]; m.Verdict == compare.Regressed && ratio != "" && ratio != "-" && !strings.Contains(xml, ratio) {
			t.Errorf("%s: JUnit does not hold the ratio %s of %s", name, ratio, m.Name)
		}
	}
}

var signed = regexp.MustCompile(`[+-][0-9.]+ [nmu]?s\b`)

// waterfalls compares the page's with the picture's.
func waterfalls(t *testing.T, name string, c *compare.Comparison, page string) {
	t.Helper()
	if len(c.Causes) == 0 {
		return
	}
	f, err := figure.OfComparison(c, "waterfall")
	if err != nil {
		t.Fatal(err)
	}
	svg := html.UnescapeString(rendered(t, func(w io.Writer) error { return f.Write(w, "svg", 0, 0) }))
	_, chart, _ := strings.Cut(page, `id="waterfall`)
	chart, _, _ = strings.Cut(html.UnescapeString(chart), "</svg>")
	a := c.Attribution
	if a == nil || chart == "" {
		t.Fatalf("%s: attribution %v, chart of %d bytes", name, a, len(chart))
	}
	sum := float64(a.Old + a.Rest)
	for _, cause := range c.Causes {
		sum += float64(cause.Change)
		want := signedText(float64(cause.Change))
		for where, text := range map[string]string{"page": chart, "picture": svg} {
			if !slices.Contains(signed.FindAllString(text, -1), want) {
				t.Errorf("%s: the %s does not have the change %s of %s", name, where, want, cause.Stage)
			}
		}
	}
	if math.Abs(sum-float64(a.New)) > 1e-9*math.Abs(sum) {
		t.Errorf("%s: %g, causes and the rest are %g s and not %g", name, float64(a.Old), sum, float64(a.New))
	}
	for _, v := range []gpuprof.Number{a.Old, a.New} {
		want := strings.TrimLeft(signedText(float64(v)), "+")
		if !strings.Contains(chart, want) || !strings.Contains(svg, want) {
			t.Errorf("%s: the step of %s is in the page: %v, in the picture: %v", name, want, strings.Contains(chart, want), strings.Contains(svg, want))
		}
	}
}

// signedText is a change as the markdown of a cause spells it.
func signedText(v float64) string {
	return signed.FindString(verdict.CauseText(compare.Cause{Stage: "x", ShareOfChange: 1, Change: gpuprof.Number(v)}))
}

// The parts of a step read the same in every format of an analysis.
func TestAnalysesReadTheSameEverywhere(t *testing.T) {
	for _, name := range []string{"item-fires.json", "deterministic-fires.json", "dataloader-stall-fires.json"} {
		a, _ := fixture.Study(t, name)
		texts := everyFormat(t, func(a *analyze.Analysis) (*page.Page, error) { return page.Analysis(a, nil) }, a)
		formats := texts.figures()
		formats["figure"] = ofFigure("accounts", figure.Accounts(a))
		if shared := agree(t, name, formats); shared < 12 {
			t.Errorf("%s: only %d figures are in two formats", name, shared)
		}
		for k, v := range formats["table"] {
			if k[1] == "time" && formats["html"][k] != v {
				t.Errorf("%s: the page says %q for %s, the time of %s", name, formats["html"][k], v, k[0])
			}
		}
	}
	old, _ := fixture.Study(t, "dataloader-stall-fires.json")
	now, _ := fixture.Study(t, "dataloader-stall-quiet.json")
	c := rules.Compare(old, now)
	if shared := agree(t, "traces", everyFormat(t, func(c *analyze.Comparison) (*page.Page, error) { return page.TraceComparison(c, nil, nil) }, c).figures()); shared < 3*len(c.Classes) {
		t.Errorf("only %d changes are in two formats", shared)
	}
}

// So do the figures of tuning, of claims and of a health check.
func TestOtherDocumentsReadTheSameEverywhere(t *testing.T) {
	tuned := &tune.Result{Workload: "e3nn", Goal: tune.Time, Unit: "s per probe", Effects: []tune.Effect{
		{Knob: "batch", From: "128", To: "512", Ratio: 0.7604, CI95: [2]float64{0.7413, 0.7807}, Error: 3.14e-7, MemoryRatio: 3.714, Verdict: tune.Faster},
		{Knob: "impl", From: "csr", To: "unfused", Ratio: 1.612, CI95: [2]float64{1.552, 1.671}, Verdict: tune.Slower}},
		Curves: []tune.Curve{{Knob: "batch", Unit: "s per probe", Knee: "512", Points: []tune.CurvePoint{{Value: "128", Median: 2.273e-5, CI95: [2]float64{2.2e-5, 2.35e-5}}, {Value: "512", Median: 2.19e-5, CI95: [2]float64{2.14e-5, 2.23e-5}}}}}}
	formats := everyFormat(t, page.Tune, tuned).figures()
	if formats["figure"] = ofFigure("knobs", figure.KnobEffects(tuned)); len(formats["figure"]) < 10 {
		t.Errorf("only %v are read from the figure of knobs", formats["figure"])
	}
	if formats["curve"] = ofFigure("curve", figure.Curve(tuned, 0)); len(formats["curve"]) != 2 {
		t.Errorf("only %v are read from the curve", formats["curve"])
	}
	if shared := agree(t, "tune", formats); shared < 10 {
		t.Errorf("only %d figures of tuning are in two formats", shared)
	}
	claims := &tune.Result{Claims: []tune.ClaimRow{{ID: "a", Figure: "2x", Measured: 1.123, CI95: [2]float64{1.084, 1.163}, Verdict: "confirmed"},
		{ID: "b", Figure: "60 %", Measured: 0.584, CI95: [2]float64{0.551, 0.612}, What: "of the largest stage", Verdict: "smaller"}}}
	formats = everyFormat(t, page.Tune, claims).figures()
	if formats["figure"] = ofFigure("claims", figure.Claims(claims)); len(formats["figure"]) < 4 {
		t.Errorf("only %v are read from the figure of claims", formats["figure"])
	}
	if shared := agree(t, "claims", formats); shared < 6 {
		t.Errorf("only %d figures of claims are in two formats", shared)
	}
	report, err := health.Judge(nil, []health.Card{{Device: "cuda:0", Name: "made up", Sources: []health.Source{{Name: health.SourceECC, Answer: health.NoFault, Decides: true}}, Metrics: []health.Metric{{Name: "copy", Unit: "B/s", Value: 4e12}, {Name: "launch", Unit: "s", Value: 5.25e-6}}}}, nil, gpuprof.Tool{})
	if err != nil {
		t.Fatal(err)
	}
	if shared := agree(t, "health", everyFormat(t, page.Health, report).figures()); shared < 2 {
		t.Errorf("only %d figures of a health check are in two formats", shared)
	}
}
