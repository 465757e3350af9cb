package gridsim

import (
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
)

// operation is one launch of the law, with the blocks that it takes before and returns after (see deriveLives).
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
	launch
}

// blocks returns the blocks that the operation reads, then the one that it writes.
func (o *operation) blocks() []blockID { return append(slices.Clone(o.in), o.out) }

// launch is one kernel with its arguments. Some of them are in blocks that each step takes anew.
type launch struct {
	fn     device.Func
	kernel string
	n      int
	args   device.Args
	uses   []use
	cost   gpuprof.Cost
}

// use sets argument arg from a block when the step runs: to its buffer, to its offset plus add elements, or for a
// library to its address.
type use struct {
	arg  int
	id   blockID
	kind useKind
	add  int
}

type useKind uint8

const (
	useBuffer useKind = iota
	useAt
	useAddress
)

// Arguments of bindLaunch for blocks.
type (
	atOf struct { // the offset of a block
		id  blockID
		add int
	}
	addressOf struct { // the address of a block, for a library that takes no offset
		id  blockID
		add int
	}
)

// bindLaunch makes a launch of kern over n items. In addition to the arguments of loop.Binder, a blockID is passed as
// a buffer, an addressOf as an address and an atOf as an integer.
func (s *session) bindLaunch(kern *device.Kernel, n int, cost gpuprof.Cost, args any) launch {
	l := launch{kernel: kern.Name, n: n, cost: cost}
	l.fn = s.Bind(kern, &l.args, func(i int, arg any) byte {
		switch v := arg.(type) {
		case blockID:
			l.uses = append(l.uses, use{i, v, useBuffer, 0})
		case addressOf:
			l.uses = append(l.uses, use{i, v.id, useAddress, v.add})
		case atOf:
			l.uses = append(l.uses, use{i, v.id, useAt, v.add})
			return 'i'
		default:
			return 0
		}
		return 'b'
	}, args)
	return l
}

// enqueue sets the arguments that are in blocks, then launches.
func (s *session) enqueue(l *launch) error {
	for _, u := range l.uses {
		b := &s.blocks[u.id]
		switch u.kind {
		case useBuffer:
			l.args.SetBuf(u.arg, b.buf)
		case useAt:
			l.args.SetInt(u.arg, b.at+u.add)
		case useAddress:
			l.args.SetBufAt(u.arg, b.buf, 4*int64(b.at+u.add))
		}
	}
	return s.Compute.Launch(l.fn, l.n, &l.args)
}

// part is a chunk of cells for which operations are made.
type part struct {
	s            *session
	first, cells int
}

// statePlace returns the chunk's offset in a whole state, and the distance between channels.
func (p part) statePlace(id blockID) (atOf, int) {
	if p.s.shape.hwc {
		return atOf{id, p.first * p.s.shape.C}, 1
	}
	return atOf{id, p.first}, p.s.shape.cells()
}

// chunkPlace returns the offset and the distance between channels in a block that holds only the chunk.
func (p part) chunkPlace(id blockID) (atOf, int) {
	if p.s.shape.hwc {
		return atOf{id, 0}, 1
	}
	return atOf{id, 0}, p.cells
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

// forChunks calls of for every chunk of rows, and returns the operations of all chunks.
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
	at, to := atOf{bState, 0}, atOf{bNext, 0}
	switch sh.law {
	case lawDiffuse:
		o.launch = s.bindLaunch(&diffuseKernel, n, sh.lawCost(""), gridDiffuseArgs{
			psi: bState, out: bNext, psiAt: at, outAt: to, N: sh.N, C: sh.C, hwc: sh.hwc, zero: sh.zero, tau: sh.tau,
		})
	case lawWalk:
		o.launch = s.bindLaunch(&walkKernel, n, sh.lawCost(""), gridWalkArgs{
			psi: bState, out: bNext, psiAt: at, outAt: to, N: sh.N, C: sh.C, hwc: sh.hwc, axis: 2, first: 0,
			cos: float32(math.Cos(turn)), sin: float32(math.Sin(turn)),
		})
	default:
		items := ceilDiv(n, s.tile)
		if s.isTiled() {
			items = ceilDiv(sh.N, fusedWide) * ceilDiv(sh.N, fusedHigh)
		}
		cost := sh.lawCost(s.k.Precision)
		cost.BytesRead += 4 * int64(4*sh.C*sh.H+sh.H+sh.C)
		o.launch = s.bindLaunch(&fusedKernel, items, cost, gridFusedArgs{
			psi: bState, weights: s.weights, out: bNext, psiAt: at, outAt: to, N: sh.N, C: sh.C, H: sh.H,
			hwc: sh.hwc, zero: sh.zero, normalise: sh.normalise, identity: sh.identity, precision: s.precision,
			tileCells: s.tile, tau: sh.tau,
		})
	}
	return o
}

func (p part) turnAlong(axis int, from, to blockID) operation {
	sh := p.s.shape
	o := operation{name: "update", in: []blockID{from}, out: to, first: p.first, cells: p.cells, axis: axis}
	o.launch = p.s.bindLaunch(&walkKernel, p.cells, wordCost(p.cells, 3*sh.C, sh.C, sh.C), gridWalkArgs{
		psi: from, out: to, psiAt: atOf{from, 0}, outAt: atOf{to, 0}, N: sh.N, C: sh.C, hwc: sh.hwc, axis: axis,
		first: p.first, cos: float32(math.Cos(turn)), sin: float32(math.Sin(turn)),
	})
	return o
}

func (p part) neighbourOperation(out blockID, concat bool) operation {
	sh := p.s.shape
	at, cs := p.chunkPlace(out)
	writes := sh.C
	if concat {
		writes = 2 * sh.C
	}
	o := operation{name: "neighbours", in: []blockID{bState}, out: out, first: p.first, cells: p.cells, concat: concat}
	o.launch = p.s.bindLaunch(&neighboursKernel, p.cells, wordCost(p.cells, 8*sh.C, sh.C, writes), gridNeighboursArgs{
		psi: bState, out: out, psiAt: atOf{bState, 0}, outAt: at, outCs: cs, N: sh.N, C: sh.C, first: p.first,
		hwc: sh.hwc, zero: sh.zero, concat: concat,
	})
	return o
}

func (p part) relaxOperations() []operation {
	sh := p.s.shape
	psi, psiCs := p.statePlace(bState)
	k, kCs := p.chunkPlace(bK)
	to, toCs := p.statePlace(bNext)
	o := operation{name: "update", in: []blockID{bState, bK}, out: bNext, first: p.first, cells: p.cells}
	o.launch = p.s.bindLaunch(&relaxKernel, p.cells, wordCost(p.cells, 3*sh.C, 2*sh.C, sh.C), gridRelaxArgs{
		psi: bState, k: bK, out: bNext, psiAt: psi, psiCs: psiCs, kAt: k, kCs: kCs, outAt: to, outCs: toCs, C: sh.C,
		hwc: sh.hwc, tau: sh.tau,
	})
	return []operation{p.neighbourOperation(bK, false), o}
}

// productOperation returns one of the two matrix products, by the library if it is used.
func (p part) productOperation(name string, from, to blockID, k, m, wAt, wTAt int) operation {
	s, sh := p.s, p.s.shape
	o := operation{name: name, in: []blockID{from}, out: to, first: p.first, cells: p.cells, rounds: true}
	cost := productCost(p.cells, k, m, s.k.Precision)
	kernel := vendorKernels[s.k.Precision]
	switch {
	case s.vendor && sh.hwc:
		o.launch = s.bindLaunch(kernel, p.cells, cost, device.ProductArgs{
			A: addressOf{from, 0}, B: loop.View{Buf: s.weights, At: wTAt}, Out: addressOf{to, 0}, K: k, N: m, Scale: float32(1),
		})
	case s.vendor:
		o.launch = s.bindLaunch(kernel, m, cost, device.ProductArgs{
			A: loop.View{Buf: s.weights, At: wAt}, B: addressOf{from, 0}, Out: addressOf{to, 0}, K: k, N: p.cells, Scale: float32(1),
		})
	default:
		if sh.hwc {
			wAt = wTAt
		}
		x, xCs := p.chunkPlace(from)
		out, outCs := p.chunkPlace(to)
		o.launch = s.bindLaunch(&productKernel, ceilDiv(p.cells, s.tile), cost, gridProductArgs{
			x: from, weights: s.weights, out: to, xAt: x, xCs: xCs, wAt: wAt, outAt: out, outCs: outCs, K: k, M: m,
			cells: p.cells, hwc: sh.hwc, precision: s.precision, tile: s.tile,
		})
	}
	return o
}

func (p part) activationOperation(from, to blockID) operation {
	sh := p.s.shape
	x, xCs := p.chunkPlace(from)
	out, outCs := p.chunkPlace(to)
	o := operation{name: "activation", in: []blockID{from}, out: to, first: p.first, cells: p.cells}
	o.launch = p.s.bindLaunch(&activateKernel, p.cells, wordCost(p.cells, 3*sh.H, sh.H, sh.H), gridActivateArgs{
		x: from, weights: p.s.weights, out: to, xAt: x, xCs: xCs, biasAt: p.s.packed.b1, outAt: out, outCs: outCs,
		H: sh.H, hwc: sh.hwc, identity: sh.identity,
	})
	return o
}

// updateOperation writes the next state to bNext, or the state before normalisation to bU.
func (p part) updateOperation(kernel *device.Kernel, to blockID, normalise bool) operation {
	sh := p.s.shape
	psi, psiCs := p.statePlace(bState)
	delta, deltaCs := p.chunkPlace(bDelta)
	out, outCs := p.chunkPlace(to)
	if to == bNext {
		out, outCs = p.statePlace(to)
	}
	cost := wordCost(p.cells, 3*sh.C, 2*sh.C, sh.C)
	if normalise {
		cost.Flops += int64(p.cells) * int64(3*sh.C+2)
	}
	o := operation{name: "update", in: []blockID{bState, bDelta}, out: to, first: p.first, cells: p.cells}
	o.launch = p.s.bindLaunch(kernel, p.cells, cost, gridUpdateArgs{
		psi: bState, delta: bDelta, weights: p.s.weights, out: to, psiAt: psi, psiCs: psiCs, deltaAt: delta,
		deltaCs: deltaCs, biasAt: p.s.packed.b2, outAt: out, outCs: outCs, C: sh.C, hwc: sh.hwc,
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

// splitOperations returns one launch per operation, like eager code.
func (p part) splitOperations() []operation {
	s, sh, n := p.s, p.s.shape, p.cells
	psi, psiCs := p.statePlace(bState)
	k, kCs := p.chunkPlace(bK)
	in, inCs := p.chunkPlace(bP)
	concat := operation{name: "neighbours", in: []blockID{bState, bK}, out: bP, first: p.first, cells: n}
	concat.launch = s.bindLaunch(&concatKernel, n, wordCost(n, 0, 2*sh.C, 2*sh.C), gridConcatArgs{
		psi: bState, k: bK, out: bP, psiAt: psi, psiCs: psiCs, kAt: k, kCs: kCs, outAt: in, outCs: inCs, C: sh.C,
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
	u, uCs := p.chunkPlace(bU)
	sq, sqCs := p.chunkPlace(bSquare)
	to, toCs := p.statePlace(bNext)
	at := func(id blockID) atOf { return atOf{id, 0} }
	operationOf := func(in []blockID, out blockID, l launch) operation {
		return operation{name: "normalise", in: in, out: out, first: p.first, cells: n, launch: l}
	}
	return append(ops, p.updateOperation(&updateKernel, bU, false),
		operationOf([]blockID{bU}, bSquare, s.bindLaunch(&squareKernel, n*sh.C, wordCost(n*sh.C, 1, 1, 1), gridSquareArgs{
			x: bU, out: bSquare, xAt: at(bU), outAt: at(bSquare),
		})),
		operationOf([]blockID{bSquare}, bSum, s.bindLaunch(&sumKernel, n, wordCost(n, sh.C, sh.C, 1), gridSumArgs{
			x: bSquare, out: bSum, xAt: sq, xCs: sqCs, outAt: at(bSum), C: sh.C, hwc: sh.hwc,
		})),
		operationOf([]blockID{bSum}, bRoot, s.bindLaunch(&rootKernel, n, wordCost(n, 2, 1, 1), gridRootArgs{
			x: bSum, out: bRoot, xAt: at(bSum), outAt: at(bRoot),
		})),
		operationOf([]blockID{bU, bRoot}, bNext, s.bindLaunch(&divideKernel, n, wordCost(n, sh.C, sh.C+1, sh.C), gridDivideArgs{
			u: bU, root: bRoot, out: bNext, uAt: u, uCs: uCs, rootAt: at(bRoot), outAt: to, outCs: toCs, C: sh.C,
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
