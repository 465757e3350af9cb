package report_test

import (
	"compress/gzip"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/bisect"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/explain"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/internal/history"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/report/benchfmt"
	"github.com/gpuprof/gpuprof/report/csv"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/junit"
	"github.com/gpuprof/gpuprof/report/metrics"
	"github.com/gpuprof/gpuprof/report/page"
	"github.com/gpuprof/gpuprof/report/prometheus"
)

// guarded is a document with all that is written of it.
type guarded struct {
	kind, name string                    // kind is a field of cmd's table of outputs
	document   string                    // what report/figure calls it, "" for one without figures
	page       *page.Page                // written as table, markdown and html
	json       string                    // the document itself
	files      map[string]string         // of the other formats: csv, bench, junit
	figures    map[string]*figure.Figure // by the value of --plot
}

// elsewhere are the formats whose numbers other tests compare with the document's: both are
// binary, or of another document than a page shows.
var elsewhere = map[string]string{
	"pprof":      "TestStagesAreTheTablesFigures and the tests beside it read the profile back",
	"perfetto":   "report/perfetto reads its own traces back",
	"speedscope": "report/stacks sums its weights", "folded": "report/stacks sums its lines",
}

// guard makes a guarded document. draw gives the figure of a name.
func guard[D any](t *testing.T, kind, name, what string, doc D, build func(D) (*page.Page, error), draw func(D, string) (*figure.Figure, error)) *guarded {
	t.Helper()
	g := &guarded{kind: kind, name: kind + " " + name, document: what, files: map[string]string{}, figures: map[string]*figure.Figure{}}
	var err error
	if g.page, err = build(doc); err != nil {
		t.Fatal(name, err)
	}
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(name, err)
	}
	g.json = string(text)
	if draw == nil {
		return g
	}
	for _, plot := range plots(t)[what] {
		f, err := draw(doc, plot)
		if err == nil {
			g.figures[plot] = f
		}
	}
	return g
}

// plots are report/figure's own figures by document.
func plots(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, part := range strings.Split(figure.KindsText(""), "; of ") {
		part = strings.TrimPrefix(part, "of ")
		for _, what := range []string{"a comparison of traces", "an analysis of memory", "a tuning result", "a comparison", "a bisection", "an analysis", "a history", "a fleet report", "a run"} {
			if names, ok := strings.CutPrefix(part, what+" "); ok {
				out[what] = strings.Split(names, ", ")
				part = ""
				break
			}
		}
		if part != "" {
			t.Fatalf("the figures %q are of a document that the guard does not know", part)
		}
	}
	return out
}

// everyDocument is one document of each kind at least, with every figure of it.
func everyDocument(t *testing.T) []*guarded {
	t.Helper()
	out := slices.Concat(runDocuments(t), comparisonDocuments(t), analysisDocuments(t))
	tuned, err := tune.Decode(galleryFile(t, "tune.json.gz"), "tune.json")
	must(t, err)
	searched, err := bisect.Decode(galleryFile(t, "bisect.json"), "bisect.json")
	must(t, err)
	recorded, err := history.Decode(galleryFile(t, "history.json"), "history.json")
	must(t, err)
	texts, err := explain.All()
	must(t, err)
	report, err := health.Judge(nil, []health.Card{{Device: "cuda:0", Name: "made up", Sources: []health.Source{{Name: health.SourceECC, Answer: health.NoFault, Decides: true}}, Metrics: []health.Metric{{Name: "copy", Unit: "B/s", Value: 4e12}, {Name: "launch", Unit: "s", Value: 5.25e-6}}}}, nil, gpuprof.Tool{})
	must(t, err)
	report.Devices = append(report.Devices, health.Card{Device: "cuda:1", Name: "made up"})
	report.Links = []health.Link{{From: "cuda:0", To: "cuda:1", Direct: true, BytesPerS: 3.21e11}, {From: "cuda:1", To: "cuda:0", BytesPerS: 2.17e10}}
	report.AllReduce = &health.AllReduce{Library: "nccl 2.27.3", GPUs: 2, Bytes: 128 << 20, TookS: 1.37e-3, BusPerS: 1.93e11}
	return append(out,
		guard(t, "tuning", "recorded", "a tuning result", tuned, page.Tune, figure.OfTuning),
		guard(t, "tuning", "claims", "a tuning result", fixture.Claimed(), page.Tune, figure.OfTuning),
		guard(t, "bisect", "recorded", "a bisection", searched, page.Bisect, figure.OfBisect),
		guard(t, "memory", "leak", "an analysis of memory", fixture.Memory(t, "leak.pickle.gz"), page.Memory, figure.OfMemory),
		historyDocument(t, "made up", fixture.History()),
		historyDocument(t, "recorded", recorded),
		healthDocument(t, report),
		guard(t, "fleet", "made up", "a fleet report", fixture.Fleet(), page.Fleet, figure.OfFleet),
		guard(t, "fleet", "devices", "a fleet report", fixture.Devices(), page.Fleet, figure.OfFleet),
		guard(t, "fleet", "straggling", "a fleet report", fixture.Straggling(), page.Fleet, figure.OfFleet),
		guard(t, "check", "made up", "", &gpuprof.CheckReport{Head: document.NewHead(document.Check, gpuprof.Tool{}), Workload: "e3nn", Preset: "small", Device: "host", Stages: fixture.One().Checks, Cases: fixture.Cases()}, page.Check, nil),
		guard(t, "diagnosis", "made up", "", fixture.Diagnosis(), page.Diagnosis, nil),
		guard(t, "noise", "made up", "", fixture.Noise(), page.Noise, nil),
		guard(t, "explanation", "all", "", texts[:12], page.Explanation, nil),
	)
}

func healthDocument(t *testing.T, r *health.Report) *guarded {
	g := guard(t, "health", "made up", "", r, page.Health, nil)
	g.files["prometheus"] = rendered(t, func(w io.Writer) error { return prometheus.Write(w, r) })
	return g
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func galleryFile(t *testing.T, name string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "testdata", "gallery", name))
	must(t, err)
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		r, err = gzip.NewReader(f)
		must(t, err)
	}
	b, err := io.ReadAll(r)
	must(t, err)
	return b
}

func runDocuments(t *testing.T) (out []*guarded) {
	watched := fixture.Three()
	fixture.Watch(watched)
	for name, runs := range map[string][]*gpuprof.Run{"watched": {watched}, "gallery": {galleryRuns(t)["e3nn-csr"]}, "serving": {galleryRuns(t)["serving"]}, "sweep": fixture.Sweep(), "sweep of loads": fixture.Loaded(), "apart": {fixture.Apart()}} {
		g := guard(t, "run", name, "a run", runs, page.Runs, figure.OfRuns)
		g.json = rendered(t, func(w io.Writer) error { return document.EncodeRuns(w, runs...) })
		g.files["csv"] = rendered(t, func(w io.Writer) error { return csv.Write(w, runs) })
		g.files["bench"] = rendered(t, func(w io.Writer) error { return benchfmt.Write(w, runs) })
		g.files["bmf"] = rendered(t, func(w io.Writer) error { return metrics.WriteBMF(w, runs) })
		g.files["openmetrics"] = rendered(t, func(w io.Writer) error { return metrics.WriteOpenMetrics(w, runs) })
		out = append(out, g)
	}
	return out
}

func comparisonDocuments(t *testing.T) (out []*guarded) {
	all := comparisons(t)
	all["sampled"] = fixture.GateSampled()
	for name, c := range all {
		g := guard(t, "comparison", name, "a comparison", c, page.Comparison, figure.OfComparison)
		g.files["junit"] = rendered(t, func(w io.Writer) error { return junit.Write(w, c, junit.Options{}) })
		g.files["bench"] = rendered(t, func(w io.Writer) error { return benchfmt.WriteComparison(w, c) })
		g.files["bmf"] = rendered(t, func(w io.Writer) error { return metrics.WriteComparisonBMF(w, c) })
		g.files["openmetrics"] = rendered(t, func(w io.Writer) error { return metrics.WriteComparisonOpenMetrics(w, c) })
		out = append(out, g)
	}
	return out
}

func analysisDocuments(t *testing.T) (out []*guarded) {
	old, before := fixture.Study(t, "dataloader-stall-fires.json")
	now, after := fixture.Study(t, "dataloader-stall-quiet.json")
	shapes, traced := fixture.Study(t, "off-peak-gemm-fires.json")
	aligned, alignedTraces := fixture.Study(t, "off-peak-gemm-quiet.json")
	old.Host = &analyze.HostAccount{NS: 9_400_000, Steps: 4, Samples: 53, Sampled: 7, BareNS: 8_300_000, Parts: []analyze.HostPart{{Name: analyze.HostOnCPU, NS: 9_400_000, Share: 1}}, Causes: []analyze.HostCause{},
		Stacks: []analyze.HostTree{{Frames: []string{"train.py:24", "train.py:17 in step", "train.py:11 in fetch"}, NS: 5_100_000}, {Frames: []string{"train.py:24", "train.py:17 in step", "train.py:8 in features"}, NS: 2_300_000},
			{Frames: []string{"train.py:24", "train.py:19 in step"}, NS: 900_000}}}
	return []*guarded{
		guard(t, "analysis", "shapes", "an analysis", shapes, func(a *analyze.Analysis) (*page.Page, error) { return page.Analysis(a, traced) },
			func(a *analyze.Analysis, plot string) (*figure.Figure, error) {
				return figure.OfAnalysis(a, traced, plot)
			}),
		guard(t, "analysis", "stall", "an analysis", old, func(a *analyze.Analysis) (*page.Page, error) { return page.Analysis(a, before) },
			func(a *analyze.Analysis, plot string) (*figure.Figure, error) {
				return figure.OfAnalysis(a, before, plot)
			}),
		guard(t, "analysis", "bounds", "a comparison of traces", rules.Compare(shapes, aligned), func(c *analyze.Comparison) (*page.Page, error) { return page.TraceComparison(c, traced, alignedTraces) },
			func(c *analyze.Comparison, plot string) (*figure.Figure, error) {
				return figure.OfTraces(c, traced, alignedTraces, plot)
			}),
		guard(t, "analysis", "traces", "a comparison of traces", rules.Compare(old, now), func(c *analyze.Comparison) (*page.Page, error) { return page.TraceComparison(c, before, after) },
			func(c *analyze.Comparison, plot string) (*figure.Figure, error) {
				return figure.OfTraces(c, before, after, plot)
			}),
	}
}

func historyDocument(t *testing.T, name string, r *history.Report) *guarded {
	g := guard(t, "history", name, "a history", r, page.History, figure.OfHistory)
	g.files["csv"] = rendered(t, func(w io.Writer) error { return csv.History(w, r) })
	return g
}

// outputs are the formats by kind of document, as the command's table has them: every
// element of the literal in formats.Documents, its JSON and the three that a page is written in.
func outputs(t *testing.T) map[string][]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "cmd", "gpuprof", "internal", "formats", "formats.go"), nil, 0)
	must(t, err)
	out := map[string][]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		f, ok := n.(*ast.FuncDecl)
		if !ok || f.Name.Name != "Documents" {
			return true
		}
		table := f.Body.List[0].(*ast.ReturnStmt).Results[0].(*ast.CompositeLit)
		for _, e := range table.Elts {
			kv := e.(*ast.KeyValueExpr)
			name := kv.Key.(*ast.Ident).Name
			kind := strings.ToLower(name[:1]) + name[1:]
			out[kind] = []string{"table", "json", "markdown", "html"}
			ast.Inspect(kv.Value, func(n ast.Node) bool {
				if kv, ok := n.(*ast.KeyValueExpr); ok {
					if format, ok := kv.Key.(*ast.BasicLit); ok {
						name, _ := strconv.Unquote(format.Value)
						out[kind] = append(out[kind], name)
					}
				}
				return true
			})
		}
		return false
	})
	return out
}

// TestEveryKindIsGuarded: no document kind, format or figure is outside the guard.
func TestEveryKindIsGuarded(t *testing.T) {
	all := everyDocument(t)
	table := outputs(t)
	if len(table) < 12 || !slices.Contains(table["run"], "csv") {
		t.Fatalf("formats.Documents is read as %v", table)
	}
	for kind, formats := range table {
		has := map[string]bool{}
		for _, g := range all {
			if g.kind != kind {
				continue
			}
			for _, f := range []string{"table", "markdown", "html", "json"} {
				has[f] = true
			}
			for f := range g.files {
				has[f] = true
			}
			if len(g.figures) > 0 {
				has["png"], has["svg"] = true, true
			}
		}
		for _, f := range formats {
			if elsewhere[f] == "" && !has[f] {
				t.Errorf("%s as %s: the guard has no fixture", kind, f)
			}
		}
	}
	drawn := map[string][]string{}
	for _, g := range all {
		drawn[g.document] = append(drawn[g.document], slices.Collect(maps.Keys(g.figures))...)
	}
	for what, names := range plots(t) {
		for _, name := range names {
			if !slices.Contains(drawn[what], name) {
				t.Errorf("the figure %s of %s: the guard has no fixture that gives it", name, what)
			}
		}
	}
}
