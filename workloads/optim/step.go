package optim

import (
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// Param is a parameter: its initial values, and the buffer that holds it.
type Param struct {
	Name   string
	Values []float32
	P      device.Buffer
}

// Step is the end of a training step: it holds the gradients of all parameters, clips them and runs Adam. It also
// provides the launches that prepare the gradients at the beginning of the step.
type Step struct {
	k      Settings
	adam   Adam
	mem    *op.Arena
	params []Param
	grads  []device.Buffer
	found  bool // the host has read that a gradient of this step is not finite
}

// StepOf makes a Step from the knobs.
func StepOf(k Settings) Step {
	scaler := Scaler{Mode: k.Scaler, Growth: growAfter, Weight: 1 / float32(k.Micro())}
	return Step{k: k, adam: Adam{Impl: k.Optimizer, Rate: k.Rate, Limit: k.Clip, scaler: scaler}}
}

// Micro returns the number of micro-batches per step.
func (s *Step) Micro() int { return s.k.Micro() }

// Adds reports whether micro-batch number micro adds its gradients to existing ones instead of overwriting them.
func (s *Step) Adds(micro int) bool { return s.k.Zero == ZeroFill || micro > 0 }

// Scales reports whether the loss is scaled. Then a loss that is not finite does not end the run; its step is skipped.
func (s *Step) Scales() bool { return s.adam.scaler.isOn() }

// ReadsLoss reports whether the host waits for the loss of step i.
func (s *Step) ReadsLoss(i int) bool { return s.k.LossRead > 0 && (i+1)%s.k.LossRead == 0 }

// Reads returns an upper bound of the number of times per step that the host waits for a value.
func (s *Step) Reads() int {
	n := 0
	for _, is := range []bool{s.k.readsNorm(), s.k.readsFound(), s.k.LossRead > 0} {
		if is {
			n++
		}
	}
	return n
}

// Open allocates gradients and moments and starts at step 0.
func (s *Step) Open(mem *op.Arena, stream device.Stream, params []Param) error {
	s.mem, s.params = mem, params
	var all []Tensor
	for _, p := range params {
		g := mem.Words("gradients", int64(len(p.Values)), device.OnDevice)
		s.grads = append(s.grads, g)
		all = append(all, Tensor{Name: p.Name, N: len(p.Values), P: p.P, G: g})
	}
	if mem.Err != nil {
		return mem.Err
	}
	return s.adam.Open(mem, stream, all)
}

// Grad returns the gradient of parameter i.
func (s *Step) Grad(i int) device.Buffer { return s.grads[i] }

// Params returns the parameters in the order of Open.
func (s *Step) Params() []Param { return s.params }

// State returns the state buffer, whose first value is the number of the last finished step.
func (s *Step) State() device.Buffer { return s.adam.State() }

// Restart resets the parameters to their initial values and returns to step 0.
func (s *Step) Restart(stream device.Stream) error {
	s.found = false
	for _, p := range s.params {
		if err := op.Send(s.mem.Dev, stream, p.P, p.Values); err != nil {
			return err
		}
	}
	return s.adam.Reset(stream)
}

// Part holds some of the launches at the end of a step. The host may read a value of the state buffer after them.
type Part struct {
	Ops *op.Bound
	// Clips is true for launches of clipping, false for launches of the optimizer. First and Last mark the first and the
	// last part of clipping or of the optimizer.
	Clips, First, Last bool

	reads int  // index of the value in the state buffer; 0: read nothing
	skips bool // do not run it if the host has read that a gradient is not finite
}

// Bind binds clipping and the optimizer. The caller closes the returned parts, even after an error.
func (s *Step) Bind() (parts []Part, err error) {
	bind := func(p Part, name string, minimum gpuprof.Cost, all []op.Launch) {
		if err != nil {
			return
		}
		p.Ops, err = op.BindLaunches(s.mem.Dev, name, minimum, all...)
		parts = append(parts, p)
	}
	n := s.adam.countValues()
	norm, err := s.adam.normLaunches()
	found := 0
	if s.k.readsFound() {
		found = stateFound
	}
	if s.k.readsNorm() {
		bind(Part{Clips: true, First: true, reads: stateNorm}, "the norm of gradients", op.Moved(2*n, n, 1), norm)
		bind(Part{Clips: true, Last: true, reads: found}, "clipping", op.Moved(n, n, n), s.adam.clipLaunches())
	} else {
		bind(Part{Clips: true, First: true, Last: true, reads: found}, "clipping", op.Moved(3*n, n, n), append(norm, s.adam.clipLaunches()...))
	}
	least := op.Moved(12*n, 4*n, 3*n)
	if s.k.readsFound() {
		bind(Part{First: true, skips: true}, "the optimizer", least, s.adam.stepLaunches())
		bind(Part{Last: true}, "the loss scale", op.Moved(3, 3, 5), s.adam.updateLaunches())
		return parts, err
	}
	bind(Part{First: true, Last: true}, "the optimizer", least, append(s.adam.stepLaunches(), s.adam.updateLaunches()...))
	return parts, err
}

// Skips reports whether to leave a part out in this step, because a gradient is not finite.
func (s *Step) Skips(p *Part) bool { return p.skips && s.found }

// ReadState reads the value of the state buffer that the part asks for, if any, and records whether later parts are skipped.
// read waits for the value and returns it.
func (s *Step) ReadState(p *Part, read func(from device.Buffer, at int) (float32, error)) error {
	if p.reads == 0 {
		return nil
	}
	v, err := read(s.State(), p.reads)
	if p.reads == stateFound {
		s.found = v != 0
	}
	return err
}

// Zeros returns the launches that fill all gradients with zeros. There are none if the first micro-batch overwrites the
// gradients.
func (s *Step) Zeros() (all []op.Launch) {
	if !s.Adds(0) {
		return nil
	}
	for _, t := range s.adam.all {
		all = append(all, op.Fill{}.Launch(t.G, t.N))
	}
	return all
}

// Cotangent is a buffer of N values from which a backward pass starts.
type Cotangent struct {
	B device.Buffer
	N int
}

// Scaled returns the launches that multiply the cotangents from which a backward pass starts by the loss scale and
// the weight of a micro-batch. There are none if both are 1.
func (s *Step) Scaled(all ...Cotangent) (launches []op.Launch) {
	if !s.adam.scaler.isOn() && s.Micro() == 1 {
		return nil
	}
	for _, c := range all {
		launches = append(launches, s.adam.scaleLaunch(c.B, c.N, stateCotangent))
	}
	return launches
}

// checkScale is the loss scale in checks, which must not overflow.
const checkScale = 8

// Checked restarts training as Restart does, but with the loss scale checkScale.
func (s *Step) Checked(stream device.Stream) error {
	if err := s.Restart(stream); err != nil || !s.adam.scaler.isOn() {
		return err
	}
	state, err := op.Receive(s.mem.Dev, stream, s.adam.state, 0, stateWords)
	if err != nil {
		return err
	}
	state[stateScale], state[stateInverse], state[stateCotangent] = checkScale, 1./checkScale, checkScale*s.adam.scaler.weight()
	return op.Send(s.mem.Dev, stream, s.adam.state, state)
}

// Scale returns the current factor of cotangents (loss scale times weight), for a check. It waits for the device.
func (s *Step) Scale(stream device.Stream) (float64, error) {
	v, err := op.Receive(s.mem.Dev, stream, s.adam.state, stateCotangent, 1)
	return float64(v[0]), err
}

// Saved holds the values that clipping and the optimizer change: parameters, gradients and both moments, in the order
// of Open.
type Saved struct {
	p, g, m, v [][]float64
	inverse    float64 // 1 divided by the loss scale
}

// Moments returns the first moments of parameter i.
func (s Saved) Moments(i int) []float64 { return s.m[i] }

// Save reads the parameters, gradients and moments from the device.
func (s *Step) Save(stream device.Stream) (out Saved, err error) {
	c := op.Checker{Mem: s.mem, Stream: stream}
	out.inverse = c.Read64(s.adam.state, stateInverse, 1)[0]
	for i, p := range s.params {
		m, v, at, err := s.adam.Values(p.Name)
		if c.Stops(err) {
			break
		}
		n := len(p.Values)
		out.p, out.g = append(out.p, c.Read64(p.P, 0, n)), append(out.g, c.Read64(s.grads[i], 0, n))
		out.m, out.v = append(out.m, c.Read64(m, at, n)), append(out.v, c.Read64(v, at, n))
	}
	return out, c.Err
}

// SaveFor saves what a stage of clipping or the optimizer changes, if p is its first part. It ignores a nil p.
func (s *Step) SaveFor(p *Part, stream device.Stream, to *Saved) (err error) {
	if p != nil && p.First {
		*to, err = s.Save(stream)
	}
	return err
}

// Verify adds to e the error of a stage of clipping or the optimizer, if p is its last part; before holds the values
// before the stage.
func (s *Step) Verify(p *Part, stream device.Stream, before Saved, e *op.ErrorNorm) error {
	if !p.Last {
		return nil
	}
	now, err := s.Save(stream)
	if err != nil {
		return err
	}
	if p.Clips {
		s.clipped(before, now, e)
		return nil
	}
	return s.stepped(stream, before, now, e)
}

// clipped adds to e the error of the gradients in now. The reference is the gradients in before, divided by the loss
// scale and clipped.
func (s *Step) clipped(before, now Saved, e *op.ErrorNorm) {
	for _, g := range before.g {
		for k := range g {
			g[k] *= before.inverse
		}
	}
	factor := RefClip(s.adam.Limit, before.g...)
	for i, g := range before.g {
		want := make([]float64, len(g))
		for k, x := range g {
			want[k] = factor * x
		}
		e.Add(op.As[float32](now.g[i]), want)
	}
}

// stepped adds to e the error of parameters and moments in now. The reference is one step of Adam that starts from
// before.
func (s *Step) stepped(stream device.Stream, before, now Saved, e *op.ErrorNorm) error {
	step, err := op.Receive(s.mem.Dev, stream, s.adam.State(), 0, 1)
	if err != nil {
		return err
	}
	for i := range before.p {
		p, m, v := op.As[float64](before.p[i]), op.As[float64](before.m[i]), op.As[float64](before.v[i])
		RefAdam(s.adam.Rate, int(step[0]), p, before.g[i], m, v)
		// Measure the error relative to the parameter, not to its change, because the parameter itself is rounded.
		for k, x := range p {
			off := (now.p[i][k] - x) / max(1, math.Abs(x))
			e.Diff += off * off
			e.Ref += x * x
		}
		e.Add(op.As[float32](now.m[i]), m)
		e.Add(op.As[float32](now.v[i]), v)
	}
	return nil
}
