package stats

import (
	"math"

	"gonum.org/v1/gonum/stat"
)

const (
	// fewestSamples is what an interval of one process needs.
	fewestSamples = 6
	// rankBlocks and levelBlocks: more blocks tell the spread of block counts
	// better, fewer are long enough for a median of their own.
	rankBlocks  = 5
	levelBlocks = 8
	// grows is from which growth of the variance, from short blocks to long
	// ones, samples are taken to depend on one another beyond the long ones.
	grows = 1.5
)

// withinInterval is the 95 % interval of the median that a process has in the
// long run. x is its samples as they were taken, sorted the same in order.
// Samples that follow one another are alike (a neighbour is busy for a while),
// so they count by blocks, not one by one:
//
//   - Ranks: the share of a block's samples below the median scatters from block
//     to block with s; the interval reaches to the ranks n (1/2 -+ t s/sqrt(K)).
//     s/sqrt(K) is the standard error that a block bootstrap of that share tends
//     to with many draws (Carlstein, Annals of Statistics 14, 1986; Künsch, Annals
//     of Statistics 17, 1989), so that none is drawn; turning an interval of a
//     share into one of a quantile is Woodruff's (JASA 47, 1952).
//   - Levels: Student's t with K-1 degrees of freedom over the medians of at most
//     8 blocks (Schmeiser, Operations Research 30, 1982), which reaches beyond the
//     samples seen where there are few.
//
// The length of a block comes from the data: K is 32, 16, 8 and 5, where 8
// samples are left for each of the 5 (else down to 3), and the widest interval
// counts. Where the variance still grows with the length, K is 4 and 3 too
// (Politis and White, Econometric Reviews 23, 2004, give the reason: blocks
// must be longer than what makes samples alike). The work is of the order of
// one sort of the samples.
func withinInterval(x, sorted []float64, median float64) (lo, hi float64) {
	n := len(x)
	if n < fewestSamples {
		return sorted[0], sorted[n-1]
	}
	w := within{x: x, median: median, scratch: make([]float64, n), rank: z975 / 2 / math.Sqrt(float64(n)), lo: median, hi: median}
	least := max(3, min(5, n/levelBlocks))
	short, long := 0.25/float64(n), 0.0
	for _, k := range []int{32, 16, 8, 5, 4, 3} {
		if k < least || n/k < 2 {
			continue
		}
		v := w.use(k)
		if k >= 2*least {
			short = max(short, v)
		}
		long = v
	}
	if long > grows*short {
		for k := least - 1; k >= 3; k-- {
			w.use(k)
		}
	}
	below := max(0, int(math.Floor(float64(n)*(0.5-w.rank))))
	above := min(n-1, int(math.Ceil(float64(n)*(0.5+w.rank)))-1)
	lo, hi = min(w.lo, sorted[below]), max(w.hi, sorted[above])
	if sorted[0] >= 0 { // a time is no less than nothing
		lo = max(lo, 0)
	}
	return lo, hi
}

// tooAlike reports whether the samples x of one process, in their order, tell too little of its
// long-run median for an interval. Independent samples as informative as the n of an autoregression
// with correlation rho are n (1-rho)/(1+rho); fewer than 6, or than a quarter of n, are too few.
// rho is the correlation of the ranks of neighbours (rankRatio), and raised by (1+3 rho)/n for
// its bias (Kendall, Biometrika 41, 1954). Simulation chose the limits (TestWithinCoverage).
func tooAlike(x []float64) bool {
	n := float64(len(x))
	ratio, ok := rankRatio(x)
	if !ok || n < fewestSamples {
		return false
	}
	rho := 1 - ratio/2
	rho += (1 + 3*rho) / n
	return n*(1-rho) < min(6, n/4)*(1+rho)
}

// z975 is the two-sided 95 % point of the normal distribution.
const z975 = 1.959963984540054

// within gathers the widest interval of one process.
type within struct {
	x, scratch []float64
	median     float64
	rank       float64 // half of the interval, as a share of the samples
	lo, hi     float64 // by the blocks' medians
}

// use widens the interval to that of k blocks, and returns the variance of the
// share below the median that they give.
func (w *within) use(k int) float64 {
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
		w.level(k)
	}
	return variance
}

// level widens the interval by the medians of k blocks: in logarithms where all
// are positive, so that it is of the same width in any unit and in rates.
func (w *within) level(k int) {
	n := len(w.x)
	copy(w.scratch, w.x)
	medians, positive := make([]float64, k), w.median > 0
	for j := range medians {
		medians[j] = selectMedian(w.scratch[j*n/k : (j+1)*n/k])
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
	// A result file has no number for infinity.
	w.lo, w.hi = min(w.lo, w.median*math.Exp(-half)), max(w.hi, min(w.median*math.Exp(half), math.MaxFloat64))
}

// selectMedian is Median in linear time; it reorders s, which is not empty.
// (Hoare's selection, Commun. ACM 4, 1961.)
func selectMedian(s []float64) float64 {
	m := len(s) / 2
	upper := selectNth(s, m)
	if len(s)%2 == 1 {
		return upper
	}
	lower := s[0]
	for _, v := range s[1:m] {
		lower = max(lower, v)
	}
	return (lower + upper) / 2
}

// selectNth is the k-th smallest of s, counted from 0, and moves it to its place,
// nothing larger before it.
func selectNth(s []float64, k int) float64 {
	lo, hi := 0, len(s)-1
	for lo < hi {
		pivot := s[lo+(hi-lo)/2]
		i, j := lo, hi
		for i <= j {
			for s[i] < pivot {
				i++
			}
			for s[j] > pivot {
				j--
			}
			if i <= j {
				s[i], s[j] = s[j], s[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			hi = j
		case k >= i:
			lo = i
		default:
			return s[k]
		}
	}
	return s[k]
}
