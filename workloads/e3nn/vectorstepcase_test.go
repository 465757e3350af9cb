package e3nn

import (
	"errors"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/optim"
)

// stepCase holds the fields of a case of kind train_step besides the network's: the targets of the rows, and the
// parameters after the step.
type stepCase struct {
	Target array            `json:"target"`
	Rate   float64          `json:"lr"`
	Clip   float64          `json:"clip"`
	Loss   *float64         `json:"loss"`
	Grads  map[string]array `json:"grads"`
	After  map[string]array `json:"parameters_after"`
}

// stepNames returns the names of a network's parameters in the order of the optimizer.
func stepNames() []string { return []string{"x", "w1", "w2", "mix", "readout"} }

// stepResult is a step's loss, and by stepNames the gradients before clipping and the
// parameters behind it.
type stepResult struct {
	loss         float64
	grads, after [][]float64
}

// trainStep compares the loss, the gradients of all parameters and the parameters after clipping and a step of Adam.
func (v *vectorRunner) trainStep(c *networkCase) ([]gpuprof.CaseResult, error) {
	n, err := c.newNetwork()
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
	if err := checkLength("target", c.Target, n.atoms); err != nil {
		return err
	}
	for i, p := range n.parameters() {
		name := stepNames()[i]
		if err := checkLength("grads "+name, c.Grads[name], len(p)); err != nil {
			return err
		}
		if err := checkLength("parameters_after "+name, c.After[name], len(p)); err != nil {
			return err
		}
	}
	return nil
}

// parameters returns the parameters of the case in the order of stepNames.
func (n *network) parameters() []array {
	c := n.c
	return []array{c.X, c.W1, c.W2, c.Mix, c.Readout}
}

// refStep computes the step in float64.
func (n *network) refStep() (out stepResult, err error) {
	for _, p := range n.parameters() {
		out.grads = append(out.grads, make([]float64, len(p)))
	}
	net, in := n.refNet(), n.layer.In.Dim()
	for r := range n.atoms {
		row, g := refRow{}, &refGrads{w1: out.grads[1], w2: out.grads[2], mix: out.grads[3], readout: out.grads[4]}
		for e := n.rowptr[r]; e < n.rowptr[r+1]; e++ {
			at := int(n.src[e]) * in
			row.vec, row.x, g.x = append(row.vec, n.edgeVector(int(e))), append(row.x, n.c.X[at:at+in]), append(g.x, out.grads[0][at:at+in])
		}
		err := net.addRow(row, &refSums{grads: g, pull: func(rho float64) float64 {
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
	mem := op.Arena{Dev: v.dev}
	defer func() { err = errors.Join(err, mem.Free()) }()
	step := optim.StepOf(optim.Settings{Optimizer: optim.Fused, Rate: n.c.Rate, Clip: n.c.Clip})
	var params []optim.Param
	var bufs []device.Buffer
	for i, p := range n.parameters() {
		bufs = append(bufs, v.upload(&mem, p))
		params = append(params, optim.Param{Name: stepNames()[i], Values: op.As[float32](p), P: bufs[i]})
	}
	if err := errors.Join(mem.Err, step.Open(&mem, v.stream, params)); err != nil {
		return out, err
	}
	d := n.bindForward(v, &mem, bufs)
	defer func() { err = errors.Join(err, d.close()) }()
	loss := d.bindStep(&step)
	if err := errors.Join(d.err, mem.Err); err != nil {
		return out, err
	}
	return d.run(&step, loss)
}

// bindStep binds the loss and the backward pass to the gradients of the parameters.
func (d *deviceNet) bindStep(step *optim.Step) (loss device.Buffer) {
	e, dev := len(d.src), d.v.dev
	drho, losses := d.newWords(d.atoms), d.newWords(d.atoms)
	loss = d.newWords(1)
	d.addBound(op.Residual{Rows: d.atoms}.Bind(dev, d.rho, d.v.upload(d.mem, d.c.Target), drho, losses))
	d.addBound(op.Sum{N: d.atoms}.Bind(dev, losses, loss))
	d.bindBack(drho, step.Grad(0))
	d.addBound(op.MLPWeightGrad{MLP: d.mlp}.Bind(dev, d.radial, d.da, d.h, d.dw, step.Grad(1), step.Grad(2), e))
	d.addBound(op.LinearWeightGrad{Linear: d.layer.Linear}.Bind(dev, d.mid, d.dpre, step.Grad(3), d.atoms))
	d.addBound(d.readout().BindWeightGrad(dev, drho, d.out, step.Grad(4), d.atoms))
	return loss
}

// run enqueues all, reads the gradients, and then takes the optimizer's step.
func (d *deviceNet) run(step *optim.Step, loss device.Buffer) (out stepResult, err error) {
	read := func(b device.Buffer) []float64 {
		got, failed := op.Receive(d.v.dev, d.v.stream, b, 0, b.Len()/4)
		err = errors.Join(err, failed)
		return op.As[float64](got)
	}
	for _, b := range d.ops {
		err = errors.Join(err, b.Enqueue(d.v.stream))
	}
	if err != nil {
		return out, err
	}
	for i := range step.Params() {
		out.grads = append(out.grads, read(step.Grad(i)))
	}
	if got := read(loss); len(got) == 1 {
		out.loss = got[0]
	}
	parts, failed := step.Bind()
	err = errors.Join(err, failed)
	for _, p := range parts {
		if p.Ops == nil {
			continue
		}
		d.ops = append(d.ops, p.Ops)
		if err == nil {
			err = p.Ops.Enqueue(d.v.stream)
		}
	}
	for _, p := range step.Params() {
		out.after = append(out.after, read(p.P))
	}
	return out, err
}
