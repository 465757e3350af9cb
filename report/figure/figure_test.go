package figure_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
	"github.com/gpuprof/gpuprof/report/figure"
)

// TestPNGHasPictureAndMark decodes a picture of the default size and looks for
// ink; what else is drawn is in the golden pictures.
func TestPNGHasPictureAndMark(t *testing.T) {
	var b bytes.Buffer
	f, err := figure.OfRuns([]*gpuprof.Run{fixture.Three()}, "stages")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Write(&b, "png", 0, 0); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(b.Bytes()[:120], []byte("tEXtSoftware\x00gpuprof")) {
		t.Error("no Software mark")
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	if s := img.Bounds().Size(); s.X != figure.DefaultWidth || s.Y > figure.DefaultHeight || s.Y < 700 {
		t.Error(s)
	}
	inked, blue := 0, false
	for y := 100; y < 740; y += 2 { // below the title
		for x := 0; x < 1200; x += 2 {
			if r, g, b, _ := img.At(x, y).RGBA(); r != 0xffff || g != 0xffff || b != 0xffff {
				inked++
				blue = blue || r>>8 == 0 && g>>8 == 114 && b>>8 == 178
			}
		}
	}
	if inked < 500 || !blue {
		t.Errorf("%d dark pixels, blue %v: the picture is empty", inked, blue)
	}
}

// checkAll wants a figure whole in a page and as files of several sizes, and no text
// over another or beyond the edge.
func checkAll(t *testing.T, name string, f *figure.Figure) {
	t.Helper()
	for _, size := range [][2]int{{200, 150}, {400, 300}, {1200, 800}, {8000, 150}, {200, 8000}} {
		var b bytes.Buffer
		err := f.Write(&b, "svg", size[0], size[1])
		checkSVG(t, fmt.Sprint(name, " ", size), b.String(), err)
		overlaps(t, fmt.Sprint(name, " ", size), f.Overlaps(float64(size[0])*0.75, float64(size[1])*0.75))
	}
	if f.Empty() {
		return
	}
	page := f.Inline("x-")
	checkXML(t, name+" in a page", page, inPage)
	overlaps(t, name+" in a page", f.Overlaps(960, 0))
	if len(page) > 600_000 {
		t.Errorf("%s: %d bytes in a page", name, len(page))
	}
}

func overlaps(t *testing.T, name string, texts []string) {
	t.Helper()
	for i, o := range texts {
		if i < 3 {
			t.Errorf("%s: %s", name, o)
		}
	}
}

// drawn draws a figure of runs as a file.
func drawn(format string, runs []*gpuprof.Run, kind string, width, height int) error {
	f, err := figure.OfRuns(runs, kind)
	if err != nil {
		return err
	}
	return f.Write(io.Discard, format, width, height)
}

// checkSVG wants a whole picture or a refusal that names what there is.
func checkSVG(t *testing.T, name, text string, err error) {
	t.Helper()
	if err != nil {
		if !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), "--plot") {
			t.Errorf("%s: %v", name, err)
		}
		return
	}
	if !strings.Contains(text[:min(len(text), 200)], "<!-- written by gpuprof -->") {
		t.Errorf("%s: no mark", name)
	}
	if len(text) > 8<<20 {
		t.Errorf("%s: %d bytes", name, len(text))
	}
	checkXML(t, name, text, drawing)
}

// checkXML wants text to be XML of nothing but the elements and attributes given.
func checkXML(t *testing.T, name, text string, allowed map[string][]string) {
	t.Helper()
	if coordinate := regexp.MustCompile(`="[^"]*(NaN|Inf)[^"]*"`).FindString(text); coordinate != "" {
		t.Errorf("%s: %s is not a number", name, coordinate)
	}
	dec := xml.NewDecoder(strings.NewReader(text))
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		checkToken(t, name, tok, allowed)
	}
}

// drawing is the elements of our pictures and their attributes: none of them runs,
// loads or refers to anything, and all work under a Content-Security-Policy that
// allows nothing, which style elements and attributes do not.
var drawing = map[string][]string{
	"svg":    {"xmlns", "width", "height", "viewBox", "role", "font-family", "font-size"},
	"title":  {},
	"desc":   {},
	"rect":   {"x", "y", "width", "height", "fill", "fill-opacity"},
	"circle": {"cx", "cy", "r", "fill", "fill-opacity", "stroke", "stroke-width"},
	"path":   {"d", "fill", "fill-opacity", "stroke", "stroke-opacity", "stroke-width", "stroke-dasharray", "stroke-linecap"},
	"text":   {"x", "y", "fill", "font-weight", "font-size", "text-anchor"},
}

// inPage is the same with classes for colours, in an element that scrolls.
var inPage = map[string][]string{
	"div":    {"class", "role", "aria-label", "tabindex"},
	"svg":    {"class", "viewBox", "role", "aria-labelledby"},
	"title":  {"id"},
	"desc":   {"id"},
	"rect":   {"class", "x", "y", "width", "height"},
	"circle": {"class", "cx", "cy", "r"},
	"path":   {"class", "d"},
	"text":   {"class", "x", "y", "text-anchor"},
}

func checkToken(t *testing.T, name string, tok xml.Token, allowed map[string][]string) {
	t.Helper()
	switch tok := tok.(type) {
	case xml.ProcInst:
		if tok.Target != "xml" {
			t.Errorf("%s: holds the instruction %s", name, tok.Target)
		}
	case xml.Directive:
		t.Errorf("%s: holds the directive %s", name, tok)
	case xml.StartElement:
		attributes, ok := allowed[tok.Name.Local]
		if !ok {
			t.Errorf("%s: holds <%s>", name, tok.Name.Local)
		}
		for _, a := range tok.Attr {
			if a.Name.Space != "" || !slices.Contains(attributes, a.Name.Local) || strings.Contains(a.Value, "url(") {
				t.Errorf("%s: <%s> has %s:%s=%q", name, tok.Name.Local, a.Name.Space, a.Name.Local, a.Value)
			}
		}
	}
}

// TestSVGKeepsItsColours: a file has its colours as attributes, and a label that
// reads like one stays a label.
func TestSVGKeepsItsColours(t *testing.T) {
	r := fixture.One()
	r.Workload = `x" style="fill:red" onload="alert(1)`
	text := svg(t, "stages", r)
	for _, want := range []string{` fill="#ffffff"`, ` stroke="#dfe3e8"`, ` stroke-width="`, ` fill="none"`, ` font-size="18"`, ` font-weight="bold"`, ` font-family="Liberation Sans, `,
		`x&#34; style=&#34;fill:red&#34; onload=&#34;alert(1)`} {
		if !strings.Contains(text, want) {
			t.Errorf("the picture lacks %s", want)
		}
	}
	checkSVG(t, "a hostile name", text, nil)
}

func svg(t *testing.T, kind string, runs ...*gpuprof.Run) string {
	t.Helper()
	f, err := figure.OfRuns(runs, kind)
	return svgOf(t, f, err)
}

func svgOf(t *testing.T, f *figure.Figure, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := f.Write(&b, "svg", 0, 0); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func says(t *testing.T, name, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%s does not say %q", name, w)
		}
	}
}

func TestWhatPicturesSay(t *testing.T) {
	for kind, want := range map[string][]string{
		"stages":       {"e3nn small: exposed time by stage", "2026-03-14", "steady mode", "tensor_product", "60.1 %", "(ms)"},
		"distribution": {"process 3", "p5 to p95: ", "5th to 95th percentile", "difference from the row&#39;s own median", "how often"},
		"shares":       {"exposed share of each stage", "tensor_product 60.1 %"},
		"timeline":     {"main kernels", "copy", "host", "(ms)"},
		"roofline":     {"flop per byte", "copy 21.0 GB/s", "radial"},
		"telemetry":    {"power (W)", "SM clock (MHz)", ">1980<", "throttled", "flagged sample: power-capped", "time since the run began (s)"},
	} {
		r := fixture.Three()
		fixture.Watch(r)
		says(t, kind, svg(t, kind, r), want...)
	}
	says(t, "scaling", svg(t, "scaling", fixture.Sweep()...), "batch", "throughput (probes/s)", "2026-03-14")
	says(t, "the default of a sweep over the load", svg(t, "", fixture.Loaded()...), "latency over load", "knee at 0.8", "p99", "knee at load 0.8, the largest with 99 of 100 requests within 100 ms")
	brief := fixture.Loaded()
	for _, r := range brief {
		r.Requests.Latency.Percentiles = nil
	}
	says(t, "the default of a sweep over the load with too few requests", svg(t, "", brief...), "scaling over load")
	says(t, "the default of a sweep", svg(t, "", fixture.Sweep()...), "scaling over batch")
	for kind, r := range map[string]*gpuprof.Run{"stages": fixture.Invalid(), "timeline": fixture.Empty(), "telemetry": fixture.Invalid()} {
		says(t, kind+" of a run without times", svg(t, kind, r), "No times")
	}
	says(t, "a partial run", svg(t, "", fixture.Partial()), "PARTIAL")
	bf16 := fixture.One()
	bf16.Knobs["precision"], bf16.Ceilings.BF16FlopsPerS = "bf16", 8*bf16.Ceilings.FlopsPerS
	says(t, "roofline in bf16", svg(t, "roofline", bf16), "bf16 product", "matrix product")
}

func TestWhatComparisonsSay(t *testing.T) {
	c := fixture.GateRegressed()
	f, err := figure.OfComparison(c, "")
	says(t, "waterfall", svgOf(t, f, err), "change of the step", "before", ">12.4 ms<", "14.0 ms, +1.60 ms, x1.1", "tensor_product", "+1.49 ms, 93 % of the change", "-144 us", "the rest", "+256 us", "knob impl: csr -&gt; fused", "REGRESSED")
	f, err = figure.OfComparison(c, "effects")
	says(t, "effects", svgOf(t, f, err), "new over old", "step/tensor_product", "x1.210 (", "inconclusive", "1 exact counter the same")
	f, err = figure.OfComparison(fixture.GatePassed(), "")
	says(t, "the default without causes", svgOf(t, f, err), "new over old", "x1.002")
	m := &c.Metrics[0]
	m.Samples = &compare.SideSamples{Old: compare.Samples{{0.0121, 0.0123}, {0.0122, math.NaN()}}, New: compare.Samples{{0.0138, 0.0141}}}
	f, err = figure.OfComparison(c, "distribution")
	says(t, "distribution", svgOf(t, f, err), "axis in ms", "old: main", "the median of every process", "new: ")
}

func TestWhatTuningSays(t *testing.T) {
	f, err := figure.OfTuning(fixture.Tuned(), "")
	says(t, "effects", svgOf(t, f, err), "tuning of e3nn small", "a CPU [host]", "2026-03-14", "recommended: batch=1024", "in 3 fresh processes", "batch: 512 to 1024", "x0.800 (0.780 to 0.820), faster", "below 1 is better", "refused: its error")
	f, err = figure.OfTuning(fixture.Tuned(), "scaling")
	says(t, "scaling", svgOf(t, f, err), "cost per probe (us)", "knee at 512", "over batch")
	f, err = figure.OfTuning(fixture.Claimed(), "")
	says(t, "claims", svgOf(t, f, err), "claims of tuning guides", "ph-async", "x1.250 (1.200 to 1.300), guide: 20-30 %", "x2 is twice as fast", "1 claim without a speedup")
}

func TestWhatAnalysesSay(t *testing.T) {
	a, _ := fixture.Study(t, "dataloader-stall-fires.json")
	f, err := figure.OfAnalysis(a, nil, "")
	says(t, "classes", svgOf(t, f, err), "dataloader-stall-fires.json", "starved", "gemm", "48.0 %", "busy ", "of the mean step of 3.13 ms", "(ms)", "first finding")
	f, err = figure.OfAnalysis(a, nil, "timeline")
	says(t, "steps", svgOf(t, f, err), "starved", "time (ms)", "mean 3.13 ms")
	after, _ := fixture.Study(t, "dataloader-stall-quiet.json")
	f, err = figure.OfTraces(rules.Compare(a, after), nil, nil, "")
	says(t, "changes", svgOf(t, f, err), "against dataloader-stall-quiet.json", "starved", "before", "after", "(ms)")
}

// TestRefusals: what a document does not have is refused in one sentence that
// says what it has.
func TestRefusals(t *testing.T) {
	one := []*gpuprof.Run{fixture.One()}
	a, _ := fixture.Study(t, "item-fires.json")
	bare := fixture.One()
	bare.ExampleStep, bare.Telemetry, bare.Ceilings = nil, nil, gpuprof.Ceilings{}
	drop := func(_ *figure.Figure, err error) error { return err }
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"unknown":      {drawn("png", one, "stagess", 0, 0), `use --plot stages, timeline, distribution, roofline, telemetry, shares, scaling, requests, load, waterfall, effects, overview, calls, posterior, memory, sites, map, trend, stragglers (did you mean "stages"?)`},
		"too small":    {drawn("png", one, "stages", 10, 10), "use 200 x 150 to 8000 x 8000"},
		"too large":    {drawn("svg", one, "stages", 100_000, 10), "use 200 x 150 to 8000 x 8000"},
		"one scaling":  {drawn("png", one, "scaling", 0, 0), "gpuprof run e3nn --set KNOB=A,B,C -o sweep.json; a run like this one has --plot stages, timeline, distribution, roofline, telemetry"},
		"no spans":     {drawn("png", []*gpuprof.Run{bare}, "timeline", 0, 0), "drawing timeline: the run holds no example step; a run like this one has --plot stages, distribution, roofline"},
		"no telemetry": {drawn("png", []*gpuprof.Run{bare}, "telemetry", 0, 0), "no telemetry was recorded; a run like this one has"},
		"of a run":     {drawn("png", one, "waterfall", 0, 0), "a run has none, it shows a comparison or a comparison of traces; write one with gpuprof compare OLD NEW -o waterfall.png; a run like this one has --plot stages"},
		"comparison":   {drop(figure.OfComparison(fixture.GateRegressed(), "roofline")), "a comparison has none, it shows a run or an analysis; write one with gpuprof run WORKLOAD -o run.json; a comparison like this one has --plot waterfall, effects"},
		"no causes":    {drop(figure.OfComparison(fixture.GatePassed(), "waterfall")), "was not attributed to stages, because it is too small or only one side has stages; a comparison like this one has --plot effects"},
		"no samples":   {drop(figure.OfComparison(fixture.GatePassed(), "distribution")), "the comparison holds no samples"},
		"tuning":       {drop(figure.OfTuning(fixture.Tuned(), "stages")), "a tuning result like this one has --plot effects, scaling"},
		"no curve":     {drop(figure.OfTuning(fixture.Claimed(), "scaling")), "a tuning result like this one has --plot effects"},
		"analysis":     {drop(figure.OfAnalysis(a, nil, "effects")), "an analysis like this one has --plot stages, timeline"},
	} {
		if !errors.Is(c.err, gpuprof.ErrUsage) || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v, want a usage error with %q", name, c.err, c.want)
		}
	}
	for name, err := range map[string]error{
		"no runs": drop(figure.OfRuns(nil, "")), "no comparison": drop(figure.OfComparison(nil, "")), "no tuning": drop(figure.OfTuning(nil, "")),
		"no analysis": drop(figure.OfAnalysis(nil, nil, "")), "no traces": drop(figure.OfTraces(nil, nil, nil, "")),
	} {
		if !errors.Is(err, gpuprof.ErrInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// However low its rows are, a distribution says the median of each.
func TestMediansHaveRoom(t *testing.T) {
	r := fixture.Three()
	f := figure.Distribution(r, figure.MostSamples)
	for _, size := range [][2]int{{0, 0}, {1200, 800}, {900, 500}} {
		var b bytes.Buffer
		if err := f.Write(&b, "svg", size[0], size[1]); err != nil {
			t.Fatal(err)
		}
		for i := range f.Panels {
			if want := ">" + f.Panels[i].Right[0] + "</text>"; strings.Contains(b.String(), ">"+f.Panels[i].Name+"</text>") && !strings.Contains(b.String(), want) {
				t.Errorf("%v: the median of %s, %s, is missing", size, f.Panels[i].Name, f.Panels[i].Right[0])
			}
		}
	}
}

// A batch holds whole requests, and so do the ticks of an axis of few sizes.
func TestBatchTicks(t *testing.T) {
	r := fixture.Loaded()[0]
	r.Requests.Processes[0].Batches = []int64{5, 0, 1}
	panels := figure.Requests(r).Panels
	var got []string
	for _, tick := range panels[len(panels)-1].X.Ticks {
		got = append(got, fmt.Sprint(tick.At, " ", tick.Label))
	}
	if strings.Join(got, " ") != "1 1 2 2 3 3" {
		t.Errorf("ticks %v", got)
	}
}
