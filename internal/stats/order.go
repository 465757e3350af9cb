package stats

import (
	"math"
	"math/rand/v2"
)

// MirroredOrder returns for each of n blocks whether B goes first: at random, but every second block mirrors the
// previous one (ABBA or BAAB), so that a linear drift cancels over a pair of blocks. (Counterbalancing; Box, Hunter
// and Hunter, Statistics for Experimenters, 2005, chapter 4.)
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

// balanced is the number of blocks whose order is drawn together.
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

// FindRhythm returns the p-value of "the order of values is random" against a periodic or lasting change: the largest
// absolute correlation at lag 1 to 5 among 999 orders drawn with a fixed seed. x is in the order of time, without the
// difference of the sides. Fewer than six values, or equal ones, give 1.
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

// Trend describes the drift of a quantity over the runs of both sides.
type Trend struct {
	Slope float64 // change of the logarithm from one run to the next
	P     float64 // two-sided, of "no drift"; 1 if it cannot be tested
	// Bias is the part of the difference of the sides due to drift: half of the whole drift if all of A came before
	// all of B, zero if as many blocks begin with A as with B.
	Bias float64
}

// FindTrend tests for a drift in logs, the log medians of runs in the order of measurement; sideB marks the runs of
// side B. The trend is the common slope of both sides (analysis of covariance: Fisher 1932), so a step between the
// sides is no drift. Fewer than five runs, or one side only, give P = 1.
func FindTrend(logs []float64, sideB []bool) Trend {
	n := len(logs)
	var count, meanX, meanY [2]float64
	side := func(i int) int {
		if sideB[i] {
			return 1
		}
		return 0
	}
	for i, y := range logs {
		s := side(i)
		count[s]++
		meanX[s] += float64(i)
		meanY[s] += y
	}
	if n < 5 || count[0] == 0 || count[1] == 0 {
		return Trend{P: 1}
	}
	for s := range count {
		meanX[s] /= count[s]
		meanY[s] /= count[s]
	}
	var sxx, sxy, syy float64
	for i, y := range logs {
		dx, dy := float64(i)-meanX[side(i)], y-meanY[side(i)]
		sxx, sxy, syy = sxx+dx*dx, sxy+dx*dy, syy+dy*dy
	}
	slope := sxy / sxx
	t := Trend{Slope: slope, P: 1, Bias: slope * (meanX[1] - meanX[0])}
	nu := float64(n - 3)
	switch rest := max(0, syy-slope*sxy); {
	case sxx == 0 || math.IsNaN(slope) || math.IsInf(slope, 0):
		return Trend{P: 1}
	case rest > 0:
		t.P = 2 * tSurvival(nu, math.Abs(slope)/math.Sqrt(rest/nu/sxx))
	case slope != 0:
		t.P = 0
	}
	return t
}

// OrderCheck describes the effect of the order of runs.
type OrderCheck struct {
	// Separate marks an order in which all of one side came before all of the other.
	Separate bool
	// Shift is the mean position of B minus the one of A, in runs. A drift of x per run shifts the comparison by Shift
	// times x.
	Shift float64
}

// CheckOrder examines the order of runs; sideB marks the runs of side B.
func CheckOrder(sideB []bool) OrderCheck {
	var c OrderCheck
	changes := 0
	var sum, count [2]float64
	for i, b := range sideB {
		if i > 0 && b != sideB[i-1] {
			changes++
		}
		s := 0
		if b {
			s = 1
		}
		sum[s] += float64(i)
		count[s]++
	}
	if count[0] == 0 || count[1] == 0 {
		return c
	}
	c.Separate = changes == 1 && len(sideB) > 2
	c.Shift = sum[1]/count[1] - sum[0]/count[0]
	return c
}
