package stats

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"gonum.org/v1/gonum/stat"

	"github.com/gpuprof/gpuprof"
)

const (
	bootstrapDraws = 2000
	// mostGroups limits the drawn groups: with more pairs neighbours are joined, which keeps correlated samples together.
	mostGroups = 64
	// exactSamples is the most samples for an exact median of a draw; more use counts at gridPoints quantiles.
	exactSamples = 1000
	gridPoints   = 512
)

// MedianRatio returns the ratio of the median of all a to the median of all b, where a[k] and b[k] are the samples
// of two neighbouring blocks. Its 95 % interval is from a paired block bootstrap on the logarithm (Efron, Annals of
// Statistics 7, 1979): 2,000 draws of whole pairs of blocks, from a fixed seed. The spread is multiplied by
// sqrt(K/(K-1)) for the K pairs and by Student's t of K-1 degrees of freedom. With more than 64 pairs, neighbours
// are drawn together. The cost is one sort of the samples plus a constant. ok is false with fewer than two pairs.
//
// MedianRatio uses medians of all samples rather than of blocks because blocks are short: a burst of other work
// distorts a block's median, and hardly the total median.
func MedianRatio(a, b [][]float64) (r gpuprof.Ratio, ok bool) {
	k := min(len(a), len(b))
	theta := math.Log(Median(slices.Concat(a...)) / Median(slices.Concat(b...)))
	if k < 2 || !gpuprof.IsFinite(theta) {
		return gpuprof.Ratio{}, false
	}
	a, b = groupBlocks(a[:k]), groupBlocks(b[:k])
	k = len(a)
	poolA, poolB := newDrawable(a), newDrawable(b)
	rng := rand.New(rand.NewPCG(1, 2))
	draws := make([]float64, 0, bootstrapDraws)
	picks := make([]int, k)
	for range bootstrapDraws {
		for i := range picks {
			picks[i] = rng.IntN(k)
		}
		if d := math.Log(poolA.median(picks) / poolB.median(picks)); gpuprof.IsFinite(d) {
			draws = append(draws, d)
		}
	}
	n := float64(k)
	half := studentT(n-1) * stat.StdDev(draws, nil) * math.Sqrt(n/(n-1))
	return gpuprof.Ratio{Ratio: math.Exp(theta), CI95: [2]float64{math.Exp(theta - half), math.Exp(theta + half)}}, true
}

// groupBlocks joins neighbouring blocks until there are at most mostGroups.
func groupBlocks(blocks [][]float64) [][]float64 {
	n := len(blocks)
	if n <= mostGroups {
		return blocks
	}
	out := make([][]float64, mostGroups)
	for g := range out {
		out[g] = slices.Concat(blocks[g*n/mostGroups : (g+1)*n/mostGroups]...)
	}
	return out
}

// pooledMedian computes the median over the samples of drawn blocks.
type pooledMedian struct {
	sorted []blockSample // the samples of all blocks, if they are few
	sizes  []int         // number of samples of each block
	times  []int         // how often the draw took each block
	// With many samples, values holds quantiles of all samples in ascending order. counts holds, per block, the
	// number of samples at or below each value.
	values []float64
	counts [][]int
}

func newDrawable(blocks [][]float64) *pooledMedian {
	d := &pooledMedian{times: make([]int, len(blocks))}
	all := slices.Concat(blocks...)
	if len(all) <= exactSamples {
		for i, b := range blocks {
			d.sizes = append(d.sizes, len(b))
			for _, v := range b {
				d.sorted = append(d.sorted, blockSample{v, i})
			}
		}
		slices.SortFunc(d.sorted, func(x, y blockSample) int { return cmp.Compare(x.value, y.value) })
		return d
	}
	slices.Sort(all)
	for g := range gridPoints {
		d.values = append(d.values, all[g*(len(all)-1)/(gridPoints-1)])
	}
	d.values = slices.Compact(d.values)
	for _, b := range blocks {
		counts := make([]int, len(d.values))
		for _, v := range b {
			counts[sort.SearchFloat64s(d.values, v)]++
		}
		for g := 1; g < len(counts); g++ {
			counts[g] += counts[g-1]
		}
		d.counts = append(d.counts, counts)
	}
	return d
}

// median returns the median of the picked blocks' samples together.
func (d *pooledMedian) median(picks []int) float64 {
	if d.values == nil {
		return d.exactMedian(picks)
	}
	at := func(g int) (n int) {
		for _, i := range picks {
			n += d.counts[i][g]
		}
		return n
	}
	middle := float64(at(len(d.values)-1)) / 2
	g := sort.Search(len(d.values)-1, func(g int) bool { return float64(at(g)) >= middle })
	if g == 0 {
		return d.values[0]
	}
	// Interpolate linearly between two quantiles.
	below, upTo := float64(at(g-1)), float64(at(g))
	if upTo == below {
		return d.values[g]
	}
	return d.values[g-1] + (d.values[g]-d.values[g-1])*(middle-below)/(upTo-below)
}

type blockSample struct {
	value float64
	block int
}

// exactMedian returns the median of the picked blocks' samples if there are few samples. One sort serves all draws:
// it walks the sorted samples up to the middle and counts each as often as its block was drawn.
func (d *pooledMedian) exactMedian(picks []int) float64 {
	clear(d.times)
	n := 0
	for _, i := range picks {
		d.times[i]++
		n += d.sizes[i]
	}
	seen, lower := 0, math.NaN() // for an even number: the last sample of the lower half
	for _, s := range d.sorted {
		before := seen
		seen += d.times[s.block]
		if n%2 == 0 && before < n/2 && seen >= n/2 {
			lower = s.value
		}
		if seen > n/2 {
			if n%2 == 1 {
				return s.value
			}
			return (lower + s.value) / 2
		}
	}
	return math.NaN()
}
