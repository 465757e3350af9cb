package gridsim

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

const (
	// wholeSteps is the number of steps that run in sequence from the first state. A second step is needed because a
	// buffer that no step overwrites is correct in the first step and stale in the second.
	wholeSteps = 2
	// wholeCells is the largest grid in which all cells are compared.
	wholeCells = 1024
	// A check of a frame compares pixels until they cover pixelCells grid cells. It skips frames with more than
	// mostPixelCells cells per pixel.
	pixelCells     = 512
	mostPixelCells = 4096
)

// evolution computes the law from the first state in float64, only for requested cells.
type evolution struct {
	ref   reference
	first []float32                         // [cells,C]
	memo  [wholeSteps + 1]map[int][]float64 // by state, by cell
}

// valuesOf returns cell i of the state after a number of steps.
func (e *evolution) valuesOf(steps, i int) []float64 {
	if v, ok := e.memo[steps][i]; ok {
		return v
	}
	var v []float64
	if c := e.ref.s.C; steps == 0 {
		v = op.As[float64](e.first[i*c : (i+1)*c])
	} else {
		v = e.ref.nextCell(e.stateAfter(steps-1), i)
	}
	if e.memo[steps] == nil {
		e.memo[steps] = map[int][]float64{}
	}
	e.memo[steps][i] = v
	return v
}

func (e *evolution) stateAfter(steps int) state {
	return func(c, i int) float64 { return e.valuesOf(steps, i)[c] }
}

// wholeTolerance is the tolerance of a state after wholeSteps steps. Rounding of a product's inputs enters the state
// as tau times the network's output, which in one cell can be twice as large as the state.
func (s *session) wholeTolerance() float64 {
	return max(tolerance, 2*wholeSteps*tau*toleranceOf[s.k.Precision])
}

// frameTolerance is the tolerance of a frame after wholeSteps steps. It is larger than the tolerance of a state,
// because one map is a small difference of two states. With law diffuse the difference is about 1/100 of a state; with
// law mlp it is the network's output alone.
func (s *session) frameTolerance() float64 { return max(1e-4, 2*toleranceOf[s.k.Precision]) }

// checkWhole runs steps from the first state as a measurement does; the last one makes a frame if the settings have
// frames. It compares all states in memory, the frame and the copied region with the law in float64. It does not use
// the list of operations, so it also finds a wrong list.
func (c *checker) checkWhole() {
	s := c.s
	if c.Stops(s.startFrom(c.start)) || c.Stops(c.spoilFrames()) {
		return
	}
	rng, shown := s.rng, s.shownAll // restored after the check
	s.rng = rand.New(rand.NewPCG(s.seed, 5))
	defer func() { s.rng, s.shownAll = rng, shown }()
	from := max(s.k.Live-wholeSteps, 0)
	for i := from; i < from+wholeSteps; i++ {
		if c.Stops(s.Step(i, loop.Silent{})) {
			return
		}
	}
	if c.Stops(s.Compute.Sync()) {
		return
	}
	e := &evolution{ref: c.ref, first: c.first}
	cells := c.wholeSample()
	c.checkStates(e, cells)
	if s.k.ROI {
		c.checkRegion(e, cells)
	}
	if last := from + wholeSteps - 1; s.k.ViewWhen == whenEager || s.k.Live > 0 && (last+1)%s.k.Live == 0 {
		c.checkShownFrame(e, &s.slots[last%depth], cells)
	}
	for k := range s.slots {
		s.slots[k].pending = false
	}
	c.Stops(c.ctx.Err())
}

func (c *checker) spoilFrames() error {
	s := c.s
	for k := range s.slots {
		for _, v := range [][]float32{device.Floats(s.slots[k].frame), s.slots[k].picture} {
			for i := range v {
				v[i] = float32(math.NaN())
			}
		}
	}
	return op.Poison(s.Dev, s.Compute, s.maps)
}

// wholeSample returns the cells to compare. A small grid is compared completely. Of a large grid, it returns the
// corners and one cell in each row and in each column, so that each chunk of rows has at least one.
func (c *checker) wholeSample() []int {
	n := c.s.shape.N
	if n*n <= wholeCells {
		return op.PickRows(nil, n*n, n*n)
	}
	cells := []int{0, n - 1, n * (n - 1), n*n - 1}
	for y, x := range rand.New(rand.NewPCG(c.s.seed, 6)).Perm(n) {
		cells = append(cells, y*n+x)
	}
	slices.Sort(cells)
	return slices.Compact(cells)
}

// valuesOf returns the C values of cell i in the array v, which holds as many cells as the argument cells.
func (c *checker) valuesOf(v []float32, i, cells int) []float32 {
	sh := c.s.shape
	if sh.hwc {
		return v[i*sh.C : (i+1)*sh.C]
	}
	out := make([]float32, sh.C)
	for k := range out {
		out[k] = v[k*cells+i]
	}
	return out
}

// checkStates compares the given cells of the current state with the float64 states of e. It also compares up to
// wholeSteps of the earlier states that the session keeps.
func (c *checker) checkStates(e *evolution, cells []int) {
	s := c.s
	var errs op.ItemErrors
	for ago := range min(s.k.History, wholeSteps) + 1 {
		v := c.stateBefore(ago)
		for _, i := range cells {
			errs.Add(c.valuesOf(v, i, s.shape.cells()), e.valuesOf(wholeSteps-ago, i))
		}
	}
	c.wholes = append(c.wholes, loop.WholeCheck(errs.Relative(), s.wholeTolerance(), len(cells), s.shape.cells(), "cells"))
}

// stateBefore returns an earlier state; ago is its number of steps before the current one.
func (c *checker) stateBefore(ago int) []float32 {
	s := c.s
	switch {
	case ago == 0:
		return c.receive(s.blocks[bState], s.shape.stateWords())
	case s.spill:
		return device.Floats(s.kept[(wholeSteps-ago)%len(s.kept)])
	}
	return c.receive(s.past[ago-1], s.shape.stateWords())
}

func (c *checker) checkRegion(e *evolution, cells []int) {
	s := c.s
	crop := device.View[gridCropView](&s.crop.Args)
	last, wide, high := s.regions[len(s.regions)-1], crop.width.Int(), crop.height.Int()
	v := c.receive(last, int64(s.shape.C)*int64(wide)*int64(high))
	var errs op.ItemErrors
	for _, i := range cells {
		if y, x := i/s.shape.N, i%s.shape.N; y < high && x < wide { // true at least for cell (0,0)
			errs.Add(c.valuesOf(v, y*wide+x, wide*high), e.valuesOf(wholeSteps, i))
		}
	}
	check := loop.WholeCheck(errs.Relative(), s.wholeTolerance(), errs.Items(), wide*high, "cells")
	check.Stage += ", region"
	c.wholes = append(c.wholes, check)
}

// checkShownFrame compares a few pixels of the last step's frame with the reference e. Pixels that the step did not
// write are NaN and fail. Frames with more than mostPixelCells cells per pixel are checked only by checkPixels, whose
// reference starts from the device's state.
func (c *checker) checkShownFrame(e *evolution, sl *slot, cells []int) {
	s, f := c.s, c.s.k
	if f.Scale*f.Scale > mostPixelCells {
		return
	}
	got, shown := device.Floats(sl.frame), sl.shown
	if s.showFrame(sl, loop.Silent{}); shown || f.PoolWhere == whereHost {
		got = sl.picture
	}
	n, side := s.shape.N, s.shape.N/f.Scale
	var pixels []int
	for _, i := range cells {
		if px := i/n/f.Scale*side + i%n/f.Scale; !slices.Contains(pixels, px) && len(pixels)*f.Scale*f.Scale < pixelCells {
			pixels = append(pixels, px)
		}
	}
	var errs [maxMaps]op.ErrorNorm // each map has its own scale
	for _, px := range pixels {
		var want [maxMaps]float64
		for k := range f.Scale * f.Scale {
			i := (px/side*f.Scale+k/f.Scale)*n + px%side*f.Scale + k%f.Scale
			for m, v := range e.ref.mapsOf(e.stateAfter(wholeSteps), e.stateAfter(wholeSteps-1), i) {
				want[m] += v / float64(f.Scale*f.Scale)
			}
		}
		for m := range f.Maps {
			errs[m].Add(got[m*side*side+px:][:1], want[m:m+1])
		}
	}
	worst := 0.0
	for m := range f.Maps {
		if rel := errs[m].Relative(); op.Worse(gpuprof.Number(worst), gpuprof.Number(rel)) {
			worst = rel
		}
	}
	check := loop.WholeCheck(worst, s.frameTolerance(), len(pixels), side*side, "pixels")
	check.Stage += ", frame"
	c.wholes = append(c.wholes, check)
}
