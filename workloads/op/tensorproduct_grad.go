package op

import (
	_ "embed"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed tensorproduct_grad.ptx.zst
var tpGradPTX string

// TensorProductGrad is the backward pass of a TensorProduct. From the cotangents dout of the rows it computes the
// cotangents of x, y and w, each only if its buffer is not nil. dw and dy need no sum over edges, so one kernel with an
// item per edge serves every Impl. dx has one writer per node and segment of edges, which sums in the order of Perm, so
// it is bit-identical for any number of threads. The product must be one that csr accepts; its Impl is ignored.
//
//	x [nodes,In1.Dim], y [E,In2.Dim], w [E,WeightNumel], dout [rows,Out.Dim] ->
//	dw [E,WeightNumel], dy [E,In2.Dim], dx [nodes,In1.Dim]
//
// A path has A = coefficient times Scale and M_ik = A sum_j C_ijk y_j; dz is dout of the edge's row. The results are:
//
//	dw_u = sum_ik x_ui M_ik dz_uk,  dx_ui = sum over the edges from x of w_u sum_k M_ik dz_uk,
//	dy_j = A sum_ik C_ijk T_ik with T_ik = sum_u w_u x_ui dz_uk
type TensorProductGrad struct {
	Product TensorProduct
	// AddY adds dy to the values in its buffer instead of overwriting them. AddX does so for dx.
	AddY, AddX bool
}

// TPGradBuffers are the arguments of TensorProductGrad: the arguments of the product, the cotangents, and for dx the
// edges sorted by source as ColPtr [nodes+1] and Perm [E] (see BySource).
type TPGradBuffers struct{ X, Y, W, DOut, Src, Dst, ColPtr, Perm, DX, DY, DW device.Buffer }

// The kernels compute in the layout ir_mul. An item of tpGradKernel is one edge, one warp on CUDA; its argument "what"
// has the bits gradW, gradY and gradAddY.
//
// An item of tpGradXKernel is a segment, up to tpGradSegment edges of one node; on CUDA it is one tile (32 copies of a
// block) of a segment. Segment j of node a writes row colptr[a]/tpGradSegment + a + j of partial. An item of
// tpGradSumKernel is a node; it adds the node's rows of partial into dx.
var (
	tpGradKernel    = device.Typed[tpGradArgs](device.Kernel{Name: "tp_grad", Host: tpGradHost, Grain: 4, PTX: tpGradPTX, Threads: tpGradThreads, PerBlock: tpGradThreads / warpLanes})
	tpGradXKernel   = device.Typed[tpGradXArgs](device.Kernel{Name: "tp_grad_x", Host: tpGradXHost, PTX: tpGradPTX, Threads: tpGradThreads, PerBlock: tpGradThreads / warpLanes})
	tpGradSumKernel = device.Typed[tpGradSumArgs](device.Kernel{Name: "tp_grad_sum", Host: tpGradSumHost, Grain: 8, PTX: tpGradPTX, Threads: 128, PerBlock: 1})
)

const (
	gradW = 1 << iota
	gradY
	gradAddY
)

const (
	tpGradThreads = 128
	tpGradSegment = 256
)

// Indices in the header of the backward plan. The header has sizes, and offsets in integers from the plan's start.
// After it come paths, cells and terms of tpTable, the cells with i and k exchanged, every path's terms by j, and the
// tiles of dx.
const (
	backPaths = iota
	backTable // paths, cells, terms
	backCells
	backTerms
	backSwapped // the cells, ordered by (k, i)
	backStarts  // from offset 14 of a path on: for each j, first and last+1 index of its terms in backByJ
	backByJ     // 2 integers per term, ordered by j: cell of the path, bits of the constant
	backTiles   // 4 integers per tile: offset of the block in x, number of copies, components, first copy
	backTileOf  // per tile: first and last+1 index of its paths in backTilePaths
	backTilePaths
	backAcross // number of tiles
	backIn
	backSh
	backNumel
	backOut
	backMost   // the largest number of cells of a path
	backWidest // rows of copies that a warp keeps in shared memory
)

const backInts = 17

// backPlan holds a tensor product's tables for the backward pass. The flops are per edge.
type backPlan struct {
	ints      []int32
	constants []float32
	across    int
	shared    int // bytes per block
	flopsW    int
	flopsY    int
	flopsX    int
	flopsQ    int // computing M and its products with dz, which dw, dy and dx share
}

func (t TensorProduct) makeBackPlan() (backPlan, error) {
	t.Layout = IrMul
	tab, err := t.compileTable()
	if err != nil {
		return backPlan{}, err
	}
	p := backPlan{constants: tab.constants}
	table := slices.Clone(tab.ints)
	cellsAt, termsAt := tab.paths*pathInts, tab.paths*pathInts+tab.cells*cellInts
	swapped := slices.Clone(table[cellsAt:termsAt])
	for c := 0; c < len(swapped); c += cellInts {
		swapped[c], swapped[c+1] = swapped[c+1], swapped[c]
	}
	var starts, byJ []int32
	most, widest := 1, 1
	for n, ins := range t.TP.Instructions {
		path := table[n*pathInts:][:pathInts]
		d2 := t.TP.In2[ins.In2].Ir.Dim()
		first, last := int(path[7]), int(path[8])
		path[14], path[15] = int32(len(starts)), int32(d2)
		terms := 0
		for j := range d2 {
			starts = append(starts, int32(len(byJ)/2))
			for c := first; c < last; c++ {
				cell := table[cellsAt+c*cellInts:][:cellInts]
				for term := cell[2]; term < cell[3]; term++ {
					if int(table[termsAt+int(term)]) == j {
						byJ = append(byJ, int32(c-first), int32(math.Float32bits(tab.constants[term])))
						terms++
					}
				}
			}
		}
		starts = append(starts, int32(len(byJ)/2))
		m, d1, d3, cells := int(path[4]), int(path[5]), int(path[6]), last-first
		most, widest = max(most, cells), max(widest, d1+2*d3)
		p.flopsQ += 2*terms + 2*cells*m
		p.flopsW += 2 * d1 * m
		p.flopsX += 2 * d1 * m
		p.flopsY += 2*cells*m + min(d1, d3)*m + 2*terms
	}
	for _, m := range t.TP.In1 { // a block that no path reads has rows of dx, too
		widest = max(widest, m.Ir.Dim())
	}
	tiles, tileOf, tilePaths := t.cutBackTiles(table)
	p.across = len(tiles) / 4
	header := fillHeader(backInts, map[int]int{backPaths: tab.paths, backCells: backInts + cellsAt, backTerms: backInts + termsAt, backAcross: p.across,
		backIn: t.TP.In1.Dim(), backSh: t.TP.In2.Dim(), backNumel: t.TP.WeightNumel(), backOut: t.TP.Out.Dim(), backMost: most, backWidest: widest})
	at := backInts
	for _, s := range []struct {
		place int
		v     []int32
	}{{backTable, table}, {backSwapped, swapped}, {backStarts, starts}, {backByJ, byJ}, {backTiles, tiles}, {backTileOf, tileOf}, {backTilePaths, tilePaths}} {
		header[s.place] = int32(at)
		p.ints = append(p.ints, s.v...)
		at += len(s.v)
	}
	p.ints = slices.Concat(header, p.ints)
	// The shared memory of a warp: M, T and dy, and 32 copies of x, dz and w dz in rows of 33 floats.
	p.shared = tpGradThreads / warpLanes * floatBytes * (2*most + t.TP.In2.Dim() + widest*(warpLanes+1))
	return p, nil
}

// cutBackTiles cuts the features into tiles of 32 copies of one block. It returns the tiles, each tile's range of
// indices in paths, and the paths of all tiles.
func (t TensorProduct) cutBackTiles(table []int32) (tiles, of, paths []int32) {
	at := t.TP.In1.Offsets()
	of = append(of, 0)
	for b, m := range t.TP.In1 {
		for u := 0; u < m.Mul; u += warpLanes {
			tiles = append(tiles, int32(at[b]), int32(m.Mul), int32(m.Ir.Dim()), int32(u))
			for n, ins := range t.TP.Instructions {
				if ins.In1 == b {
					paths = append(paths, int32(n))
				}
			}
			of = append(of, int32(len(paths)))
		}
	}
	return tiles, of, paths
}

// segmentCount returns an upper bound for the number of segments of all nodes.
func (t TensorProductGrad) segmentCount(nodes, edgeCap int) int64 {
	return int64(edgeCap/tpGradSegment) + int64(nodes)
}

// Bind binds the operation for up to edgeCap edges.
func (t TensorProductGrad) Bind(dev device.Device, b TPGradBuffers, nodes, rows, edgeCap int) (*Bound, error) {
	p := t.Product
	p.Impl = ImplCSR
	if err := p.Check(); err != nil {
		return nil, err
	}
	k := newBinder(dev, "tensor product backwards", edgeCap)
	if nodes < 0 || rows < 0 {
		k.failUsage("use 0 or more of each", "%d nodes and %d rows", nodes, rows)
	}
	e, in, out, sh, numel := int64(edgeCap), int64(p.TP.In1.Dim()), int64(p.TP.Out.Dim()), int64(p.TP.In2.Dim()), int64(p.TP.WeightNumel())
	k.checkBuffer("x", b.X, int64(nodes)*in)
	k.checkBuffer("y", b.Y, e*sh)
	k.checkBuffer("w", b.W, e*numel)
	k.checkBuffer("dout", b.DOut, int64(rows)*out)
	k.checkBuffer("src", b.Src, e)
	k.checkBuffer("dst", b.Dst, e)
	plan, err := p.makeBackPlan()
	k.failOn(err)
	ints, constants := k.uploadInts(plan.ints), k.uploadFloats(plan.constants)
	x, dout := b.X, b.DOut
	if p.Layout == MulIr {
		x, dout = k.addToIrMul(p.TP.In1, b.X, nodes), k.addToIrMul(p.TP.Out, b.DOut, rows)
	}
	least := rate{fixed: Moved(0, nodes*int(in)+rows*int(out), 0), perEdge: Moved(plan.flopsQ, int(sh)+int(numel)+2, 0)}
	if b.DW != nil || b.DY != nil {
		least = least.add(k.tpGradEdges(t, plan, b, x, dout, ints, constants))
	}
	if b.DX != nil {
		least = least.add(k.tpGradX(t, plan, b, dout, ints, constants, nodes))
	}
	k.b.minimum = least
	return k.finishBinding()
}

// tpGradEdges appends the launch for dw and dy, and returns their minimum cost.
func (k *binder) tpGradEdges(t TensorProductGrad, plan backPlan, b TPGradBuffers, x, dout, ints, constants device.Buffer) rate {
	p := t.Product
	e, sh, numel, what := int64(k.b.capacity), p.TP.In2.Dim(), p.TP.WeightNumel(), 0
	dw, dy := b.DW, b.DY
	var own rate
	if dw != nil {
		what |= gradW
		k.checkBuffer("dw", dw, e*int64(numel))
		own.perEdge = own.perEdge.Add(Moved(plan.flopsW, 0, numel))
	} else {
		dw = b.W
	}
	if dy != nil {
		what |= gradY
		read := 0
		if t.AddY {
			what |= gradAddY
			read = sh
		}
		k.checkBuffer("dy", dy, e*int64(sh))
		own.perEdge = own.perEdge.Add(Moved(plan.flopsY, read, sh))
	} else {
		dy = b.Y
	}
	// Every edge reads a row of dz and a row of x.
	cost := own.add(rate{perEdge: Moved(plan.flopsQ, p.TP.In1.Dim()+p.TP.Out.Dim()+sh+numel+2, 0)})
	if g, ok := t.Product.generatedGrad(); ok && k.isTiled() {
		k.tpGradGenerated(t, g, cost, x, b.W, dout, ints, constants, b, dw, dy, what)
		return own
	}
	k.addLaunch(withShared(&tpGradKernel, plan.shared), items{perEdge: 1}, cost, tpGradArgs{
		x: x, y: b.Y, w: b.W, dout: dout, src: b.Src, dst: b.Dst, dw: dw, dy: dy, plan: ints, constants: constants,
		what: what, count: itemCount,
	})
	return own
}

func (k *binder) tpGradX(t TensorProductGrad, plan backPlan, b TPGradBuffers, dout, ints, constants device.Buffer, nodes int) rate {
	p := t.Product
	in := p.TP.In1.Dim()
	e, slots := int64(k.b.capacity), t.segmentCount(nodes, k.b.capacity)
	k.checkBuffer("colptr", b.ColPtr, int64(nodes)+1)
	k.checkBuffer("perm", b.Perm, e)
	k.checkBuffer("dx", b.DX, int64(nodes)*int64(in))
	partial, dx := k.allocateScratch(slots*int64(in)), b.DX
	if p.Layout == MulIr {
		dx = k.allocateScratch(int64(nodes) * int64(in))
	}
	work := items{fixed: int(slots)}
	if k.isTiled() {
		work.times = max(plan.across, 1)
	}
	add, read := 0, 0
	if t.AddX {
		add, read = 1, nodes*in
	}
	own := rate{fixed: Moved(read, nodes+1+read, nodes*in), perEdge: Moved(plan.flopsX, 1, 0)}
	cost := rate{fixed: Moved(0, nodes+1, int(slots)*in), perEdge: Moved(plan.flopsQ+plan.flopsX, p.TP.Out.Dim()+p.TP.In2.Dim()+p.TP.WeightNumel()+2, 0)}
	if g, ok := p.generatedGradX(); ok && k.isTiled() {
		work.times = len(g.plan.Warps)
		k.addLaunch(withShared(g.kernel, g.plan.Floats*floatBytes), work, cost, tpxKernelArgs{
			y: b.Y, w: b.W, dout: dout, dst: b.Dst, colptr: b.ColPtr, perm: b.Perm, partial: partial, table: ints,
			constants: constants, count: itemCount, nodes: nodes, plan: k.uploadInts(p.generatedGradXPlan(g)),
		})
	} else {
		k.addLaunch(withShared(&tpGradXKernel, plan.shared), work, cost, tpGradXArgs{
			y: b.Y, w: b.W, dout: dout, dst: b.Dst, colptr: b.ColPtr, perm: b.Perm, partial: partial, plan: ints,
			constants: constants, count: itemCount, nodes: nodes,
		})
	}
	if p.Layout == MulIr { // the last launch, a transpose, adds to dx
		add, read = 0, 0
	}
	k.addLaunch(&tpGradSumKernel, items{fixed: nodes}, rate{fixed: Moved(int(slots)*in+read, int(slots)*in+nodes+1+read, nodes*in)}, tpGradSumArgs{
		colptr: b.ColPtr, partial: partial, dx: dx, count: itemCount, nodes: nodes, width: in, add: add,
	})
	if p.Layout == MulIr {
		k.addTranspose(Transpose{Irreps: p.TP.In1, ToMulIr: true, Accumulate: t.AddX}, dx, b.DX, nodes)
	}
	return own
}
