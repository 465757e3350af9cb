package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
)

// GateTangent is the change of a Gate's output when its input moves:
//
//	x, dx [rows, scalars+gates+gated] -> out [rows, scalars+gated]
//	c phi'(s) ds,  c phi'(g) dg v + c phi(g) dv
type GateTangent struct{ Gate Gate }

// GateSecond is the gradient by x of dout . GateTangent, where dout is constant. Its gradient by dx equals the result
// of GateGrad.
//
//	x, dx [rows, scalars+gates+gated], dout [rows, scalars+gated] -> grad as x
//	gs = c phi''(s) ds dout,  gv = c phi'(g) dg dout
//	gg = c phi''(g) dg sum_i v_i dout_i + c phi'(g) sum_i dv_i dout_i
type GateSecond struct{ Gate Gate }

// Runs, constants and the arguments after them match gateKernel. gateTangentKernel: x, dx, out, runs, constants, n,
// in dim, out dim, number of runs; gateSecondKernel: x, dx, dout, grad and the same. One item is one row.
var (
	gateTangentKernel = device.Typed[gateTangentArgs](device.Kernel{Name: "gate_tangent", Host: gateTangentHost, Grain: 16, PTX: gateGradPTX, Threads: 256, PerBlock: 1})
	gateSecondKernel  = device.Typed[gateSecondArgs](device.Kernel{Name: "gate_second", Host: gateSecondHost, Grain: 16, PTX: gateGradPTX, Threads: 256, PerBlock: 1})
)

// Bind binds the operation to rows rows.
func (g GateTangent) Bind(dev device.Device, x, dx, out device.Buffer, rows int) (*Bound, error) {
	k := newBinder(dev, "change of the gate", 0)
	runs := k.gateRuns(g.Gate, rows)
	in, to := g.Gate.InDim(), g.Gate.OutDim()
	k.checkBuffer("x", x, int64(rows)*int64(in))
	k.checkBuffer("dx", dx, int64(rows)*int64(in))
	k.checkBuffer("out", out, int64(rows)*int64(to))
	table, constants := k.uploadInts(runs.table), k.uploadFloats(runs.constants)
	k.b.minimum = rate{fixed: moveCost(rows*runs.gradFlops(), 2*rows*in, rows*to)}
	k.addLaunch(&gateTangentKernel, items{fixed: rows}, k.b.minimum, gateTangentArgs{
		x: x, dx: dx, out: out, table: table, constants: constants, count: itemCount{}, inDim: in, outDim: to,
		runs: len(runs.constants),
	})
	return k.finishBinding()
}

// Bind binds the operation to rows rows.
func (g GateSecond) Bind(dev device.Device, x, dx, dout, grad device.Buffer, rows int) (*Bound, error) {
	k := newBinder(dev, "gradient of the gate's change", 0)
	runs := k.gateRuns(g.Gate, rows)
	in, out := g.Gate.InDim(), g.Gate.OutDim()
	k.checkBuffer("x", x, int64(rows)*int64(in))
	k.checkBuffer("dx", dx, int64(rows)*int64(in))
	k.checkBuffer("dout", dout, int64(rows)*int64(out))
	k.checkBuffer("grad", grad, int64(rows)*int64(in))
	table, constants := k.uploadInts(runs.table), k.uploadFloats(runs.constants)
	k.b.minimum = rate{fixed: moveCost(rows*runs.secondFlops(), rows*(2*in+out), rows*in)}
	k.addLaunch(&gateSecondKernel, items{fixed: rows}, k.b.minimum, gateSecondArgs{
		x: x, dx: dx, dout: dout, grad: grad, table: table, constants: constants, count: itemCount{}, inDim: in,
		outDim: out, runs: len(runs.constants),
	})
	return k.finishBinding()
}

// secondFlops counts one row: the flops of gradFlops, the second derivative from the same exponential, 4 and its
// product; for every component two terms of sums and a product.
func (r gateRuns) secondFlops() int {
	n := 0
	for i := range r.constants {
		t := r.table[i*runInts:]
		n += int(t[2]) * (activations[t[5]].flops + 10 + 5*int(t[3]))
	}
	return n
}

// Scratch returns the bytes that Bind allocates: the tables.
func (g GateTangent) Scratch() int64 { return GateGrad(g).Scratch() }

// Scratch returns the bytes that Bind allocates: the tables.
func (g GateSecond) Scratch() int64 { return GateGrad(g).Scratch() }
