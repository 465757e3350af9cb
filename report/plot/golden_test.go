package plot_test

import (
	"bytes"
	"flag"
	"image"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace"
	"github.com/gpuprof/gpuprof/report/internal/fixture"
	"github.com/gpuprof/gpuprof/report/plot"
)

var update = flag.Bool("update", false, "write the golden pictures again")

// Pictures are drawn at 3/4 of the size people see, which is still readable
// and keeps the files small.
const goldenWidth, goldenHeight = 900, 600

// Two builds of Go may round a coordinate differently (fused multiply-add), so
// a golden picture is the same when at most this share of its pixels is off by
// more than an eighth of the scale. TestGoldenToleranceBites shows what is
// still seen.
const (
	pixelSlack = 32
	shareSlack = 0.0005
)

func TestGoldenPictures(t *testing.T) {
	for name, figure := range goldens(t) {
		t.Run(name, func(t *testing.T) {
			got := pixelsOf(t, figure)
			path := filepath.Join("testdata", name+".png")
			if *update {
				var b bytes.Buffer
				if err := png.Encode(&b, got); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			kept, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want, err := png.Decode(bytes.NewReader(kept))
			if err != nil {
				t.Fatal(err)
			}
			if off := difference(t, got, plain(want)); off > shareSlack {
				t.Errorf("%.3f %% of the pixels differ from %s; look at what it draws now and run with -update", off*100, path)
			}
		})
	}
}

// TestGoldenToleranceBites: one stage's time off by a tenth is seen.
func TestGoldenToleranceBites(t *testing.T) {
	scaled := func(scale float64) *image.RGBA {
		r := fixture.Three()
		r.Stage("tensor_product").Device.Median *= scale
		return pixelsOf(t, func() (*plot.Figure, error) { return plot.Draw([]*gpuprof.Run{r}, "stages") })
	}
	if off := difference(t, scaled(1), scaled(1)); off != 0 {
		t.Errorf("the same picture differs from itself in %g of its pixels", off)
	}
	if off := difference(t, scaled(1), scaled(0.9)); off < 2*shareSlack {
		t.Errorf("a time off by a tenth changes %g of the pixels, the tolerance is %g", off, shareSlack)
	}
}

func goldens(t *testing.T) map[string]func() (*plot.Figure, error) {
	t.Helper()
	r := fixture.Three()
	watched(r)
	out := map[string]func() (*plot.Figure, error){}
	for _, kind := range []string{"stages", "timeline", "distribution", "roofline", "telemetry"} {
		out[kind] = func() (*plot.Figure, error) { return plot.Draw([]*gpuprof.Run{r}, kind) }
	}
	a, _ := fixture.Study(t, "dataloader-stall-fires.json")
	after, _ := fixture.Study(t, "dataloader-stall-quiet.json")
	out["scaling"] = func() (*plot.Figure, error) { return plot.Draw(fixture.Sweep(), "") }
	out["invalid"] = func() (*plot.Figure, error) { return plot.Draw([]*gpuprof.Run{fixture.Invalid()}, "") }
	out["waterfall"] = func() (*plot.Figure, error) { return plot.Comparison(fixture.GateRegressed(), "") }
	out["metrics"] = func() (*plot.Figure, error) { return plot.Comparison(fixture.GateRegressed(), "effects") }
	out["effects"] = func() (*plot.Figure, error) { return plot.Tuning(tuned(), "") }
	out["tune-scaling"] = func() (*plot.Figure, error) { return plot.Tuning(tuned(), "scaling") }
	out["claims"] = func() (*plot.Figure, error) { return plot.Tuning(claimed(), "") }
	out["analysis"] = func() (*plot.Figure, error) { return plot.Analysis(a, "") }
	out["analysis-steps"] = func() (*plot.Figure, error) { return plot.Analysis(a, "timeline") }
	out["analysis-change"] = func() (*plot.Figure, error) { return plot.TraceComparison(trace.Compare(a, after), "") }
	return out
}

func pixelsOf(t *testing.T, figure func() (*plot.Figure, error)) *image.RGBA {
	t.Helper()
	f, err := figure()
	if err != nil {
		t.Fatal(err)
	}
	img, err := f.Pixels(goldenWidth, goldenHeight)
	if err != nil {
		t.Fatal(err)
	}
	return plain(img)
}

// difference is the share of pixels that differ by more than the slack.
func difference(t *testing.T, x, y *image.RGBA) float64 {
	t.Helper()
	if x.Bounds() != y.Bounds() {
		t.Fatalf("sizes %v and %v", x.Bounds(), y.Bounds())
	}
	off := 0
	for i := 0; i < len(x.Pix); i += 4 {
		if apart(x.Pix[i], y.Pix[i]) || apart(x.Pix[i+1], y.Pix[i+1]) || apart(x.Pix[i+2], y.Pix[i+2]) {
			off++
		}
	}
	return float64(off) / float64(len(x.Pix)/4)
}

func apart(a, b uint8) bool { return max(a, b)-min(a, b) > pixelSlack }

func plain(img image.Image) *image.RGBA {
	if rgba, ok := img.(*image.RGBA); ok {
		return rgba
	}
	out := image.NewRGBA(img.Bounds())
	draw.Draw(out, out.Bounds(), img, image.Point{}, draw.Src)
	return out
}
