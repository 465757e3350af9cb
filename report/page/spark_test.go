package page

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
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
		if got := drawSpark(&gpuprof.Series{Runs: c.runs}, 6); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if got := drawSpark(nil, 6); got != view.None {
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
		s := drawSpark(&gpuprof.Series{Runs: [][]float64{rapid.SliceOf(rapid.Float64()).Draw(t, "samples")}}, bins)
		if s != view.None && (utf8.RuneCountInString(s) != bins || !strings.Contains(s, "█")) {
			t.Fatalf("%q of %d bins", s, bins)
		}
	})
}
