package op

import (
	_ "embed"

	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed gate_grad.ptx.zst
var gateGradPTX string

// GateGrad is the backward pass of a Gate; Gate defines s, g, v and c:
//
//	x [rows, scalars+gates+gated], dout [rows, scalars+gated] -> dx as x
//	ds = c phi'(s) dout,  dv = c phi(g) dout,  dg = c phi'(g) sum_i v_i dout_i
type GateGrad struct{ Gate Gate }

// An item of gateGradKernel is one row. Host and CUDA kernel both read the table of runs that gateKernel describes.
var gateGradKernel = device.Typed[gateGradArgs](device.Kernel{Name: "gate_grad", Host: gateGradHost, Grain: 16, PTX: gateGradPTX, Threads: 256, PerBlock: 1})

// Bind binds the operation for the given number of rows.
func (g GateGrad) Bind(dev device.Device, x, dout, dx device.Buffer, rows int) (*Bound, error) {
	k := newBinder(dev, "gate backwards", 0)
	runs := k.gateRuns(g.Gate, rows)
	in, out := g.Gate.InDim(), g.Gate.OutDim()
	k.checkBuffer("x", x, int64(rows)*int64(in))
	k.checkBuffer("dout", dout, int64(rows)*int64(out))
	k.checkBuffer("dx", dx, int64(rows)*int64(in))
	table, constants := k.uploadInts(runs.table), k.uploadFloats(runs.constants)
	k.b.minimum = rate{fixed: Moved(rows*runs.gradFlops(), rows*(in+out), rows*in)}
	k.addLaunch(&gateGradKernel, items{fixed: rows}, k.b.minimum, gateGradArgs{
		x: x, dout: dout, dx: dx, table: table, constants: constants, count: itemCount, inDim: in, outDim: out,
		runs: len(runs.constants),
	})
	return k.finishBinding()
}

// gradFlops counts the operations of one row. A scalar or a gate takes an activation and its derivative, which share an
// exponential, and 4 more operations. A component of a gated feature takes one product, and one product and addition
// for the gate's sum.
func (r gateRuns) gradFlops() int {
	n := 0
	for i := range r.constants {
		t := r.table[i*runInts:]
		n += int(t[2]) * (activations[t[5]].flops + 5 + 3*int(t[3]))
	}
	return n
}
