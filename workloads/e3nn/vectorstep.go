package e3nn

import (
	"errors"
	"math"
	"slices"
	"strconv"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/optim"
)

// stepCase is what a case of kind train_step has besides those of a network: the targets of
// the rows, and what a step made of the parameters.
type stepCase struct {
	Target array            `json:"target"`
	Rate   float64          `json:"lr"`
	Clip   float64          `json:"clip"`
	Loss   *float64         `json:"loss"`
	Grads  map[string]array `json:"grads"`
	After  map[string]array `json:"parameters_after"`
}

// stepNames are the parameters of a network in the order of the optimizer.
func stepNames() []string { return []string{"x", "w1", "w2", "mix", "readout"} }

// stepResult is a step's loss, and by stepNames the gradients before clipping and the
// parameters behind it.
type stepResult struct {
	loss         float64
	grads, after [][]float64
}

// trainStep compares the loss, the gradients of all parameters and the parameters behind
// clipping and a step of Adam.
func (v *vectorRunner) trainStep(c *vectorCase) ([]gpuprof.CaseResult, error) {
	n, err := c.network()
	if err != nil {
		return nil, err
	}
	if err := n.checkStep(); err != nil {
		return nil, err
	}
	wide, err := n.refStep()
	if err != nil {
		return nil, err
	}
	narrow, err := n.stepOn(v)
	if err != nil {
		return nil, err
	}
	var out []gpuprof.CaseResult
	for _, r := range []struct {
		of        stepResult
		precision string
		tolerance float64
	}{{wide, "float64", loop.Tolerance64}, {narrow, "float32", forcesTolerance}} {
		res := gpuprof.CaseResult{Precision: r.precision, Tolerance: r.tolerance, RelativeError: result64([]float64{r.of.loss}, array{*c.Loss}).RelativeError}
		for i, name := range stepNames() {
			for _, e := range []gpuprof.Number{result64(r.of.grads[i], c.Grads[name]).RelativeError, result64(r.of.after[i], c.After[name]).RelativeError} {
				if op.Worse(res.RelativeError, e) {
					res.RelativeError = e
				}
			}
		}
		out = append(out, res)
	}
	return out, nil
}

// checkStep compares the arrays of a step with the network's.
func (n *network) checkStep() error {
	c := n.c
	if c.Loss == nil || !(c.Rate > 0 && c.Rate <= 10) || !(c.Clip > 0 && c.Clip <= 1e6) {
		return gpuprof.Errorf(nil, "lr is %g and clip %g", c.Rate, c.Clip).WithFix("give loss, lr above 0 up to 10 and clip above 0 up to 1e6")
	}
	if err := wants("target", c.Target, n.atoms); err != nil {
		return err
	}
	for i, p := range n.parameters() {
		name := stepNames()[i]
		if err := wants("grads "+name, c.Grads[name], len(p)); err != nil {
			return err
		}
		if err := wants("parameters_after "+name, c.After[name], len(p)); err != nil {
			return err
		}
	}
	return nil
}

// parameters are those of the case by stepNames.
func (n *network) parameters() []array {
	c := n.c
	return []array{c.X, c.W1, c.W2, c.Mix, c.Readout}
}

// refStep is the step in float64.
func (n *network) refStep() (out stepResult, err error) {
	for _, p := range n.parameters() {
		out.grads = append(out.grads, make([]float64, len(p)))
	}
	net, in := n.refNet(), n.layer.In.Dim()
	for r := range n.atoms {
		row, g := refRow{}, &refGrads{w1: out.grads[1], w2: out.grads[2], mix: out.grads[3], readout: out.grads[4]}
		for e := n.rowptr[r]; e < n.rowptr[r+1]; e++ {
			at := int(n.src[e]) * in
			row.vec, row.x, g.x = append(row.vec, n.vec(int(e), n.c.Positions)), append(row.x, n.c.X[at:at+in]), append(g.x, out.grads[0][at:at+in])
		}
		err := net.row(row, &refSums{first: g, pull: func(rho float64) float64 {
			off := rho - n.c.Target[r]
			out.loss += off * off / 2 / float64(n.atoms)
			return off / float64(n.atoms)
		}})
		if err != nil {
			return out, err
		}
	}
	factor := optim.RefClip(n.c.Clip, out.grads...)
	for i, p := range n.parameters() {
		cut, after := make([]float64, len(p)), slices.Clone(p)
		for k, g := range out.grads[i] {
			cut[k] = factor * g
		}
		optim.RefAdam(n.c.Rate, 1, after, cut, make([]float64, len(p)), make([]float64, len(p)))
		out.after = append(out.after, after)
	}
	return out, nil
}

// stepOn runs the step on the device by the operations of the workload.
func (n *network) stepOn(v *vectorRunner) (out stepResult, err error) {
	s := &deviceStep{v: v, mem: op.Arena{Dev: v.dev}}
	defer func() {
		for _, b := range s.ops {
			err = errors.Join(err, b.Close())
		}
		err = errors.Join(err, s.mem.Free())
	}()
	s.step = optim.StepOf(gpuprof.Settings{"optimizer": optim.Fused, "lr": strconv.FormatFloat(n.c.Rate, 'g', -1, 64), "clip": strconv.FormatFloat(n.c.Clip, 'g', -1, 64)})
	var params []optim.Param
	for i, p := range n.parameters() {
		params = append(params, optim.Param{Name: stepNames()[i], Values: op.As[float32](p), P: v.up(&s.mem, p)})
	}
	if err := errors.Join(s.mem.Err, s.step.Open(&s.mem, v.stream, params)); err != nil {
		return out, err
	}
	n.bindStep(s, params)
	if err := errors.Join(s.err, s.mem.Err); err != nil {
		return out, err
	}
	return s.run(len(params))
}

// deviceStep is a step on the device while it is bound and run.
type deviceStep struct {
	v    *vectorRunner
	mem  op.Arena
	step optim.Step
	ops  []*op.Bound
	err  error
	loss gpuprof.Buffer
}

// keep takes what an operation was bound to.
func (s *deviceStep) keep(b *op.Bound, err error) {
	if err == nil {
		s.ops = append(s.ops, b)
	} else if s.err == nil {
		s.err = err
	}
}

func (s *deviceStep) words(n int) gpuprof.Buffer {
	return s.mem.Words("values", int64(n), gpuprof.OnDevice)
}

// bindStep binds the network there and back to the gradients of its parameters.
func (n *network) bindStep(s *deviceStep, params []optim.Param) {
	l, e, dev, up := n.layer, len(n.src), s.v.dev, func(x []float64) gpuprof.Buffer { return s.v.up(&s.mem, x) }
	index := func(x []int32) gpuprof.Buffer { return s.v.index(&s.mem, x) }
	x, w1, w2, mix, readout := params[0].P, params[1].P, params[2].P, params[3].P, params[4].P
	var vec []float64
	for i := range e {
		vec = append(vec, n.vec(i, n.c.Positions)...)
	}
	at, src, dst, rowptr, colptr, perm := up(vec), index(n.src), index(n.dst), index(n.rowptr), index(n.colptr), index(n.perm)
	basis, y, hidden, h, w := s.words(e*n.basis.N), s.words(e*n.sph.Dim()), s.words(e*n.mlp.Hidden), s.words(e*n.mlp.Hidden), s.words(e*n.mlp.Out)
	mid, pre, out, rho := s.words(n.atoms*l.TP.Out.Dim()), s.words(n.atoms*l.Linear.Out.Dim()), s.words(n.atoms*l.Out.Dim()), s.words(n.atoms)
	product := op.TensorProduct{TP: l.TP, Impl: op.ImplCSR, Layout: op.MulIr, Scale: float32(1 / math.Sqrt(neighbours))}
	s.keep(n.basis.Bind(dev, at, basis, e))
	s.keep(n.sph.Bind(dev, at, y, e))
	s.keep(n.mlp.BindKept(dev, basis, w1, w2, hidden, h, w, e))
	sum, _, err := product.Bind(dev, op.TPBuffers{X: x, Y: y, W: w, Src: src, Dst: dst, RowPtr: rowptr, Out: mid}, n.atoms, n.atoms, e)
	s.keep(sum, err)
	s.keep(l.Linear.Bind(dev, mid, mix, pre, n.atoms))
	s.keep(l.Gate.Bind(dev, pre, out, n.atoms))
	s.keep(n.readout().Bind(dev, out, readout, rho, n.atoms))

	drho, losses := s.words(n.atoms), s.words(n.atoms)
	s.loss = s.words(1)
	s.keep(op.Residual{Rows: n.atoms}.Bind(dev, rho, up(n.c.Target), drho, losses))
	s.keep(op.Sum{N: n.atoms}.Bind(dev, losses, s.loss))
	dout, dpre, dmid, dw, dy := s.words(n.atoms*l.Out.Dim()), s.words(n.atoms*l.Linear.Out.Dim()), s.words(n.atoms*l.TP.Out.Dim()), s.words(e*n.mlp.Out), s.words(e*n.sph.Dim())
	da, db := s.words(e*n.mlp.Hidden), s.words(e*n.basis.N)
	s.keep(n.readout().BindGrad(dev, drho, readout, dout, n.atoms))
	s.keep(op.GateGrad{Gate: l.Gate}.Bind(dev, pre, dout, dpre, n.atoms))
	s.keep(op.LinearGrad{Linear: l.Linear}.Bind(dev, dpre, mix, dmid, n.atoms))
	s.keep(op.TensorProductGrad{Product: product}.Bind(dev, op.TPGradBuffers{X: x, Y: y, W: w, DOut: dmid, Src: src, Dst: dst, ColPtr: colptr, Perm: perm, DX: s.step.Grad(0), DY: dy, DW: dw}, n.atoms, n.atoms, e))
	s.keep(op.MLPGrad{MLP: n.mlp}.Bind(dev, op.MLPGradBuffers{A: hidden, W1: w1, W2: w2, DW: dw, DA: da, DB: db}, e))
	s.keep(op.MLPWeightGrad{MLP: n.mlp}.Bind(dev, basis, da, h, dw, s.step.Grad(1), s.step.Grad(2), e))
	s.keep(op.LinearWeightGrad{Linear: l.Linear}.Bind(dev, mid, dpre, s.step.Grad(3), n.atoms))
	s.keep(n.readout().BindWeightGrad(dev, drho, out, s.step.Grad(4), n.atoms))
}

// run enqueues all, reads the gradients, and then takes the optimizer's step.
func (s *deviceStep) run(params int) (out stepResult, err error) {
	read := func(b gpuprof.Buffer) []float64 {
		got, failed := op.Receive(s.v.dev, s.v.stream, b, 0, b.Len()/4)
		err = errors.Join(err, failed)
		return op.As[float64](got)
	}
	for _, b := range s.ops {
		err = errors.Join(err, b.Enqueue(s.v.stream))
	}
	if err != nil {
		return out, err
	}
	for i := range params {
		out.grads = append(out.grads, read(s.step.Grad(i)))
	}
	out.loss = read(s.loss)[0]
	parts, failed := s.step.Bind()
	err = errors.Join(err, failed)
	for _, p := range parts {
		if p.Ops == nil {
			continue
		}
		s.ops = append(s.ops, p.Ops)
		if err == nil {
			err = p.Ops.Enqueue(s.v.stream)
		}
	}
	for _, p := range s.step.Params() {
		out.after = append(out.after, read(p.P))
	}
	return out, err
}
