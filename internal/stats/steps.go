package stats

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// StepRule defines a change of level in a sequence.
type StepRule struct {
	Least  int     // least number of values on either side of a change; 0 is 4
	Margin float64 // least difference between the medians on either side
	Alpha  float64 // largest p-value of a change
	Draws  int     // number of shuffles of the permutation test
	Seed   uint64
}

// leastBeside is StepRule.Least's default: with 3, outliers cause a false change in 15 % of correlated sequences.
const leastBeside = 4

// Step is a change of level in a sequence.
type Step struct {
	At int     // index of the first value of the new level
	P  float64 // of the permutation test
	// First and Last bound the positions of the change with 95 % probability.
	First, Last int
}

// FindSteps finds the changes of level in the sequence y, in order. The statistic of splitting a segment into m and
// n values is E-divisive's with exponent 1,
//
//	Q = mn/(m+n) (2/(mn) sum|x_i - y_j| - 2/(m(m-1)) sum_{i<j}|x_i - x_j| - 2/(n(n-1)) sum_{i<j}|y_i - y_j|)
//
// (Matteson and James, JASA 109, 2014, arXiv 1306.4933), and the split with the largest statistic over all segments
// is the next change. The search ends if the medians around that split differ by less than the margin, or if a
// permutation test that shuffles the values inside each segment does not reject. The test shuffles blocks of values
// if neighbours are correlated (see Neighbourly). Finally changes below the margin are removed, the smallest first.
func FindSteps(y []float64, r StepRule) []Step {
	rho := Neighbourly(y)
	s := &stepFinder{y: y, rule: r, rho: rho, block: blockLength(rho)}
	if s.rule.Least == 0 {
		s.rule.Least = leastBeside
	}
	s.rng = rand.New(rand.NewPCG(r.Seed, 0x7374657073))
	s.bounds = []int{0, len(y)}
	var found []Step
	for {
		at, q := s.largestSplit()
		if at < 0 || math.Abs(s.medianRise(at)) < r.Margin {
			break
		}
		p := s.permutationTest(q)
		if p > r.Alpha {
			p = s.shortBlockTest(at, q)
		}
		if p > r.Alpha {
			break
		}
		found = append(found, Step{At: at, P: p})
		i, _ := slices.BinarySearch(s.bounds, at)
		s.bounds = slices.Insert(s.bounds, i, at)
	}
	s.removeSmall()
	found = slices.DeleteFunc(found, func(f Step) bool { return !slices.Contains(s.bounds, f.At) })
	slices.SortFunc(found, func(a, b Step) int { return a.At - b.At })
	for i := range found {
		found[i].First, found[i].Last = s.locateChange(found[i].At)
	}
	return found
}

// Neighbourly estimates the correlation of neighbours in a sequence with steps and outliers, 0 to 0.7. With v_l =
// (1.4826 median|y_{i+l} - y_i|)^2/2 and q = (v_2 + v_3)/(2 v_1), a first-order autoregression has q = 1 + rho +
// rho^2/2. Differences at short lags are used because a step would count as correlation in an ordinary estimate.
func Neighbourly(y []float64) float64 {
	const lags, most, toSigma = 3, 0.7, 1.4826
	if len(y) <= lags {
		return 0
	}
	var v [lags + 1]float64
	for l := 1; l <= lags; l++ {
		apart := make([]float64, 0, len(y))
		for i := l; i < len(y); i++ {
			apart = append(apart, math.Abs(y[i]-y[i-l]))
		}
		d := toSigma * medianOf(apart)
		v[l] = d * d / 2
	}
	if v[1] == 0 {
		return 0
	}
	q := (v[2] + v[3]) / (2 * v[1])
	if 1+2*(q-1) <= 1 {
		return 0
	}
	return min(math.Sqrt(1+2*(q-1))-1, most)
}

// blockLength returns the number of neighbours that a permutation keeps together.
func blockLength(rho float64) int {
	switch {
	case rho < 0.15:
		return 1
	case rho < 0.45:
		return 3
	}
	return 5
}

type stepFinder struct {
	y      []float64
	rule   StepRule
	rng    *rand.Rand
	rho    float64 // of neighbours in y
	block  int
	bounds []int // starts of the segments, and the end of the last
}

// largestSplit returns the position of the largest statistic over all segments; -1 if there is none.
func (s *stepFinder) largestSplit() (at int, q float64) {
	at = -1
	for i := range len(s.bounds) - 1 {
		lo := s.bounds[i]
		x := s.y[lo:s.bounds[i+1]]
		rows, sum := rowSums(x)
		if k, v := bestSplit(x, rows, sum, s.rule.Least); k > 0 && v > q {
			at, q = lo+k, v
		}
	}
	return at, q
}

// rowSums returns the sum of distances of each value from all others, and the sum over all pairs.
func rowSums(x []float64) (rows []float64, sum float64) {
	rows = make([]float64, len(x))
	for i, a := range x {
		for j, b := range x[:i] {
			d := math.Abs(a - b)
			rows[i] += d
			rows[j] += d
			sum += d
		}
	}
	return rows, sum
}

// bestSplit returns the position in x with the largest statistic; 0 if x is too short.
func bestSplit(x, rows []float64, sum float64, least int) (at int, q float64) {
	if len(x) < 2*least {
		return 0, 0
	}
	before, after := 0.0, sum // sums of pair distances within either part
	for k, a := range x[:len(x)-least] {
		near := 0.0
		for _, b := range x[:k] {
			near += math.Abs(a - b)
		}
		before += near
		after -= rows[k] - near
		m, n := float64(k+1), float64(len(x)-k-1)
		if k+1 < least {
			continue
		}
		v := m * n / (m + n) * (2/(m*n)*(sum-before-after) - 2/(m*(m-1))*before - 2/(n*(n-1))*after)
		if v > q {
			at, q = k+1, v
		}
	}
	return at, q
}

// permutationTest returns the share of shuffled sequences, with the original among them, whose largest statistic is
// at least q. It stops once the share exceeds alpha.
func (s *stepFinder) permutationTest(q float64) float64 {
	type segment struct {
		x, rows []float64
		sum     float64
	}
	var segments []segment
	for i := range len(s.bounds) - 1 {
		x := s.y[s.bounds[i]:s.bounds[i+1]]
		if len(x) >= 2*s.rule.Least {
			rows, sum := rowSums(x)
			segments = append(segments, segment{x, rows, sum})
		}
	}
	x, rows := make([]float64, len(s.y)), make([]float64, len(s.y))
	notBelow, all := 1, float64(s.rule.Draws+1)
	for range s.rule.Draws {
		for _, g := range segments {
			n := s.shuffle(x, rows, g.x, g.rows)
			if _, v := bestSplit(x[:n], rows[:n], g.sum, s.rule.Least); v >= q*(1-1e-12) {
				notBelow++
				break
			}
		}
		if float64(notBelow)/all > s.rule.Alpha {
			break
		}
	}
	return float64(notBelow) / all
}

// leastBlocks is the least number of blocks of a segment for a permutation test that can reject. With K blocks, m
// of them after the change, 2 of the K!/(m! (K-m)!) arrangements show the same change: with a third after the
// change, 1 in 248 for K = 12 and 1 in 14 for K = 8.
const leastBlocks = 16

// shortBlockTest returns the p-value of a change in a segment with too few blocks: the larger of two tests' p-values,
// or Student's alone if that is already above Alpha. It returns 1 if blocks cannot be shorter. The permutation test
// with shorter blocks rejects too often if neighbours are correlated; Student's test allows for the correlation, but
// not for the selection of the largest change.
func (s *stepFinder) shortBlockTest(at int, q float64) float64 {
	lo, hi := s.levelBounds(at)
	short := max(1, (hi-lo)/leastBlocks)
	if short >= s.block {
		return 1
	}
	e := LevelChange(s.y[lo:at], s.y[at:hi], s.rho)
	if e.Theta < 0 {
		e.Theta = -e.Theta
	}
	p := 2 * e.PNotAbove(0)
	if p > s.rule.Alpha {
		return p
	}
	shorter := *s
	shorter.block = short
	return max(p, shorter.permutationTest(q))
}

// LevelChange returns the difference of the medians of after and before, with the errors of both (MedianError).
// Correlated neighbours widen the error: in an autoregression the variance of a mean is (1+rho)/(1-rho) times that
// of independent values.
func LevelChange(before, after []float64, rho float64) Effect {
	a, b := MedianError(before), MedianError(after)
	return Effect{
		Theta: Median(after) - Median(before), Nu: float64(len(before) + len(after) - 2),
		SE: math.Sqrt((a*a + b*b) * (1 + rho) / (1 - rho)),
	}
}

// shuffle copies a segment's blocks of values and row sums in random order, with a random offset of the first block.
func (s *stepFinder) shuffle(x, rows, fromX, fromRows []float64) int {
	var blocks [][2]int
	begin := 0
	for end := 1 + s.rng.IntN(s.block); begin < len(fromX); end += s.block {
		end = min(end, len(fromX))
		blocks = append(blocks, [2]int{begin, end})
		begin = end
	}
	s.rng.Shuffle(len(blocks), func(i, j int) { blocks[i], blocks[j] = blocks[j], blocks[i] })
	n := 0
	for _, b := range blocks {
		copy(x[n:], fromX[b[0]:b[1]])
		n += copy(rows[n:], fromRows[b[0]:b[1]])
	}
	return n
}

// levelBounds returns the bounds of the levels on both sides of a position.
func (s *stepFinder) levelBounds(at int) (lo, hi int) {
	i, is := slices.BinarySearch(s.bounds, at)
	hi = i
	if is {
		hi++
	}
	return s.bounds[i-1], s.bounds[hi]
}

// medianRise returns the difference of the medians after and before a position.
func (s *stepFinder) medianRise(at int) float64 {
	lo, hi := s.levelBounds(at)
	return Median(s.y[at:hi]) - Median(s.y[lo:at])
}

// removeSmall joins levels whose medians differ by less than the margin.
func (s *stepFinder) removeSmall() {
	for len(s.bounds) > 2 {
		least, at := math.Inf(1), 0
		for i := 1; i < len(s.bounds)-1; i++ {
			if d := math.Abs(s.medianRise(s.bounds[i])); d < least {
				least, at = d, i
			}
		}
		if least >= s.rule.Margin {
			return
		}
		s.bounds = slices.Delete(s.bounds, at, at+1)
	}
}

// mostAside limits how far from a change its position is searched, in values.
const mostAside = 60

// locateChange returns the smallest range of positions with 95 % of the likelihood of the change. The likelihood
// assumes Laplace noise around the medians of either side: its logarithm is the negative sum of distances over
// their mean, widened for correlated neighbours.
func (s *stepFinder) locateChange(at int) (first, last int) {
	lo, hi := s.levelBounds(at)
	from, to := max(lo+1, at-mostAside), min(hi-1, at+mostAside)
	sums := make([]float64, 0, to-from+1)
	for k := from; k <= to; k++ {
		sums = append(sums, distanceSum(s.y[lo:k])+distanceSum(s.y[k:hi]))
	}
	least := slices.Min(sums)
	rho := Neighbourly(s.y[lo:hi])
	scale := least / float64(hi-lo) * (1 + rho) / (1 - rho)
	if !(scale > 0) {
		return at, at
	}
	places, all := make([]int, len(sums)), 0.0
	for i, v := range sums {
		places[i] = i
		sums[i] = math.Exp(-(v - least) / scale)
		all += sums[i]
	}
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(sums[b], sums[a]) })
	first, last = at, at
	held := 0.0
	for _, i := range places {
		first, last = min(first, from+i), max(last, from+i)
		if held += sums[i]; held >= 0.95*all {
			break
		}
	}
	return first, last
}

// distanceSum returns the sum of the distances of x's values from their median.
func distanceSum(x []float64) (sum float64) {
	centre := Median(x)
	for _, v := range x {
		sum += math.Abs(v - centre)
	}
	return sum
}
