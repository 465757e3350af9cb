package gridsim

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

const (
	// tolerance of one float32 operation against float64. The measured difference of an update is 6e-8.
	tolerance = 1e-5
	// Where checking all cells would take over a second, sampledCells random cells are checked, edgeCells cells of
	// each edge, and the corners.
	sampledCells = 64
	edgeCells    = 16
	// Speed of the reference on one core, in flops per second as counted for the float32 kernels. It only decides
	// between all cells and a sample.
	referenceRate = 4e8
)

// toleranceOf maps the precision of a matrix product's inputs to the largest relative error of the product.
var toleranceOf = map[string]float64{"fp32": tolerance, "tf32": 2e-3, "bf16": 2e-2, "fp16": 5e-3}

// Check implements workloads.Session. It compares each operation of a step with float64 results from the operation's
// own inputs. Then it checks a frame and its copy, the launch graphs, and whole steps from the first state. Whole steps
// reveal missing or wrongly connected operations. Check restores the first state.
func (s *session) Check(ctx context.Context) ([]gpuprof.Check, error) {
	c := newChecker(ctx, s)
	c.cells = c.pickCells(rand.New(rand.NewPCG(s.seed, 3)))
	if err := c.run(); err != nil {
		return c.stageChecks(), err
	}
	if err := s.startFrom(c.start); err != nil {
		return c.stageChecks(), err
	}
	return c.stageChecks(), ctx.Err()
}

type result struct {
	op.ErrorNorm
	tolerance float64
}

type checker struct {
	op.Checker
	s     *session
	ctx   context.Context
	ref   reference
	cells []int
	errs  map[string]*result
	order []string
	read  []array   // inputs of the current operation, in the order of its field in
	first []float32 // first state, [cells,C]
	start []float32 // first state in the session's layout

	wholes []gpuprof.Check // checks of whole steps
}

func newChecker(ctx context.Context, s *session) *checker {
	first := drawCells(s.shape, s.seed)
	return &checker{s: s, ctx: ctx, Checker: op.Checker{Mem: &s.mem, Stream: s.Compute}, ref: newReference(s.shape, s.params), errs: map[string]*result{},
		first: first, start: s.shape.arrangeCells(first)}
}

// array is the content of a block of memory, copied to the host.
type array struct {
	v            []float32
	s            shape
	channels     int
	first, cells int
}

func (a array) valueAt(c, i int) float64 {
	return float64(a.v[a.s.offset(c, i-a.first, a.channels, a.cells)])
}

func (a array) valuesOf(i int) []float64 {
	out := make([]float64, a.channels)
	for c := range out {
		out[c] = a.valueAt(c, i)
	}
	return out
}

// pickCells returns all cells, or a random sample with the corners and some cells of each edge.
func (c *checker) pickCells(rng *rand.Rand) []int {
	n := c.s.shape.N
	all, count := n*n, sampledCells
	if float64(c.s.shape.lawCost("").Flops) < referenceRate {
		count = all
	}
	cells := []int{0, n - 1, all - n, all - 1}
	for range edgeCells {
		k := rng.IntN(n)
		cells = append(cells, k, all-n+k, k*n, k*n+n-1)
	}
	return op.PickRows(rng, all, count, cells...)
}

func (c *checker) run() error {
	s := c.s
	if err := s.startFrom(c.start); err != nil {
		return err
	}
	for i := range s.ops {
		if c.checkOperation(&s.ops[i]); c.Err != nil {
			return fmt.Errorf("kernel %s: %w", s.ops[i].Kernel, c.Err)
		}
		if err := c.ctx.Err(); err != nil {
			return err
		}
	}
	if err := s.endTape(loop.Silent{}); err != nil {
		return err
	}
	if c.checkFrame(); c.Err == nil && s.graphs != nil {
		c.checkGraphs()
	}
	if c.Err == nil {
		c.checkWhole()
	}
	return c.Err
}

func (c *checker) receive(b block, words int64) []float32 { return c.Read(b.buf, b.at, int(words)) }

// resultOf returns the result for a name, and creates it at the first call.
func (c *checker) resultOf(name string, tolerance float64) *result {
	r, ok := c.errs[name]
	if !ok {
		r = &result{tolerance: tolerance}
		c.errs[name] = r
		c.order = append(c.order, name)
	}
	return r
}

// checkOperation runs one operation on output memory filled with NaN, and compares the output with the reference.
func (c *checker) checkOperation(o *operation) {
	s := c.s
	c.read = c.read[:0]
	for _, id := range o.in {
		c.read = append(c.read, c.readArray(id, o))
	}
	s.poisons = true
	c.Stops(s.runOperation(o, loop.Silent{}))
	s.poisons = false
	if c.Err != nil {
		return
	}
	out := c.readArray(o.out, o)
	tol := tolerance
	if o.rounds {
		tol = toleranceOf[s.k.Precision]
	}
	name := allStages()[stLaw].Name
	if o.name != "step" {
		name += "/" + o.name
	}
	e := c.resultOf(name, tol)
	for _, i := range c.cells {
		if i >= o.first && i < o.first+o.cells {
			e.Add(op.As[float32](out.valuesOf(i)), c.expectedValues(o, i))
		}
	}
}

func (c *checker) readArray(id blockID, o *operation) array {
	s := c.s
	words := s.wordsOf(id, o.cells)
	a := array{v: c.receive(s.blocks[id], words), s: s.shape, first: o.first, cells: o.cells}
	if id.isWholeGrid() {
		a.first, a.cells = 0, s.shape.cells()
	}
	a.channels = int(words) / a.cells
	return a
}

func (c *checker) expectedValues(o *operation, i int) []float64 {
	r := c.ref
	in := func(k int) []float64 { return c.read[k].valuesOf(i) }
	switch o.name {
	case "neighbours":
		return c.expectedNeighbours(o, i)
	case "hidden":
		return r.hiddenLayer(in(0))
	case "activation":
		return r.activation(in(0))
	case "out":
		return r.outputLayer(in(0))
	case "update":
		return c.expectedUpdate(o, i)
	case "normalise":
		return c.expectedUnit(o, i)
	}
	return r.nextCell(c.read[0].valueAt, i)
}

func (c *checker) expectedNeighbours(o *operation, i int) []float64 {
	psi := c.read[0].valuesOf(i)
	if o.Kernel == concatKernel.Name {
		return append(psi, c.read[1].valuesOf(i)...)
	}
	var k []float64
	for ch := range psi {
		k = append(k, c.ref.neighbourMean(c.read[0].valueAt, ch, i))
	}
	if o.concat {
		return append(psi, k...)
	}
	return k
}

func (c *checker) expectedUpdate(o *operation, i int) []float64 {
	switch o.Kernel {
	case relaxKernel.Name:
		return c.ref.relax(c.read[0].valuesOf(i), c.read[1].valuesOf(i))
	case walkKernel.Name:
		return c.ref.walk(c.read[0].valueAt, i, o.axis == 0, o.axis == 1)
	}
	u := c.ref.update(c.read[0].valuesOf(i), c.read[1].valuesOf(i))
	if o.Kernel == finishKernel.Name {
		return c.ref.unitVector(u)
	}
	return u
}

func (c *checker) expectedUnit(o *operation, i int) []float64 {
	x := c.read[0].valuesOf(i)
	switch o.Kernel {
	case squareKernel.Name:
		for k, v := range x {
			x[k] = v * v
		}
	case sumKernel.Name:
		sum := 0.0
		for _, v := range x {
			sum += v
		}
		return []float64{sum}
	case rootKernel.Name:
		return []float64{math.Sqrt(x[0] + tiny)}
	default:
		root := c.read[1].valueAt(0, i)
		for k := range x {
			x[k] /= root
		}
	}
	return x
}

func (s *session) fillNaN(b block) error {
	device.View[gridPoisonView](&s.poison.Args).out.Set(b.buf, 4*int64(b.at))
	return s.Compute.Launch(s.poison.Func, int(b.words), &s.poison.Args)
}

// checkFrame computes a frame's maps, checks them and their copy on the host, and ends the step.
func (c *checker) checkFrame() {
	s, sl := c.s, &c.s.slots[0]
	o := &operation{cells: s.shape.cells()}
	psi := c.readArray(bNext, o)
	before := c.readArray(bState, o)
	if c.Stops(s.fillNaN(block{buf: s.maps, words: int64(s.maps.Len() / 4)})) {
		return
	}
	if s.spill {
		if c.Stops(s.giveBlock(bState, loop.Silent{})) {
			return
		}
	}
	if c.Stops(s.makeMaps(loop.Silent{})) || c.Stops(s.rotateStates(loop.Silent{})) {
		return
	}
	s.steps++
	full := device.Floats(sl.frame)
	op.PoisonHost(sl.frame)
	sl.pending, sl.shown = true, true
	if c.Stops(s.copyFrame(sl, loop.Silent{})) {
		return
	}
	made := c.receive(block{buf: s.maps, words: int64(s.maps.Len() / 4)}, int64(s.maps.Len()/4))
	c.resultOf("d2h", 0).Same(full, made)
	s.showFrame(sl, loop.Silent{})
	s.shownAll--
	c.checkPixels(psi, before)
	c.checkCopied(psi)
}

// checkPixels compares pixels of the picture with means of the reference's maps. It keeps the largest relative error of
// a map.
func (c *checker) checkPixels(psi, before array) {
	s, f := c.s, c.s.k
	side := s.shape.N / f.Scale
	picture := s.slots[0].picture
	var errs [maxMaps]op.ErrorNorm
	done := map[int]bool{}
	for _, i := range c.cells {
		px := i/s.shape.N/f.Scale*side + i%s.shape.N/f.Scale
		if done[px] {
			continue
		}
		done[px] = true
		var want [maxMaps]float64
		for k := range f.Scale * f.Scale {
			j := (px/side*f.Scale+k/f.Scale)*s.shape.N + px%side*f.Scale + k%f.Scale
			for m, v := range c.ref.mapsOf(psi.valueAt, before.valueAt, j) {
				want[m] += v / float64(f.Scale*f.Scale)
			}
		}
		for m := range f.Maps {
			errs[m].Add(picture[m*side*side+px:][:1], want[m:m+1])
		}
	}
	e := c.resultOf("view", tolerance)
	e.Used = true
	for _, m := range errs[:f.Maps] {
		if rel := m.Relative(); !(rel <= e.Relative()) { // true for NaN
			e.Diff, e.Ref = rel*rel, 1
		}
	}
}

// checkCopied checks that the host's copy of the state, if there is one, equals psi bit for bit.
func (c *checker) checkCopied(psi array) {
	s := c.s
	if !s.spill {
		return
	}
	if c.Stops(s.Compute.Sync()) {
		return
	}
	c.resultOf("keep", 0).Same(device.Floats(s.kept[s.steps%len(s.kept)]), psi.v)
}

func (c *checker) stageChecks() []gpuprof.Check {
	var out []gpuprof.Check
	for _, name := range c.order {
		e := c.errs[name]
		out = append(out, loop.CheckOf(name, e.Relative(), e.tolerance, len(c.cells), c.s.shape.cells()))
	}
	return append(out, c.wholes...)
}
