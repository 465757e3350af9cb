package stats

import (
	"math"
	"math/rand/v2"
)

// MirroredOrder returns for each of n blocks whether B goes first: at random, but every second block mirrors the
// previous one (ABBA or BAAB), so that a linear drift cancels over two blocks. (Counterbalancing; Box, Hunter and
// Hunter, Statistics for Experimenters, 2005, chapter 4.)
func MirroredOrder(n int, seed uint64) []bool {
	rng := rand.New(rand.NewPCG(seed, 0x6f72646572))
	out := make([]bool, n)
	for i := range out {
		if i%2 == 1 {
			out[i] = !out[i-1]
			continue
		}
		out[i] = rng.IntN(2) == 1
	}
	return out
}

// balanced is the number of blocks in a group whose order is drawn together.
const balanced = 6

// BalancedOrder returns for each of n blocks whether B goes first: three of every six blocks, at random and not
// alternating, so that a linear drift cancels over six blocks. There are 18 such orders of six blocks and 324 of
// twelve, but only 8 and 64 mirrored ones, so a periodic disturbance matches them less often. (Restricted
// randomization; Box, Hunter and Hunter, Statistics for Experimenters, 2005, chapter 4.)
func BalancedOrder(n int, seed uint64) []bool {
	rng := rand.New(rand.NewPCG(seed, 0x6f72646572))
	out := make([]bool, n)
	for from := 0; from < n; from += balanced {
		group := out[from:min(from+balanced, n)]
		first := len(group) / 2
		if len(group)%2 == 1 {
			first += rng.IntN(2)
		}
		for again := true; again; again = len(group) == balanced && alternates(group) {
			clear(group)
			for _, i := range rng.Perm(len(group))[:first] {
				group[i] = true
			}
		}
	}
	return out
}

func alternates(blocks []bool) bool {
	for i := 1; i < len(blocks); i++ {
		if blocks[i] == blocks[i-1] {
			return false
		}
	}
	return true
}

// FindRhythm returns the p-value of "the order of values is random" against a periodic or lasting change. The
// statistic is the largest absolute correlation at lags 1 to 5, compared with 999 permutations drawn with a fixed
// seed. x is in time order, without the difference between the sides. Fewer than six values, or equal ones, give 1.
func FindRhythm(x []float64) float64 {
	const draws, lags = 999, 5
	if len(x) < lags+1 {
		return 1
	}
	x = deviations(x)
	largest := func() (most float64) {
		for lag := 1; lag <= lags; lag++ {
			sum := 0.0
			for i := lag; i < len(x); i++ {
				sum += x[i] * x[i-lag]
			}
			most = max(most, math.Abs(sum))
		}
		return most
	}
	seen, notBelow := largest(), 1
	rng := rand.New(rand.NewPCG(1, 0x72687974686d))
	for range draws {
		rng.Shuffle(len(x), func(i, j int) { x[i], x[j] = x[j], x[i] })
		if largest() >= seen*(1-1e-12) {
			notBelow++
		}
	}
	return float64(notBelow) / (draws + 1)
}

// Trend describes a change over the runs of both sides: a drift, or a step if Step is not 0.
type Trend struct {
	Slope float64 // of a drift: change of the logarithm from one run to the next
	P     float64 // two-sided, of "no drift"; 1 if it cannot be tested
	// Bias is the part of the difference between the sides that the trend causes. A drift causes half of its whole
	// change if all of A came before all of B, and none if as many blocks begin with A as with B.
	Bias float64
	// Step is the index of the first run after the step, and Height the change of the logarithm there.
	Step   int
	Height float64
}

// stepRatio is the largest residual sum of squares of a step fit, relative to the drift fit, at which a trend counts as
// a step. A step has one more free parameter, its position, and so fits better by chance.
const stepRatio = 0.25

// stepShare is the part of FindTrend's significance level for steps; the rest is for drifts (Bonferroni).
const stepShare = 0.25

// At returns the contribution of the trend to run i, from 0 in the order of measurement.
func (t Trend) At(i int) float64 {
	switch {
	case t.Step == 0:
		return t.Slope * float64(i)
	case i >= t.Step:
		return t.Height
	}
	return 0
}

// FindTrend tests for a drift in logs, the log medians of runs in the order of measurement; sideB marks the runs of
// side B. The trend is the common slope of both sides (analysis of covariance: Fisher 1932), so the difference
// between the sides is no drift. If a step within a side fits better, the step is the trend. Fewer than five runs,
// or runs of one side only, give P = 1.
func FindTrend(logs []float64, sideB []bool) Trend {
	n := len(logs)
	if countB := countTrue(sideB); n < 5 || countB == 0 || countB == n {
		return Trend{P: 1}
	}
	line := fitCovariate(logs, sideB, func(i int) float64 { return float64(i) })
	if line.sxx == 0 || math.IsNaN(line.slope) || math.IsInf(line.slope, 0) {
		return Trend{P: 1}
	}
	t := Trend{Slope: line.slope, P: min(1, line.pValue(n)/(1-stepShare)), Bias: line.bias}
	least := stepRatio * line.rest
	for k := 1; k < n; k++ {
		step := fitCovariate(logs, sideB, func(i int) float64 { return float64(min(max(i-k+1, 0), 1)) })
		if step.sxx > 1 && step.rest < least { // an outlying first or last run would be a step with sxx below 1
			least = step.rest
			p := float64(n-1) * step.pValue(n) / stepShare // Bonferroni over n - 1 positions
			t = Trend{Step: k, Height: step.slope, Bias: step.bias, P: min(1, line.pValue(n)/(1-stepShare), p)}
		}
	}
	return t
}

func countTrue(all []bool) (n int) {
	for _, b := range all {
		if b {
			n++
		}
	}
	return n
}

// covariate is a fit of logs by a mean per side and a common slope over x.
type covariate struct {
	slope, bias float64 // bias is the difference between the sides that the slope causes
	sxx, rest   float64 // sums of squares of x and of the residuals, within the sides
}

// pValue returns the two-sided p-value of "no slope" over n runs of two sides.
func (c covariate) pValue(n int) float64 {
	nu := float64(n - 3)
	switch {
	case c.rest > 0:
		return 2 * tSurvival(nu, math.Abs(c.slope)/math.Sqrt(c.rest/nu/c.sxx))
	case c.slope != 0:
		return 0
	}
	return 1
}

func fitCovariate(logs []float64, sideB []bool, x func(i int) float64) covariate {
	var count, meanX, meanY [2]float64
	for i, y := range logs {
		s := sideOf(sideB[i])
		count[s]++
		meanX[s] += x(i)
		meanY[s] += y
	}
	for s := range count {
		meanX[s] /= count[s]
		meanY[s] /= count[s]
	}
	var sxx, sxy, syy float64
	for i, y := range logs {
		s := sideOf(sideB[i])
		dx, dy := x(i)-meanX[s], y-meanY[s]
		sxx, sxy, syy = sxx+dx*dx, sxy+dx*dy, syy+dy*dy
	}
	slope := sxy / sxx
	return covariate{slope: slope, bias: slope * (meanX[1] - meanX[0]), sxx: sxx, rest: max(0, syy-slope*sxy)}
}

// CheckOrder examines the order of runs; sideB marks the runs of side B. separate marks an order in which all of one
// side came before all of the other. shift is B's mean position minus A's, in runs: a drift of x per run biases the
// comparison by shift times x.
func CheckOrder(sideB []bool) (separate bool, shift float64) {
	changes := 0
	var sum, count [2]float64
	for i, b := range sideB {
		if i > 0 && b != sideB[i-1] {
			changes++
		}
		s := sideOf(b)
		sum[s] += float64(i)
		count[s]++
	}
	if count[0] == 0 || count[1] == 0 {
		return false, 0
	}
	return changes == 1 && len(sideB) > 2, sum[1]/count[1] - sum[0]/count[0]
}

func sideOf(isB bool) int {
	if isB {
		return 1
	}
	return 0
}
