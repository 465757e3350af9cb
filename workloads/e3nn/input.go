package e3nn

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/structure"
)

// gridSize is the probe grid over the cell: 512,000 points.
const gridSize = 80

// input is the crystal, its points and the batches the steps rotate through.
type input struct {
	crystal *structure.Crystal
	finder  *structure.Finder
	atoms   bool // points are the atoms themselves
	grid    *structure.Grid
	all     [][]int32 // every batch: indices of points
	batches [][]int32 // those the steps rotate through
	edges   []int     // edges of each batch, the prefix knob applied
	degrees []int     // edges of each batch without the prefix
	maxRow  int       // largest degree of a point in any batch
	prefix  int       // 0: all
}

func openCrystal(name string) (*structure.Crystal, error) {
	switch name {
	case "hfo2":
		return structure.HfO2(), nil
	case "diamond":
		return structure.Diamond(5, 5, 5, 3.567), nil
	}
	c, err := structure.ReadFile(name)
	if err != nil {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "%w", err)
	}
	return c, nil
}

func tooManyPoints(batch int, crystal string, have int, unit string) error {
	return gpuprof.Errorf(gpuprof.ErrUsage, "setting batch=%d: %s has %d %s; use a batch of at most %d", batch, crystal, have, unit, have)
}

// openInput reads the structure and draws the batches. Batches are random
// points of the grid (in the order of the seed), so that all of them are
// alike in work: contiguous slices would make the step time depend on the
// slice. Atoms are taken in file order.
func openInput(set gpuprof.Settings, seed uint64) (*input, error) {
	c, err := openCrystal(set["structure"])
	if err != nil {
		return nil, err
	}
	finder, err := structure.NewFinder(c, set.Float("cutoff"))
	if err != nil {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "%w", err)
	}
	in := &input{crystal: c, finder: finder, atoms: set["points"] == "atoms", prefix: number(set, "edges")}
	if !in.atoms {
		in.grid = c.Grid([3]int{gridSize, gridSize, gridSize})
	}
	batch, all := set.Int("batch"), in.points()
	if batch > all {
		return nil, tooManyPoints(batch, c.Name, all, in.unit())
	}
	order := make([]int32, all)
	for i := range order {
		order[i] = int32(i)
	}
	if !in.atoms {
		rng := rand.New(rand.NewPCG(seed, 1))
		rng.Shuffle(all, func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	for at := 0; at+batch <= all; at += batch {
		in.all = append(in.all, order[at:at+batch])
	}
	return in, nil
}

func (in *input) points() int {
	if in.atoms {
		return len(in.crystal.Positions)
	}
	return in.grid.Len()
}

func (in *input) unit() string {
	if in.atoms {
		return "atoms"
	}
	return "probes"
}

func (in *input) point(i int32) [3]float64 {
	if in.atoms {
		return in.crystal.Positions[i]
	}
	return in.grid.Point(int(i))
}

// estimateEdges is the edges of a batch by its first points.
func (in *input) estimateEdges() int64 {
	points := in.all[0][:min(len(in.all[0]), 64)]
	e := 0
	for _, i := range points {
		e += in.finder.Count(in.point(i), in.atoms)
	}
	all := int64(e) * int64(len(in.all[0])) / int64(len(points))
	if in.prefix > 0 {
		return min(int64(in.prefix), all)
	}
	return all
}

// keep limits the rotation to n batches and counts their edges.
func (in *input) keep(ctx context.Context, n int) error {
	in.batches = in.all[:max(1, min(n, len(in.all)))]
	in.edges, in.degrees, in.maxRow = nil, nil, 0
	for _, b := range in.batches {
		e := 0
		for k, i := range b {
			if k%1024 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			d := in.finder.Count(in.point(i), in.atoms)
			e += d
			in.maxRow = max(in.maxRow, d)
		}
		in.degrees = append(in.degrees, e)
		if in.prefix > 0 {
			if in.prefix > e {
				return gpuprof.Errorf(gpuprof.ErrUsage, "setting edges=%d: a batch of %d %s has only %d edges; use at most that, or a larger batch", in.prefix, len(b), in.unit(), e)
			}
			e = in.prefix
		}
		if e == 0 {
			return gpuprof.Errorf(gpuprof.ErrInput, "finding neighbours in %s: no atom lies within the cutoff of %g angstrom of any of %d %s; use a larger --set cutoff", in.crystal.Name, in.finder.Cutoff(), len(b), in.unit())
		}
		in.edges = append(in.edges, e)
	}
	return nil
}

func (in *input) maxEdges() int {
	m := 0
	for _, e := range in.edges {
		m = max(m, e)
	}
	return m
}

func (in *input) meanEdges() int {
	s := 0
	for _, e := range in.edges {
		s += e
	}
	return int(math.Round(float64(s) / float64(len(in.edges))))
}

// degree is the mean number of neighbours of a point, before the prefix.
func (in *input) degree() float64 {
	e, p := 0, 0
	for i, b := range in.batches {
		e += in.degrees[i]
		p += len(b)
	}
	return float64(e) / float64(p)
}

// describe is the result's input section.
func (in *input) describe() map[string]any {
	return map[string]any{
		"structure": in.crystal.Name, "atoms": len(in.crystal.Positions), "points": in.unit(), "points_total": in.points(),
		"batch": len(in.batches[0]), "batches_rotated": len(in.batches), "cutoff_angstrom": in.finder.Cutoff(),
		"degree": in.degree(), "edges_mean": in.meanEdges(), "edges_max": in.maxEdges(), "degree_max": in.maxRow,
	}
}
