package stats

import (
	"math"
	"math/rand/v2"
)

// MirroredOrder says for each of n blocks whether B goes first: at random, but
// every second block mirrors the one before (ABBA or BAAB), so that a linear
// drift adds up to nothing over a pair of blocks. (Counterbalancing; Box,
// Hunter and Hunter, Statistics for Experimenters, 2005, chapter 4.)
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

// balanced is how many blocks share an order that is drawn for them together.
const balanced = 6

// BalancedOrder says for each of n blocks whether B goes first: in every six blocks three, at
// random and not by turns, so that a linear drift adds up to nothing over six blocks. What
// repeats itself on the machine meets such an order, of which there are 18 for six blocks and 324
// for twelve, less often than a mirrored one, 8 and 64. (Restricted randomization; Box, Hunter
// and Hunter, Statistics for Experimenters, 2005, chapter 4.)
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

// FindRhythm is the p-value of "values follow one another in any order" against a rhythm or a
// level that lasts: the largest size of a correlation at lag 1 to 5 among 999 orders drawn with a
// fixed seed. x is in the order of time, without the difference of the sides; fewer than six
// values, or equal ones, give 1.
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

// Trend is how a quantity drifted over the runs of both sides.
type Trend struct {
	Slope float64 // change of the logarithm from one run to the next
	P     float64 // two-sided, of "no drift"; 1 when it cannot be told
	// Bias is what the drift adds to the difference of the sides, by their
	// places in time: half of the whole drift when all of A came before all of
	// B, nothing where as many blocks begin with A as with B.
	Bias float64
}

// FindTrend looks for a drift in logs, the log medians of runs, in the order
// they were taken; sideB says which side each is of. It is the common slope of
// both sides (analysis of covariance: Fisher 1932), so a step between the
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
		t.P = 2 * survival(nu, math.Abs(slope)/math.Sqrt(rest/nu/sxx))
	case slope != 0:
		t.P = 0
	}
	return t
}

// OrderCheck says what a sequence of runs can bear.
type OrderCheck struct {
	// Separate: all of one side came before all of the other.
	Separate bool
	// Shift is the mean place of B less that of A, in runs. A drift of x a run
	// shifts the comparison by Shift times x.
	Shift float64
}

// CheckOrder examines the order in which runs were taken; sideB says of each
// run which side it is of.
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
