package view_test

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/sweep"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

func TestCutKeepsTheLimitAndWholeRunes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, limit := rapid.String().Draw(t, "text"), rapid.IntRange(0, 40).Draw(t, "limit")
		got, n := view.Cut(text, limit), utf8.RuneCountInString(text)
		switch {
		case limit == 0 || n <= limit:
			if got != text {
				t.Fatalf("%q became %q", text, got)
			}
		case utf8.RuneCountInString(got) != limit || !utf8.ValidString(got) || !strings.HasPrefix(text, strings.TrimSuffix(got, "…")):
			t.Fatalf("%q cut to %d runes is %q", text, limit, got)
		}
	})
}

// TestCutPlaceKeepsTheEnd: the file and the line of a path stay, names without a path
// are cut behind.
func TestCutPlaceKeepsTheEnd(t *testing.T) {
	for in, want := range map[string]string{
		"train.py(41): step": "train.py(41): step",
		"/home/someone/site-packages/torch/nn/module.py(1501): call": "…/nn/module.py(1501): call",
		`C:\Users\someone\code\project\train.py(41): step`:           `…\project\train.py(41): step`,
		"void at::native::vectorized_elementwise_kernel<4>":          "void at::native::vectorized_e…",
		"/" + strings.Repeat("x", 60) + ".py(3)":                     "…" + strings.Repeat("x", 23) + ".py(3)",
	} {
		if got := view.CutPlace(in, 30); got != want {
			t.Errorf("%q is cut to %q, want %q", in, got, want)
		}
	}
}

func TestThinKeepsExtremesAndOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.Float64Range(-1e3, 1e3), 1, 200).Draw(t, "xs")
		limit := rapid.IntRange(3, 50).Draw(t, "limit")
		got := view.Thin(xs, limit)
		if len(got) > max(limit, 1) || len(got) == 0 {
			t.Fatalf("%d of %d", len(got), limit)
		}
		lo, hi, at := math.Inf(1), math.Inf(-1), 0
		for _, x := range xs {
			lo, hi = min(lo, x), max(hi, x)
		}
		gotLo, gotHi := math.Inf(1), math.Inf(-1)
		for _, g := range got {
			for at < len(xs) && xs[at] != g {
				at++
			}
			if at == len(xs) {
				t.Fatal("a value out of order")
			}
			at++
			gotLo, gotHi = min(gotLo, g), max(gotHi, g)
		}
		if gotLo != lo || gotHi != hi {
			t.Fatalf("extremes %g %g, want %g %g", gotLo, gotHi, lo, hi)
		}
	})
}

func TestSharesAddUp(t *testing.T) {
	sum, gap := 0.0, false
	for _, s := range view.Stages(fixture.Three()) {
		sum += s.Share
		gap = gap || s.Name == gpuprof.StageGap
	}
	if math.Abs(sum-1) > 1e-9 || !gap {
		t.Errorf("shares add up to %v, gap among them: %v", sum, gap)
	}
}

// TestRareStageKeepsItsShare: a stage that one step in four has is not lost,
// though its median is zero.
func TestRareStageKeepsItsShare(t *testing.T) {
	often, rare := []float64{3, 3, 3, 3}, []float64{0, 0, 0, 4}
	r := &gpuprof.Run{Status: gpuprof.Complete, Stages: []gpuprof.StageResult{
		{Name: "a", Parent: "step", Exposed: &gpuprof.Series{Runs: [][]float64{often}, Median: 3}},
		{Name: "b", Parent: "step", Exposed: &gpuprof.Series{Runs: [][]float64{rare}, Median: 0}},
	}}
	if got := view.Stages(r)[1].Share; got != 0.25 {
		t.Errorf("share %v, want 0.25", got)
	}
}

func TestDerivedFigures(t *testing.T) {
	for _, s := range view.Stages(fixture.One()) {
		if s.Name != "tensor_product" {
			continue
		}
		device := s.Device.Median
		if want := 5.2e7 / device; s.BytesPerS != want {
			t.Errorf("bytes a second %g, want %g", s.BytesPerS, want)
		}
		if want := 1.9e8 / device; s.FlopsPerS != want {
			t.Errorf("flops a second %g, want %g", s.FlopsPerS, want)
		}
		if want := (1.9e8 / 7.4e10) / device; math.Abs(s.OfBound-want) > 1e-12 {
			t.Errorf("share of the bound %g, want %g", s.OfBound, want)
		}
	}
}

// TestWaitsComeLast: what the step computes is read first.
func TestWaitsComeLast(t *testing.T) {
	r := &gpuprof.Run{}
	roles := map[string]gpuprof.StageRole{"backpressure": gpuprof.RoleSlot, "sync": gpuprof.RoleSync, "collate": gpuprof.RoleCollate, "d2h": gpuprof.RoleResult}
	for _, n := range []string{"backpressure", "collate", "gap", "launch", "radial", "sync", "d2h"} {
		r.Stages = append(r.Stages, gpuprof.StageResult{Name: n, Parent: "step", Role: roles[n].String()})
	}
	var got []string
	for _, s := range view.Stages(r) {
		got = append(got, s.Name)
	}
	if want := "collate radial d2h launch backpressure sync gap"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// TestTimelineJoinsWhatIsTooShortToSee: sixteen reads of items are one span
// that says so, and none of their time is lost.
func TestTimelineJoinsWhatIsTooShortToSee(t *testing.T) {
	r := &gpuprof.Run{ExampleStep: []gpuprof.Span{{Stage: "radial", Lane: "main", DurS: 1}}}
	for i := range 16 {
		r.ExampleStep = append(r.ExampleStep, gpuprof.Span{Stage: "sync", Lane: "host", StartS: 0.9 + float64(i)*2e-4, DurS: 1e-4})
	}
	lanes, _, _, _ := view.Timeline(r, 1000)
	if len(lanes) != 2 || len(lanes[0].Spans) != 1 {
		t.Fatalf("%+v", lanes)
	}
	if s := lanes[0].Spans[0]; s.Label() != "16 x sync" || s.From != 0.9 || math.Abs(s.To-0.9031) > 1e-12 {
		t.Errorf("%+v", s)
	}
}

func TestVaryAndScaling(t *testing.T) {
	runs := fixture.Sweep()
	if got := sweep.Vary(runs); len(got) != 1 || got[0] != "batch" {
		t.Errorf("vary %v", got)
	}
	knob, numeric, curves, ok := view.Scaling(runs)
	if knob != "batch" || !numeric || !ok || len(curves) != 1 || len(curves[0].Points) != 4 || curves[0].Points[3].X != 512 {
		t.Errorf("%s %v %v %v", knob, numeric, ok, curves)
	}
	if got := sweep.Vary(runs[:1]); len(got) != 0 {
		t.Errorf("one run varies in %v", got)
	}
}

func TestTimelineCutsNeighboursToTheStep(t *testing.T) {
	lanes, from, to, left := view.Timeline(fixture.One(), 1000)
	if len(lanes) != 4 || lanes[0].Name != "host" || left != 0 {
		t.Fatalf("%d lanes, first %v, %d left", len(lanes), lanes[0].Name, left)
	}
	for _, l := range lanes {
		for _, s := range l.Spans {
			if s.From < from || s.To > to || s.To < s.From {
				t.Errorf("%s: %g to %g is outside %g to %g", s.Name, s.From, s.To, from, to)
			}
		}
	}
	if _, _, _, left := view.Timeline(fixture.One(), 5); left == 0 {
		t.Error("a limit was not applied")
	}
}

// TestTimelineBeginsWithTheStep: a launch long before the step began does not
// stretch the window, and what reaches in does.
func TestTimelineBeginsWithTheStep(t *testing.T) {
	r := &gpuprof.Run{ExampleStep: []gpuprof.Span{
		{Stage: "backpressure", Lane: "host", StartS: -8, DurS: 8.1},
		{Stage: "mlp", Lane: "host", StartS: -9, DurS: 1}, {Stage: "h2d", Lane: "copy", StartS: -0.5, DurS: 1},
		{Stage: "mlp", Lane: "main", StartS: 0.5, DurS: 2}, {Stage: "mlp", Lane: "host", Step: 3, StartS: 1, DurS: 1},
	}}
	lanes, from, to, left := view.Timeline(r, 100)
	if from != -0.5 || to != 2.5 || left != 0 || len(lanes) != 3 || lanes[0].Spans[0].From != from || !lanes[0].Spans[1].Neighbour {
		t.Errorf("%v from %g to %g", lanes, from, to)
	}
}

// TestNothingPanics walks every view of every kind of run.
func TestNothingPanics(t *testing.T) {
	for name, r := range fixture.Every() {
		view.Timeline(r, 10)
		view.Spreads(r, 10)
		view.Tones(r)
		view.Scaling([]*gpuprof.Run{r, fixture.One()})
		x0, x1, y0, y1 := view.Roofline(r).Range()
		if !(x0 > 0 && x1 > x0 && y0 > 0 && y1 > y0) {
			t.Errorf("%s: range %g %g %g %g", name, x0, x1, y0, y1)
		}
		if view.Title(r) == "" || view.Headline(r) == "" {
			t.Errorf("%s: no title", name)
		}
	}
}

// A wait is one by its role: a workload calls its stages as it likes.
func TestWaitsAreByRole(t *testing.T) {
	r := &gpuprof.Run{Stages: []gpuprof.StageResult{
		{Name: "halted", Parent: "step", Role: gpuprof.RoleSync.String()}, {Name: "sync", Parent: "step", Role: gpuprof.RoleCompute.String()},
	}}
	got := view.Stages(r)
	if got[0].Name != "sync" || got[0].Waits() || got[1].Name != "halted" || !got[1].Waits() {
		t.Errorf("%+v", got)
	}
}
