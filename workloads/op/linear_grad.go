package op

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// LinearGrad is the backward pass of a Linear with respect to its input. It runs linearKernel on transposed weights. A
// separate launch transposes the weights in every step, because training changes them:
//
//	dout [rows,Out.Dim], w [WeightNumel] -> dx [rows,In.Dim]
//	dx_ui = sum_w w_uw dout_wi / sqrt(fan-in)
type LinearGrad struct{ Linear Linear }

// transposedMixing returns the mixing from Out to In, and the weight matrices to transpose.
func (g LinearGrad) transposedMixing(rows int) (mixing, []matrix) {
	l := g.Linear
	pairs, coefficients := l.pairTable()
	m := mixing{in: l.Out, out: l.In, coefficients: coefficients, cost: g.totalCost(rows)}
	var all []matrix
	for p := range coefficients {
		q := pairs[p*pairInts:][:pairInts]
		m.pairs = append(m.pairs, q[1], q[0], q[2], q[4], q[3], q[5])
		all = append(all, matrix{int(q[2]), int(q[3]), int(q[4])})
	}
	return m, all
}

// Bind binds the operation for the given number of rows.
func (g LinearGrad) Bind(dev device.Device, dout, w, dx device.Buffer, rows int) (*Bound, error) {
	l := g.Linear
	k := newBinder(dev, "linear backwards", 0)
	k.checkLinear(l, rows)
	in, out := int64(rows)*int64(l.In.Dim()), int64(rows)*int64(l.Out.Dim())
	k.checkBuffer("dout", dout, out)
	k.checkBuffer("w", w, int64(l.WeightNumel()))
	k.checkBuffer("dx", dx, in)
	m, all := g.transposedMixing(rows)
	k.b.minimum = rate{fixed: m.cost}
	turned := k.addFlip(w, all...)
	if l.Layout == IrMul {
		k.addMixing(m, dout, turned, dx, rows)
		return k.finishBinding()
	}
	from, to := k.addToIrMul(l.Out, dout, rows), k.allocateScratch(in)
	k.addMixing(m, from, turned, to, rows)
	k.addTranspose(Transpose{Irreps: l.In, ToMulIr: true}, to, dx, rows)
	return k.finishBinding()
}

func (g LinearGrad) totalCost(rows int) gpuprof.Cost {
	flops := 0
	pairs, coefficients := g.Linear.pairTable()
	for p := range coefficients {
		t := pairs[p*pairInts:]
		flops += int(t[5]) * int(t[4]) * (2*int(t[3]) + 1)
	}
	return Moved(rows*flops, rows*g.Linear.Out.Dim()+g.Linear.WeightNumel(), rows*g.Linear.In.Dim())
}
