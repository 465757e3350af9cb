package collate

import (
	"context"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/loop"
)

// Units: the kinds of rows in the fields of a batch.
const (
	uSample = iota
	uAtom
	uEdge  // edges between atoms
	uProbe // probe points
	uReach // edges from atoms to probes
	unitCount
)

var unitNames = [unitCount]string{"samples", "atoms", "atom_edges", "probes", "probe_edges"}

// sizes holds the number of rows by unit.
type sizes [unitCount]int

// survey holds the batch sizes known at set-up: the mean, and the largest number of rows by unit.
type survey struct {
	mean  [unitCount]float64
	most  sizes
	exact bool // true: no batch exceeds most; false: most is an estimate
}

// countDrawn computes exact sizes by counting every sample of the built-in set.
func (r *recipe) countDrawn(ctx context.Context, s *source) (survey, error) {
	rows, err := counted.Of(r.drawnInputs(), func() ([]sizes, error) { return r.countRows(ctx, s) })
	if err != nil {
		return survey{}, err
	}
	out := survey{exact: true}
	for u := range unitCount {
		column := make([]int, len(rows))
		sum := 0
		for i := range rows {
			column[i] = rows[i][u]
			sum += column[i]
		}
		out.mean[u] = float64(sum) / float64(len(rows)) * float64(r.Batch)
		if r.Padded {
			out.most[u] = r.Batch * slices.Max(column)
		} else {
			out.most[u] = largestWindow(column, r.Batch)
		}
	}
	if out.most[uReach] == 0 {
		return out, gpuprof.Errorf(gpuprof.ErrInput, "finding neighbours in %s: no atom lies within the cutoff of %g angstrom of any of %d probes", s.crystal.Name, r.Cutoff, r.Batch*r.Probes).WithFix("use a larger --set cutoff")
	}
	return out, nil
}

func (r *recipe) countRows(ctx context.Context, s *source) ([]sizes, error) {
	var g atomGraph
	if err := g.fillFrom(s, math.MaxInt); err != nil { // no limit: estimateSizes has checked the size
		return nil, err
	}
	d := newDrawer()
	rows := make([]sizes, r.Items)
	for i := range rows {
		if i%64 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		n := d.start(r, i)
		rows[i] = sizes{1, len(g.species), len(g.dst), n, 0}
		for range n {
			rows[i][uReach] += s.finder.Count(d.probe(s.grid), false)
		}
	}
	return rows, nil
}

// drawn holds the inputs that determine the samples of a built-in set.
type drawn struct {
	seed                  uint64
	items, probes, spread int
	cutoff                float64
}

func (r *recipe) drawnInputs() drawn { return drawn{r.Seed, r.Items, r.Probes, r.Spread, r.Cutoff} }

// counted caches the rows of built-in sets, up to 80 KB each: counting takes up to a tenth of a second, and sessions
// with the same inputs have the same samples.
var counted = loop.Kept[drawn, []sizes]{Most: 32}

// largestWindow returns the largest sum of n consecutive values on a ring.
func largestWindow(ring []int, n int) int {
	total, sum := 0, 0
	for _, v := range ring {
		total += v
	}
	rest := n % len(ring)
	for _, v := range ring[:rest] {
		sum += v
	}
	best := sum
	for i := range ring {
		sum += ring[(i+rest)%len(ring)] - ring[i]
		best = max(best, sum)
	}
	return n/len(ring)*total + best
}

// estimate estimates a batch's size from the structure s alone, before exact counting or, with a folder, instead of
// it.
func (r *recipe) estimate(s *source) survey {
	d := newDrawer()
	d.start(r, 0)
	edges, own := 0, 0
	for _, p := range s.crystal.Positions {
		own += s.finder.Count(p, true)
	}
	const looks = 64
	for range looks {
		edges += s.finder.Count(d.probe(s.grid), false)
	}
	var out survey
	out.mean = [unitCount]float64{1, float64(len(s.crystal.Positions)), float64(own), float64(r.Probes), float64(edges) / looks * float64(r.Probes)}
	for u := range out.mean {
		out.mean[u] *= float64(r.Batch)
		out.most[u] = max(int(math.Ceil(out.mean[u])), 16)
	}
	return out
}
