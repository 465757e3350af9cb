package op

import (
	"cmp"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// tpPlan is a tensor product cut into tiles and warps for CUDA: which output values each thread of a block computes,
// and which matrices M its warp needs. A thread computes the paths into its output one after the other, in passes.
// tensorproduct.cuh reads the plan and must agree on the header, warpInts, laneInts, copiesOf and the largest number of
// sums of a lane. ints holds these sections:
//
//	header   16 integers, see planTiles and following
//	warps    8 integers per tile, pass and warp, see warp
//	cells    4 integers: place of M_ik among the warp's, first and last+1 term, 0
//	terms    2 integers: j, bits of the 3j coefficient
//	lanes    16 integers per tile, pass and thread, see fillLane
type tpPlan struct {
	ints    []int32
	tiles   int
	threads int
	shared  int            // bytes per block
	kernel  *device.Kernel // the generated kernel; nil for the general kernel
}

const (
	planTiles = iota
	planPasses
	planRegion
	planIn
	planSh
	planNumel
	planOut
	planWarps
	planCells
	planTerms
	planLanes
	planPaths     // tpTable.paths, for the host kernel
	planPathCells // tpTable.cells, for the host kernel
)

const (
	planInts  = 16
	warpInts  = 8
	termInts  = 2
	laneInts  = 16
	warpLanes = 32

	maxTPThreads = 256 // the kernels are compiled for at most so many

	// sharedBytes is the shared memory that every GPU since 2010 grants a block by default.
	sharedBytes = 48 << 10
	// sharedPerThread is the shared memory per thread in bytes. With it, registers limit the number of blocks per
	// multiprocessor of an H100, and half of the L1 memory remains a cache.
	sharedPerThread = 256
	// maxBatch is the number of edges whose M a warp builds at a time. It is less than the 32 lanes of a warp, because the
	// lanes hold the sources of a batch and of the edge after it.
	maxBatch = 16
)

// isUnrolled reports whether the kernels have unrolled loops for d1 components of x and d3 of the output.
func isUnrolled(d1, d3 int) bool { return d1 >= 1 && d1 <= 9 && d3 <= 9 }

// copiesOf returns the number of copies u of an output block that one lane computes. The lane's registers must hold the
// sums of d3 components for each copy, and the d1 components of x that the lane reads ahead. d1 is 0 if loops are not
// unrolled.
func copiesOf(d1, d3 int) int {
	switch {
	case d1 > 5 || d1 > 0 && d1+d3 > 12:
		return 2
	case d1 > 0 && d3 == 9:
		return 3
	case d3 <= 7:
		return 4
	case d3 == 9:
		return 3
	case d3 <= 13:
		return 2
	}
	return 1
}

type planShape struct {
	threads int
	layout  Layout
	cover   bool // write zeros for output blocks without paths
	room    int  // bytes of shared memory for M of all warps of a block
}

// floatLimit returns how many floats of shared memory a warp may use for M.
func (s planShape) floatLimit() int { return s.room/(s.threads/warpLanes)/floatBytes/4*4 - warpInts }

// lane computes copies of an output block: copy first and further copies at distance step, as many as the field copies
// gives. own selects the copies that it writes.
type lane struct {
	block, first, step, own int
	d1, d3, copies          int // d1 is 0 if loops are not unrolled
}

// warp holds up to 32 lanes with the same degree and number of copies. For each pass the plan has 8 integers of a warp:
// first and last+1 cell, floats of M per edge, edges per batch, d1 (0: not unrolled), d3 (0: no warp), copies, 0.
type warp []lane

// Values of lane.own: the copies that a lane writes.
const (
	ownNone = iota
	ownLast
	ownAll
)

// lanesOf returns the smallest number n of lanes that cover mul copies with v copies each, step apart in a lane. step
// <= n leaves no gap; (n-1) + (v-1)*step = mul-1 makes the last lane end at the last copy. If step < n, lanes overlap:
// copy v of lane u is also copy v+1 of lane u-step, and the earlier lane writes it.
func lanesOf(mul, v int) (n, step int) {
	if v == 1 {
		return mul, 0
	}
	for n = (mul + v - 1) / v; (mul-n)%(v-1) != 0; n++ {
	}
	return n, (mul - n) / (v - 1)
}

// triple identifies a matrix M; paths with equal triples share M.
type triple struct{ l1, l2, l3, yAt int }

// floatCount returns the number of floats of M, with rows padded to a multiple of four.
func (t triple) floatCount() int { return (2*t.l1 + 1) * t.rowPitch() }
func (t triple) rowPitch() int   { return (2*t.l3 + 1 + 3) / 4 * 4 }

type planner struct {
	t                          TensorProduct
	shape                      planShape
	chains                     [][]int // paths of every output block
	coefficients               []float64
	xAt, yAt, wAt, oAt         []int
	passes, region             int
	warps, cells, terms, lanes []int32
}

func (t TensorProduct) makePlan(tab tpTable, shape planShape) (tpPlan, error) {
	p := &planner{t: t, shape: shape, chains: make([][]int, len(t.TP.Out)), passes: 1,
		xAt: t.TP.In1.Offsets(), yAt: t.TP.In2.Offsets(), oAt: t.TP.Out.Offsets()}
	var numel int
	p.wAt, numel = t.Columns()
	var err error
	if p.coefficients, err = t.TP.PathCoefficients(); err != nil {
		return tpPlan{}, err
	}
	for i, ins := range t.TP.Instructions {
		p.chains[ins.Out] = append(p.chains[ins.Out], i)
		p.passes = max(p.passes, len(p.chains[ins.Out]))
	}
	warps := p.cutWarps(p.listLanes())
	// Spread the warps evenly over the tiles, so that the last tile has no idle threads.
	tiles := max(ceilDiv(len(warps), shape.threads/warpLanes), 1)
	width := max(ceilDiv(len(warps), tiles), 1)
	for tile := range tiles {
		for pass := range p.passes {
			for i := range width {
				var w warp
				if at := tile*width + i; at < len(warps) {
					w = warps[at]
				}
				if err := p.addWarp(w, pass); err != nil {
					return tpPlan{}, err
				}
			}
		}
	}
	header := fillHeader(planInts, map[int]int{planTiles: tiles, planPasses: p.passes, planRegion: p.region, planIn: t.TP.In1.Dim(),
		planSh: t.TP.In2.Dim(), planNumel: numel, planOut: t.TP.Out.Dim(), planPaths: tab.paths, planPathCells: tab.cells})
	at := planInts
	for i, section := range [][]int32{p.warps, p.cells, p.terms, p.lanes} {
		header[planWarps+i] = int32(at)
		at += len(section)
	}
	threads := width * warpLanes
	return tpPlan{ints: slices.Concat(header, p.warps, p.cells, p.terms, p.lanes), tiles: tiles, threads: threads,
		shared: floatBytes * p.region * width}, nil
}

// fillHeader returns n integers: values[i] at index i, otherwise 0.
func fillHeader(n int, values map[int]int) []int32 {
	header := make([]int32, n)
	for i, v := range values {
		header[i] = int32(v)
	}
	return header
}

// listLanes lists the lanes of all output blocks. Lanes that read the same block of x are neighbours, so that their
// warps find it in the cache. Among these, lanes with the same M are neighbours, so that they share M within a warp.
func (p *planner) listLanes() []lane {
	var blocks []int
	for b, m := range p.t.TP.Out {
		if m.Mul > 0 && (len(p.chains[b]) > 0 || p.shape.cover) {
			blocks = append(blocks, b)
		}
	}
	slices.SortStableFunc(blocks, func(a, b int) int {
		x, y := p.tripleOf(a, 0), p.tripleOf(b, 0)
		return cmp.Or(cmp.Compare(y.l1, x.l1), cmp.Compare(y.l3, x.l3), cmp.Compare(y.l2, x.l2), cmp.Compare(y.yAt, x.yAt))
	})
	var all []lane
	for _, b := range blocks {
		m := p.t.TP.Out[b]
		d1, d3 := 2*p.tripleOf(b, 0).l1+1, m.Ir.Dim()
		if p.passes > 1 || !isUnrolled(d1, d3) {
			d1 = 0
		}
		copies := copiesOf(d1, d3)
		n, step := lanesOf(m.Mul, copies)
		for u := range n {
			own := ownAll
			if u >= step && copies > 1 {
				own = ownLast
			}
			all = append(all, lane{block: b, first: u, step: step, own: own, d1: d1, d3: d3, copies: copies})
		}
	}
	return all
}

// cutWarps cuts the lanes into warps whose M fits in shared memory. The lanes of a warp have the same degree and
// number of copies; the kernels rely on this.
func (p *planner) cutWarps(all []lane) []warp {
	var warps []warp
	seen, floats := map[passTriple]bool{}, make([]int, p.passes)
	for i, l := range all {
		full := i == 0
		if i > 0 {
			w := warps[len(warps)-1]
			full = len(w) == warpLanes || w[0].d1 != l.d1 || w[0].d3 != l.d3 || !p.fitsWarp(l, seen, floats)
		}
		if full {
			warps = append(warps, nil)
			clear(seen)
			clear(floats)
		}
		warps[len(warps)-1] = append(warps[len(warps)-1], l)
		for pass := range p.passes {
			if key, ok := p.laneTriple(l, pass); ok && !seen[passTriple{pass, key}] {
				seen[passTriple{pass, key}] = true
				floats[pass] += key.floatCount()
			}
		}
	}
	return warps
}

// tripleOf returns the triple of the path that an output block adds in the given pass. If there is none, its l1 is -1.
func (p *planner) tripleOf(block, pass int) triple {
	if pass >= len(p.chains[block]) {
		return triple{l1: -1, l3: p.t.TP.Out[block].Ir.L}
	}
	ins := p.t.TP.Instructions[p.chains[block][pass]]
	return triple{p.t.TP.In1[ins.In1].Ir.L, p.t.TP.In2[ins.In2].Ir.L, p.t.TP.Out[ins.Out].Ir.L, p.yAt[ins.In2]}
}

// passTriple is a triple in one pass; a matrix M is stored for one pass only.
type passTriple struct {
	pass int
	triple
}

// laneTriple returns the triple of the path that a lane computes in a pass, and whether there is one.
func (p *planner) laneTriple(l lane, pass int) (triple, bool) {
	key := p.tripleOf(l.block, pass)
	return key, key.l1 >= 0
}

func (p *planner) fitsWarp(l lane, seen map[passTriple]bool, floats []int) bool {
	for pass := range p.passes {
		if key, ok := p.laneTriple(l, pass); ok && !seen[passTriple{pass, key}] && floats[pass]+key.floatCount() > p.shape.floatLimit() {
			return false
		}
	}
	return true
}

// addWarp appends the cells, terms and lanes of one warp in a pass.
func (p *planner) addWarp(w warp, pass int) error {
	at, floats := map[triple]int{}, 0
	first := len(p.cells) / cellInts
	for _, l := range w {
		key, ok := p.laneTriple(l, pass)
		if _, have := at[key]; !ok || have {
			continue
		}
		at[key] = floats
		if err := p.addCells(key, floats); err != nil {
			return err
		}
		floats += key.floatCount()
	}
	share := make([]int32, warpInts)
	if len(w) > 0 {
		stride := max(floats, 4)
		batch := min(max(p.shape.floatLimit()/stride, 1), maxBatch)
		if batch > 4 {
			batch = batch / 4 * 4 // the kernels build M of four edges at once
		}
		copy(share, []int32{int32(first), int32(len(p.cells) / cellInts), int32(stride), int32(batch), int32(w[0].d1), int32(w[0].d3), int32(w[0].copies)})
		p.region = max(p.region, warpInts+stride*batch)
	}
	p.warps = append(p.warps, share...)
	for i := range warpLanes {
		one := make([]int32, laneInts)
		switch {
		case i < len(w):
			p.fillLane(one, w[i], pass, at)
		case len(w) > 0 && w[0].d1 > 0:
			// An unused lane reads the values of its neighbour and writes nothing.
			p.fillLane(one, w[len(w)-1], pass, at)
			one[12] = ownNone
		}
		p.lanes = append(p.lanes, one...)
	}
	return nil
}

func (p *planner) addCells(key triple, at int) error {
	terms, err := pathTerms(key.l1, key.l2, key.l3, 1)
	if err != nil {
		return err
	}
	for n, term := range terms {
		if n == 0 || term.i != terms[n-1].i || term.k != terms[n-1].k {
			p.cells = append(p.cells, int32(at+term.i*key.rowPitch()+term.k), int32(len(p.terms)/termInts), 0, 0)
		}
		p.terms = append(p.terms, int32(key.yAt+term.j), int32(math.Float32bits(float32(term.c))))
		p.cells[len(p.cells)-2] = int32(len(p.terms) / termInts)
	}
	for len(p.terms)%4 != 0 { // the kernels read the lanes that follow four integers at a time
		p.terms = append(p.terms, 0, 0)
	}
	return nil
}

// fillLane writes the integers of one lane. For x: offset, step of copies, step of components, d1. For w: offset, step.
// Then the coefficient and the offset of M. For out: offset, step of copies, step of components, d3. Last own.
func (p *planner) fillLane(one []int32, l lane, pass int, at map[triple]int) {
	one[11] = int32(l.d3)
	o := p.t.TP.Out[l.block]
	ou, ok := p.shape.layout.blockStrides(o)
	one[8], one[9], one[10] = int32(p.oAt[l.block]+l.first*ou), int32(l.step*ou), int32(ok)
	if pass >= len(p.chains[l.block]) {
		if pass == 0 {
			one[12] = int32(l.own) // zeros
		}
		return
	}
	n := p.chains[l.block][pass]
	ins := p.t.TP.Instructions[n]
	a := p.t.TP.In1[ins.In1]
	xu, xi := p.shape.layout.blockStrides(a)
	one[0], one[1], one[2], one[3] = int32(p.xAt[ins.In1]+l.first*xu), int32(l.step*xu), int32(xi), int32(a.Ir.Dim())
	one[4], one[5], one[7] = int32(p.wAt[n]+l.first), int32(l.step), int32(at[p.tripleOf(l.block, pass)])
	one[6] = int32(math.Float32bits(float32(p.coefficients[n] * p.t.scaleFactor())))
	one[12] = int32(l.own)
}

// planFor returns the plan for the product's implementation with its launch shape.
func (t TensorProduct) planFor(tab tpTable) (tpPlan, error) {
	if g, ok := t.generatedProduct(); ok {
		return t.generatedPlan(tab, g), nil
	}
	shape := planShape{threads: t.blockThreads(), layout: IrMul, cover: true}
	shape.room = min(sharedBytes, sharedPerThread*shape.threads)
	if t.Impl == ImplFused {
		shape.layout, shape.cover = t.Layout, false
	}
	return t.makePlan(tab, shape)
}
