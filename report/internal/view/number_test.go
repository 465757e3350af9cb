package view_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

func TestSecondsHaveThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0 ns", 999.96e-6: "1.00 ms", 9.996e-3: "10.0 ms", 8.8134e-3: "8.81 ms", 1e-3: "1.00 ms", 0.5e-9: "0.500 ns",
		71.5: "71.5 s", 12345: "12345 s", -3.14159e-6: "-3.14 us", math.NaN(): view.None, math.Inf(1): view.None,
	} {
		if got := view.Seconds(v); got != want {
			t.Errorf("%g prints as %q, want %q", v, got, want)
		}
	}
}

// TestSecondsReadBack: what is printed is the value, within half a unit of
// the third digit.
func TestSecondsReadBack(t *testing.T) {
	sizes := map[string]float64{"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
	rapid.Check(t, func(t *rapid.T) {
		v := math.Pow(10, rapid.Float64Range(-9, 3).Draw(t, "exponent"))
		num, unit, ok := strings.Cut(view.Seconds(v), " ")
		got, err := strconv.ParseFloat(num, 64)
		if err != nil || !ok || math.Abs(got*sizes[unit]/v-1) > 0.0051 {
			t.Fatalf("%g prints as %s %s", v, num, unit)
		}
		if digits := strings.Trim(strings.ReplaceAll(num, ".", ""), "0"); len(digits) > 3 {
			t.Fatalf("%g prints as %s: more than three digits", v, num)
		}
	})
}

// TestNarrowIntervalsKeepTheirDigits: both ends of an interval differ in
// print, and the median has as many digits as they.
func TestNarrowIntervalsKeepTheirDigits(t *testing.T) {
	wide := &gpuprof.Series{Unit: "s", Median: 8.8134e-3, CI95: [2]float64{8.7891e-3, 8.8462e-3}}
	if m, i := view.Median(wide), view.SeriesInterval(wide); m != "8.81 ms" || i != "8.79 to 8.85 ms" {
		t.Errorf("%s, %s", m, i)
	}
	narrow := &gpuprof.Series{Unit: "s", Median: 8.8134e-3, CI95: [2]float64{8.8128e-3, 8.8141e-3}}
	if m, i := view.Median(narrow), view.SeriesInterval(narrow); m != "8.813 ms" || i != "8.813 to 8.814 ms" {
		t.Errorf("%s, %s", m, i)
	}
	if got := view.HalfWidth(narrow); got != "<0.01 %" && got != "0.0079 %" {
		t.Error(got)
	}
	if got := view.HalfWidth(wide); got != "0.37 %" {
		t.Error(got)
	}
}

func TestZerosReadAsNothing(t *testing.T) {
	never := &gpuprof.Series{Unit: "s", Runs: [][]float64{{0, 0}}}
	if got := view.Cell(never); got != view.None {
		t.Errorf("a stage that never happened prints %q", got)
	}
	if got := view.ShareCell(view.Stage{Exposed: never}); got != view.None {
		t.Errorf("its share prints %q", got)
	}
	if got := view.Percent(0.0002); got != "<0.1 %" {
		t.Errorf("a share of 0.02 %% prints %q", got)
	}
}

func TestOverheadReadsAsABound(t *testing.T) {
	for name, c := range map[string]struct {
		ratio       gpuprof.Ratio
		value, note string
	}{
		"about zero": {gpuprof.Ratio{Ratio: 0.999, CI95: [2]float64{0.9835, 1.0202}}, "at most 2.0 %", "95 % -1.6 to +2.0 %, against bare steps"},
		"above":      {gpuprof.Ratio{Ratio: 1.0175, CI95: [2]float64{1.0087, 1.0263}}, "+1.8 %", "95 % +0.87 to +2.6 %, against bare steps"},
		"below":      {gpuprof.Ratio{Ratio: 0.97, CI95: [2]float64{0.96, 0.98}}, "-3.0 %", "95 % -4.0 to -2.0 %, against bare steps, which were the slower ones"},
	} {
		r := &gpuprof.Run{Status: gpuprof.Complete, Step: &gpuprof.Series{Median: 1, Runs: [][]float64{{1}}}, Overhead: &c.ratio}
		for _, l := range view.Summary(r) {
			if l.Label == "probe overhead" && (l.Value != c.value || l.Note != c.note) {
				t.Errorf("%s: %q, %q", name, l.Value, l.Note)
			}
		}
	}
}

// An interval too wide to tell is not printed as a bound: the calibrated cost of
// the spans is, where it bounds the overhead and is below the interval's end.
func TestOverheadByCalibration(t *testing.T) {
	wide := gpuprof.Ratio{Ratio: 1.1, CI95: [2]float64{0.88, 1.51}}
	cost := &gpuprof.ProbeCost{Spans: 14, DeviceSpans: 9, Seconds: 3.2e-6}
	for name, c := range map[string]struct {
		kind        string
		ratio       gpuprof.Ratio
		cost        *gpuprof.ProbeCost
		value, note string
	}{
		"calibrated":          {"host", wide, cost, "at most 0.040 % by calibration", "14 spans per step take 3.20 us in all; 95 % -12 to +51 %, against bare steps"},
		"an old file":         {"host", wide, nil, "not measurable", "95 % -12 to +51 %, against bare steps"},
		"a GPU":               {"cuda", wide, cost, "not measurable", "95 % -12 to +51 %, against bare steps"},
		"narrow enough":       {"host", gpuprof.Ratio{Ratio: 1, CI95: [2]float64{0.998, 1.003}}, cost, "at most 0.30 %", "95 % -0.20 to +0.30 %, against bare steps"},
		"measured":            {"host", gpuprof.Ratio{Ratio: 1.02, CI95: [2]float64{1.01, 1.03}}, cost, "+2.0 %", "95 % +1.0 to +3.0 %, against bare steps"},
		"calibrated is wider": {"host", gpuprof.Ratio{Ratio: 1, CI95: [2]float64{0.98, 1.02}}, &gpuprof.ProbeCost{Spans: 5, Seconds: 1e-3}, "at most 2.0 %", "95 % -2.0 to +2.0 %, against bare steps"},
	} {
		r := &gpuprof.Run{Status: gpuprof.Complete, Device: gpuprof.Env{Kind: c.kind}, Overhead: &c.ratio, ProbeCost: c.cost,
			Step: &gpuprof.Series{Median: 8.2e-3, Runs: [][]float64{{8.2e-3}}}, BareStep: &gpuprof.Series{Median: 8e-3, Runs: [][]float64{{8e-3}}}}
		for _, l := range view.Summary(r) {
			if l.Label == "probe overhead" && (l.Value != c.value || l.Note != c.note) {
				t.Errorf("%s: %q, %q", name, l.Value, l.Note)
			}
		}
	}
}

// The interval of one process does not stand alone: beside it stands how far
// another may differ, or that this is unknown and how to learn it.
func TestAnotherProcessIsSaid(t *testing.T) {
	one := &gpuprof.Series{Median: 1, CI95: [2]float64{0.9, 1.1}, Runs: [][]float64{{1, 1, 1, 1, 1, 1}}}
	for want, a := range map[string]*gpuprof.Another{
		"within one process; how far another process may differ is unknown: --runs 6 measures it":               nil,
		"within one process; another process may differ by about 3.6 % (6 earlier processes)":                   {Share: 0.0362, Processes: 6, Same: true},
		"within one process; another process may differ by about 41 % (12 earlier processes of other settings)": {Share: 0.41, Processes: 12},
	} {
		r := &gpuprof.Run{Status: gpuprof.Complete, Step: one, Another: a}
		if got := view.Summary(r)[0].Note; !strings.HasSuffix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	several := &gpuprof.Run{Status: gpuprof.Complete, Step: &gpuprof.Series{Median: 1, CI95: [2]float64{0.9, 1.1}, Runs: [][]float64{{1}, {1}}}, Another: &gpuprof.Another{Share: 0.1, Processes: 6}}
	if got := view.Summary(several)[0].Note; !strings.HasSuffix(got, ", between processes") {
		t.Errorf("several processes: %q", got)
	}
}

func TestCost(t *testing.T) {
	for _, c := range []struct {
		v          float64
		unit, want string
	}{
		{12.3e-6, "s per probe", "12.3 us per probe"}, {2e-3, "s", "2.00 ms"}, {0.5, "J per flow", "500 mJ per flow"},
		{2048, "B", "2.000 KiB"}, {math.NaN(), "s per probe", view.None + " per probe"},
	} {
		if got := view.Cost(c.v, c.unit); got != c.want {
			t.Errorf("Cost(%g, %q) = %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}
