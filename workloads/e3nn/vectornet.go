package e3nn

import (
	"errors"
	"math"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// deviceNet is a case's network while it is bound to a device. hidden is the hidden layer before its activation
// and h after it; rho is every row's value, drho the gradient by it.
type deviceNet struct {
	*network
	v   *vectorRunner
	mem *op.Arena
	ops []*op.Bound
	err error

	product                                 op.TensorProduct
	at, x, w1, w2, mix, factors             device.Buffer
	srcs, dsts, rows, columns, order        device.Buffer
	radial, y, hidden, h, w, mid, pre, out  device.Buffer
	rho, drho                               device.Buffer
	dout, dpre, dmid, dw, dy, dh, da, dbase device.Buffer
}

// keep takes what an operation was bound to.
func (d *deviceNet) keep(b *op.Bound, err error) {
	if err == nil {
		d.ops = append(d.ops, b)
	} else if d.err == nil {
		d.err = err
	}
}

// words is memory for so many values.
func (d *deviceNet) words(n int) device.Buffer {
	return d.mem.Words("values", int64(n), device.OnDevice)
}

// close takes back what was bound.
func (d *deviceNet) close() (err error) {
	for _, b := range d.ops {
		err = errors.Join(err, b.Close())
	}
	return err
}

// there binds the network with parameters in the order of stepNames up to every row's value.
func (n *network) there(v *vectorRunner, mem *op.Arena, params []device.Buffer) *deviceNet {
	d := &deviceNet{network: n, v: v, mem: mem, x: params[0], w1: params[1], w2: params[2], mix: params[3], factors: params[4],
		product: op.TensorProduct{TP: n.layer.TP, Impl: op.ImplCSR, Layout: op.MulIr, Scale: float32(1 / math.Sqrt(neighbours))}}
	l, e := n.layer, len(n.src)
	var vec []float64
	for i := range e {
		vec = append(vec, n.vec(i, n.c.Positions)...)
	}
	d.at, d.srcs, d.dsts, d.rows, d.columns, d.order = v.up(mem, vec), v.index(mem, n.src), v.index(mem, n.dst), v.index(mem, n.rowptr), v.index(mem, n.colptr), v.index(mem, n.perm)
	d.radial, d.y, d.hidden, d.h, d.w = d.words(e*n.basis.N), d.words(e*n.sph.Dim()), d.words(e*n.mlp.Hidden), d.words(e*n.mlp.Hidden), d.words(e*n.mlp.Out)
	d.mid, d.pre, d.out, d.rho = d.words(n.atoms*l.TP.Out.Dim()), d.words(n.atoms*l.Linear.Out.Dim()), d.words(n.atoms*l.Out.Dim()), d.words(n.atoms)
	d.keep(n.basis.Bind(v.dev, d.at, d.radial, e))
	d.keep(n.sph.Bind(v.dev, d.at, d.y, e))
	d.keep(n.mlp.BindKept(v.dev, d.radial, d.w1, d.w2, d.hidden, d.h, d.w, e))
	sum, _, err := d.product.Bind(v.dev, op.TPBuffers{X: d.x, Y: d.y, W: d.w, Src: d.srcs, Dst: d.dsts, RowPtr: d.rows, Out: d.mid}, n.atoms, n.atoms, e)
	d.keep(sum, err)
	d.keep(l.Linear.Bind(v.dev, d.mid, d.mix, d.pre, n.atoms))
	d.keep(l.Gate.Bind(v.dev, d.pre, d.out, n.atoms))
	d.keep(n.readout().Bind(v.dev, d.out, d.factors, d.rho, n.atoms))
	return d
}

// back binds the way back from drho to harmonics and radial functions, and to the features where dx is given.
func (d *deviceNet) back(drho, dx device.Buffer) {
	l, e, dev := d.layer, len(d.src), d.v.dev
	d.drho, d.dout, d.dpre, d.dmid = drho, d.words(d.atoms*l.Out.Dim()), d.words(d.atoms*l.Linear.Out.Dim()), d.words(d.atoms*l.TP.Out.Dim())
	d.dw, d.dy, d.dh, d.da, d.dbase = d.words(e*d.mlp.Out), d.words(e*d.sph.Dim()), d.words(e*d.mlp.Hidden), d.words(e*d.mlp.Hidden), d.words(e*d.basis.N)
	d.keep(d.readout().BindGrad(dev, drho, d.factors, d.dout, d.atoms))
	d.keep(op.GateGrad{Gate: l.Gate}.Bind(dev, d.pre, d.dout, d.dpre, d.atoms))
	d.keep(op.LinearGrad{Linear: l.Linear}.Bind(dev, d.dpre, d.mix, d.dmid, d.atoms))
	bufs := op.TPGradBuffers{X: d.x, Y: d.y, W: d.w, DOut: d.dmid, Src: d.srcs, Dst: d.dsts, DY: d.dy, DW: d.dw, DX: dx}
	if dx != nil {
		bufs.ColPtr, bufs.Perm = d.columns, d.order
	}
	d.keep(op.TensorProductGrad{Product: d.product}.Bind(dev, bufs, d.atoms, d.atoms, e))
	d.keep(op.MLPGrad{MLP: d.mlp}.Bind(dev, op.MLPGradBuffers{A: d.hidden, W1: d.w1, W2: d.w2, DW: d.dw, DH: d.dh, DA: d.da, DB: d.dbase}, e))
}
