package e3nn

import (
	"fmt"
	"math/rand/v2"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/optim"
)

// training holds the gradients of every layer's parameters and the optimizer's step. The loss is half the mean square
// of the differences between the readouts and their targets, which are drawn from the seed.
type training struct {
	grads   []layerGrads
	targets []device.Buffer // [rows], by micro-batch
	step    optim.Step
	parts   []optim.Part
	done    int // micro-batches since the start
}

type layerGrads struct{ x, w1, w2, mix, readout device.Buffer }

func (s *session) openTraining() error {
	t := &s.train
	t.step = optim.StepOf(s.k.Settings)
	for micro := range t.step.Micro() {
		t.targets = append(t.targets, s.mem.Upload(s.Compute, "targets", s.params.target[micro*s.rows:(micro+1)*s.rows]))
	}
	var all []optim.Param
	for i, p := range s.layers {
		all = append(all,
			optim.Param{Name: fmt.Sprintf("features %d", i+1), Values: s.storedFeatures(i), P: p.x},
			optim.Param{Name: fmt.Sprintf("w1 %d", i+1), Values: s.params.w1[i], P: p.w1},
			optim.Param{Name: fmt.Sprintf("w2 %d", i+1), Values: s.params.w2[i], P: p.w2},
			optim.Param{Name: fmt.Sprintf("mix %d", i+1), Values: s.params.mix[i], P: p.mix},
			optim.Param{Name: fmt.Sprintf("readout %d", i+1), Values: s.params.readout[i], P: p.readout})
	}
	if err := t.step.Open(&s.mem, s.Compute, all); err != nil {
		return err
	}
	for i := 0; i < len(all); i += 5 {
		t.grads = append(t.grads, layerGrads{t.step.Grad(i), t.step.Grad(i + 1), t.step.Grad(i + 2), t.step.Grad(i + 3), t.step.Grad(i + 4)})
	}
	return nil
}

// storedFeatures returns a layer's features as the device stores them, in the session's layout.
func (s *session) storedFeatures(i int) []float32 {
	in, x := s.model.Layers[i].In, s.params.x[i]
	out := make([]float32, len(x))
	for at, d := 0, in.Dim(); at < len(x); at += d {
		op.ToLayout(s.layout, in, out[at:at+d], x[at:at+d])
	}
	return out
}

// gradientVariants returns an empty stageOps for each group of a step's micro-batches: those that overwrite the
// gradients, and those that add to them.
func (s *session) gradientVariants() (all []stageOps) {
	n := s.train.step.Micro()
	if s.train.step.Adds(0) {
		return []stageOps{{to: n, adds: true}}
	}
	all = []stageOps{{to: 1}}
	if n > 1 {
		all = append(all, stageOps{from: 1, to: n, adds: true})
	}
	return all
}

func (s *session) drawTarget() []float32 {
	rng := rand.New(rand.NewPCG(s.seed, 5))
	t := make([]float32, s.rows*s.k.Micro())
	for i := range t {
		t[i] = float32(rng.NormFloat64())
	}
	return t
}

// bindGrads binds a layer's weight gradients; the tensor product's backward pass computes the features' gradients.
func (s *session) bindGrads(i int) error {
	l, g, k, b := s.model.Layers[i], s.train.grads[i], s.work[i], s.back.of[i]
	for _, so := range s.gradientVariants() {
		mlp, err := s.keepBound(op.MLPWeightGrad{MLP: s.mlps[i], Add: so.adds}.Bind(s.dev, s.basis, b.da, k.h, b.dw, g.w1, g.w2, s.edges))
		if err != nil {
			return err
		}
		linear, err := s.keepBound(op.LinearWeightGrad{Linear: l.Linear, Add: so.adds}.Bind(s.dev, k.mid, b.dpre, g.mix, s.rows))
		if err != nil {
			return err
		}
		r := l.readout()
		r.Add = so.adds
		readout, err := s.keepBound(r.BindWeightGrad(s.dev, s.back.drho, s.layers[i].out, g.readout, s.rows))
		if err != nil {
			return err
		}
		so.stage, so.layer, so.ops = stGrads, i, repeatOps(mlp, linear, readout)
		s.plan = append(s.plan, so)
	}
	return nil
}

func (s *session) bindProductGrad(i int, grads op.TPGradBuffers) error {
	all := []stageOps{{}}
	if s.k.Trains() {
		all, grads.DX = s.gradientVariants(), s.train.grads[i].x
	}
	for _, so := range all {
		g := s.productGrad(i)
		g.AddX = so.adds
		product, err := s.keepBound(g.Bind(s.dev, grads, len(s.in.crystal.Positions), s.rows, s.edges))
		if err != nil {
			return err
		}
		so.stage, so.layer, so.ops = stProductBack, i, repeatOps(product)
		s.plan = append(s.plan, so)
	}
	return nil
}

func (s *session) bindOptimizer() error {
	var err error
	s.train.parts, err = s.train.step.Bind()
	n := s.train.step.Micro()
	for i := range s.train.parts {
		p := &s.train.parts[i]
		if p.Ops == nil {
			continue
		}
		s.closers = append(s.closers, p.Ops)
		so := stageOps{stage: stOptimizer, ops: repeatOps(p.Ops), from: n - 1, to: n, part: p}
		if p.Clips {
			so.stage = stClip
		}
		s.plan = append(s.plan, so)
	}
	return err
}
