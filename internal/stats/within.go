package stats

import (
	"math"

	"gonum.org/v1/gonum/stat"
)

const (
	// fewestSamples is the least number of samples for an interval of one process.
	fewestSamples = 6
	// rankBlocks is the least number of blocks for the estimate from ranks. levelBlocks is the largest number of blocks
	// for the estimate from block medians. More blocks determine the spread of ranks better; fewer, longer blocks have
	// better medians.
	rankBlocks  = 5
	levelBlocks = 8
	// An interval needs fewestEffective independent samples, or the share leastEffectiveShare of all samples if that is
	// less. From 20 samples on, an interval that is printed and wrong is then rarer than its level at any correlation.
	fewestEffective, leastEffectiveShare = 7, 1. / 3
	// grows is the ratio of the variance from long blocks to the variance from short blocks above which samples are
	// correlated beyond a block.
	grows = 1.5
)

// withinInterval returns the 95 % interval of a process's long-run median. x has its samples in the order of
// measurement, sorted has them sorted. Successive samples are correlated (other work disturbs several in a row), so
// the interval is estimated from blocks of samples:
//
//   - Ranks: the share of a block's samples below the median scatters from block
//     to block with standard deviation s; the interval covers the ranks n (1/2 -+ t s/sqrt(K)).
//     s/sqrt(K) is the limit of the standard error of a block bootstrap of that
//     share with many draws (Carlstein, Annals of Statistics 14, 1986; Künsch, Annals
//     of Statistics 17, 1989), so no draws are needed; Woodruff (JASA 47, 1952)
//     converts an interval of a share to one of a quantile.
//   - Levels: Student's t with K-1 degrees of freedom over the medians of at most
//     8 blocks (Schmeiser, Operations Research 30, 1982), which extends beyond the
//     observed samples if they are few.
//
// The interval is the widest over several lengths of blocks. The number of blocks K is 32, 16, 8 and 5, as long as
// blocks have two samples or more. With fewer than 40 samples the smallest K is an eighth of the samples, at least
// 3. If the variance still grows with the block's length, K is 4 and 3 too: blocks must be longer than the
// correlation of samples (Politis and White, Econometric Reviews 23, 2004). It costs a few sorts of the samples.
func withinInterval(x, sorted []float64, median float64) (lo, hi float64) {
	n := len(x)
	if n < fewestSamples {
		return sorted[0], sorted[n-1]
	}
	w := withinEstimate{x: x, median: median, scratch: make([]float64, n), rank: z975 / 2 / math.Sqrt(float64(n)), lo: median, hi: median}
	least := max(3, min(5, n/levelBlocks))
	short, long := 0.25/float64(n), 0.0
	for _, k := range []int{32, 16, 8, 5, 4, 3} {
		if k < least || n/k < 2 {
			continue
		}
		v := w.addBlocks(k)
		if k >= 2*least {
			short = max(short, v)
		}
		long = v
	}
	if long > grows*short {
		for k := least - 1; k >= 3; k-- {
			w.addBlocks(k)
		}
	}
	below := max(0, int(math.Floor(float64(n)*(0.5-w.rank))))
	above := min(n-1, int(math.Ceil(float64(n)*(0.5+w.rank)))-1)
	lo, hi = min(w.lo, sorted[below]), max(w.hi, sorted[above])
	if sorted[0] >= 0 { // a time is never negative
		lo = max(lo, 0)
	}
	return lo, hi
}

// tooAlike reports whether the samples x of one process, in their order, are too correlated for an interval of its
// long-run median; sorted has them sorted. n samples of an autoregression with correlation rho count as
// n (1-rho)/(1+rho) independent ones. rho is the correlation of the ranks of neighbours (rankRatio), corrected for its
// bias. The limits are from simulation (TestWithinInTheDocs).
func tooAlike(x, sorted []float64) bool {
	ratio, ok := rankRatio(x, sorted)
	if !ok || len(x) < fewestSamples {
		return false
	}
	n, rho := float64(len(x)), correctBias(1-ratio/2, len(x))
	return n*(1-rho) < min(fewestEffective, n*leastEffectiveShare)*(1+rho)
}

// z975 is the two-sided 95 % point of the normal distribution.
const z975 = 1.959963984540054

// withinEstimate accumulates the widest interval of one process.
type withinEstimate struct {
	x, scratch []float64
	median     float64
	rank       float64 // half-width of the rank interval, as a share of the samples
	lo, hi     float64 // interval from the blocks' medians
}

// addBlocks widens the interval by the estimate from k blocks. It returns the variance of the mean of the blocks'
// shares of samples below the median.
func (w *withinEstimate) addBlocks(k int) float64 {
	n := len(w.x)
	shares := make([]float64, k)
	for j := range shares {
		block := w.x[j*n/k : (j+1)*n/k]
		below := 0.0
		for _, v := range block {
			switch {
			case v < w.median:
				below++
			case v == w.median:
				below += 0.5
			}
		}
		shares[j] = below / float64(len(block))
	}
	variance := stat.Variance(shares, nil) / float64(k)
	if k >= rankBlocks {
		w.rank = max(w.rank, studentT(float64(k-1))*math.Sqrt(variance))
	}
	if k <= levelBlocks {
		w.addLevels(k)
	}
	return variance
}

// addLevels widens the interval by the medians of k blocks, in logarithms if all are positive, so that the relative
// width does not depend on the unit and holds for rates too.
func (w *withinEstimate) addLevels(k int) {
	n := len(w.x)
	copy(w.scratch, w.x)
	medians, positive := make([]float64, k), w.median > 0
	for j := range medians {
		medians[j] = medianOf(w.scratch[j*n/k : (j+1)*n/k])
		positive = positive && medians[j] > 0
	}
	if !positive {
		_, half := MeanInterval(medians)
		w.lo, w.hi = min(w.lo, w.median-half), max(w.hi, w.median+half)
		return
	}
	for j, m := range medians {
		medians[j] = math.Log(m)
	}
	_, half := MeanInterval(medians)
	// A result file cannot store infinity.
	w.lo, w.hi = min(w.lo, w.median*math.Exp(-half)), max(w.hi, min(w.median*math.Exp(half), math.MaxFloat64))
}
