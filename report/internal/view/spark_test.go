package view_test

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/report/internal/fixture"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

func TestSpark(t *testing.T) {
	two := []float64{1, 1, 1, 1, 1, 1, 2, 2, 2}
	for name, c := range map[string]struct {
		runs [][]float64
		want string
	}{
		"two modes":      {[][]float64{two}, "█▁▁▁▁▅"},
		"even":           {[][]float64{{1, 2, 3}, {4, 5, 6}}, "██████"},
		"far outlier":    {[][]float64{append(many(1, 2, 100), 1e6)}, "█▁▁▁▁█"},
		"one value":      {[][]float64{{1, 1, 1, 1, 1, 1}}, view.None},
		"too few":        {[][]float64{{1, 2, 3, 4}}, view.None},
		"not numbers":    {[][]float64{{math.NaN(), math.Inf(1), 1, 1, 1, 1, 1}}, view.None},
		"nothing at all": {nil, view.None},
	} {
		if got := view.Spark(&gpuprof.Series{Runs: c.runs}, 6); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if got := view.Spark(nil, 6); got != view.None {
		t.Error(got)
	}
}

func many(a, b float64, n int) (out []float64) {
	for range n {
		out = append(out, a, b)
	}
	return out
}

// TestSparkIsABar a bin, the fullest of them full.
func TestSparkIsABar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bins := rapid.IntRange(1, 20).Draw(t, "bins")
		s := view.Spark(&gpuprof.Series{Runs: [][]float64{rapid.SliceOf(rapid.Float64()).Draw(t, "samples")}}, bins)
		if s != view.None && (utf8.RuneCountInString(s) != bins || !strings.Contains(s, "█")) {
			t.Fatalf("%q of %d bins", s, bins)
		}
	})
}

// TestLinesOfAGPU: what only some runs have is said where they have it.
func TestLinesOfAGPU(t *testing.T) {
	lines := func(r *gpuprof.Run) map[string]string {
		out := map[string]string{}
		for _, l := range view.Summary(r) {
			out[l.Label] = l.Text()
		}
		return out
	}
	r := fixture.Apart()
	got := lines(r)
	for label, want := range map[string]string{
		"probed step": view.Median(r.ProbedStep) + "  (of the pass that timed the stages", "probe overhead": "the step was timed without it",
		"cost of probes": "step events: at most 0.17 %; stage events: +3.1 %, kept apart; telemetry: +0.20 %", "short kernels": "gate ",
		"energy": "73.3 mJ per step  (gross, 301 W by the energy counter and 299 W by instant power over 2.04 s and 8410 steps; 54.9 mJ without the 75.1 W of an idle device",
	} {
		if !strings.Contains(got[label], want) {
			t.Errorf("%s: %q, want %q", label, got[label], want)
		}
	}
	r.EnergyStep, r.Energy.Valid, r.Energy.Reason = nil, false, "the counter and the instant power are 12 % apart"
	r.Energy.IdleW, r.Energy.NetStepJ = gpuprof.Number(math.NaN()), gpuprof.Number(math.NaN())
	if got := lines(r)["energy"]; got != "unknown  (the counter and the instant power are 12 % apart)" {
		t.Error(got)
	}
	r.Energy, r.EnergyStep = nil, stats.Summarise("J", []float64{1, 1.1, 1.2, 1.1, 1, 1.1, 1})
	if got := lines(r)["energy"]; !strings.Contains(got, "1.10 J per step  (95 % 922 mJ to 1.31 J, within one process)") {
		t.Error(got)
	}
	for _, label := range []string{"probed step", "cost of probes", "short kernels", "energy"} {
		if text, has := lines(fixture.One())[label]; has {
			t.Errorf("a run without it has %s: %s", label, text)
		}
	}
}
