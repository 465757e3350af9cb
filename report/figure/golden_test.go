package figure_test

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
	"github.com/gpuprof/gpuprof/report/figure"
)

var update = flag.Bool("update", false, "write the golden figures again")

// TestGoldenFigures compares every figure as numbers, then as the file that is
// drawn of it. Two builds of Go may round a coordinate differently (fused
// multiply-add), so numbers are the same up to the last digit that is written.
func TestGoldenFigures(t *testing.T) {
	for name, draw := range goldens(t) {
		t.Run(name, func(t *testing.T) {
			f, err := draw()
			if err != nil {
				t.Fatal(err)
			}
			same(t, filepath.Join("testdata", name+".txt"), f.Dump())
			var b bytes.Buffer
			if err := f.Write(&b, "svg", 0, 0); err != nil {
				t.Fatal(err)
			}
			if len(b.Bytes()) < 60_000 { // the others differ from them in their points
				same(t, filepath.Join("testdata", name+".svg"), b.String())
			}
			checkAll(t, name, f)
		})
	}
}

var decimal = regexp.MustCompile(`-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?`)

func same(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	was, is := strings.Split(string(kept), "\n"), strings.Split(got, "\n")
	for i := range max(len(was), len(is)) {
		if i >= len(was) || i >= len(is) || !alike(was[i], is[i]) {
			t.Fatalf("%s differs in line %d; look at what is drawn now and run with -update\nwas %.300s\nis  %.300s", path, i+1, lineOf(was, i), lineOf(is, i))
		}
	}
}

func lineOf(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}

func alike(a, b string) bool {
	if a == b {
		return true
	}
	if decimal.ReplaceAllString(a, "#") != decimal.ReplaceAllString(b, "#") {
		return false
	}
	x, y := decimal.FindAllString(a, -1), decimal.FindAllString(b, -1)
	for i := range x {
		v, _ := strconv.ParseFloat(x[i], 64)
		w, _ := strconv.ParseFloat(y[i], 64)
		if step := math.Pow(10, -float64(len(x[i])-1-strings.IndexByte(x[i]+".", '.'))); math.Abs(v-w) > 1.01*min(step, 0.1) && math.Abs(v-w) > 1e-5*math.Abs(v) {
			return false
		}
	}
	return true
}

// TestGoldenToleranceBites: a time off by a hundredth is seen.
func TestGoldenToleranceBites(t *testing.T) {
	if !alike(`x="10.1" 1.23457e-05`, `x="10.2" 1.23458e-05`) || alike(`x="10.1"`, `x="10.3"`) || alike("1.23457e-05", "1.24457e-05") || alike("t2", "t3") {
		t.Error("the tolerance is not the last digit")
	}
}

func goldens(t *testing.T) map[string]func() (*figure.Figure, error) {
	t.Helper()
	r := fixture.Three()
	fixture.Watch(r)
	out := map[string]func() (*figure.Figure, error){}
	for _, kind := range []string{"stages", "timeline", "distribution", "roofline", "telemetry", "shares"} {
		out[kind] = func() (*figure.Figure, error) { return figure.OfRuns([]*gpuprof.Run{r}, kind) }
	}
	a, xs := fixture.Study(t, "dataloader-stall-fires.json")
	after, _ := fixture.Study(t, "dataloader-stall-quiet.json")
	sampled := fixture.GateSampled()
	out["scaling"] = func() (*figure.Figure, error) { return figure.OfRuns(fixture.Sweep(), "") }
	out["load"] = func() (*figure.Figure, error) { return figure.OfRuns(fixture.Loaded(), "") }
	out["invalid"] = func() (*figure.Figure, error) { return figure.OfRuns([]*gpuprof.Run{fixture.Invalid()}, "") }
	for name, kind := range map[string]string{"waterfall": "", "metrics": "effects", "overlay": "distribution"} {
		out[name] = func() (*figure.Figure, error) { return figure.OfComparison(sampled, kind) }
	}
	out["effects"] = func() (*figure.Figure, error) { return figure.OfTuning(fixture.Tuned(), "") }
	out["tune-scaling"] = func() (*figure.Figure, error) { return figure.OfTuning(fixture.Tuned(), "scaling") }
	out["claims"] = func() (*figure.Figure, error) { return figure.OfTuning(fixture.Claimed(), "") }
	out["analysis"] = func() (*figure.Figure, error) { return figure.OfAnalysis(a, xs, "") }
	out["analysis-steps"] = func() (*figure.Figure, error) { return figure.OfAnalysis(a, xs, "timeline") }
	out["analysis-overview"] = func() (*figure.Figure, error) { return figure.OfAnalysis(a, xs, "overview") }
	out["trend"] = func() (*figure.Figure, error) { return figure.OfHistory(fixture.History(), "") }
	out["analysis-change"] = func() (*figure.Figure, error) { return figure.OfTraces(rules.Compare(a, after), nil, nil, "") }
	return out
}

// TestBackendsAgree: every bar that the SVG of a figure has is in its PNG, in its
// colour.
func TestBackendsAgree(t *testing.T) {
	for name, draw := range goldens(t) {
		f, err := draw()
		if err != nil {
			t.Fatal(err)
		}
		const w, h = 1200, 800
		img := f.Pixels(w, h)
		at, colours := f.Bars(w*0.75, h*0.75)
		off := 0
		for i, p := range at {
			r, g, b, _ := img.At(int(p[0]/0.75), int(p[1]/0.75)).RGBA()
			if got := fmt.Sprintf("#%02x%02x%02x", r>>8, g>>8, b>>8); got != colours[i] {
				off++ // under a whisker, or paler
			}
		}
		if off > len(at)/3 {
			t.Errorf("%s: %d of %d bars have another colour in PNG", name, off, len(at))
		}
	}
}

// TestEveryTonePaints: a mark's tone has a colour in pages and in files.
func TestEveryTonePaints(t *testing.T) {
	css := figure.CSS()
	for name, draw := range goldens(t) {
		f, err := draw()
		if err != nil {
			t.Fatal(err)
		}
		for _, class := range regexp.MustCompile(`<(?:rect|circle|path|text) class="([^"]*)"`).FindAllStringSubmatch(f.Inline(""), -1) {
			tone, _, _ := strings.Cut(class[1], " ")
			if !strings.Contains(css, ".figure ."+tone+" {") {
				t.Errorf("%s: tone %q has no colour", name, tone)
			}
		}
	}
}
