package report_test

import (
	"io"
	"math"
	"regexp"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/report/github"
	"github.com/gpuprof/gpuprof/report/junit"
	"github.com/gpuprof/gpuprof/report/page"
)

// absurd is text that no figure of a comparison may have: what is not finite, and percentages of
// more than nine digits, with an exponent or without.
var absurd = regexp.MustCompile(`(?i)\b(nan|inf|infinity)\b|[0-9]{10,}(\.[0-9]+)? ?%|e[+-]?[0-9]+ ?%`)

// Whatever the samples are (any spread, constants, two values, the smallest and the largest
// numbers), no text of a comparison has a figure that bounds nothing.
func TestComparisonFiguresAreBounded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o := compare.Options{Judge: true, SessionSpread: rapid.SampledFrom([]float64{0, -1, 0.2, 1}).Draw(rt, "session spread")}
		metric := compare.Metric{Name: "x", Unit: rapid.SampledFrom([]string{"s", "B", "1/s", "count"}).Draw(rt, "unit"), HigherIsBetter: rapid.Bool().Draw(rt, "more is better")}
		old, now := anyResult(rt, "old", metric), anyResult(rt, "new", metric)
		var c *compare.Comparison
		var err error
		if rapid.Bool().Draw(rt, "gate") {
			c, err = judgeBlocks(rt, old, now, o)
		} else {
			c, err = compare.Compare(old, now, o)
		}
		if err != nil {
			rt.Fatal(err)
		}
		p, err := page.Comparison(c)
		if err != nil {
			rt.Fatal(err)
		}
		texts := written(t, p)
		delete(texts, "html") // its chart data are checked as finite where they are written
		texts["junit"] = rendered(t, func(w io.Writer) error { return junit.Write(w, c, junit.Options{}) })
		texts["github"] = rendered(t, func(w io.Writer) error { return github.Annotate(w, c) })
		for format, text := range texts {
			if bad := absurd.FindString(text); bad != "" {
				rt.Fatalf("%s has %q:\n%s", format, bad, text)
			}
		}
	})
}

// judgeBlocks is the first two stages of a gate.
func judgeBlocks(rt *rapid.T, old, now *compare.Result, o compare.Options) (*compare.Comparison, error) {
	gate := compare.NewGate(o)
	blocks := func() (out []compare.Block) {
		one := func(r *compare.Result, k int) *compare.Result {
			m := r.Metrics[0]
			m.Runs = m.Runs[k : k+1]
			return &compare.Result{Source: r.Source, Metrics: []compare.MetricData{m}}
		}
		for k := range min(len(old.Metrics[0].Runs), len(now.Metrics[0].Runs)) {
			out = append(out, compare.Block{A: one(old, k), B: one(now, k), BFirst: k%2 == 1})
		}
		return out
	}()
	c, err := gate.Stage1(blocks)
	if err != nil || c.Verdict != compare.Inconclusive || !rapid.Bool().Draw(rt, "second stage") {
		return c, err
	}
	return gate.Stage2(blocks)
}

// anyResult has one metric of 6 to 12 runs.
func anyResult(rt *rapid.T, side string, metric compare.Metric) *compare.Result {
	size := rapid.SampledFrom([]float64{5e-324, 1e-310, 1e-300, 1e-9, 1, 1e9, 1e300, math.MaxFloat64}).Draw(rt, side+" size")
	spread := rapid.SampledFrom([]float64{0, 1e-16, 1e-12, 1e-6, 0.01, 1, 30, 600}).Draw(rt, side+" spread")
	values := rapid.SampledFrom([]string{"one", "two", "any"}).Draw(rt, side+" values")
	drift := rapid.SampledFrom([]float64{0, 0, 0.01, 40}).Draw(rt, side+" drift")
	runs := make([][]float64, rapid.IntRange(6, 12).Draw(rt, side+" runs"))
	for i := range runs {
		z := 0.0
		switch values {
		case "two":
			z = float64(rapid.IntRange(0, 1).Draw(rt, "level"))
		case "any":
			z = rapid.Float64Range(-1, 1).Draw(rt, "level")
		}
		v := size * math.Exp(spread*z+drift*float64(i))
		runs[i] = []float64{min(max(v, 5e-324), math.MaxFloat64)}
	}
	return &compare.Result{Source: side, Metrics: []compare.MetricData{{Metric: metric, Runs: runs}}}
}
