package gridsim

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

const (
	// tolerance of float32 arithmetic against float64, an operation at a time: an
	// update differs by 6e-8.
	tolerance = 1e-5
	// Cells checked where all of them would take over a second, beside the corners
	// and edgeCells of each edge.
	sampledCells = 64
	edgeCells    = 16
	// What the reference does in a second on one core, in flops counted for the
	// float32 kernels; only decides between all cells and a sample.
	referenceRate = 4e8
)

// toleranceOf is what a product may differ by when its inputs are rounded.
var toleranceOf = map[string]float64{"fp32": tolerance, "tf32": 2e-3, "bf16": 2e-2, "fp16": 5e-3}

// Check implements gpuprof.Session: each operation of a step against float64 from
// what it was given itself, then a frame and its copy, and the graph. Afterwards
// the state is the first one.
func (s *session) Check(ctx context.Context) ([]gpuprof.Check, error) {
	c := &checker{s: s, ctx: ctx, ref: newReference(s.shape, s.params), errs: map[string]*result{}}
	c.cells = c.pickCells(rand.New(rand.NewPCG(s.seed, 3)))
	if err := c.run(); err != nil {
		return c.checks(), err
	}
	if err := s.restore(); err != nil {
		return c.checks(), err
	}
	return c.checks(), ctx.Err()
}

// result is the comparison of what one operation wrote.
type result struct {
	op.ErrorNorm
	tolerance float64
}

type checker struct {
	s     *session
	ctx   context.Context
	ref   reference
	cells []int
	errs  map[string]*result
	order []string
	read  map[blockID]array // what the operation at hand was given
}

// array is a block's content on the host.
type array struct {
	v            []float32
	s            shape
	channels     int
	first, cells int
}

func (a array) at(c, i int) float64 {
	return float64(a.v[a.s.at(c, i-a.first, a.channels, a.cells)])
}

// cell is all values of cell i.
func (a array) cell(i int) []float64 {
	out := make([]float64, a.channels)
	for c := range out {
		out[c] = a.at(c, i)
	}
	return out
}

// pickCells takes all cells, or a sample with the corners and some of each edge.
func (c *checker) pickCells(rng *rand.Rand) []int {
	n := c.s.shape.N
	all := n * n
	if float64(c.s.shape.lawCost("").Flops) < referenceRate || all <= sampledCells {
		cells := make([]int, all)
		for i := range cells {
			cells[i] = i
		}
		return cells
	}
	cells := []int{0, n - 1, all - n, all - 1}
	for range sampledCells {
		cells = append(cells, rng.IntN(all))
	}
	for range edgeCells {
		k := rng.IntN(n)
		cells = append(cells, k, all-n+k, k*n, k*n+n-1)
	}
	slices.Sort(cells)
	return slices.Compact(cells)
}

func (c *checker) run() error {
	s := c.s
	if err := s.restore(); err != nil {
		return err
	}
	for i := range s.ops {
		if err := c.operation(&s.ops[i]); err != nil {
			return fmt.Errorf("kernel %s: %w", s.ops[i].kernel, err)
		}
		if err := c.ctx.Err(); err != nil {
			return err
		}
	}
	if err := s.endTape(loop.Silent{}); err != nil {
		return err
	}
	if err := c.frame(); err != nil {
		return err
	}
	if len(s.graphs) > 0 {
		return c.graph()
	}
	return nil
}

// of is the comparison of a name, made when it is first asked for.
func (c *checker) of(name string, tolerance float64) *result {
	r, ok := c.errs[name]
	if !ok {
		r = &result{tolerance: tolerance}
		c.errs[name] = r
		c.order = append(c.order, name)
	}
	return r
}

// operation runs one operation on a poisoned block and compares what it wrote.
func (c *checker) operation(o *operation) error {
	s := c.s
	for _, id := range o.take {
		if err := s.takeBlock(id, s.wordsOf(id, o.cells), loop.Silent{}); err != nil {
			return err
		}
		if err := s.fillNaN(s.blocks[id]); err != nil {
			return err
		}
	}
	c.read = map[blockID]array{}
	for _, id := range o.in {
		var err error
		if c.read[id], err = c.array(id, o); err != nil {
			return err
		}
	}
	if err := s.enqueue(&o.launch); err != nil {
		return err
	}
	out, err := c.array(o.out, o)
	if err != nil {
		return err
	}
	tol := tolerance
	if o.rounds {
		tol = toleranceOf[s.set["precision"]]
	}
	name := allStages()[stLaw].Name
	if o.name != "step" {
		name += "/" + o.name
	}
	e := c.of(name, tol)
	for _, i := range c.cells {
		if i >= o.first && i < o.first+o.cells {
			e.Add(op.As[float32](out.cell(i)), c.expected(o, i))
		}
	}
	for _, id := range o.give {
		if err := s.giveBlock(id, loop.Silent{}); err != nil {
			return err
		}
	}
	return nil
}

// array reads a block: a whole state, or the operation's chunk.
func (c *checker) array(id blockID, o *operation) (array, error) {
	s := c.s
	words := s.wordsOf(id, o.cells)
	v, err := s.receive(s.blocks[id], words)
	a := array{v: v, s: s.shape, first: o.first, cells: o.cells}
	if id == bState || id == bNext || id == bBetween {
		a.first, a.cells = 0, s.shape.cells()
	}
	a.channels = int(words) / a.cells
	return a, err
}

// expected is what the operation should have written for cell i.
func (c *checker) expected(o *operation, i int) []float64 {
	r := c.ref
	cell := func(id blockID) []float64 { return c.read[id].cell(i) }
	switch o.name {
	case "neighbours":
		return c.neighbours(o, i)
	case "hidden":
		return r.hidden(cell(o.in[0]))
	case "activation":
		return r.activation(cell(o.in[0]))
	case "out":
		return r.out(cell(o.in[0]))
	case "update":
		return c.update(o, i)
	case "normalise":
		return c.normalise(o, i)
	}
	return r.cell(c.read[bState].at, i)
}

func (c *checker) neighbours(o *operation, i int) []float64 {
	psi, k := c.read[bState].cell(i), []float64(nil)
	if given, ok := c.read[bK]; ok {
		k = given.cell(i)
	} else {
		for ch := range psi {
			k = append(k, c.ref.mean(c.read[bState].at, ch, i))
		}
	}
	if o.out == bK {
		return k
	}
	return append(psi, k...)
}

func (c *checker) update(o *operation, i int) []float64 {
	switch c.s.shape.law {
	case lawDiffuse:
		return c.ref.relax(c.read[bState].cell(i), c.read[bK].cell(i))
	case lawWalk:
		return c.ref.walk(c.read[o.in[0]].at, i, o.out == bBetween, o.out == bNext)
	}
	u := c.ref.update(c.read[bState].cell(i), c.read[bDelta].cell(i))
	if o.out == bNext {
		return c.ref.unit(u)
	}
	return u
}

func (c *checker) normalise(o *operation, i int) []float64 {
	x := c.read[o.in[0]].cell(i)
	switch o.out {
	case bSquare:
		for k, v := range x {
			x[k] = v * v
		}
	case bSum:
		sum := 0.0
		for _, v := range x {
			sum += v
		}
		return []float64{sum}
	case bRoot:
		return []float64{math.Sqrt(x[0] + tiny)}
	default:
		root := c.read[bRoot].at(0, i)
		for k := range x {
			x[k] /= root
		}
	}
	return x
}

// fillNaN poisons a block.
func (s *session) fillNaN(b block) error {
	s.poison.args.SetBuf(0, b.buf)
	s.poison.args.SetInt(1, b.at)
	return s.Compute.Launch(s.poison.fn, int(b.words), &s.poison.args)
}

// frame makes the maps of the step, copies them and ends the step.
func (c *checker) frame() error {
	s, sl := c.s, &c.s.slots[0]
	o := &operation{cells: s.shape.cells()}
	psi, err := c.array(bNext, o)
	if err != nil {
		return err
	}
	before, err := c.array(bState, o)
	if err != nil {
		return err
	}
	if err := s.fillNaN(block{buf: s.maps, words: int64(s.maps.Len() / 4)}); err != nil {
		return err
	}
	if s.spill {
		if err := s.giveBlock(bState, loop.Silent{}); err != nil {
			return err
		}
	}
	if err := s.makeMaps(loop.Silent{}); err != nil {
		return err
	}
	if err := s.rotate(loop.Silent{}); err != nil {
		return err
	}
	s.steps++
	full := gpuprof.Floats(sl.frame)
	for i := range full {
		full[i] = float32(math.NaN())
	}
	sl.pending, sl.shown = true, true
	if err := s.copyFrame(sl, loop.Silent{}); err != nil {
		return err
	}
	made, err := s.receive(block{buf: s.maps, words: int64(s.maps.Len() / 4)}, int64(s.maps.Len()/4))
	if err != nil {
		return err
	}
	c.of("d2h", 0).Same(full, made)
	s.show(sl, loop.Silent{})
	s.shownAll--
	c.pixels(psi, before)
	return c.copied(psi)
}

// pixels compares the picture with means of the reference's maps, each map by its
// own size.
func (c *checker) pixels(psi, before array) {
	s, f := c.s, c.s.frame
	side := s.shape.N / f.scale
	picture := s.slots[0].picture
	var errs [maxMaps]op.ErrorNorm
	done := map[int]bool{}
	for _, i := range c.cells {
		px := i/s.shape.N/f.scale*side + i%s.shape.N/f.scale
		if done[px] {
			continue
		}
		done[px] = true
		var want [maxMaps]float64
		for k := range f.scale * f.scale {
			j := (px/side*f.scale+k/f.scale)*s.shape.N + px%side*f.scale + k%f.scale
			for m, v := range c.ref.maps(psi.at, before.at, j) {
				want[m] += v / float64(f.scale*f.scale)
			}
		}
		for m := range f.maps {
			errs[m].Add(picture[m*side*side+px:][:1], want[m:m+1])
		}
	}
	e := c.of("view", tolerance)
	e.Used = true
	for _, m := range errs[:f.maps] {
		if rel := m.Relative(); !(rel <= e.Relative()) { // also what is not a number
			e.Diff, e.Ref = rel*rel, 1
		}
	}
}

// copied compares the state that went to the host, bit for bit.
func (c *checker) copied(psi array) error {
	s := c.s
	if !s.spill {
		return nil
	}
	if err := s.Compute.Sync(); err != nil {
		return err
	}
	c.of("keep", 0).Same(gpuprof.Floats(s.kept[s.steps%len(s.kept)]), psi.v)
	return nil
}

// graph replays the step from the same start and compares with what the launches
// left, which has been checked.
func (c *checker) graph() error {
	s := c.s
	words := s.shape.stateWords()
	want, err := s.receive(s.blocks[bState], words)
	if err != nil {
		return err
	}
	s.phase = (s.phase + 1) % (s.history + 2) // the step by hand moved the buffers on
	if err := s.restore(); err != nil {
		return err
	}
	if err := s.compute(true, loop.Silent{}); err != nil {
		return err
	}
	got, err := s.receive(s.blocks[bNext], words)
	if err != nil {
		return err
	}
	c.of("graph", 0).Same(got, want)
	return s.rotate(loop.Silent{})
}

// checks are the comparisons in the order of the step.
func (c *checker) checks() []gpuprof.Check {
	var out []gpuprof.Check
	for _, name := range c.order {
		e := c.errs[name]
		out = append(out, loop.CheckOf(name, e.Relative(), e.tolerance, len(c.cells), c.s.shape.cells()))
	}
	return out
}
