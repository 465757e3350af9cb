package report_test

import (
	"bytes"
	"html"
	"io"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/compare/results"
	"github.com/gpuprof/gpuprof/report/benchfmt"
	"github.com/gpuprof/gpuprof/report/figure"
	htmlreport "github.com/gpuprof/gpuprof/report/html"
	"github.com/gpuprof/gpuprof/report/internal/fixture"
	"github.com/gpuprof/gpuprof/report/junit"
	"github.com/gpuprof/gpuprof/report/markdown"
	"github.com/gpuprof/gpuprof/report/runfile"
	"github.com/gpuprof/gpuprof/report/table"
)

func rendered(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// galleryRuns are the recorded runs of the gallery, by name.
func galleryRuns(t *testing.T) map[string]*gpuprof.Run {
	t.Helper()
	out := map[string]*gpuprof.Run{}
	for _, name := range []string{"e3nn-csr", "e3nn-unfused"} {
		runs, err := runfile.Read(filepath.Join("..", "testdata", "gallery", name+".json.gz"))
		if err != nil || len(runs) != 1 {
			t.Fatalf("%s: %d runs, %v", name, len(runs), err)
		}
		out[name] = runs[0]
	}
	return out
}

// The same quantity of a run reads the same in every format.
func TestRunsReadTheSameEverywhere(t *testing.T) {
	runs := fixture.Every()
	maps.Copy(runs, galleryRuns(t))
	for name, r := range runs {
		page := pageOf([]*gpuprof.Run{r})
		formats := map[string]figures{
			"table":    ofTable(rendered(t, func(w io.Writer) error { return table.Write(w, page, table.Options{Width: 200}) })),
			"narrow":   ofTable(rendered(t, func(w io.Writer) error { return table.Write(w, page, table.Options{Width: 80}) })),
			"markdown": ofMarkdown(rendered(t, func(w io.Writer) error { return markdown.Write(w, page, 0) })),
			"html":     ofHTML(rendered(t, func(w io.Writer) error { return htmlreport.Write(w, page) })),
		}
		maps.Copy(formats, figuresOfRun(r))
		shared := agree(t, name, formats)
		if measured := r.Step.N() > 0 && r.Status == gpuprof.Complete && name != "nan"; measured && shared < 5*len(r.Stages)/2 {
			t.Errorf("%s: only %d figures of %d stages are in two formats", name, shared, len(r.Stages))
		}
		if r.Step.N() > 0 {
			benchFile(t, name, r, formats["table"])
		}
	}
}

var benchLine = regexp.MustCompile(`(?m)^Benchmark(\S+) \d+ (.*)$`)

// benchFile wants benchstat's file to hold the times that the table prints: a figure
// lies among those of its processes.
func benchFile(t *testing.T, name string, r *gpuprof.Run, printed figures) {
	t.Helper()
	times := map[[2]string][]float64{}
	for _, m := range benchLine.FindAllStringSubmatch(rendered(t, func(w io.Writer) error { return benchfmt.Write(w, []*gpuprof.Run{r}) }), -1) {
		row := "step"
		if _, stage, ok := strings.Cut(m[1], "/stage="); ok {
			row, _, _ = strings.Cut(stage, "/")
		}
		words := strings.Fields(m[2])
		for i := 0; i+1 < len(words); i += 2 {
			column, ok := map[string]string{"sec/op": "value", "device-sec/op": "device", "host-sec/op": "host", "exposed-sec/op": "exposed"}[words[i+1]]
			if v, err := strconv.ParseFloat(words[i], 64); ok && err == nil {
				times[[2]string{row, column}] = append(times[[2]string{row, column}], v)
			}
		}
	}
	compared := 0
	for k, v := range times {
		if q, ok := quantity(printed[k]); ok {
			compared++
			if q < 0.994*slices.Min(v) || q > 1.006*slices.Max(v) {
				t.Errorf("%s: %s of %s is %s in the table and %v s in benchstat's file", name, k[1], k[0], printed[k], v)
			}
		}
	}
	if compared < len(r.Stages)/3 {
		t.Errorf("%s: only %d times are in benchstat's file and in the table", name, compared)
	}
}

// comparisons are those of the gallery's runs, and made-up ones.
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
		page := rendered(t, func(w io.Writer) error { return htmlreport.WriteVerdict(w, c) })
		note := rendered(t, func(w io.Writer) error { return markdown.WriteGate(w, c, 0) })
		formats := map[string]figures{
			"table":    ofTable(rendered(t, func(w io.Writer) error { return table.Gate(w, c, table.Options{Width: 200}) })),
			"markdown": ofMarkdown(note),
			"html":     ofHTML(page),
			"figure":   ofFigure("effects", figure.Effects(c)),
		}
		if shared := agree(t, name, formats); shared < 3*min(len(c.Metrics), 20) {
			t.Errorf("%s: only %d figures of %d metrics are in two formats", name, shared, len(c.Metrics))
		}
		ratiosOf(t, name, c, formats["table"])
		waterfalls(t, name, c, page)
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
	c := fixture.GatePassed()
	c.Causes = []compare.Cause{{Stage: "x", ShareOfChange: 1, Change: gpuprof.Number(v)}}
	var b bytes.Buffer
	_ = markdown.WriteGate(&b, c, 0)
	return signed.FindString(b.String())
}

// The parts of a step read the same in every format of an analysis; the page draws
// them in a chart.
func TestAnalysesReadTheSameEverywhere(t *testing.T) {
	for _, name := range []string{"item-fires.json", "deterministic-fires.json", "dataloader-stall-fires.json"} {
		a, xs := fixture.Study(t, name)
		page := html.UnescapeString(rendered(t, func(w io.Writer) error { return htmlreport.WriteAnalysis(w, a, xs) }))
		printed := ofTable(rendered(t, func(w io.Writer) error { return table.Analysis(w, a, table.Options{Width: 200}) }))
		formats := map[string]figures{"table": printed, "markdown": ofMarkdown(rendered(t, func(w io.Writer) error { return markdown.WriteAnalysis(w, a) })), "figure": ofFigure("accounts", figure.Accounts(a))}
		if shared := agree(t, name, formats); shared < 6 {
			t.Errorf("%s: only %d figures are in two formats", name, shared)
		}
		for k, v := range printed {
			if k[1] == "time" && !strings.Contains(page, v) {
				t.Errorf("%s: the page does not hold %s, the time of %s", name, v, k[0])
			}
		}
	}
}

// A number changed by hand in one format is found, and so is one that only looks alike.
func TestAFormatThatDisagreesIsFound(t *testing.T) {
	r := fixture.One()
	text := rendered(t, func(w io.Writer) error { return markdown.Write(w, pageOf([]*gpuprof.Run{r}), 0) })
	own := ofMarkdown(text)
	for _, k := range [][2]string{{"radial", "exposed"}, {"radial", "95 % interval"}, {"step", "value"}, {"throughput", "remark"}, {"h2d", "share"}} {
		other := maps.Clone(own)
		if own[k] == "" {
			t.Fatalf("no %s of %s in %s", k[1], k[0], text)
		}
		other[k] = strings.NewReplacer("1", "2", "2", "3", "3", "4", "4", "5", "5", "6", "6", "7").Replace(own[k])
		if found := disagreements(map[string]figures{"a": own, "b": other}); len(found) != 1 {
			t.Errorf("%s of %s as %s and %s: %v", k[1], k[0], own[k], other[k], found)
		}
	}
}
