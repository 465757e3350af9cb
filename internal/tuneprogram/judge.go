package tuneprogram

import (
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/internal/tune"
)

// The confirmation uses compare.Gate with the sides exchanged: the tuned program is the old side, and the gate must
// find the unchanged program slower. A gain thus needs the same evidence as a regression.
const (
	gatePairs  = compare.Stage1Blocks // pairs of the first stage; the minimum in further stages
	earlyPairs = compare.EarlyBlocks  // pairs of the first stage if the budget is too short for gatePairs
	mostPairs  = 12                   // largest number of pairs of a further stage
)

// gateResult wraps the cost of one process, in seconds, as one side of the gate.
func gateResult(name string, r tune.ProgramRun) *compare.Result {
	return &compare.Result{
		Source: name, Tool: "process", Status: gpuprof.Complete, Env: map[string]string{"format": "process"}, Facts: map[string]string{},
		Knobs: map[string]compare.Knob{}, Code: map[string]string{},
		Metrics: []compare.MetricData{{Metric: compare.Metric{Name: "time", Unit: "s"}, Runs: [][]float64{{r.Cost}}}},
	}
}

// pair holds two runs that followed each other: one with the settings and one without.
type pair struct {
	base, tuned tune.ProgramRun
	tunedFirst  bool
}

// logGain returns the natural logarithm of the speedup: positive if the tuned program was faster.
func (p pair) logGain() float64 { return math.Log(p.base.Cost / p.tuned.Cost) }

func gainsOf(pairs []pair) []float64 {
	out := make([]float64, len(pairs))
	for i, p := range pairs {
		out[i] = p.logGain()
	}
	return out
}

func blocksOf(pairs []pair) []compare.Block {
	out := make([]compare.Block, len(pairs))
	for i, p := range pairs {
		out[i] = compare.Block{A: gateResult("with the settings", p.tuned), B: gateResult("the program as it is",
			p.base), BFirst: !p.tunedFirst}
	}
	return out
}

// verdict is the conclusion of one stage of the gate.
type verdict struct {
	confirmed bool
	more      bool // a further stage can decide
	ratio     float64
	ci        [2]float64 // 95 % interval of ratio
}

func verdictOf(c *compare.Comparison, more bool) verdict {
	m := c.Metrics[0]
	v := verdict{confirmed: m.Verdict == compare.Regressed, more: more && m.Verdict != compare.Regressed,
		ratio: tune.FiniteOrZero(float64(m.Ratio))}
	v.ci = [2]float64{tune.FiniteOrZero(float64(m.CI95[0])), tune.FiniteOrZero(float64(m.CI95[1]))}
	return v
}

// estimateRatio returns the geometric mean of the speedups and its 95 % interval (Student's t over the logarithms).
// The interval is zero for fewer than leastForInterval gains, and not corrected for several comparisons.
func estimateRatio(gains []float64) (ratio float64, ci [2]float64) {
	if len(gains) == 0 {
		return 0, ci
	}
	mean, half := stats.MeanInterval(gains)
	if len(gains) >= leastForInterval && !math.IsNaN(half) && half < widest {
		ci = [2]float64{math.Exp(mean - half), math.Exp(mean + half)}
	}
	return math.Exp(mean), ci
}

const (
	// leastForInterval is the least number of pairs for an interval: the interval of two pairs is too wide for any use.
	leastForInterval = 3
	widest           = 20.0 // maximum half width of a printed interval, in natural logarithms
)

// outliers is the share of gains that are left out at each end, from ten gains on: on a busy machine one block in ten
// may take twice its time.
const outliers = 0.1

// isBetter reports whether the trimmed mean gain is above margin at one-sided 99 %. A set takes many such tests, one per
// added or removed setting: at 95 %, one set in six contained a setting without effect.
func isBetter(gains []float64) bool {
	if len(gains) < leastForInterval {
		return false
	}
	e := stats.TrimmedMean(gains, outliers)
	return e.Theta-stats.TQuantile(e.Nu, 0.99)*e.SE > math.Log1p(margin)
}

// isPromising reports whether the trimmed mean gain is large enough for more measurements.
func isPromising(gains []float64) bool {
	return stats.TrimmedMean(gains, outliers).Theta > math.Log(promising)
}

// signTestPairs is the least number of pairs for a sign test at p <= 0.001: all 10 agree by chance with p = 2^-10.
const signTestPairs = 10

// agreeOnGain is a sign test: it reports whether the first signTestPairs pairs all have a gain above margin. The test is
// exact for any distribution of run times, and saves the gate's next stage. Later pairs do not count: a test of any ten
// pairs would be several tests.
func agreeOnGain(pairs []pair) bool {
	return len(pairs) >= signTestPairs && haveGain(pairs[:signTestPairs])
}

// haveGain reports whether each pair has a gain above margin.
func haveGain(pairs []pair) bool {
	return !slices.ContainsFunc(pairs, func(p pair) bool { return p.logGain() <= math.Log1p(margin) })
}

// margin is the relative gain below which a setting is not worth a line of code, as in compare and gate.
const margin = 0.02

// medianMemory returns the ratio of the median peak memories, tuned over base; 0 if unknown.
func medianMemory(base, tuned []int64) float64 {
	middle := func(xs []int64) float64 { return float64(slices.Sorted(slices.Values(xs))[len(xs)/2]) }
	if len(base) == 0 || len(tuned) == 0 || middle(base) <= 0 {
		return 0
	}
	return max(middle(tuned)/middle(base), 0)
}
