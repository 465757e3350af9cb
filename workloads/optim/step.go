package optim

import (
	"errors"
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// Train is the value of the knob pass with which a step ends as this package has it.
const Train = "train"

// Knobs are those of a training step's end, the same in every workload that trains.
func Knobs() []gpuprof.Knob {
	ways := gpuprof.Choice("optimizer", "Adam of pass=train: fused (one launch for every five tensors), foreach (a launch per operation), loop (a launch per operation and tensor)", Fused, Foreach, Loop)
	ways.Acts = []string{"optimizer", "graph", gpuprof.StageLaunch}
	ways.Advice = map[string]string{gpuprof.AnyValue: "update all parameters in one launch"}
	ways.PyTorch = map[string]string{
		Fused: "torch.optim.Adam(params, fused=True)", Foreach: "torch.optim.Adam(params, foreach=True)", Loop: "torch.optim.Adam(params, foreach=False)",
	}
	return []gpuprof.Knob{
		gpuprof.FloatKnob("lr", "learning rate of pass=train", 1e-3, 0, 10).AsModel(),
		gpuprof.FloatKnob("clip", "largest norm of all gradients together in pass=train; larger ones are scaled down", 1, 0, 1e6).AsModel(),
		ways,
	}
}

// Refuse names a knob of training that another pass has no use for.
func Refuse(set gpuprof.Settings) error {
	if set["pass"] != Train && set["optimizer"] != Fused {
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting optimizer=%s with pass=%s: only training has an optimizer step", set["optimizer"], set["pass"]).WithFix("use optimizer=fused, or pass=train")
	}
	return nil
}

// Param is a parameter as it was drawn, and the buffer that holds it.
type Param struct {
	Name   string
	Values []float32
	P      gpuprof.Buffer
}

// Step is the end of a training step: the gradients of all parameters, their clipping and
// Adam.
type Step struct {
	adam   Adam
	mem    *op.Arena
	params []Param
	grads  []gpuprof.Buffer
}

// StepOf reads the knobs.
func StepOf(set gpuprof.Settings) Step {
	return Step{adam: Adam{Impl: set["optimizer"], Rate: set.Float("lr"), Limit: set.Float("clip")}}
}

// Words is the four-byte words that Open and Bind allocate, by the parameters' sizes.
func (s *Step) Words(sizes []int) int64 {
	words := s.adam.Words(sizes)
	for _, n := range sizes {
		words += int64(n)
	}
	return words
}

// Open allocates gradients and moments and starts at step 0.
func (s *Step) Open(mem *op.Arena, stream gpuprof.Stream, params []Param) error {
	s.mem, s.params = mem, params
	var all []Tensor
	for _, p := range params {
		g := mem.Words("gradients", int64(len(p.Values)), gpuprof.OnDevice)
		s.grads = append(s.grads, g)
		all = append(all, Tensor{Name: p.Name, N: len(p.Values), P: p.P, G: g})
	}
	if mem.Err != nil {
		return mem.Err
	}
	return s.adam.Open(mem, stream, all)
}

// Grad is the gradient of parameter i.
func (s *Step) Grad(i int) gpuprof.Buffer { return s.grads[i] }

// Params are the parameters in the order of Open.
func (s *Step) Params() []Param { return s.params }

// State is the buffer whose first value is the step that was done last.
func (s *Step) State() gpuprof.Buffer { return s.adam.State() }

// Restart gives the parameters the values they were drawn with, and goes back to step 0.
func (s *Step) Restart(stream gpuprof.Stream) error {
	for _, p := range s.params {
		if err := op.Send(s.mem.Dev, stream, p.P, p.Values); err != nil {
			return err
		}
	}
	return s.adam.Reset(stream)
}

// Bind binds clipping and the optimizer's step.
func (s *Step) Bind() (clip, step *op.Bound, err error) {
	if clip, err = s.adam.BindClip(); err != nil {
		return nil, nil, err
	}
	if step, err = s.adam.BindStep(); err != nil {
		return nil, nil, errors.Join(err, clip.Close())
	}
	return clip, step, nil
}

// Saved is what clipping and the optimizer change, in the order of Open.
type Saved struct{ p, g, m, v [][]float64 }

// Save reads it.
func (s *Step) Save(stream gpuprof.Stream) (out Saved, err error) {
	for i, p := range s.params {
		m, v, at, err := s.adam.Values(p.Name)
		if err != nil {
			return out, err
		}
		for _, r := range []struct {
			to *[][]float64
			b  gpuprof.Buffer
			at int
		}{{&out.p, p.P, 0}, {&out.g, s.grads[i], 0}, {&out.m, m, at}, {&out.v, v, at}} {
			got, err := op.Receive(s.mem.Dev, stream, r.b, r.at, len(p.Values))
			if err != nil {
				return out, err
			}
			*r.to = append(*r.to, op.As[float64](got))
		}
	}
	return out, nil
}

// Clipped compares the gradients with those before, cut to the limit.
func (s *Step) Clipped(before, now Saved, e *op.ErrorNorm) {
	factor := RefClip(s.adam.Limit, before.g...)
	for i, g := range before.g {
		want := make([]float64, len(g))
		for k, x := range g {
			want[k] = factor * x
		}
		e.Add(op.As[float32](now.g[i]), want)
	}
}

// Stepped compares parameters and moments with Adam's step from those before.
func (s *Step) Stepped(stream gpuprof.Stream, before, now Saved, e *op.ErrorNorm) error {
	step, err := op.Receive(s.mem.Dev, stream, s.adam.State(), 0, 1)
	if err != nil {
		return err
	}
	for i := range before.p {
		p, m, v := op.As[float64](before.p[i]), op.As[float64](before.m[i]), op.As[float64](before.v[i])
		RefAdam(s.adam.Rate, int(step[0]), p, before.g[i], m, v)
		// A parameter has its own rounding, beside which the change may be small.
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

// Diverged is the error about a loss that is not finite, by the first stage whose output is not.
func Diverged(workload, stage string) error {
	return gpuprof.Errorf(gpuprof.ErrCheck, "training %s: the loss is not finite, and the first output that is not is that of stage %s", workload, stage).WithFix("use a smaller --set lr, or precision=fp32")
}
