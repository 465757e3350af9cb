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

func TestCost(t *testing.T) {
	for _, c := range []struct {
		v          float64
		unit, want string
	}{
		{12.3e-6, "s per probe", "12.3 us per probe"}, {2e-3, "s", "2.00 ms"}, {0.5, "J per flow", "500 mJ per flow"},
		{2048, "B", "2.00 KiB"}, {math.NaN(), "s per probe", view.None + " per probe"},
	} {
		if got := view.Cost(c.v, c.unit); got != c.want {
			t.Errorf("Cost(%g, %q) = %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}
