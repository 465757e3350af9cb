package op

import (
	"cmp"
	_ "embed"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

//go:embed linear.ptx.gz
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
// dim, out dim, number of pairs, add, kinds of tiles. A pair is six integers:
// offset in x, in out, in w, mul_in, mul_out, d. One item is one row; on CUDA it
// is one tile (see linearPlan).
var linearKernel = gpuprof.Kernel{Name: "linear", Sig: "bbbbbbiiiiii", Host: linearHost, Grain: 8, PTX: linearPTX, Threads: 128, PerBlock: 1}

const (
	pairInts = 6
	// What a CUDA block is made of: see linear.cu.
	linearThreads = 128
	linearDeep    = 8   // rows of a thread
	linearCopies  = 128 // of a tile, at most
	linearBands   = 42  // threads below each other, at most
	linearSlice   = 16
)

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

// linearPlan is how CUDA cuts a mixing: two integers of every tile, its kind and
// which of that kind it is, then eight of every kind (where its values start in out,
// its copies, first and last+1 of its sources, components, copies of the block, first
// copy, threads beside each other), then eight of every source (offset in x, mul_in,
// offset in w, mul_out, coefficient as bits, 0, 0, 0). A tile adds the pairs that
// end in its block, in their order.
type linearPlan struct {
	ints               []int32
	tiles, kinds, most int // most bytes of shared memory
}

// plan cuts rows rows. The tiles that take longest come first: the rest fills the end.
func (m mixing) plan(rows int) linearPlan {
	var p linearPlan
	var kinds, sources []int32
	type tile struct{ kind, n, length int }
	var tiles []tile
	at := m.out.Offsets()
	for o, block := range m.out {
		if block.Dim() == 0 {
			continue
		}
		first, length := len(sources)/8, 0
		for i, c := range m.coefficients {
			if q := m.pairs[i*pairInts:][:pairInts]; int(q[1]) == at[o] {
				sources = append(sources, q[0], q[3], q[2], q[4], int32(math.Float32bits(c)), 0, 0, 0)
				length += int(q[3])
			}
		}
		// Tiles of a block are alike: 156 copies are two times 80, not 128 and 28.
		width := ceilDiv(ceilDiv(block.Mul, ceilDiv(block.Mul, linearCopies)), 4) * 4
		for v := 0; v < block.Mul; v += width {
			beside := ceilDiv(min(width, block.Mul-v), 4)
			tall := min(linearThreads/beside, linearBands) * linearDeep
			p.most = max(p.most, floatBytes*(linearSlice*(tall+4+4*beside)+2*tall))
			for n := range ceilDiv(rows*block.Ir.Dim(), tall) {
				tiles = append(tiles, tile{p.kinds, n, length})
			}
			kinds = append(kinds, int32(at[o]+v), int32(min(width, block.Mul-v)), int32(first), int32(len(sources)/8),
				int32(block.Ir.Dim()), int32(block.Mul), int32(v), int32(beside))
			p.kinds++
		}
	}
	slices.SortStableFunc(tiles, func(a, b tile) int { return cmp.Compare(b.length, a.length) })
	for _, t := range tiles {
		p.ints = append(p.ints, int32(t.kind), int32(t.n))
	}
	p.tiles = len(tiles)
	p.ints = slices.Concat(p.ints, kinds, sources)
	return p
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
func (l Linear) Bind(dev gpuprof.Device, x, w, out gpuprof.Buffer, rows int) (*Bound, error) {
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

func (k *binder) linear(l Linear, x, w, out gpuprof.Buffer, rows int) {
	pairs, coefficients := l.pairs()
	k.mix(mixing{l.In, l.Out, pairs, coefficients, l.cost(rows), l.Accumulate}, x, w, out, rows)
}

// mixing is what linearKernel computes: pairs of blocks from in to out. Forwards
// they are equal irreps of a Linear, backwards the same from out to in.
type mixing struct {
	in, out      so3.Irreps
	pairs        []int32
	coefficients []float32
	cost         gpuprof.Cost
	add          bool
}

func (k *binder) mix(m mixing, x, w, out gpuprof.Buffer, rows int) {
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
		x, w, out, t, c, cut, rows, m.in.Dim(), m.out.Dim(), len(m.coefficients), add, p.kinds)
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
