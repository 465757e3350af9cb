package latency

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gpuprof/gpuprof/internal/loadtest"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// Shares lists the percentiles of a summary as shares.
func Shares() []float64 { return []float64{0.5, 0.9, 0.99, 0.999} }

// Enough reports whether a number of recorded times (count) determines a percentile: at least ten must exceed it.
func Enough(share float64, count int64) bool {
	return float64(count)*(1-share) >= 10*(1-1e-9)
}

const (
	draws = 2000
	// leastBlocks is the least number of blocks for an interval: with fewer, the bootstrap's interval is too narrow.
	leastBlocks = 10
)

// Summary summarises the distribution of all processes together. With several processes the replicate is the process,
// and the interval is Student's t over logarithms. With one process, the interval is a bootstrap over its blocks, which
// are in order.
func Summary(all *Histogram, processes []*Histogram, blocks []*Histogram, seed uint64) loadtest.LatencySummary {
	out := loadtest.LatencySummary{Count: all.Count(), MaxS: all.Max(), Percentiles: []loadtest.Percentile{}}
	if out.Count == 0 {
		return out
	}
	out.MeanS = all.Mean()
	var shares []float64
	for _, s := range Shares() {
		if Enough(s, out.Count) {
			shares = append(shares, s)
		}
	}
	var intervals []*[2]float64
	if len(processes) > 1 {
		intervals = processIntervals(processes, shares)
	} else {
		intervals = blockIntervals(blocks, shares, seed)
	}
	for i, s := range shares {
		out.Percentiles = append(out.Percentiles, loadtest.Percentile{Share: s, S: all.At(s), CI95: intervals[i]})
	}
	return out
}

func processIntervals(processes []*Histogram, shares []float64) []*[2]float64 {
	out := make([]*[2]float64, len(shares))
	for i, share := range shares {
		var runs [][]float64
		for _, p := range processes {
			if Enough(share, p.Count()) {
				runs = append(runs, []float64{p.At(share)})
			}
		}
		if len(runs) == len(processes) {
			s := stats.Summarise("s", runs...)
			out[i] = &[2]float64{s.CI95[0], s.CI95[1]}
		}
	}
	return out
}

// blockIntervals computes the intervals of percentiles by a bootstrap over blocks. Each draw merges as many blocks as
// there are, drawn with replacement (Kuensch, Annals of Statistics 17, 1989). The blocks do not overlap, since they are
// long compared with the queue's relaxation time. The ends of the interval are corrected for bias and skewness, since
// most blocks contribute little to the tail and few contribute much (BCa: Efron, Journal of the American Statistical
// Association 82, 1987). They are also corrected for the small number of blocks (the expanded interval of Hesterberg,
// The American Statistician 69, 2015).
func blockIntervals(blocks []*Histogram, shares []float64, seed uint64) []*[2]float64 {
	out := make([]*[2]float64, len(shares))
	if len(blocks) < leastBlocks {
		return out
	}
	t := newTable(blocks)
	rng := rand.New(rand.NewPCG(seed, 0x6c6174656e6379))
	drawn := make([][]float64, len(shares))
	picked := make([]int, len(blocks))
	for range draws {
		clear(picked)
		for range blocks {
			picked[rng.IntN(len(blocks))]++
		}
		t.percentiles(picked, shares, drawn)
	}
	all, without := make([][]float64, len(shares)), make([][]float64, len(shares))
	for b := range picked {
		picked[b] = 1
	}
	t.percentiles(picked, shares, all)
	for b := range picked { // jackknife: leave each block out once
		picked[b] = 0
		t.percentiles(picked, shares, without)
		picked[b] = 1
	}
	for i := range shares {
		slices.Sort(drawn[i])
		lo, hi := correctedRanks(drawn[i], all[i][0], without[i])
		out[i] = &[2]float64{drawn[i][lo], drawn[i][hi]}
	}
	return out
}

// correctedRanks returns the ranks of the ends of a percentile's corrected interval among its sorted draws. without has
// the percentile with each block omitted once.
func correctedRanks(drawn []float64, all float64, without []float64) (lo, hi int) {
	below := sort.SearchFloat64s(drawn, all)
	upTo := sort.Search(len(drawn), func(i int) bool { return drawn[i] > all })
	bias := distuv.UnitNormal.Quantile((float64(below+upTo)/2 + 0.5) / float64(len(drawn)+1))
	n, skew := float64(len(without)), 0.0
	if m := stat.Moment(2, without, nil); m > 0 {
		skew = -stat.Moment(3, without, nil) / (6 * math.Sqrt(n) * math.Pow(m, 1.5))
	}
	wide := stats.TQuantile(n-1, 0.975) * math.Sqrt(n/(n-1))
	place := func(z float64) int {
		z = bias + (bias+z)/(1-skew*(bias+z))
		return min(max(int(float64(len(drawn))*distuv.UnitNormal.CDF(z)), 0), len(drawn)-1)
	}
	return place(-wide), place(wide)
}

// countTable has each block's cumulative counts at every value that occurs in a block.
type countTable struct {
	values []float64 // s, ascending
	counts [][]int64 // by value, by block
}

func newTable(blocks []*Histogram) *countTable {
	t := &countTable{}
	at := map[int64]int{}
	type cell struct {
		value, count int64
		block        int
	}
	var cells []cell
	for b, h := range blocks {
		for _, bar := range h.h.Distribution() {
			if bar.Count > 0 {
				cells = append(cells, cell{bar.To, bar.Count, b})
			}
		}
	}
	slices.SortFunc(cells, func(a, b cell) int { return cmp.Compare(a.value, b.value) })
	for _, c := range cells {
		row, known := at[c.value]
		if !known {
			row = len(t.values)
			at[c.value] = row
			t.values = append(t.values, float64(c.value)*1e-9)
			t.counts = append(t.counts, make([]int64, len(blocks)))
		}
		t.counts[row][c.block] = c.count
	}
	t.accumulate()
	return t
}

// accumulate makes the counts cumulative.
func (t *countTable) accumulate() {
	for row := 1; row < len(t.counts); row++ {
		for b, n := range t.counts[row-1] {
			t.counts[row][b] += n
		}
	}
}

// percentiles appends the percentiles of one draw to into, which has a list per share. picked[b] is the number of times
// that the draw took block b.
func (t *countTable) percentiles(picked []int, shares []float64, into [][]float64) {
	within := func(row int) (n int64) {
		for b, times := range picked {
			n += int64(times) * t.counts[row][b]
		}
		return n
	}
	last := len(t.counts) - 1
	total := float64(within(last))
	for i, share := range shares {
		row := sort.Search(last, func(row int) bool { return float64(within(row)) >= share*total })
		into[i] = append(into[i], t.values[row])
	}
}
