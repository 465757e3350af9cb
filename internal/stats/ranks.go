package stats

import (
	"math"
	"slices"
	"sort"
	"sync"
)

// rankTest is an exact distribution-free test of a shift. The sorted values estimate the shift: all differences b_j
// - a_i (Mann and Whitney, Ann. Math. Statist. 18, 1947), or all averages of two differences of pairs (Wilcoxon
// 1945; Walsh 1949). below[c] is the probability, under the null hypothesis and without ties, that at most c values
// exceed the true shift.
type rankTest struct {
	values, below []float64
	// shift is the distribution of an unobserved shift of one whole side, as points with probabilities; nil for none.
	shift []shiftPoint
}

type shiftPoint struct{ at, p float64 }

// newEffect converts the test to an Effect (Hodges and Lehmann, Ann. Math. Statist. 34, 1963): Theta is the median
// of the values, and two values bound the interval. SE is the half-width of the 95 % interval over 1.96, for
// planning only.
func (t *rankTest) newEffect() Effect {
	n := len(t.values)
	e := Effect{Theta: (t.values[(n-1)/2] + t.values[n/2]) / 2, Nu: math.Inf(1), ranks: t}
	lo, hi := t.quantile(0.025), t.quantile(0.975)
	if math.IsInf(lo, 0) || math.IsInf(hi, 0) { // too few values for 95 %: the range
		lo, hi = t.values[0], t.values[n-1]
	}
	e.SE = (hi - lo) / (2 * TQuantile(math.Inf(1), 0.975))
	return e
}

// pNotAbove returns the p-value of the hypothesis that the shift between the sides is at most bound. A difference
// equal to bound counts as not above it, so that ties do not weaken the test. If one whole side may have a further,
// unobserved shift (Unsettled), the p-value is the mean over its distribution (confidence distributions of independent
// parts: Singh, Xie and Strawderman, Ann. Statist. 33, 2005).
func (t *rankTest) pNotAbove(bound float64) (p float64) {
	if t.shift == nil {
		return t.exactPNotAbove(bound)
	}
	for _, s := range t.shift {
		p += s.p * t.exactPNotAbove(bound-s.at)
	}
	return p
}

func (t *rankTest) exactPNotAbove(bound float64) float64 {
	return t.below[countUpTo(t.values, bound)] // by symmetry the probability that as many values or more exceed it
}

// countUpTo returns the number of sorted values up to v.
func countUpTo(sorted []float64, v float64) int {
	return sort.Search(len(sorted), func(i int) bool { return sorted[i] > v })
}

// WithSharedShift adds to an effect the error of an unobserved shift of one whole side, which has Student's t
// distribution with the spread by. The effect's own error is multiplied by factor. For ranks the shift has 161
// points up to 8 standard deviations.
func (e Effect) WithSharedShift(factor float64, by Spread) Effect {
	if e.ranks == nil {
		own, unseen := e.SE*e.SE*factor*factor, by.Sigma*by.Sigma
		if total := own + unseen; total > 0 {
			e.SE, e.Nu = math.Sqrt(total), max(1, 1/(own/total*own/total/e.Nu+unseen/total*unseen/total/by.Nu))
		}
		return e
	}
	const step, last = 0.1, 80
	t := &rankTest{values: slices.Clone(e.ranks.values), below: e.ranks.below}
	for i, v := range t.values {
		t.values[i] = e.Theta + (v-e.Theta)*factor
	}
	above := 1.0
	for i := -last; i <= last && by.Sigma > 0; i++ {
		next := 0.0
		if i < last {
			next = tSurvival(by.Nu, (float64(i)+0.5)*step)
		}
		t.shift = append(t.shift, shiftPoint{float64(i) * step * by.Sigma, above - next})
		above = next
	}
	return t.newEffect()
}

// largestRejected returns the largest value whose pNotAbove is at most tail; -Inf without any.
func (t *rankTest) largestRejected(tail float64) float64 {
	far := t.shift[len(t.shift)-1].at
	lo, hi := t.values[0]-far, t.values[len(t.values)-1]+far
	if lo -= 1e-9 * (1 + math.Abs(lo)); t.pNotAbove(lo) > tail {
		return math.Inf(-1)
	}
	for range 50 {
		if mid := (lo + hi) / 2; t.pNotAbove(mid) <= tail {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// quantile returns the one-sided confidence bound at a level: an upper bound above a half, a lower bound below;
// infinite if there are too few values for the level.
func (t *rankTest) quantile(level float64) float64 {
	tail := min(level, 1-level)
	switch {
	case t.shift != nil && level > 0.5:
		return -t.negate().largestRejected(tail)
	case t.shift != nil:
		return t.largestRejected(tail)
	}
	c := countUpTo(t.below, tail) - 1
	switch {
	case c < 0 && level > 0.5:
		return math.Inf(1)
	case c < 0:
		return math.Inf(-1)
	case level > 0.5:
		return t.values[len(t.values)-1-c]
	}
	return t.values[c]
}

// negate returns the test with the sides swapped.
func (t *rankTest) negate() *rankTest {
	if t == nil {
		return nil
	}
	n := len(t.values)
	out := make([]float64, n)
	for i, v := range t.values {
		out[n-1-i] = -v
	}
	return &rankTest{out, t.below, t.shift}
}

// Ranks returns the shift of b against a by the ranks of both together, without pairing: Mann and Whitney's test,
// Hodges and Lehmann's estimate. It tolerates up to 29 % of arbitrary values on both sides. ok is false without two
// finite values per side.
func Ranks(a, b []float64) (e Effect, ok bool) {
	if len(a) < 2 || len(b) < 2 {
		return Effect{}, false
	}
	values := make([]float64, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			values = append(values, y-x)
		}
	}
	slices.Sort(values)
	e = (&rankTest{values: values, below: rankTail([2]int{min(len(a), len(b)), max(len(a), len(b))})}).newEffect()
	return e, e.OK()
}

// SignedRanks returns the centre of the pairs' differences d: Wilcoxon's signed rank test, Hodges and Lehmann's
// estimate. ok is false without two finite values.
func SignedRanks(d []float64) (e Effect, ok bool) {
	if len(d) < 2 {
		return Effect{}, false
	}
	var values []float64
	for i, x := range d {
		for _, y := range d[i:] {
			values = append(values, (x+y)/2)
		}
	}
	slices.Sort(values)
	e = (&rankTest{values: values, below: rankTail([2]int{len(d), 0})}).newEffect()
	return e, e.OK()
}

// exactRanks is the largest number of values per side for an exact distribution.
const exactRanks = 60

var rankTails sync.Map // cached results of rankTail

// rankTail returns P(U <= c), c = 0 to n m, of Mann and Whitney's statistic of n and m values, n not above m, or of
// the signed rank statistic W of n values if m is 0. Both count partitions. U counts partitions into at most n
// parts of at most m, by the product of (1-x^(m+i))/(1-x^i) over i = 1 to n; W counts partitions into distinct
// parts up to n, by the product of (1+x^i). (Conover, Practical Nonparametric Statistics, 5.1, 5.7.)
func rankTail(key [2]int) []float64 {
	if kept, ok := rankTails.Load(key); ok {
		return kept.([]float64)
	}
	n, m := key[0], key[1]
	top := n * m
	if m == 0 {
		top = n * (n + 1) / 2
	}
	p := make([]float64, top+1)
	switch {
	case max(n, m) > exactRanks:
		normalTail(p, n, m)
	case m == 0:
		p[0] = 1
		for i := 1; i <= n; i++ {
			for c := top; c >= 0; c-- {
				if p[c] /= 2; c >= i {
					p[c] += p[c-i] / 2
				}
			}
		}
	default:
		gaussBinomial(p, n, m)
	}
	for c := 1; c <= top; c++ {
		p[c] += p[c-1]
	}
	rankTails.Store(key, p)
	return p
}

// gaussBinomial fills p with the normalized coefficients of the Gaussian binomial of n and m. Dividing each factor
// (1-x^(m+i))/(1-x^i) by its value at 1, (m+i)/i, normalizes them.
func gaussBinomial(p []float64, n, m int) {
	p[0] = 1
	for i := 1; i <= n; i++ {
		for c := len(p) - 1; c >= m+i; c-- {
			p[c] -= p[c-m-i]
		}
		for c := i; c < len(p); c++ {
			p[c] += p[c-i]
		}
		for c := range p {
			p[c] *= float64(i) / float64(m+i)
		}
	}
	for c := range p { // copy the lower half: the upper half accumulates rounding errors
		p[c] = max(0, p[min(c, len(p)-1-c)])
	}
}

// normalTail fills p with the probabilities of the normal approximation, with a continuity correction.
func normalTail(p []float64, n, m int) {
	mean, variance := float64(n*m)/2, float64(n*m*(n+m+1))/12
	if m == 0 {
		mean, variance = float64(n*(n+1))/4, float64(n*(n+1)*(2*n+1))/24
	}
	last := 0.0
	for c := range p {
		next := 1 - tSurvival(math.Inf(1), (float64(c)+0.5-mean)/math.Sqrt(variance))
		p[c], last = next-last, next
	}
}
