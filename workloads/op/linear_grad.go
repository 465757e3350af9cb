package op

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// LinearGrad is a Linear backwards, to its input:
//
//	dout [rows,Out.Dim], w [WeightNumel] -> dx [rows,In.Dim]
//	dx_ui = sum_w w_uw dout_wi / sqrt(fan-in)
//
// It is the same kernel over turned weights, which a launch of their own turns
// every time: in training they change from step to step.
type LinearGrad struct{ Linear Linear }

// turned is the mixing from Out back to In, and the matrices of the weights.
func (g LinearGrad) turned(rows int) (mixing, []matrix) {
	l := g.Linear
	pairs, coefficients := l.pairs()
	m := mixing{in: l.Out, out: l.In, coefficients: coefficients, cost: g.cost(rows)}
	var all []matrix
	for p := range coefficients {
		q := pairs[p*pairInts:][:pairInts]
		m.pairs = append(m.pairs, q[1], q[0], q[2], q[4], q[3], q[5])
		all = append(all, matrix{int(q[2]), int(q[3]), int(q[4])})
	}
	return m, all
}

// Bind binds the operation to rows rows.
func (g LinearGrad) Bind(dev device.Device, dout, w, dx device.Buffer, rows int) (*Bound, error) {
	l := g.Linear
	k := newBinder(dev, "linear backwards", 0)
	if err := l.Layout.check("linear backwards"); err != nil && k.err == nil {
		k.err = err
	}
	if rows < 0 {
		k.usage("use 0 or more", "the number of rows %d is negative", rows)
	}
	in, out := int64(rows)*int64(l.In.Dim()), int64(rows)*int64(l.Out.Dim())
	k.want("dout", dout, out)
	k.want("w", w, int64(l.WeightNumel()))
	k.want("dx", dx, in)
	m, all := g.turned(rows)
	k.b.minimum = rate{fixed: m.cost}
	turned := k.flip(w, all...)
	if l.Layout == IrMul {
		k.mix(m, dout, turned, dx, rows)
		return k.done()
	}
	from, to := k.scratch(out), k.scratch(in)
	k.transpose(Transpose{Irreps: l.Out}, dout, from, rows)
	k.mix(m, from, turned, to, rows)
	k.transpose(Transpose{Irreps: l.In, ToMulIr: true}, to, dx, rows)
	return k.done()
}

// Scratch is the bytes Bind allocates: tables, the turned weights, and for mul_ir
// transposed copies of both sides.
func (g LinearGrad) Scratch(rows int) int64 {
	l := g.Linear
	m, all := g.turned(rows)
	n := m.scratch(rows) + flipScratch(all...)
	if l.Layout == MulIr {
		n += (max(int64(rows)*int64(l.In.Dim()), 1) + max(int64(rows)*int64(l.Out.Dim()), 1)) * floatBytes
		n += Transpose{Irreps: l.In}.transposeScratch() + Transpose{Irreps: l.Out}.transposeScratch()
	}
	return n
}

// cost: a multiplication and an addition a weight and component, and the
// coefficient once an input value of every pair.
func (g LinearGrad) cost(rows int) gpuprof.Cost {
	flops := 0
	pairs, coefficients := g.Linear.pairs()
	for p := range coefficients {
		t := pairs[p*pairInts:]
		flops += int(t[5]) * int(t[4]) * (2*int(t[3]) + 1)
	}
	return move(rows*flops, rows*g.Linear.Out.Dim()+g.Linear.WeightNumel(), rows*g.Linear.In.Dim())
}
