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

	product                                op.TensorProduct
	at, x, w1, w2, mix, factors            device.Buffer
	srcs, dsts, rows, columns, order       device.Buffer
	radial, y, hidden, h, w, mid, pre, out device.Buffer
	rho, drho                              device.Buffer
	dout, dpre, dmid, dw, dy, da, dbase    device.Buffer
}

// addBound appends a bound operation, or keeps the first error.
func (d *deviceNet) addBound(b *op.Bound, err error) {
	if err == nil {
		d.ops = append(d.ops, b)
	} else if d.err == nil {
		d.err = err
	}
}

// newWords allocates memory for n values.
func (d *deviceNet) newWords(n int) device.Buffer {
	return d.mem.Words("values", int64(n), device.OnDevice)
}

// close releases the bound operations.
func (d *deviceNet) close() (err error) {
	for _, b := range d.ops {
		err = errors.Join(err, b.Close())
	}
	return err
}

// bindForward binds the network with parameters in the order of stepNames up to every row's value.
func (n *network) bindForward(v *vectorRunner, mem *op.Arena, params []device.Buffer) *deviceNet {
	d := &deviceNet{network: n, v: v, mem: mem, x: params[0], w1: params[1], w2: params[2], mix: params[3], factors: params[4],
		product: op.TensorProduct{TP: n.layer.TP, Impl: op.ImplCSR, Layout: op.MulIr, Scale: float32(1 / math.Sqrt(neighbours))}}
	l, e := n.layer, len(n.src)
	var vec []float64
	for i := range e {
		vec = append(vec, n.edgeVector(i)...)
	}
	d.at, d.srcs, d.dsts, d.rows, d.columns, d.order = v.upload(mem, vec), v.uploadIndex(mem, n.src), v.uploadIndex(mem, n.dst), v.uploadIndex(mem, n.rowptr), v.uploadIndex(mem, n.colptr), v.uploadIndex(mem, n.perm)
	d.radial, d.y, d.hidden, d.h, d.w = d.newWords(e*n.basis.N), d.newWords(e*n.sph.Dim()), d.newWords(e*n.mlp.Hidden), d.newWords(e*n.mlp.Hidden), d.newWords(e*n.mlp.Out)
	d.mid, d.pre, d.out, d.rho = d.newWords(n.atoms*l.TP.Out.Dim()), d.newWords(n.atoms*l.Linear.Out.Dim()), d.newWords(n.atoms*l.Out.Dim()), d.newWords(n.atoms)
	d.addBound(n.basis.Bind(v.dev, d.at, d.radial, e))
	d.addBound(n.sph.Bind(v.dev, d.at, d.y, e))
	d.addBound(n.mlp.BindKept(v.dev, d.radial, d.w1, d.w2, d.hidden, d.h, d.w, e))
	sum, _, err := d.product.Bind(v.dev, op.TPBuffers{X: d.x, Y: d.y, W: d.w, Src: d.srcs, Dst: d.dsts, RowPtr: d.rows, Out: d.mid}, n.atoms, n.atoms, e)
	d.addBound(sum, err)
	d.addBound(l.Linear.Bind(v.dev, d.mid, d.mix, d.pre, n.atoms))
	d.addBound(l.Gate.Bind(v.dev, d.pre, d.out, n.atoms))
	d.addBound(n.readout().Bind(v.dev, d.out, d.factors, d.rho, n.atoms))
	return d
}

// bindBack binds the backward pass from drho to harmonics and radial functions, and to the features where dx is given.
func (d *deviceNet) bindBack(drho, dx device.Buffer) {
	l, e, dev := d.layer, len(d.src), d.v.dev
	d.drho, d.dout, d.dpre, d.dmid = drho, d.newWords(d.atoms*l.Out.Dim()), d.newWords(d.atoms*l.Linear.Out.Dim()), d.newWords(d.atoms*l.TP.Out.Dim())
	d.dw, d.dy, d.da, d.dbase = d.newWords(e*d.mlp.Out), d.newWords(e*d.sph.Dim()), d.newWords(e*d.mlp.Hidden), d.newWords(e*d.basis.N)
	d.addBound(d.readout().BindGrad(dev, drho, d.factors, d.dout, d.atoms))
	d.addBound(op.GateGrad{Gate: l.Gate}.Bind(dev, d.pre, d.dout, d.dpre, d.atoms))
	d.addBound(op.LinearGrad{Linear: l.Linear}.Bind(dev, d.dpre, d.mix, d.dmid, d.atoms))
	bufs := op.TPGradBuffers{X: d.x, Y: d.y, W: d.w, DOut: d.dmid, Src: d.srcs, Dst: d.dsts, DY: d.dy, DW: d.dw, DX: dx}
	if dx != nil {
		bufs.ColPtr, bufs.Perm = d.columns, d.order
	}
	d.addBound(op.TensorProductGrad{Product: d.product}.Bind(dev, bufs, d.atoms, d.atoms, e))
	d.addBound(op.MLPGrad{MLP: d.mlp}.Bind(dev, op.MLPGradBuffers{A: d.hidden, W1: d.w1, W2: d.w2, DW: d.dw, DA: d.da, DB: d.dbase}, e))
}
