package op

import (
	"cmp"
	_ "embed"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

//go:embed linear.ptx.zst
var linearPTX string

// Linear is e3nn's o3.Linear without biases: every output block is a weighted sum over the input blocks of the same
// irrep, and 0 without such a block. There is one weight matrix [mul_in,mul_out] per pair of equal irreps, ordered by
// input block, then output block. Accumulate adds to out instead of overwriting it. u and w number the copies of an
// irrep in an input and an output block:
//
//	x [rows,In.Dim], w [WeightNumel] -> out [rows,Out.Dim]
//	out_wi = sum_blocks sum_u w_uw x_ui / sqrt(fan-in),  fan-in = sum of mul_in
type Linear struct {
	In, Out    so3.Irreps
	Layout     Layout
	Accumulate bool
}

// linearKernel computes in ir_mul. Its table describes each pair of an input and an output block by six integers:
// offset in x, offset in out, offset in w, mul_in, mul_out, components. One item is one row on the host and one tile on
// CUDA (see linearPlan).
var linearKernel = device.Typed[linearArgs](device.Kernel{Name: "linear", Host: linearHost, Grain: 8, PTX: linearPTX, Threads: 128, PerBlock: 1})

const (
	pairInts = 6
	// Constants of a CUDA block; linear.cu has the same.
	linearThreads = 128
	linearDeep    = 8   // rows per thread
	linearCopies  = 64  // largest number of copies per tile
	linearTall    = 384 // largest number of rows per tile, rounded up to linearThreads
	linearEarly   = 15  // percentage of the tiles, the shortest, that start first; see makePlan
	// Integers per slice, per tile and per kind in the plan.
	sliceInts, tileInts, kindInts = 4, 2, 12
)

// linearShape is linear_shape of linear.cu. A block holds a slice of the rows of x, along K, in shared memory at a
// time. length is the number of values per row of a slice, each the number of values that a thread reads, across the
// largest number of threads across a tile. Narrow tiles have many rows and therefore short slices, because a thread's
// share must fit its registers.
type linearShape struct{ each, length, across int }

var linearShapes = [...]linearShape{{9, 16, 16}, {16, 16, 12}, {25, 16, 7}, {32, 16, 4}, {21, 8, 3}}

// shapeOf returns the index in linearShapes for tiles that are across threads wide.
func shapeOf(across int) int {
	for i := len(linearShapes) - 1; ; i-- {
		if across <= linearShapes[i].across {
			return i
		}
	}
}

func (s linearShape) tileDepth(across int) int {
	return min(linearThreads/across, s.sliceRows()/linearDeep)
}

func (s linearShape) sliceRows() int { return s.each * linearThreads / s.length }

// sharedBytes returns a block's bytes of shared memory: four integers per row, and a slice of x and of w.
func (s linearShape) sharedBytes() int {
	return floatBytes * (4*linearTall + s.length*(s.sliceRows()+4+4*s.across))
}

// WeightNumel returns the number of weights.
func (l Linear) WeightNumel() int {
	n := 0
	for _, a := range l.In {
		n += a.Mul * l.Out.Count(a.Ir)
	}
	return n
}

// pairTable returns the table of pairs of blocks with equal irreps, and their coefficients 1/sqrt(fan-in).
func (l Linear) pairTable() (table []int32, coefficients []float32) {
	inAt, outAt, wAt := l.In.Offsets(), l.Out.Offsets(), 0
	for i, a := range l.In {
		for o, b := range l.Out {
			if a.Ir != b.Ir || a.Mul == 0 || b.Mul == 0 {
				continue
			}
			table = append(table, int32(inAt[i]), int32(outAt[o]), int32(wAt), int32(a.Mul), int32(b.Mul), int32(a.Ir.Dim()))
			coefficients = append(coefficients, float32(1/math.Sqrt(float64(l.In.Count(a.Ir)))))
			wAt += a.Mul * b.Mul
		}
	}
	return table, coefficients
}

// linearPlan is the division of a mixing into CUDA tiles. A tile is part of one output block; it adds the pairs of
// blocks that end in this block, in order. A kind is a set of tiles that differ only in their rows. ints holds these
// sections:
//
//	slice  4 integers, along K: offset of component 0 in x, mul_in, offset in w, length
//	tile   2 integers: kind, index within the kind
//	kind   12 integers: offset in out, copies, first and last+1 slice, components, copies of the block, first copy,
//	       threads across and along the tile, shape, bits of the coefficient, 1 if weights are read as float4
type linearPlan struct {
	ints                       []int32
	slices, tiles, kinds, most int // most: the largest number of bytes of shared memory of a block
}

// makePlan cuts the rows into tiles and orders the tiles by decreasing work, so that short tiles fill the end of the
// launch. The shortest linearEarly percent run before all others: they end first and free their multiprocessors for
// one more tile each. Otherwise the multiprocessors that finish first would each get two of the last tiles.
func (m mixing) makePlan(rows int) linearPlan {
	var p linearPlan
	var kinds []int32
	type tile struct{ kind, n, length int }
	var tiles []tile
	at := m.out.Offsets()
	for o, block := range m.out {
		if block.Dim() == 0 {
			continue
		}
		// Make the tiles of a block equally wide: 156 copies become three times 52, not 64, 64 and 28.
		width := ceilDiv(ceilDiv(block.Mul, ceilDiv(block.Mul, linearCopies)), 4) * 4
		shape := shapeOf(width / 4)
		first := len(p.ints) / sliceInts
		s := m.cutSlices(at[o], linearShapes[shape].length)
		p.ints = append(p.ints, s.ints...)
		for v := 0; v < block.Mul; v += width {
			copies := min(width, block.Mul-v)
			across := ceilDiv(copies, 4)
			deep := linearShapes[shape].tileDepth(across)
			p.most = max(p.most, linearShapes[shape].sharedBytes())
			for n := range ceilDiv(rows*block.Ir.Dim(), deep*linearDeep) {
				tiles = append(tiles, tile{p.kinds, n, s.length})
			}
			fours := int32(0)
			if s.fours && copies%4 == 0 {
				fours = 1
			}
			kinds = append(kinds, int32(at[o]+v), int32(copies), int32(first), int32(len(p.ints)/sliceInts), int32(block.Ir.Dim()),
				int32(block.Mul), int32(v), int32(across), int32(deep), int32(shape), int32(math.Float32bits(s.coefficient)), fours)
			p.kinds++
		}
	}
	slices.SortStableFunc(tiles, func(a, b tile) int { return cmp.Compare(b.length, a.length) })
	longest := len(tiles) - len(tiles)*linearEarly/100
	tiles = slices.Concat(tiles[longest:], tiles[:longest])
	p.slices, p.tiles = len(p.ints)/sliceInts, len(tiles)
	for _, t := range tiles {
		p.ints = append(p.ints, int32(t.kind), int32(t.n))
	}
	p.ints = append(p.ints, kinds...)
	return p
}

// blockSlices holds the slices along K of one output block. ints are their integers in the plan, length is the length
// of K, coefficient the coefficient that all pairs of the block share. fours reports whether all weights of the block
// start at a multiple of 16 bytes in w.
type blockSlices struct {
	ints        []int32
	length      int
	coefficient float32
	fours       bool
}

func (m mixing) cutSlices(out, length int) blockSlices {
	s := blockSlices{fours: true}
	for i, c := range m.coefficients {
		q := m.pairs[i*pairInts:][:pairInts]
		if int(q[1]) != out {
			continue
		}
		for k := 0; k < int(q[3]); k += length {
			s.ints = append(s.ints, q[0]+int32(k), q[3], q[2]+int32(k)*q[4], min(int32(length), q[3]-int32(k)))
		}
		s.length += int(q[3])
		s.coefficient = c
		s.fours = s.fours && (q[2]|q[4])%4 == 0
	}
	return s
}

// Bind binds the operation for the given number of rows: one launch, or with mul_ir three, two of them transposes.
func (l Linear) Bind(dev device.Device, x, w, out device.Buffer, rows int) (*Bound, error) {
	k := newBinder(dev, "linear", 0)
	k.checkLinear(l, rows)
	k.checkBuffer("x", x, int64(rows)*int64(l.In.Dim()))
	k.checkBuffer("w", w, int64(l.WeightNumel()))
	k.checkBuffer("out", out, int64(rows)*int64(l.Out.Dim()))
	k.b.minimum = rate{fixed: l.totalCost(rows)}
	if l.Layout == IrMul {
		k.addLinear(l, x, w, out, rows)
		return k.finishBinding()
	}
	xt := k.addToIrMul(l.In, x, rows)
	ot := k.allocateScratch(int64(rows) * int64(l.Out.Dim()))
	inner := l
	inner.Accumulate = false
	k.addLinear(inner, xt, w, ot, rows)
	k.addTranspose(Transpose{Irreps: l.Out, ToMulIr: true, Accumulate: l.Accumulate}, ot, out, rows)
	return k.finishBinding()
}

func (k *binder) checkLinear(l Linear, rows int) {
	if err := l.Layout.checkLayout(k.b.name); k.err == nil {
		k.err = err
	}
	k.checkRows(rows)
}

func (k *binder) addLinear(l Linear, x, w, out device.Buffer, rows int) {
	pairs, coefficients := l.pairTable()
	k.addMixing(mixing{l.In, l.Out, pairs, coefficients, l.totalCost(rows), l.Accumulate}, x, w, out, rows)
}

// mixing is the computation of linearKernel: pairs of blocks, each from in to out. The forward pass of a Linear pairs
// its equal irreps; the backward pass swaps in and out. Pairs that end in the same block have the same coefficient.
type mixing struct {
	in, out      so3.Irreps
	pairs        []int32
	coefficients []float32
	cost         gpuprof.Cost
	add          bool
}

func (k *binder) addMixing(m mixing, x, w, out device.Buffer, rows int) {
	p := m.makePlan(rows)
	t, c, cut := k.uploadInts(m.pairs), k.uploadFloats(m.coefficients), k.uploadInts(p.ints)
	work, kernel := items{fixed: rows}, linearKernel
	if k.isTiled() {
		work.fixed, kernel.SharedBytes = p.tiles, p.most
	}
	k.addLaunch(&kernel, work, rate{fixed: m.cost},
		linearArgs{
			x: x, w: w, out: out, table: t, coefficients: c, plan: cut, rows: rows, inDim: m.in.Dim(),
			outDim: m.out.Dim(), pairs: len(m.coefficients), add: m.add, slices: p.slices,
		})
}

// totalCost counts two operations per weight and component, and per pair one product of input and coefficient.
func (l Linear) totalCost(rows int) gpuprof.Cost {
	flops := 0
	table, coefficients := l.pairTable()
	for p := range coefficients {
		t := table[p*pairInts:]
		flops += int(t[5]) * int(t[3]) * (2*int(t[4]) + 1)
	}
	read := rows*l.In.Dim() + l.WeightNumel()
	if l.Accumulate {
		read += rows * l.Out.Dim()
	}
	return Moved(rows*flops, read, rows*l.Out.Dim())
}
