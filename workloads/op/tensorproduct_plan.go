package op

import (
	"cmp"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/workloads/so3"
)

// tpPlan is a tensor product cut into tiles for CUDA: which output values every
// thread of a block owns, and which M_ik they need. tensorproduct.cuh reads it;
// the header's numbers, laneInts, copiesOf and the largest sum of a lane have
// to agree with it.
//
//	header   16 integers, plan* below; the last is 0
//	parts    4 integers for every tile and pass: first and last+1 cell, 0, 0
//	cells    4 integers: where M_ik is among the part's, first and last+1 term, 0
//	terms    2 integers: j, 3j coefficient as bits
//	lanes    16 integers for every tile, pass and thread, see lane
type tpPlan struct {
	ints    []int32
	tiles   int
	threads int
	shared  int // bytes a block
}

const (
	planTiles = iota
	planPasses
	planStride
	planBatch
	planIn
	planSh
	planNumel
	planOut
	planParts
	planCells
	planTerms
	planLanes
	planPaths     // of the tpTable, for the host
	planPathCells // likewise
)

const (
	planInts  = 16
	partInts  = 4
	termInts  = 2
	laneInts  = 16
	warpLanes = 32

	maxTPThreads  = 256 // what the kernels are compiled for
	maxMLPThreads = 128

	// Shared memory that every GPU since 2010 grants a block without asking.
	sharedBytes = 48 << 10
	// What a thread may take of it: beside the registers of the kernels it leaves
	// room for as many blocks as those do on an H100, and half of the cache.
	sharedPerThread = 256
	// mlpBatch is TP_MLP_BATCH, the edges whose weights a lane makes at a time.
	mlpBatch = 8
	// maxBatch edges share a barrier in the others.
	maxBatch = 8
)

// copiesOf is how many copies u a lane owns of a block with d3 components: as
// many as leave its sums in registers.
func copiesOf(d3 int) int {
	switch {
	case d3 <= 7:
		return 4
	case d3 == 9:
		return 3
	case d3 <= 13:
		return 2
	}
	return 1
}

// planShape is what a plan is made for.
type planShape struct {
	threads int
	layout  Layout
	cover   bool // blocks without paths are written as zeros
	// floats of M an edge that a tile may have, and bytes of shared memory that
	// one edge of a batch of at most maxBatch takes for each of them; fixed
	// bytes on top. batch is the number of edges, 0 for as many as fit.
	limit, fixed, batch, copies int
}

// lane is the copies first, first+step, … of an output block, copiesOf of
// them, and which of them it writes. Block -1 is nobody.
type lane struct {
	block, first, step, own int
	d3                      int
}

// What a lane writes of its copies.
const (
	ownNone = iota
	ownLast
	ownAll
)

// lanesOf covers mul copies by lanes of v copies each, evenly spaced, all of
// which exist: the fewest n lanes whose last copy of the last lane is the last
// copy of all, (n-1) + (v-1)*step = mul-1, with no gap (step <= n). Where
// step < n the lanes overlap: copy number v of lane u is copy v+1 of lane
// u-step, and the earlier lane writes it.
func lanesOf(mul, v int) (n, step int) {
	if v == 1 {
		return mul, 0
	}
	for n = (mul + v - 1) / v; (mul-n)%(v-1) != 0; n++ {
	}
	return n, (mul - n) / (v - 1)
}

// triple is a product whose M is the same for all its paths.
type triple struct{ l1, l2, l3, yAt int }

// floats of M, its rows padded to whole float4.
func (t triple) floats() int { return (2*t.l1 + 1) * t.pitch() }
func (t triple) pitch() int  { return (2*t.l3 + 1 + 3) / 4 * 4 }

// planner collects the sections of a plan.
type planner struct {
	t                          TensorProduct
	shape                      planShape
	chains                     [][]int // paths of every output block
	coefficients               []float64
	xAt, yAt, wAt, oAt         []int
	passes, stride             int
	parts, cells, terms, lanes []int32
}

func (t TensorProduct) plan(tab tpTable, shape planShape) (tpPlan, error) {
	p := &planner{t: t, shape: shape, chains: make([][]int, len(t.TP.Out)), passes: 1, stride: 4,
		xAt: t.TP.In1.Offsets(), yAt: t.TP.In2.Offsets(), wAt: t.TP.WeightOffsets(), oAt: t.TP.Out.Offsets()}
	var err error
	if p.coefficients, err = t.TP.PathCoefficients(); err != nil {
		return tpPlan{}, err
	}
	for i, ins := range t.TP.Instructions {
		p.chains[ins.Out] = append(p.chains[ins.Out], i)
		p.passes = max(p.passes, len(p.chains[ins.Out]))
	}
	tiles := p.tiles(p.allLanes())
	for _, tile := range tiles {
		for pass := range p.passes {
			if err := p.part(tile, pass); err != nil {
				return tpPlan{}, err
			}
		}
	}
	batch := shape.batch
	if batch == 0 {
		room := min(sharedBytes, sharedPerThread*shape.threads)
		batch = min(max(room/(shape.copies*floatBytes*p.stride), 1), maxBatch)
	}
	header := make([]int32, planInts)
	at := planInts
	for i, section := range [][]int32{p.parts, p.cells, p.terms, p.lanes} {
		header[planParts+i] = int32(at)
		at += len(section)
	}
	for i, v := range map[int]int{planTiles: len(tiles), planPasses: p.passes, planStride: p.stride, planBatch: batch,
		planIn: t.TP.In1.Dim(), planSh: t.TP.In2.Dim(), planNumel: t.TP.WeightNumel(), planOut: t.TP.Out.Dim(),
		planPaths: tab.paths, planPathCells: tab.cells} {
		header[i] = int32(v)
	}
	return tpPlan{ints: slices.Concat(header, p.parts, p.cells, p.terms, p.lanes), tiles: len(tiles), threads: shape.threads,
		shared: shape.fixed + shape.copies*floatBytes*p.stride*batch}, nil
}

// allLanes lists the lanes of all output blocks, degree by degree and blocks
// with the same product together, so that the threads of a warp share their M.
func (p *planner) allLanes() []lane {
	var blocks []int
	for b, m := range p.t.TP.Out {
		if m.Mul > 0 && (len(p.chains[b]) > 0 || p.shape.cover) {
			blocks = append(blocks, b)
		}
	}
	slices.SortStableFunc(blocks, func(a, b int) int {
		x, y := p.tripleOf(a, 0), p.tripleOf(b, 0)
		return cmp.Or(cmp.Compare(y.l3, x.l3), cmp.Compare(y.l1, x.l1), cmp.Compare(y.l2, x.l2), cmp.Compare(y.yAt, x.yAt))
	})
	var all []lane
	for _, b := range blocks {
		m := p.t.TP.Out[b]
		d3 := m.Ir.Dim()
		n, step := lanesOf(m.Mul, copiesOf(d3))
		for u := range n {
			own := ownAll
			if u >= step && copiesOf(d3) > 1 {
				own = ownLast
			}
			all = append(all, lane{block: b, first: u, step: step, own: own, d3: d3})
		}
	}
	return all
}

// tripleOf is the product of the block's path number pass; l1 -1 without one.
func (p *planner) tripleOf(block, pass int) triple {
	if pass >= len(p.chains[block]) {
		return triple{l1: -1, l3: p.t.TP.Out[block].Ir.L}
	}
	ins := p.t.TP.Instructions[p.chains[block][pass]]
	return triple{p.t.TP.In1[ins.In1].Ir.L, p.t.TP.In2[ins.In2].Ir.L, p.t.TP.Out[ins.Out].Ir.L, p.yAt[ins.In2]}
}

// tiles cuts the lanes so that a tile fits a block of threads and its M the
// shared memory. All lanes of a warp have one degree, which the kernels rely on:
// where it changes, and at the end, a warp is filled up with nobody.
func (p *planner) tiles(all []lane) [][]lane {
	length := p.evenLength(all)
	var tiles [][]lane
	var tile []lane
	seen, floats := map[passTriple]bool{}, make([]int, p.passes)
	for _, l := range all {
		if len(tile) > 0 && tile[len(tile)-1].d3 != l.d3 {
			tile = fillWarp(tile)
		}
		if len(tile) == length || len(tile) > 0 && !p.fits(l, seen, floats) {
			tiles, tile = append(tiles, fillWarp(tile)), nil
			clear(seen)
			clear(floats)
		}
		tile = append(tile, l)
		for pass := range p.passes {
			if key, ok := p.key(l, pass); ok && !seen[passTriple{pass, key}] {
				seen[passTriple{pass, key}] = true
				floats[pass] += key.floats()
			}
		}
	}
	return append(tiles, fillWarp(tile))
}

// evenLength is a number of whole warps a tile that leaves no short tile at the
// end where only threads limit it.
func (p *planner) evenLength(all []lane) int {
	warps := 1
	for i, at := 0, 0; i < len(all); i++ {
		if at == warpLanes || i > 0 && all[i].d3 != all[i-1].d3 {
			warps++
			at = 0
		}
		at++
	}
	most := p.shape.threads / warpLanes
	tiles := ceilDiv(warps, most)
	return ceilDiv(warps, tiles) * warpLanes
}

func fillWarp(tile []lane) []lane {
	for len(tile)%warpLanes != 0 {
		tile = append(tile, lane{block: -1, d3: tile[len(tile)-1].d3})
	}
	return tile
}

// passTriple is a product of one pass; every pass has M of its own.
type passTriple struct {
	pass int
	triple
}

// key is a lane's product in a pass, if it has one.
func (p *planner) key(l lane, pass int) (triple, bool) {
	if l.block < 0 {
		return triple{}, false
	}
	key := p.tripleOf(l.block, pass)
	return key, key.l1 >= 0
}

func (p *planner) fits(l lane, seen map[passTriple]bool, floats []int) bool {
	for pass := range p.passes {
		if key, ok := p.key(l, pass); ok && !seen[passTriple{pass, key}] && floats[pass]+key.floats() > p.shape.limit {
			return false
		}
	}
	return true
}

// part appends the cells, terms and lanes of one tile and pass.
func (p *planner) part(tile []lane, pass int) error {
	at, floats := map[triple]int{}, 0
	first := len(p.cells) / cellInts
	for _, l := range tile {
		key, ok := p.key(l, pass)
		if _, have := at[key]; !ok || have {
			continue
		}
		at[key] = floats
		if err := p.product(key, floats); err != nil {
			return err
		}
		floats += key.floats()
	}
	p.stride = max(p.stride, floats)
	p.parts = append(p.parts, int32(first), int32(len(p.cells)/cellInts), 0, 0)
	for i := range p.shape.threads {
		one := make([]int32, laneInts)
		if i < len(tile) {
			p.fill(one, tile[i], pass, at)
		} else {
			one[11] = 1 // a degree that the kernel's switch knows
		}
		p.lanes = append(p.lanes, one...)
	}
	return nil
}

// product appends the cells of one M.
func (p *planner) product(key triple, at int) error {
	terms, err := pathTerms(key.l1, key.l2, key.l3, 1)
	if err != nil {
		return err
	}
	for n, term := range terms {
		if n == 0 || term.i != terms[n-1].i || term.k != terms[n-1].k {
			p.cells = append(p.cells, int32(at+term.i*key.pitch()+term.k), int32(len(p.terms)/termInts), 0, 0)
		}
		p.terms = append(p.terms, int32(key.yAt+term.j), int32(math.Float32bits(float32(term.c))))
		p.cells[len(p.cells)-2] = int32(len(p.terms) / termInts)
	}
	for len(p.terms)%4 != 0 { // the lanes that follow are read four integers at a time
		p.terms = append(p.terms, 0, 0)
	}
	return nil
}

// fill writes one lane: offset and step of its copies in x, step of components
// in x, d1; offset and step in w, coefficient, where M is; offset and steps of
// copies and components in out, d3; what it writes.
func (p *planner) fill(one []int32, l lane, pass int, at map[triple]int) {
	one[11] = int32(l.d3)
	if l.block < 0 {
		return
	}
	o := p.t.TP.Out[l.block]
	ou, ok := p.shape.layout.strides(o)
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
	xu, xi := p.shape.layout.strides(a)
	one[0], one[1], one[2], one[3] = int32(p.xAt[ins.In1]+l.first*xu), int32(l.step*xu), int32(xi), int32(a.Ir.Dim())
	one[4], one[5], one[7] = int32(p.wAt[n]+l.first), int32(l.step), int32(at[p.tripleOf(l.block, pass)])
	one[6] = int32(math.Float32bits(float32(p.coefficients[n] * p.t.scale())))
	one[12] = int32(l.own)
}

// planFor is the plan of an implementation with its launch shape.
func (t TensorProduct) planFor(tab tpTable) (tpPlan, error) {
	shape := planShape{threads: t.threads(), layout: IrMul, cover: true, copies: 2, limit: 1280}
	switch t.Impl {
	case ImplFused:
		shape.layout, shape.cover = t.Layout, false
	case ImplCSRMLP:
		shape.copies, shape.batch = 1, mlpBatch
		shape.fixed = mlpBatch * floatBytes * (t.Hidden + 4*shape.threads)
		shape.limit = (sharedBytes - shape.fixed) / (mlpBatch * floatBytes)
	}
	return t.plan(tab, shape)
}

// largestM is the floats of the widest M there is; a tile takes at least one.
var largestM = triple{l1: so3.MaxL, l3: so3.MaxL}.floats()
