package gridsim

import (
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// operation is one kernel launch of the law. The step allocates the blocks in take before the launch and frees the
// blocks in give after it (see deriveLives).
type operation struct {
	name       string    // "neighbours", "hidden", "activation", "out", "update", "normalise" or "step"
	in         []blockID // blocks that it reads
	out        blockID   // block that it writes
	take, give []blockID
	first      int // first cell that it computes
	cells      int
	rounds     bool // contains a matrix product
	concat     bool // "neighbours" also writes the state, before the means
	axis       int  // axis of a pass of walk
	op.Call
}

// blocks returns the blocks that the operation reads, then the one that it writes.
func (o *operation) blocks() []blockID { return append(slices.Clone(o.in), o.out) }

// part is a chunk of cells with launches of its own.
type part struct {
	s            *session
	first, cells int
}

// statePlace returns the chunk's offset in the state of the whole grid, and the distance between channels, in elements.
func (p part) statePlace() (at, cs int) {
	if p.s.shape.hwc {
		return p.first * p.s.shape.C, 1
	}
	return p.first, p.s.shape.cells()
}

// channelStride returns the distance between channels, in elements, in a block that holds only the chunk.
func (p part) channelStride() int {
	if p.s.shape.hwc {
		return 1
	}
	return p.cells
}

func (s *session) listOperations() []operation {
	sh := s.shape
	if s.k.Impl == implFused {
		return []operation{s.fusedStep()}
	}
	if sh.law == lawWalk {
		return append(s.forChunks(func(p part) []operation { return []operation{p.turnAlong(0, bState, bBetween)} }),
			s.forChunks(func(p part) []operation { return []operation{p.turnAlong(1, bBetween, bNext)} })...)
	}
	return s.forChunks(func(p part) []operation {
		switch {
		case sh.law == lawDiffuse:
			return p.relaxOperations()
		case s.k.Impl == implGemm:
			return p.gemmOperations()
		}
		return p.splitOperations()
	})
}

// forChunks calls the function of for every chunk of rows, and returns the operations of all chunks.
func (s *session) forChunks(of func(part) []operation) (all []operation) {
	n, rows := s.shape.N, s.chunkRows()
	for row := 0; row < n; row += rows {
		all = append(all, of(part{s, row * n, min(rows, n-row) * n})...)
	}
	return all
}

func (s *session) chunkRows() int {
	if s.k.Chunk == 0 {
		return s.shape.N
	}
	return min(s.k.Chunk, s.shape.N)
}

func (s *session) fusedStep() operation {
	sh := s.shape
	n := sh.cells()
	o := operation{name: "step", in: []blockID{bState}, out: bNext, cells: n, rounds: sh.law == lawMLP}
	switch sh.law {
	case lawDiffuse:
		o.Call = s.Bind(&diffuseKernel, n, sh.lawCost(""), gridDiffuseArgs{
			psi: bState.ref(), out: bNext.ref(), psiAt: 0, outAt: 0, N: sh.N, C: sh.C, hwc: sh.hwc, zero: sh.zero, tau: sh.tau,
		})
	case lawWalk:
		o.Call = s.Bind(&walkKernel, n, sh.lawCost(""), gridWalkArgs{
			psi: bState.ref(), out: bNext.ref(), psiAt: 0, outAt: 0, N: sh.N, C: sh.C, hwc: sh.hwc, axis: 2, first: 0,
			cos: float32(math.Cos(turn)), sin: float32(math.Sin(turn)),
		})
	default:
		items := ceilDiv(n, s.tile)
		if s.isTiled() {
			items = ceilDiv(sh.N, fusedWide) * ceilDiv(sh.N, fusedHigh)
		}
		cost := sh.lawCost(s.k.Precision)
		cost.BytesRead += 4 * int64(4*sh.C*sh.H+sh.H+sh.C)
		o.Call = s.Bind(&fusedKernel, items, cost, gridFusedArgs{
			psi: bState.ref(), weights: s.weights, out: bNext.ref(), psiAt: 0, outAt: 0, N: sh.N, C: sh.C, H: sh.H,
			hwc: sh.hwc, zero: sh.zero, normalise: sh.normalise, identity: sh.identity, precision: s.precision,
			tileCells: s.tile, tau: sh.tau,
		})
	}
	return o
}

func (p part) turnAlong(axis int, from, to blockID) operation {
	sh := p.s.shape
	o := operation{name: "update", in: []blockID{from}, out: to, first: p.first, cells: p.cells, axis: axis}
	o.Call = p.s.Bind(&walkKernel, p.cells, wordCost(p.cells, 3*sh.C, sh.C, sh.C), gridWalkArgs{
		psi: from.ref(), out: to.ref(), psiAt: 0, outAt: 0, N: sh.N, C: sh.C, hwc: sh.hwc, axis: axis,
		first: p.first, cos: float32(math.Cos(turn)), sin: float32(math.Sin(turn)),
	})
	return o
}

func (p part) neighbourOperation(out blockID, concat bool) operation {
	sh := p.s.shape
	writes := sh.C
	if concat {
		writes = 2 * sh.C
	}
	o := operation{name: "neighbours", in: []blockID{bState}, out: out, first: p.first, cells: p.cells, concat: concat}
	o.Call = p.s.Bind(&neighboursKernel, p.cells, wordCost(p.cells, 8*sh.C, sh.C, writes), gridNeighboursArgs{
		psi: bState.ref(), out: out.ref(), psiAt: 0, outAt: 0, outCs: p.channelStride(), N: sh.N, C: sh.C, first: p.first,
		hwc: sh.hwc, zero: sh.zero, concat: concat,
	})
	return o
}

func (p part) relaxOperations() []operation {
	sh := p.s.shape
	at, cs := p.statePlace()
	o := operation{name: "update", in: []blockID{bState, bK}, out: bNext, first: p.first, cells: p.cells}
	o.Call = p.s.Bind(&relaxKernel, p.cells, wordCost(p.cells, 3*sh.C, 2*sh.C, sh.C), gridRelaxArgs{
		psi: bState.ref(), k: bK.ref(), out: bNext.ref(), psiAt: at, psiCs: cs, kAt: 0, kCs: p.channelStride(), outAt: at,
		outCs: cs, C: sh.C,
		hwc: sh.hwc, tau: sh.tau,
	})
	return []operation{p.neighbourOperation(bK, false), o}
}

// productOperation returns one of the network's two matrix products. cuBLAS computes it if the session uses the
// library.
func (p part) productOperation(name string, from, to blockID, k, m, wAt, wTAt int) operation {
	s, sh := p.s, p.s.shape
	o := operation{name: name, in: []blockID{from}, out: to, first: p.first, cells: p.cells, rounds: true}
	cost := productCost(p.cells, k, m, s.k.Precision)
	kernel := vendorKernels[s.k.Precision]
	switch {
	case s.vendor && sh.hwc:
		o.Call = s.Bind(kernel, p.cells, cost, device.ProductArgs{
			A: from.ref(), B: op.From(s.weights, wTAt), Out: to.ref(), K: k, N: m, Scale: float32(1),
		})
	case s.vendor:
		o.Call = s.Bind(kernel, m, cost, device.ProductArgs{
			A: op.From(s.weights, wAt), B: from.ref(), Out: to.ref(), K: k, N: p.cells, Scale: float32(1),
		})
	default:
		if sh.hwc {
			wAt = wTAt
		}
		cs := p.channelStride()
		o.Call = s.Bind(&productKernel, ceilDiv(p.cells, s.tile), cost, gridProductArgs{
			x: from.ref(), weights: s.weights, out: to.ref(), xAt: 0, xCs: cs, wAt: wAt, outAt: 0, outCs: cs, K: k, M: m,
			cells: p.cells, hwc: sh.hwc, precision: s.precision, tile: s.tile,
		})
	}
	return o
}

func (p part) activationOperation(from, to blockID) operation {
	sh := p.s.shape
	cs := p.channelStride()
	o := operation{name: "activation", in: []blockID{from}, out: to, first: p.first, cells: p.cells}
	o.Call = p.s.Bind(&activateKernel, p.cells, wordCost(p.cells, 3*sh.H, sh.H, sh.H), gridActivateArgs{
		x: from.ref(), weights: p.s.weights, out: to.ref(), xAt: 0, xCs: cs, biasAt: p.s.packed.b1, outAt: 0, outCs: cs,
		H: sh.H, hwc: sh.hwc, identity: sh.identity,
	})
	return o
}

// updateOperation writes the next state to bNext, or the state before normalisation to bU.
func (p part) updateOperation(kernel *device.Kernel, to blockID, normalise bool) operation {
	sh := p.s.shape
	psi, psiCs := p.statePlace()
	out, outCs := 0, p.channelStride()
	if to == bNext {
		out, outCs = psi, psiCs
	}
	cost := wordCost(p.cells, 3*sh.C, 2*sh.C, sh.C)
	if normalise {
		cost.Flops += int64(p.cells) * int64(3*sh.C+2)
	}
	o := operation{name: "update", in: []blockID{bState, bDelta}, out: to, first: p.first, cells: p.cells}
	o.Call = p.s.Bind(kernel, p.cells, cost, gridUpdateArgs{
		psi: bState.ref(), delta: bDelta.ref(), weights: p.s.weights, out: to.ref(), psiAt: psi, psiCs: psiCs, deltaAt: 0,
		deltaCs: p.channelStride(), biasAt: p.s.packed.b2, outAt: out, outCs: outCs, C: sh.C, hwc: sh.hwc,
		normalise: normalise, tau: sh.tau,
	})
	return o
}

// gemmOperations returns the operations of impl=gemm: the first writes the network's input, the last updates and
// normalises the state.
func (p part) gemmOperations() []operation {
	s, sh := p.s, p.s.shape
	return []operation{
		p.neighbourOperation(bP, true),
		p.productOperation("hidden", bP, bA, 2*sh.C, sh.H, s.packed.w1, s.packed.w1T),
		p.activationOperation(bA, bA),
		p.productOperation("out", bA, bDelta, sh.H, sh.C, s.packed.w2, s.packed.w2T),
		p.updateOperation(&finishKernel, bNext, sh.normalise),
	}
}

// splitOperations returns the operations of impl=split: one launch per elementary operation, like eager PyTorch code.
func (p part) splitOperations() []operation {
	s, sh, n := p.s, p.s.shape, p.cells
	at, atCs := p.statePlace()
	cs := p.channelStride()
	concat := operation{name: "neighbours", in: []blockID{bState, bK}, out: bP, first: p.first, cells: n}
	concat.Call = s.Bind(&concatKernel, n, wordCost(n, 0, 2*sh.C, 2*sh.C), gridConcatArgs{
		psi: bState.ref(), k: bK.ref(), out: bP.ref(), psiAt: at, psiCs: atCs, kAt: 0, kCs: cs, outAt: 0, outCs: cs, C: sh.C,
		hwc: sh.hwc,
	})
	ops := []operation{
		p.neighbourOperation(bK, false), concat,
		p.productOperation("hidden", bP, bA, 2*sh.C, sh.H, s.packed.w1, s.packed.w1T),
		p.activationOperation(bA, bH),
		p.productOperation("out", bH, bDelta, sh.H, sh.C, s.packed.w2, s.packed.w2T),
	}
	if !sh.normalise {
		return append(ops, p.updateOperation(&updateKernel, bNext, false))
	}
	operationOf := func(in []blockID, out blockID, l op.Call) operation {
		return operation{name: "normalise", in: in, out: out, first: p.first, cells: n, Call: l}
	}
	return append(ops, p.updateOperation(&updateKernel, bU, false),
		operationOf([]blockID{bU}, bSquare, s.Bind(&squareKernel, n*sh.C, wordCost(n*sh.C, 1, 1, 1), gridSquareArgs{
			x: bU.ref(), out: bSquare.ref(), xAt: 0, outAt: 0,
		})),
		operationOf([]blockID{bSquare}, bSum, s.Bind(&sumKernel, n, wordCost(n, sh.C, sh.C, 1), gridSumArgs{
			x: bSquare.ref(), out: bSum.ref(), xAt: 0, xCs: cs, outAt: 0, C: sh.C, hwc: sh.hwc,
		})),
		operationOf([]blockID{bSum}, bRoot, s.Bind(&rootKernel, n, wordCost(n, 2, 1, 1), gridRootArgs{
			x: bSum.ref(), out: bRoot.ref(), xAt: 0, outAt: 0,
		})),
		operationOf([]blockID{bU, bRoot}, bNext, s.Bind(&divideKernel, n, wordCost(n, sh.C, sh.C+1, sh.C), gridDivideArgs{
			u: bU.ref(), root: bRoot.ref(), out: bNext.ref(), uAt: 0, uCs: cs, rootAt: 0, outAt: at, outCs: atCs, C: sh.C,
			hwc: sh.hwc,
		})),
	)
}

func (s *session) wordsOf(id blockID, n int) int64 {
	c, h, cells := int64(s.shape.C), int64(s.shape.H), int64(n)
	switch id {
	case bP:
		return 2 * c * cells
	case bA, bH:
		return h * cells
	case bSum, bRoot:
		return cells
	case bState, bNext, bBetween:
		return s.shape.stateWords()
	}
	return c * cells
}
