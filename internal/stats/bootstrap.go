package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Draws is how many resamples a Bootstrap takes unless told otherwise.
const Draws = bootstrapDraws

// Bootstrap estimates the error of the mean of paired log ratios of medians.
// It is safe for use by several goroutines, and gives the same figures for the
// same seed and data whatever it was asked before.
//
// A resample needs the median of n values drawn from n. Drawing n ranks and
// sorting them is avoided: drawn ranks are floor(n U) of uniform U, so the
// middle ones are floor(n U_(m)) of the order statistics of U, which have
// Beta distributions (David and Nagaraja, Order Statistics, 2003, section 2.3).
// That is exact, costs the same for every n, and does not depend on the data,
// so that all metrics of a comparison share the ranks.
type Bootstrap struct {
	seed  uint64
	draws int

	mu    sync.Mutex
	ranks map[int]*rankPool // by number of samples
	picks map[int][]pick    // by number of blocks
}

// poolSize is how many resampled medians of n samples are kept to choose from,
// a power of two. Its own error of the spread, 1/sqrt(2 poolSize) = 1.1 %, is
// below that of 2,000 draws, 1.6 %.
const poolSize = 1 << 12

// mostPools bounds the memory of the pools, 32 KiB each, where every process
// gave another number of samples.
const mostPools = 256

// rankPool holds, for each resample, the ranks of the middle one or two.
type rankPool [poolSize][2]int32

// pick is one block of one draw: which block, and which resampled median of
// either side. The rows index a rankPool.
type pick struct{ block, rowA, rowB uint16 }

// NewBootstrap makes a bootstrap of at least Draws draws.
func NewBootstrap(seed uint64, draws int) *Bootstrap {
	return &Bootstrap{seed: seed, draws: max(draws, Draws), ranks: map[int]*rankPool{}, picks: map[int][]pick{}}
}

// Paired is the mean over blocks of log(median of b[k] / median of a[k]), where
// a[k] and b[k] are the samples of the two processes of block k.
//
// Its error is that of a hierarchical bootstrap (Davison and Hinkley,
// Bootstrap Methods, 1997, section 3.8): draw K blocks of the K with
// replacement, in each draw the samples of both sides with replacement, take
// the mean; the standard deviation over the draws. It is widened by
// sqrt(K/(K-1)), because K drawn blocks spread like a sample without Bessel's
// correction, and goes with Student's t of K-1 degrees of freedom.
//
// Swapping a and b negates Theta and keeps SE to the last bit; the order of
// samples within a process does not matter. ok is false with fewer than two
// blocks, an empty process, or a value that is not positive and finite.
func (bs *Bootstrap) Paired(a, b [][]float64) (e Effect, ok bool) {
	return bs.PairedBlocks(a, b, nil)
}

// PairedBlocks is Paired with aligned[k] saying that samples i of a[k] and b[k]
// were measured side by side: such a block counts by the median over i of
// log(b[k][i]/a[k][i]), and a resample draws whole turns. An aligned block whose
// sides hold different numbers of samples has no turns and counts as any other.
func (bs *Bootstrap) PairedBlocks(a, b [][]float64, aligned []bool) (e Effect, ok bool) {
	k := len(a)
	if k < 2 || len(b) != k || k > math.MaxUint16 {
		return Effect{}, false
	}
	// Which side gets which resamples must not depend on which is called a.
	first, second, sign := logBlocks(a), logBlocks(b), 1.0
	if first == nil || second == nil {
		return Effect{}, false
	}
	if swapped(first, second) {
		first, second, a, b, sign = second, first, b, a, -1
	}
	for i := range first {
		if i < len(aligned) && aligned[i] && len(a[i]) == len(b[i]) {
			first[i], second[i] = logBlock{logs: []float64{0}}, turnsOf(a[i], b[i])
		}
	}
	var theta float64
	for i := range k {
		theta += first[i].median - second[i].median
	}
	theta /= -sign * float64(k)
	pools := make([][2]*rankPool, k)
	for i := range k {
		pools[i] = [2]*rankPool{bs.pool(len(first[i].logs)), bs.pool(len(second[i].logs))}
	}
	means := make([]float64, bs.draws)
	resample(means, bs.plan(k), first, second, pools)
	n := float64(k)
	return Effect{Theta: theta, SE: stat.StdDev(means, nil) * math.Sqrt(n/(n-1)), Nu: n - 1}, true
}

// resample fills means with the resampled means of second - first.
// All of its memory is the caller's own, so the race detector, under which the
// tests run, has nothing to find in this loop and would take most of their time.
//
//go:norace
func resample(means []float64, plan []pick, first, second []logBlock, pools [][2]*rankPool) {
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

// logBlock is the sorted logarithms of one process's samples. The median of an
// even number is the middle of the logarithms: the geometric mean of the
// middle two, so that swapping sides negates exactly.
type logBlock struct {
	logs   []float64
	median float64
}

// turnsOf is the sorted log ratios of samples measured side by side.
func turnsOf(a, b []float64) logBlock {
	logs := make([]float64, len(a))
	for i := range logs {
		logs[i] = math.Log(b[i]) - math.Log(a[i])
	}
	slices.Sort(logs)
	return logBlock{logs, (logs[(len(logs)-1)/2] + logs[len(logs)/2]) / 2}
}

// logBlocks is nil when a block is empty or holds a value without a logarithm.
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

// swapped says which of two sides comes first, by their content alone.
func swapped(a, b []logBlock) bool {
	for i := range a {
		if c := slices.Compare(a[i].logs, b[i].logs); c != 0 {
			return c > 0
		}
	}
	return false
}

// pool is the resampled ranks of n samples.
func (bs *Bootstrap) pool(n int) *rankPool {
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
			// Given U_(m), the next is the least of n-m uniforms above it.
			p[i][1] = rank(1 - (1-u)*math.Pow(rng.Float64(), 1/float64(n-m)))
		}
	}
	if len(bs.ranks) >= mostPools {
		clear(bs.ranks) // what is needed again comes out the same again
	}
	bs.ranks[n] = p
	return p
}

// plan is which blocks and which of their resampled medians each draw takes.
func (bs *Bootstrap) plan(k int) []pick {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if p := bs.picks[k]; p != nil {
		return p
	}
	rng := rand.New(rand.NewPCG(bs.seed, ^uint64(k)))
	p := make([]pick, bs.draws*k)
	for i := range p {
		p[i] = pick{uint16(rng.IntN(k)), uint16(rng.IntN(poolSize)), uint16(rng.IntN(poolSize))}
	}
	bs.picks[k] = p
	return p
}
