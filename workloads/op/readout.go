package op

import (
	_ "embed"

	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed readout.ptx.zst
var readoutPTX string

// Readout computes one value per row, a weighted sum of Count values from column First on. The backward pass
// distributes the value's cotangent to these columns:
//
//	x [rows,Width], a [Count] -> rho [rows] = sum_u a_u x_{First+u}, added to rho with Add
//	drho [rows], a -> dx [rows,Width] = drho a_u at First+u, 0 elsewhere
type Readout struct {
	Width, First, Count int
	Add                 bool
}

// One item of either kernel is one row.
var (
	readoutKernel     = device.Typed[readoutArgs](device.Kernel{Name: "readout", Host: readoutHost, Grain: 64, PTX: readoutPTX, Threads: 128, PerBlock: 4})
	readoutGradKernel = device.Typed[readoutGradArgs](device.Kernel{Name: "readout_grad", Host: readoutGradHost, Grain: 64, PTX: readoutPTX, Threads: 128, PerBlock: 4})
)

func (k *binder) checkReadout(r Readout, rows int) {
	k.checkRows(rows)
	if r.Count < 0 || r.First < 0 || r.First+r.Count > r.Width {
		k.failUsage("use values of the row", "%d values from %d on are read of a row of %d", r.Count, r.First, r.Width)
	}
}

// Bind binds the sum for the given number of rows.
func (r Readout) Bind(dev device.Device, x, a, rho device.Buffer, rows int) (*Bound, error) {
	k := newBinder(dev, "readout", 0)
	k.checkReadout(r, rows)
	k.checkBuffer("x", x, int64(rows)*int64(r.Width))
	k.checkBuffer("a", a, int64(r.Count))
	k.checkBuffer("rho", rho, int64(rows))
	read := rows*r.Count + r.Count
	if r.Add {
		read += rows
	}
	k.b.minimum = rate{fixed: Moved(2*rows*r.Count, read, rows)}
	k.addLaunch(&readoutKernel, items{fixed: rows}, k.b.minimum, readoutArgs{
		x: x, a: a, rho: rho, count: itemCount, width: r.Width, first: r.First, factors: r.Count, add: r.Add,
	})
	return k.finishBinding()
}

// BindGrad binds the backward pass.
func (r Readout) BindGrad(dev device.Device, drho, a, dx device.Buffer, rows int) (*Bound, error) {
	k := newBinder(dev, "readout backwards", 0)
	k.checkReadout(r, rows)
	k.checkBuffer("drho", drho, int64(rows))
	k.checkBuffer("a", a, int64(r.Count))
	k.checkBuffer("dx", dx, int64(rows)*int64(r.Width))
	k.b.minimum = rate{fixed: Moved(rows*r.Count, rows+r.Count, rows*r.Width)}
	k.addLaunch(&readoutGradKernel, items{fixed: rows}, k.b.minimum, readoutGradArgs{
		drho: drho, a: a, dx: dx, count: itemCount, width: r.Width, first: r.First, factors: r.Count,
	})
	return k.finishBinding()
}

// Residual computes per row a squared error and its gradient. The sum of loss over the rows is half the mean squared
// error:
//
//	rho [Rows], target [Rows] -> drho = (rho - target)/Rows, loss = (rho - target)^2/(2 Rows), both [Rows]
type Residual struct{ Rows int }

// One item of residualKernel is one row.
var residualKernel = device.Typed[residualArgs](device.Kernel{Name: "residual", Host: residualHost, Grain: 1 << 12, PTX: readoutPTX, Threads: 256, PerBlock: 256})

// Bind binds the operation.
func (r Residual) Bind(dev device.Device, rho, target, drho, loss device.Buffer) (*Bound, error) {
	k := newBinder(dev, "squared error", 0)
	k.checkPositive("Rows", r.Rows)
	for name, b := range map[string]device.Buffer{"rho": rho, "target": target, "drho": drho, "loss": loss} {
		k.checkBuffer(name, b, int64(r.Rows))
	}
	k.b.minimum = rate{fixed: Moved(5*r.Rows, 2*r.Rows, 2*r.Rows)}
	k.addLaunch(&residualKernel, items{fixed: r.Rows}, k.b.minimum, residualArgs{
		rho: rho, target: target, drho: drho, loss: loss, count: itemCount, scale: 1 / float32(max(r.Rows, 1)),
	})
	return k.finishBinding()
}

// Sum adds N values in fp64 in a fixed order: chunks of sumChunk values first, then the sums of the chunks.
type Sum struct{ N int }

const sumChunk = 4096

// One item of sumKernel is one chunk; on CUDA a block computes it.
var sumKernel = device.Typed[sumArgs](device.Kernel{Name: "sum", Host: sumHost, Grain: 1, PTX: readoutPTX, Threads: 256, PerBlock: 1})

// Bind binds the sum of x [N] to out [1].
func (s Sum) Bind(dev device.Device, x, out device.Buffer) (*Bound, error) {
	k := newBinder(dev, "sum", 0)
	k.checkBuffer("x", x, int64(s.N))
	k.checkBuffer("out", out, 1)
	k.b.minimum = rate{fixed: Moved(s.N, s.N, 1).In("fp64", int64(s.N))}
	n := s.N
	for {
		chunks := ceilDiv(max(n, 1), sumChunk)
		to := out
		if chunks > 1 {
			to = k.allocateScratch(int64(chunks))
		}
		k.addLaunch(&sumKernel, items{fixed: chunks}, rate{fixed: Moved(n, n, chunks).In("fp64", int64(n))}, sumArgs{
			x: x, out: to, count: itemCount, values: n,
		})
		if chunks == 1 {
			return k.finishBinding()
		}
		x, n = to, chunks
	}
}
