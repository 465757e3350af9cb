package plot_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/fixture"
	"github.com/gpuprof/gpuprof/report/plot"
)

// TestPNGHasPictureAndMark decodes a picture of each kind and looks for ink.
func TestPNGHasPictureAndMark(t *testing.T) {
	for _, kind := range plot.Kinds() {
		runs := []*gpuprof.Run{fixture.Three()}
		if kind == "scaling" {
			runs = fixture.Sweep()
		}
		var b bytes.Buffer
		if err := plot.WritePNG(&b, runs, kind, 0, 0); err != nil {
			t.Fatal(kind, err)
		}
		if !bytes.Contains(b.Bytes()[:120], []byte("tEXtSoftware\x00gpuprof")) {
			t.Errorf("%s: no Software mark", kind)
		}
		img, err := png.Decode(&b)
		if err != nil {
			t.Fatal(kind, err)
		}
		if s := img.Bounds().Size(); s.X != plot.DefaultWidth || s.Y != plot.DefaultHeight {
			t.Errorf("%s: %v", kind, s)
		}
		inked, colors := 0, map[string]bool{}
		for y := 100; y < 760; y += 2 { // below the title
			for x := 0; x < 1200; x += 2 {
				if r, g, b, _ := img.At(x, y).RGBA(); r != 0xffff || g != 0xffff || b != 0xffff {
					inked++
					colors[fmt.Sprint(r>>8, g>>8, b>>8)] = true
				}
			}
		}
		if inked < 500 || !colors["0 114 178"] {
			t.Errorf("%s: %d dark pixels, blue %v: the picture is empty", kind, inked, colors["0 114 178"])
		}
	}
}

// TestSVGNeverBreaks draws every kind of every run, hostile ones too, and
// parses the result.
func TestSVGNeverBreaks(t *testing.T) {
	for name, r := range fixture.Every() {
		for _, kind := range plot.Kinds() {
			var b bytes.Buffer
			if err := plot.WriteSVG(&b, []*gpuprof.Run{r, nil, fixture.One()}, kind, 400, 300); err != nil {
				t.Errorf("%s %s: %v", name, kind, err)
				continue
			}
			text := b.String()
			if !strings.Contains(text[:min(len(text), 200)], "<!-- written by gpuprof -->") {
				t.Errorf("%s %s: no mark", name, kind)
			}
			if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
				t.Errorf("%s %s: a coordinate is not a number", name, kind)
			}
			dec := xml.NewDecoder(&b)
			for {
				tok, err := dec.Token()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatalf("%s %s: %v", name, kind, err)
				}
				if el, ok := tok.(xml.StartElement); ok && (el.Name.Local == "script" || el.Name.Local == "img") {
					t.Errorf("%s %s: holds <%s>", name, kind, el.Name.Local)
				}
			}
		}
	}
}

func svg(t *testing.T, kind string, runs ...*gpuprof.Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := plot.WriteSVG(&b, runs, kind, 0, 0); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWhatPicturesSay(t *testing.T) {
	for kind, want := range map[string][]string{
		"stages":       {"e3nn small: time by stage", "2026-03-14", "steady mode", "tensor_product", "60.1 %", "(ms)"},
		"distribution": {"process 3", "step (ms)", "100 %", "5th to 95th"},
		"timeline":     {"main kernels", "copy", "host", "(ms)"},
		"roofline":     {"flop per byte", "copy 21.0 GB/s", "radial"},
	} {
		got := svg(t, kind, fixture.Three())
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s does not say %q", kind, w)
			}
		}
	}
	if got := svg(t, "scaling", fixture.Sweep()...); !strings.Contains(got, "batch") || !strings.Contains(got, "throughput (probes/s)") {
		t.Error("scaling names neither knob nor unit")
	}
	if got := svg(t, "", fixture.Sweep()...); !strings.Contains(got, "scaling over batch") {
		t.Error("the default of a sweep is not scaling")
	}
	for kind, r := range map[string]*gpuprof.Run{"stages": fixture.Invalid(), "timeline": fixture.Empty()} {
		if got := svg(t, kind, r); !strings.Contains(got, "No times") {
			t.Errorf("%s of %q does not say that there are no times", kind, r.Status)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	one := []*gpuprof.Run{fixture.One()}
	for name, err := range map[string]error{
		"unknown":     plot.WritePNG(io.Discard, one, "waterfall", 0, 0),
		"too small":   plot.WritePNG(io.Discard, one, "stages", 10, 10),
		"too large":   plot.WriteSVG(io.Discard, one, "stages", 100_000, 10),
		"one scaling": plot.WritePNG(io.Discard, one, "scaling", 0, 0),
	} {
		if !errors.Is(err, gpuprof.ErrUsage) {
			t.Errorf("%s: %v, want a usage error", name, err)
		}
		if name == "unknown" && !strings.Contains(err.Error(), "stages, distribution, timeline, roofline, scaling") {
			t.Errorf("the valid kinds are not named: %v", err)
		}
	}
	if _, err := plot.Draw(nil, ""); !errors.Is(err, gpuprof.ErrInput) {
		t.Errorf("no runs: %v", err)
	}
}
