package main

import (
	"errors"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/optim"
)

// trainer is a network's training step on a device.
type trainer struct {
	n      *network
	layout op.Layout
	stream device.Stream
	mem    op.Arena
	step   optim.Step
	ops    []*op.Bound // forward and backward of the network
	end    []*op.Bound // clipping and the optimizer
	loss   device.Buffer
	err    error
}

// open binds the training step and uploads the parameters.
func (n *network) open(dev device.Device, layout op.Layout) (t *trainer, err error) {
	t = &trainer{n: n, layout: layout, mem: op.Arena{Dev: dev}}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	if t.stream, err = dev.NewStream("main"); err != nil {
		return nil, err
	}
	n.linear.Layout, n.gate.Layout = layout, layout
	t.step = optim.StepOf(optim.Settings{Optimizer: optim.Fused, Rate: n.Rate, Clip: n.Clip})
	var params []optim.Param
	for i, name := range paramNames() {
		v := n.changeLayout(name, n.params[i], func(dst, src []float32) { op.ToLayout(layout, n.in, dst, src) })
		params = append(params, optim.Param{Name: name, Values: v, P: t.mem.Upload(t.stream, name, v)})
	}
	if err := errors.Join(t.mem.Err, t.step.Open(&t.mem, t.stream, params)); err != nil {
		return nil, err
	}
	t.bindOps(dev)
	parts, err := t.step.Bind()
	for _, p := range parts {
		if p.Ops != nil {
			t.end = append(t.end, p.Ops)
		}
	}
	return t, errors.Join(err, t.err, t.mem.Err)
}

// addOp adds a bound operation, or keeps the first error.
func (t *trainer) addOp(b *op.Bound, err error) {
	if err == nil {
		t.ops = append(t.ops, b)
	} else if t.err == nil {
		t.err = err
	}
}

func (t *trainer) allocFloats(n int) device.Buffer {
	return t.mem.Words("values", int64(n), device.OnDevice)
}

// uploadIndices uploads int32 values as the bits of float32.
func (t *trainer) uploadIndices(v []int32) device.Buffer {
	bits := make([]float32, len(v))
	for i, x := range v {
		bits[i] = math.Float32frombits(uint32(x))
	}
	return t.mem.Upload(t.stream, "indices", bits)
}

// bindOps binds the network's forward and backward. The vectors are inputs, so harmonics and radial functions need
// no gradient.
func (t *trainer) bindOps(dev device.Device) {
	n, e, atoms := t.n, int(t.n.Edges), int(t.n.Atoms)
	param, grad := func(i int) device.Buffer { return t.step.Params()[i].P }, t.step.Grad
	x, w1, w2, mix, readout := param(0), param(1), param(2), param(3), param(4)
	vec, target := t.mem.Upload(t.stream, "vec", n.vec), t.mem.Upload(t.stream, "target", n.target)
	ends, order := op.BySource(n.src, atoms)
	src, dst, rowptr, colptr, perm := t.uploadIndices(n.src), t.uploadIndices(n.dst), t.uploadIndices(rowOffsets(n.dst, n.Atoms)), t.uploadIndices(ends), t.uploadIndices(order)
	basis, y, a, h, w := t.allocFloats(e*n.basis.N), t.allocFloats(e*n.sph.Dim()), t.allocFloats(e*n.mlp.Hidden), t.allocFloats(e*n.mlp.Hidden), t.allocFloats(e*n.mlp.Out)
	mid, pre, out, rho := t.allocFloats(atoms*n.product.Out.Dim()), t.allocFloats(atoms*n.linear.Out.Dim()), t.allocFloats(atoms*n.readout.Width), t.allocFloats(atoms)
	product := op.TensorProduct{TP: n.product, Impl: op.ImplCSR, Layout: t.layout, Scale: float32(1 / math.Sqrt(neighbours))}
	t.addOp(n.basis.Bind(dev, vec, basis, e))
	t.addOp(n.sph.Bind(dev, vec, y, e))
	t.addOp(n.mlp.BindKept(dev, basis, w1, w2, a, h, w, e))
	sum, _, err := product.Bind(dev, op.TPBuffers{X: x, Y: y, W: w, Src: src, Dst: dst, RowPtr: rowptr, Out: mid}, atoms, atoms, e)
	t.addOp(sum, err)
	t.addOp(n.linear.Bind(dev, mid, mix, pre, atoms))
	t.addOp(n.gate.Bind(dev, pre, out, atoms))
	t.addOp(n.readout.Bind(dev, out, readout, rho, atoms))

	drho, losses := t.allocFloats(atoms), t.allocFloats(atoms)
	t.loss = t.allocFloats(1)
	t.addOp(op.Residual{Rows: atoms}.Bind(dev, rho, target, drho, losses))
	t.addOp(op.Sum{N: atoms}.Bind(dev, losses, t.loss))
	dout, dpre, dmid := t.allocFloats(atoms*n.readout.Width), t.allocFloats(atoms*n.linear.Out.Dim()), t.allocFloats(atoms*n.product.Out.Dim())
	dw, da := t.allocFloats(e*n.mlp.Out), t.allocFloats(e*n.mlp.Hidden)
	t.addOp(n.readout.BindGrad(dev, drho, readout, dout, atoms))
	t.addOp(op.GateGrad{Gate: n.gate}.Bind(dev, pre, dout, dpre, atoms))
	t.addOp(op.LinearGrad{Linear: n.linear}.Bind(dev, dpre, mix, dmid, atoms))
	t.addOp(op.TensorProductGrad{Product: product}.Bind(dev, op.TPGradBuffers{X: x, Y: y, W: w, DOut: dmid, Src: src, Dst: dst, ColPtr: colptr, Perm: perm, DX: grad(0), DW: dw}, atoms, atoms, e))
	t.addOp(op.MLPGrad{MLP: n.mlp}.Bind(dev, op.MLPGradBuffers{A: a, W1: w1, W2: w2, DW: dw, DA: da}, e))
	t.addOp(op.MLPWeightGrad{MLP: n.mlp}.Bind(dev, basis, da, h, dw, grad(1), grad(2), e))
	t.addOp(op.LinearWeightGrad{Linear: n.linear}.Bind(dev, mid, dpre, grad(3), atoms))
	t.addOp(n.readout.BindWeightGrad(dev, drho, out, grad(4), atoms))
}

func (t *trainer) enqueueOps(ops []*op.Bound) error {
	for _, b := range ops {
		if err := b.Enqueue(t.stream); err != nil {
			return err
		}
	}
	return nil
}

func (t *trainer) run() error {
	if err := t.enqueueOps(slices.Concat(t.ops, t.end)); err != nil {
		return err
	}
	return t.stream.Sync()
}

// runFirst executes the first step and reads its loss, its gradients before clipping, and the parameters after the
// step.
func (t *trainer) runFirst() (all [][]float32, err error) {
	read := func(name string, b device.Buffer, count int) {
		if err != nil {
			return
		}
		var v []float32
		if v, err = op.Receive(t.mem.Dev, t.stream, b, 0, count); err == nil {
			all = append(all, t.n.changeLayout(name, v, func(dst, src []float32) { op.FromLayout(t.layout, t.n.in, dst, src) }))
		}
	}
	if err := t.enqueueOps(t.ops); err != nil {
		return nil, err
	}
	read("loss", t.loss, 1)
	for i, p := range t.step.Params() {
		read(p.Name, t.step.Grad(i), len(p.Values))
	}
	if err == nil {
		err = t.enqueueOps(t.end)
	}
	for _, p := range t.step.Params() {
		read(p.Name, p.P, len(p.Values))
	}
	return all, err
}

func (t *trainer) close() (err error) {
	for _, b := range slices.Concat(t.ops, t.end) {
		err = errors.Join(err, b.Close())
	}
	return errors.Join(err, t.mem.Free())
}
