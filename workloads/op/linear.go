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

// Linear is e3nn's o3.Linear without biases: every output block is a sum over
// the input blocks of the same irrep,
//
//	x [rows,In.Dim], w [WeightNumel] -> out [rows,Out.Dim]
//	out_wi = sum_blocks sum_u w_uw x_ui / sqrt(fan-in),  fan-in = sum of mul_in
//
// Weights are [mul_in,mul_out] for each pair of equal irreps, pairs ordered by
// input block, then output block. Output blocks without input are 0.
// Accumulate adds to out instead of overwriting it.
type Linear struct {
	In, Out    so3.Irreps
	Layout     Layout
	Accumulate bool
}

// linearKernel works in ir_mul: x, w, out, pairs, coefficients, plan, rows, in
// dim, out dim, number of pairs, add, slices of the plan. A pair is six integers:
// offset in x, in out, in w, mul_in, mul_out, d. One item is one row; on CUDA it
// is one tile (see linearPlan).
var linearKernel = device.Kernel{Name: "linear", Sig: "bbbbbbiiiiii", Host: linearHost, Grain: 8, PTX: linearPTX, Threads: 128, PerBlock: 1}

const (
	pairInts = 6
	// What a CUDA block is made of: see linear.cu.
	linearThreads = 128
	linearDeep    = 8   // rows of a thread
	linearCopies  = 64  // of a tile, at most
	linearTall    = 384 // rows of a tile, at most, rounded up to linearThreads
	linearEarly   = 15  // percent of the tiles, the shortest, that come first
	// Integers of a slice, of a tile and of a kind in the plan.
	sliceInts, tileInts, kindInts = 4, 2, 12
)

// linearShape is a linear_shape in linear.cu: features that a thread reads of a slice, values of a slice and threads beside each other at
// most. Narrow tiles have many rows, so their slices are shorter: what a thread reads of one has to fit its registers.
type linearShape struct{ each, length, beside int }

var linearShapes = [...]linearShape{{9, 16, 16}, {16, 16, 12}, {25, 16, 7}, {32, 16, 4}, {21, 8, 3}}

// shapeOf is the shape of tiles with so many threads beside each other.
func shapeOf(beside int) int {
	for i := len(linearShapes) - 1; ; i-- {
		if beside <= linearShapes[i].beside {
			return i
		}
	}
}

// deep is how many threads a tile has below each other.
func (s linearShape) deep(beside int) int {
	return min(linearThreads/beside, s.rows()/linearDeep)
}

// rows is what a slice has room for.
func (s linearShape) rows() int { return s.each * linearThreads / s.length }

// shared is the bytes of shared memory: four integers of every row and a slice of both sides.
func (s linearShape) shared() int {
	return floatBytes * (4*linearTall + s.length*(s.rows()+4+4*s.beside))
}

// WeightNumel is the number of weights.
func (l Linear) WeightNumel() int {
	n := 0
	for _, a := range l.In {
		n += a.Mul * l.fanOut(a.Ir)
	}
	return n
}

func (l Linear) fanOut(ir so3.Irrep) int { return l.Out.Count(ir) }

// pairs returns the table of equal irreps and their coefficients.
func (l Linear) pairs() (table []int32, coefficients []float32) {
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

// linearPlan is how CUDA cuts a mixing: four integers of every slice along K (offset of component 0 in x, mul_in, offset in w,
// length), two of every tile, its kind and which of that kind it is, then twelve of every kind (where its values start in
// out, its copies, first and last+1 slice, components, copies of the block, first copy, threads beside and below each other,
// shape, coefficient as bits, 1 where weights are read by fours). A tile adds the pairs that end in its block, in their order.
type linearPlan struct {
	ints                       []int32
	slices, tiles, kinds, most int // most bytes of shared memory
}

// plan cuts rows rows. The tiles that take longest come first, so that short ones fill the end. But some of the short
// ones come before them: their multiprocessors are the first with room for another tile, one each, where the last tiles
// would else go two at a time to whoever ends.
func (m mixing) plan(rows int) linearPlan {
	var p linearPlan
	var kinds []int32
	type tile struct{ kind, n, length int }
	var tiles []tile
	at := m.out.Offsets()
	for o, block := range m.out {
		if block.Dim() == 0 {
			continue
		}
		// Tiles of a block are alike: 156 copies are three times 52, not 64, 64 and 28.
		width := ceilDiv(ceilDiv(block.Mul, ceilDiv(block.Mul, linearCopies)), 4) * 4
		shape := shapeOf(width / 4)
		first := len(p.ints) / sliceInts
		s := m.slices(at[o], linearShapes[shape].length)
		p.ints = append(p.ints, s.ints...)
		for v := 0; v < block.Mul; v += width {
			copies := min(width, block.Mul-v)
			beside := ceilDiv(copies, 4)
			deep := linearShapes[shape].deep(beside)
			p.most = max(p.most, linearShapes[shape].shared())
			for n := range ceilDiv(rows*block.Ir.Dim(), deep*linearDeep) {
				tiles = append(tiles, tile{p.kinds, n, s.length})
			}
			fours := int32(0)
			if s.fours && copies%4 == 0 {
				fours = 1
			}
			kinds = append(kinds, int32(at[o]+v), int32(copies), int32(first), int32(len(p.ints)/sliceInts), int32(block.Ir.Dim()),
				int32(block.Mul), int32(v), int32(beside), int32(deep), int32(shape), int32(math.Float32bits(s.coefficient)), fours)
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

// blockSlices is K of an output block, cut: the plan's integers, K, the one coefficient of pairs of an irrep, and whether
// all its weights start on 16 bytes of w.
type blockSlices struct {
	ints        []int32
	length      int
	coefficient float32
	fours       bool
}

func (m mixing) slices(out, length int) blockSlices {
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

// Scratch is the bytes Bind allocates: tables, and for mul_ir transposed copies
// of both sides.
func (l Linear) Scratch(rows int) int64 {
	pairs, coefficients := l.pairs()
	n := mixing{in: l.In, out: l.Out, pairs: pairs, coefficients: coefficients}.scratch(rows)
	if l.Layout == MulIr {
		n += (max(int64(rows)*int64(l.In.Dim()), 1) + max(int64(rows)*int64(l.Out.Dim()), 1)) * floatBytes
		n += Transpose{Irreps: l.In}.transposeScratch() + Transpose{Irreps: l.Out}.transposeScratch()
	}
	return n
}

// Bind binds the operation to rows rows; one launch, with mul_ir three.
func (l Linear) Bind(dev device.Device, x, w, out device.Buffer, rows int) (*Bound, error) {
	k := newBinder(dev, "linear", 0)
	if err := l.Layout.check("linear"); err != nil && k.err == nil {
		k.err = err
	}
	if rows < 0 {
		k.usage("use 0 or more", "the number of rows %d is negative", rows)
	}
	k.want("x", x, int64(rows)*int64(l.In.Dim()))
	k.want("w", w, int64(l.WeightNumel()))
	k.want("out", out, int64(rows)*int64(l.Out.Dim()))
	k.b.minimum = rate{fixed: l.cost(rows)}
	if l.Layout == IrMul {
		k.linear(l, x, w, out, rows)
		return k.done()
	}
	xt := k.scratch(int64(rows) * int64(l.In.Dim()))
	ot := k.scratch(int64(rows) * int64(l.Out.Dim()))
	k.transpose(Transpose{Irreps: l.In}, x, xt, rows)
	inner := l
	inner.Accumulate = false
	k.linear(inner, xt, w, ot, rows)
	k.transpose(Transpose{Irreps: l.Out, ToMulIr: true, Accumulate: l.Accumulate}, ot, out, rows)
	return k.done()
}

func (k *binder) linear(l Linear, x, w, out device.Buffer, rows int) {
	pairs, coefficients := l.pairs()
	k.mix(mixing{l.In, l.Out, pairs, coefficients, l.cost(rows), l.Accumulate}, x, w, out, rows)
}

// mixing is what linearKernel computes: pairs of blocks from in to out. Forwards
// they are equal irreps of a Linear, backwards the same from out to in. Pairs that
// end in the same block have the same coefficient.
type mixing struct {
	in, out      so3.Irreps
	pairs        []int32
	coefficients []float32
	cost         gpuprof.Cost
	add          bool
}

func (k *binder) mix(m mixing, x, w, out device.Buffer, rows int) {
	add := 0
	if m.add {
		add = 1
	}
	p := m.plan(rows)
	t, c, cut := k.uploadInts(m.pairs), k.uploadFloats(m.coefficients), k.uploadInts(p.ints)
	work, kernel := items{fixed: rows}, linearKernel
	if k.tiled() {
		work.fixed, kernel.SharedBytes = p.tiles, p.most
	}
	k.launch(&kernel, work, rate{fixed: m.cost},
		x, w, out, t, c, cut, rows, m.in.Dim(), m.out.Dim(), len(m.coefficients), add, p.slices)
}

// scratch is the bytes of the tables.
func (m mixing) scratch(rows int) int64 {
	return (max(int64(len(m.pairs)), 1) + max(int64(len(m.coefficients)), 1) + max(int64(len(m.plan(rows).ints)), 1)) * floatBytes
}

// cost: a multiplication and an addition a weight and component, and the
// coefficient once an input value of every pair.
func (l Linear) cost(rows int) gpuprof.Cost {
	flops := 0
	table, coefficients := l.pairs()
	for p := range coefficients {
		t := table[p*pairInts:]
		flops += int(t[5]) * int(t[3]) * (2*int(t[4]) + 1)
	}
	read := rows*l.In.Dim() + l.WeightNumel()
	if l.Accumulate {
		read += rows * l.Out.Dim()
	}
	return move(rows*flops, read, rows*l.Out.Dim())
}
