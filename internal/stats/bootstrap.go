package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Draws is the default number of resamples of a Bootstrap.
const Draws = bootstrapDraws

// Bootstrap estimates the error of the mean of paired log ratios of medians. It is safe for concurrent use. Equal
// seeds and data give equal figures, independent of earlier calls.
//
// A resample needs the median of n values drawn from n. Ranks need not be drawn and sorted for that: drawn ranks
// are floor(n U) of uniform U, so the middle ones are floor(n U_(m)) of the order statistics of U, which have Beta
// distributions (David and Nagaraja, Order Statistics, 2003, section 2.3). This is exact, costs the same for every
// n, and is independent of the data, so all metrics of a comparison share the ranks.
type Bootstrap struct {
	seed  uint64
	draws int

	mu    sync.Mutex
	ranks map[int]*rankPool   // by number of samples
	picks map[int][]blockDraw // by number of blocks
}

// poolSize is the number of precomputed resampled medians of n samples, a power of two. It adds an error of
// 1/sqrt(2 poolSize) = 1.1 % to the standard error, less than the 1.6 % of 2,000 draws.
const poolSize = 1 << 12

// mostPools limits the number of rankPools, 32 KiB each. There is one for each number of samples, and processes may
// have many different numbers.
const mostPools = 256

// rankPool holds the ranks of the middle one or two samples of each resample.
type rankPool [poolSize][2]int32

// blockDraw is one block of one draw: the block's index, and for each side a row of its rankPool (a resampled median).
type blockDraw struct{ block, rowA, rowB uint16 }

// NewBootstrap returns a bootstrap of at least Draws draws.
func NewBootstrap(seed uint64, draws int) *Bootstrap {
	return &Bootstrap{seed: seed, draws: max(draws, Draws), ranks: map[int]*rankPool{}, picks: map[int][]blockDraw{}}
}

// Paired returns the mean over blocks of log(median of b[k] / median of a[k]), where a[k] and b[k] are the samples of
// the two processes of block k.
//
// Its error is from a hierarchical bootstrap (Davison and Hinkley, Bootstrap Methods, 1997, section 3.8). Each draw
// takes K of the K blocks with replacement, resamples both sides of each, and takes the mean; SE is the standard
// deviation over the draws. The factor sqrt(K/(K-1)) restores Bessel's correction, and Student's t has K-1 degrees of
// freedom.
//
// Swapping a and b negates Theta and keeps SE to the last bit. The order of samples within a process does not matter.
// ok is false with fewer than two blocks, an empty process, or a value that is not positive and finite.
func (bs *Bootstrap) Paired(a, b [][]float64) (e Effect, ok bool) {
	return bs.PairedBlocks(a, b, nil)
}

// PairedBlocks is Paired with interleaved blocks: in a block with aligned[k], samples i of a[k] and b[k] were
// measured together. Such a block counts by the median over i of log(b[k][i]/a[k][i]), and a resample draws whole
// pairs. If its sides differ in length, it counts as not aligned.
func (bs *Bootstrap) PairedBlocks(a, b [][]float64, aligned []bool) (e Effect, ok bool) {
	k := len(a)
	if k < 2 || len(b) != k || k > math.MaxUint16 {
		return Effect{}, false
	}
	// Sort the sides by content, so that swapping a and b draws the same resamples.
	first, second, sign := logBlocks(a), logBlocks(b), 1.0
	if first == nil || second == nil {
		return Effect{}, false
	}
	if isSwapped(first, second) {
		first, second, a, b, sign = second, first, b, a, -1
	}
	for i := range first {
		if i < len(aligned) && aligned[i] && len(a[i]) == len(b[i]) {
			first[i], second[i] = logBlock{logs: []float64{0}}, pairRatios(a[i], b[i])
		}
	}
	var theta float64
	for i := range k {
		theta += first[i].median - second[i].median
	}
	theta /= -sign * float64(k)
	pools := make([][2]*rankPool, k)
	for i := range k {
		pools[i] = [2]*rankPool{bs.poolFor(len(first[i].logs)), bs.poolFor(len(second[i].logs))}
	}
	means := make([]float64, bs.draws)
	resample(means, bs.drawPlan(k), first, second, pools)
	n := float64(k)
	return Effect{Theta: theta, SE: stat.StdDev(means, nil) * math.Sqrt(n/(n-1)), Nu: n - 1}, true
}

// resample fills means with the resampled means of second - first. It uses only memory of its caller, so the race
// detector finds nothing in this loop, and would take most of the tests' time.
//
//go:norace
func resample(means []float64, plan []blockDraw, first, second []logBlock, pools [][2]*rankPool) {
	k := len(first)
	scale := 0.5 / float64(k) // the median is half the sum of the middle two
	for d := range means {
		sum := 0.0
		row := plan[d*k : (d+1)*k]
		for j := range row {
			p := &row[j]
			pool := &pools[p.block]
			ra, rb := &pool[0][p.rowA%poolSize], &pool[1][p.rowB%poolSize]
			la, lb := first[p.block].logs, second[p.block].logs
			sum += lb[rb[0]] + lb[rb[1]] - la[ra[0]] - la[ra[1]]
		}
		means[d] = sum * scale
	}
}

// logBlock holds the sorted logarithms of one process's samples. The median of an even number is the mean of the
// middle two logarithms, so that swapping sides negates it exactly.
type logBlock struct {
	logs   []float64
	median float64
}

// pairRatios returns the sorted log ratios of samples measured together.
func pairRatios(a, b []float64) logBlock {
	logs := make([]float64, len(a))
	for i := range logs {
		logs[i] = math.Log(b[i]) - math.Log(a[i])
	}
	slices.Sort(logs)
	return logBlock{logs, (logs[(len(logs)-1)/2] + logs[len(logs)/2]) / 2}
}

// logBlocks returns the blocks' sorted logarithms; nil if a block is empty or holds a value without a logarithm.
func logBlocks(blocks [][]float64) []logBlock {
	n := 0
	for _, b := range blocks {
		n += len(b)
	}
	all := make([]float64, 0, n)
	out := make([]logBlock, len(blocks))
	for i, b := range blocks {
		if len(b) == 0 {
			return nil
		}
		from := len(all)
		for _, v := range b {
			if !(v > 0) || math.IsInf(v, 1) {
				return nil
			}
			all = append(all, math.Log(v))
		}
		logs := all[from:]
		slices.Sort(logs)
		out[i] = logBlock{logs, (logs[(len(logs)-1)/2] + logs[len(logs)/2]) / 2}
	}
	return out
}

// isSwapped reports whether side b sorts before side a, by content alone.
func isSwapped(a, b []logBlock) bool {
	for i := range a {
		if c := slices.Compare(a[i].logs, b[i].logs); c != 0 {
			return c > 0
		}
	}
	return false
}

// poolFor returns the resampled ranks of n samples.
func (bs *Bootstrap) poolFor(n int) *rankPool {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if p := bs.ranks[n]; p != nil {
		return p
	}
	src := rand.NewPCG(bs.seed, uint64(n))
	rng := rand.New(src)
	p := new(rankPool)
	// The lower of the middle two, or the middle one, is the m-th smallest of n uniform variables.
	m := (n + 1) / 2
	middle := distuv.Beta{Alpha: float64(m), Beta: float64(n - m + 1), Src: src}
	rank := func(u float64) int32 { return int32(min(int(u*float64(n)), n-1)) }
	for i := range p {
		u := middle.Rand()
		p[i][0] = rank(u)
		p[i][1] = p[i][0]
		if n%2 == 0 {
			// Given u = U_(m), the next order statistic is the smallest of n-m uniform variables above u.
			p[i][1] = rank(1 - (1-u)*math.Pow(rng.Float64(), 1/float64(n-m)))
		}
	}
	if len(bs.ranks) >= mostPools {
		clear(bs.ranks) // a pool that is needed again is recomputed with equal content
	}
	bs.ranks[n] = p
	return p
}

// drawPlan returns the random choices of all draws, k per draw: the index of a block, drawn with replacement, and for
// each side a row of its rankPool, which selects a resampled median.
func (bs *Bootstrap) drawPlan(k int) []blockDraw {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if p := bs.picks[k]; p != nil {
		return p
	}
	rng := rand.New(rand.NewPCG(bs.seed, ^uint64(k)))
	p := make([]blockDraw, bs.draws*k)
	for i := range p {
		p[i] = blockDraw{uint16(rng.IntN(k)), uint16(rng.IntN(poolSize)), uint16(rng.IntN(poolSize))}
	}
	bs.picks[k] = p
	return p
}
