package tuneprogram

import (
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/internal/tune"
)

// The confirmation is a gate (compare.Gate) with the sides exchanged: the tuned program is the old side, and the
// unchanged program must be found slower. So a gain has the evidence that a regression needs, by the same stages.
const (
	gatePairs  = compare.Stage1Blocks // of the first stage, and at least of each further one
	earlyPairs = compare.EarlyBlocks  // of the first stage where the budget has no room for more
	mostPairs  = 12                   // of a further stage
)

// gateResult is one process as a side of the gate.
func gateResult(name string, r tune.ProgramRun) *compare.Result {
	return &compare.Result{
		Source: name, Tool: "process", Status: gpuprof.Complete, Env: map[string]string{"format": "process"}, Facts: map[string]string{},
		Knobs: map[string]compare.Knob{}, Code: map[string]string{},
		Metrics: []compare.MetricData{{Metric: compare.Metric{Name: "time", Unit: "s"}, Runs: [][]float64{{r.Cost}}}},
	}
}

// pair is a run of the program with settings and one of the other side, next to each other in time.
type pair struct {
	base, tuned tune.ProgramRun
	tunedFirst  bool
}

// logGain is the logarithm of how many times faster the tuned program was.
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

// verdict is the conclusion of a stage of the gate.
type verdict struct {
	confirmed bool
	more      bool // another stage can decide
	ratio     float64
	ci        [2]float64 // 95 %
}

// verdictOf reads the one metric of a gate's comparison.
func verdictOf(c *compare.Comparison, more bool) verdict {
	m := c.Metrics[0]
	v := verdict{confirmed: m.Verdict == compare.Regressed, more: more && m.Verdict != compare.Regressed,
		ratio: tune.FiniteOrZero(float64(m.Ratio))}
	v.ci = [2]float64{tune.FiniteOrZero(float64(m.CI95[0])), tune.FiniteOrZero(float64(m.CI95[1]))}
	return v
}

// estimateRatio returns the speedup that pairs show for a setting, with the 95 % interval of this ratio alone (Student's t
// over the logarithms); zero interval for fewer than three pairs.
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
	// leastForInterval is the number of pairs that an interval needs: with one degree of freedom it is too wide for
	// any use.
	leastForInterval = 3
	widest           = 20.0 // half an interval, in logarithms, that is still worth printing
)

// isBetter reports whether pairs show a gain above the margin at one-sided 99 %. A set is searched setting by setting,
// with a test for each addition and each removal: at 95 % one set in six had a setting without effect.
func isBetter(gains []float64) bool {
	if len(gains) < leastForInterval {
		return false
	}
	mean, half := stats.MeanInterval(gains) // two-sided 95 %
	scale := stats.TQuantile(float64(len(gains)-1), 0.99) / stats.TQuantile(float64(len(gains)-1), 0.975)
	return mean-half*scale > math.Log1p(margin)
}

// signPairs is the number of pairs that a sign test at p <= 0.001 needs if all agree: 2^-10.
const signPairs = 10

// agreeOnGain reports whether fresh pairs all show a gain by their signs alone: each above the margin. The sign test is exact for
// any spread of processes, for which the gate would measure a stage more.
func agreeOnGain(pairs []pair) bool {
	return len(pairs) >= signPairs && !slices.ContainsFunc(pairs, func(p pair) bool { return p.logGain() <= math.Log1p(margin) })
}

// margin is the gain that is not worth a line of code, as for compare and gate.
const margin = 0.02

// medianMemory is the ratio of the medians of peaks; 0 unknown.
func medianMemory(base, tuned []int64) float64 {
	if len(base) == 0 || len(tuned) == 0 {
		return 0
	}
	middle := func(xs []int64) float64 { return float64(slices.Sorted(slices.Values(xs))[len(xs)/2]) }
	if middle(base) <= 0 || middle(tuned) <= 0 {
		return 0
	}
	return middle(tuned) / middle(base)
}
