package op

import (
	_ "embed"
	"math"

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

// linearKernel works in ir_mul: x, w, out, pairs, coefficients, tiles, rows, in
// dim, out dim, number of pairs, add, tiles across. A pair is six integers:
// offset in x, in out, in w, mul_in, mul_out, d. One item is one row; on CUDA it
// is one tile of rows and copies (see tiles).
var linearKernel = gpuprof.Kernel{Name: "linear", Sig: "bbbbbbiiiiii", Host: linearHost, Grain: 8, PTX: linearPTX, Threads: 128, PerBlock: 1}

const (
	pairInts = 6
	// A CUDA block computes linearRows rows of linearCopies copies of a component.
	linearRows   = 64
	linearCopies = 32
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

// tiles is the table for CUDA: eight integers for every tile across a row (where
// it starts in out, its copies, first and last+1 of its sources, component,
// first copy, 0, 0), then eight for every source (offset in x, mul_in, offset in
// w, mul_out, coefficient as bits, 0, 0, 0). A tile adds the pairs that end in
// its block, in their order.
func (m mixing) tiles() (table []int32, across int) {
	var sources []int32
	at := m.out.Offsets()
	for o, block := range m.out {
		first := len(sources) / 8
		for p, c := range m.coefficients {
			if q := m.pairs[p*pairInts:][:pairInts]; block.Dim() > 0 && int(q[1]) == at[o] {
				sources = append(sources, q[0], q[3], q[2], q[4], int32(math.Float32bits(c)), 0, 0, 0)
			}
		}
		for i := range block.Ir.Dim() {
			for v := 0; v < block.Mul; v += linearCopies {
				table = append(table, int32(at[o]+i*block.Mul+v), int32(min(linearCopies, block.Mul-v)),
					int32(first), int32(len(sources)/8), int32(i), int32(v), 0, 0)
				across++
			}
		}
	}
	return append(table, sources...), across
}

// Scratch is the bytes Bind allocates: tables, and for mul_ir transposed copies
// of both sides.
func (l Linear) Scratch(rows int) int64 {
	pairs, coefficients := l.pairs()
	n := mixing{in: l.In, out: l.Out, pairs: pairs, coefficients: coefficients}.scratch()
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
	tiles, across := m.tiles()
	t, c, cut := k.uploadInts(m.pairs), k.uploadFloats(m.coefficients), k.uploadInts(tiles)
	work := items{fixed: rows}
	if k.tiled() {
		work = items{fixed: (rows + linearRows - 1) / linearRows, times: across}
	}
	k.launch(&linearKernel, work, rate{fixed: m.cost},
		x, w, out, t, c, cut, rows, m.in.Dim(), m.out.Dim(), len(m.coefficients), add, across)
}

// scratch is the bytes of the tables.
func (m mixing) scratch() int64 {
	tiles, _ := m.tiles()
	return (max(int64(len(m.pairs)), 1) + max(int64(len(m.coefficients)), 1) + max(int64(len(tiles)), 1)) * floatBytes
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
