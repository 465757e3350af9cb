package e3nn

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/structure"
)

// gridSize is the number of probes along each cell vector: 512,000 points in all.
const gridSize = 80

// Built-in crystals.
const (
	hafnia  = "hfo2"
	diamond = "diamond"
)

// input holds the crystal, its points, and the batches through which the steps rotate.
type input struct {
	crystal *structure.Crystal
	finder  *structure.Finder
	atoms   bool // points are the atoms themselves
	grid    *structure.Grid
	order   []int32   // point indices in the order of the batches
	batch   int       // points per batch
	batches [][]int32 // batches of the rotation
	edges   []int     // number of edges of each batch, at most the prefix
	degrees []int     // number of edges of each batch without the prefix
	maxRow  int       // largest degree of a point in any batch
	prefix  int       // largest number of edges of a batch; 0: no limit
}

func openCrystal(ctx context.Context, name string) (*structure.Crystal, error) {
	switch name {
	case hafnia:
		return structure.HfO2(), nil
	case diamond:
		return structure.Diamond(5, 5, 5, 3.567), nil
	}
	c, err := structure.ReadFile(ctx, name)
	if err != nil {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "%w", err)
	}
	return c, nil
}

func tooManyPoints(batch int, crystal string, have int, unit string) error {
	return gpuprof.Errorf(gpuprof.ErrUsage, "setting batch=%d: %s has %d %s", batch, crystal, have, unit).WithFix("use a batch of at most %d", have)
}

// openInput reads the structure and draws the batches. A batch of a grid consists of random points, so that all batches
// take equal work; with contiguous slices the step time would depend on the slice. Points that are atoms keep the
// file's order.
func openInput(ctx context.Context, k settings, seed uint64) (*input, error) {
	c, err := openCrystal(ctx, k.Structure)
	if err != nil {
		return nil, err
	}
	finder, err := k.finderOf(c)
	if err != nil {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "%w", err)
	}
	in := &input{crystal: c, finder: finder, atoms: k.Atoms, prefix: k.Edges}
	if !in.atoms {
		in.grid = c.Grid([3]int{gridSize, gridSize, gridSize})
	}
	in.batch = k.Batch / k.Micro()
	if all := in.points(); in.batch > all {
		return nil, tooManyPoints(in.batch, c.Name, all, in.unit())
	}
	if in.atoms {
		in.order = upTo(in.points())
	} else {
		order := shuffle{in.points(), seed}
		if in.order, err = shuffled.Of(order, order.drawOrder); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// Caches that sessions with the same points share: the shuffled points, half a million draws, and the neighbour search
// of a built-in crystal.
var (
	shuffled = loop.Kept[shuffle, []int32]{Most: 1}
	searches = loop.Kept[search, *structure.Finder]{Most: 8}
)

type shuffle struct {
	points int
	seed   uint64
}

func (s shuffle) drawOrder() ([]int32, error) {
	order := upTo(s.points)
	rng := rand.New(rand.NewPCG(s.seed, 1))
	rng.Shuffle(s.points, func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order, nil
}

type search struct {
	Structure string  `knob:"structure"`
	Cutoff    float64 `knob:"cutoff"`
}

// finderOf returns the neighbour search of a crystal. It does not cache a file's crystal, since the file may change.
func (s search) finderOf(c *structure.Crystal) (*structure.Finder, error) {
	if s.Structure != hafnia && s.Structure != diamond {
		return structure.NewFinder(c, s.Cutoff)
	}
	return searches.Of(s, func() (*structure.Finder, error) { return structure.NewFinder(c, s.Cutoff) })
}

func upTo(n int) []int32 {
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	return order
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

func (in *input) estimateEdges() int64 {
	points := in.order[:min(in.batch, 64)]
	e := 0
	for _, i := range points {
		e += in.finder.Count(in.point(i), in.atoms)
	}
	all := int64(e) * int64(in.batch) / int64(len(points))
	if in.prefix > 0 {
		return min(int64(in.prefix), all)
	}
	return all
}

// keepBatches draws n batches and counts their edges.
func (in *input) keepBatches(ctx context.Context, n int) error {
	in.batches, in.edges, in.degrees, in.maxRow = nil, nil, nil, 0
	for i := range max(1, min(n, len(in.order)/in.batch)) {
		b := in.order[i*in.batch : (i+1)*in.batch]
		in.batches = append(in.batches, b)
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
				return gpuprof.Errorf(gpuprof.ErrUsage, "setting edges=%d: a batch of %d %s has only %d edges", in.prefix, len(b), in.unit(), e).WithFix("use at most that, or a larger batch")
			}
			e = in.prefix
		}
		if e == 0 {
			return gpuprof.Errorf(gpuprof.ErrInput, "finding neighbours in %s: no atom lies within the cutoff of %g angstrom of any of %d %s", in.crystal.Name, in.finder.Cutoff(), len(b), in.unit()).WithFix("use a larger --set cutoff")
		}
		in.edges = append(in.edges, e)
	}
	return nil
}

func (in *input) countCoincident() int {
	n := 0
	var e structure.Edges
	for b, batch := range in.batches {
		e.Src, e.Vec = e.Src[:0], e.Vec[:0]
		for _, i := range batch {
			if len(e.Src) >= in.edges[b] {
				break
			}
			in.finder.Append(&e, in.point(i), in.atoms)
		}
		for k := range min(len(e.Src), in.edges[b]) {
			if v := e.Vec[3*k : 3*k+3]; v[0] == 0 && v[1] == 0 && v[2] == 0 {
				n++
			}
		}
	}
	return n
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

// meanDegree returns the mean number of neighbours of a point, without the prefix.
func (in *input) meanDegree() float64 {
	e, p := 0, 0
	for i, b := range in.batches {
		e += in.degrees[i]
		p += len(b)
	}
	return float64(e) / float64(p)
}

func (in *input) describe() map[string]any {
	return map[string]any{
		"structure": in.crystal.Name, "atoms": len(in.crystal.Positions), "points": in.unit(), inputPoints: in.points(),
		"batch": len(in.batches[0]), "batches_rotated": len(in.batches), "cutoff_angstrom": in.finder.Cutoff(),
		"degree": in.meanDegree(), "edges_mean": in.meanEdges(), "edges_max": in.maxEdges(), "degree_max": in.maxRow,
	}
}
