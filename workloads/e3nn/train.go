package e3nn

import (
	"fmt"
	"math/rand/v2"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/optim"
)

// training is what pass=train adds: the gradients of every layer's parameters and
// what makes a step of them. The loss is half the mean square of what the readouts are
// off a target that the seed draws for every row.
type training struct {
	grads   []layerGrads
	targets []gpuprof.Buffer // [rows], of every micro-batch
	step    optim.Step
	parts   []optim.Part
	done    int // micro-batches since the start
}

// layerGrads are the gradients of a layer's parameters.
type layerGrads struct{ x, w1, w2, mix, readout gpuprof.Buffer }

// openTraining allocates gradients and moments.
func (s *session) openTraining() error {
	t := &s.train
	t.step = optim.StepOf(s.set)
	for micro := range t.step.Micro() {
		t.targets = append(t.targets, s.mem.Upload(s.Compute, "targets", s.params.target[micro*s.rows:(micro+1)*s.rows]))
	}
	var all []optim.Param
	for i, p := range s.layers {
		all = append(all,
			optim.Param{Name: fmt.Sprintf("features %d", i+1), Values: s.stored(i), P: p.x},
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

// stored are a layer's features in the session's layout.
func (s *session) stored(i int) []float32 {
	in, x := s.model.Layers[i].In, s.params.x[i]
	out := make([]float32, len(x))
	for at, d := 0, in.Dim(); at < len(x); at += d {
		op.ToLayout(s.layout, in, out[at:at+d], x[at:at+d])
	}
	return out
}

// addsGrads says that gradients are added to what is there, some time in a step.
func (s *session) addsGrads() bool {
	step := optim.StepOf(s.set)
	return s.trains() && step.Adds(step.Micro()-1)
}

// variants are the ways of a step's micro-batches to leave their gradients.
func (s *session) variants() (all []stageOps) {
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

// drawTarget is normal, of all rows of a step.
func (s *session) drawTarget() []float32 {
	rng := rand.New(rand.NewPCG(s.seed, 5))
	t := make([]float32, s.rows*microOf(s.set))
	for i := range t {
		t[i] = float32(rng.NormFloat64())
	}
	return t
}

// bindGrads binds the sums over edges and rows of a layer's weights. The features'
// are in the tensor product's way back.
func (s *session) bindGrads(i int) error {
	l, k, b, g := s.model.Layers[i], s.work[i], s.back, s.train.grads[i]
	for _, so := range s.variants() {
		mlp, err := s.keep(op.MLPWeightGrad{MLP: s.mlps[i], Add: so.adds}.Bind(s.dev, s.basis, b.da, k.h, b.dw, g.w1, g.w2, s.edges))
		if err != nil {
			return err
		}
		linear, err := s.keep(op.LinearWeightGrad{Linear: l.Linear, Add: so.adds}.Bind(s.dev, k.mid, b.dpre, g.mix, s.rows))
		if err != nil {
			return err
		}
		r := l.readout()
		r.Add = so.adds
		readout, err := s.keep(r.BindWeightGrad(s.dev, b.drho, s.layers[i].out, g.readout, s.rows))
		if err != nil {
			return err
		}
		so.stage, so.layer, so.ops = stGrads, i, same(mlp, linear, readout)
		s.plan = append(s.plan, so)
	}
	return nil
}

// bindProductGrad binds a layer's tensor product backwards. Where gradients of features are
// added, they are made beside and then added.
func (s *session) bindProductGrad(i int, grads op.TPGradBuffers) error {
	atoms := len(s.in.crystal.Positions)
	bind := func(so stageOps, more ...*op.Bound) error {
		product, err := s.keep(s.productGrad(i).Bind(s.dev, grads, atoms, s.rows, s.edges))
		if err != nil {
			return err
		}
		so.stage, so.layer, so.ops = stProductBack, i, same(append([]*op.Bound{product}, more...)...)
		s.plan = append(s.plan, so)
		return nil
	}
	if !s.trains() {
		return bind(stageOps{})
	}
	g := s.train.grads[i].x
	for _, so := range s.variants() {
		if grads.DX = g; !so.adds {
			if err := bind(so); err != nil {
				return err
			}
			continue
		}
		grads.DX = s.back.dx
		n := atoms * s.model.Layers[i].In.Dim()
		add, err := s.keep(op.BindLaunches(s.dev, "the features' gradient", op.Moved(n, 2*n, n), optim.Added(g, grads.DX, n)))
		if err != nil {
			return err
		}
		if err := bind(so, add); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) gradScratch(l layer, i int, e int64) int64 {
	kind := s.dev.Info().Kind
	ways := int64(len(s.variants()))
	return ways * (op.MLPWeightGrad{MLP: s.mlps[i]}.Scratch(int(e), kind) + op.LinearWeightGrad{Linear: l.Linear}.Scratch(s.rows, kind) + l.readout().WeightScratch(s.rows, kind))
}

// trainWords is what openTraining allocates.
func (s *session) trainWords() int64 {
	var sizes []int
	for _, l := range s.model.Layers {
		sizes = append(sizes, len(s.in.crystal.Positions)*l.In.Dim(), basisSize*mlpHidden, mlpHidden*l.TP.WeightNumel(), l.Linear.WeightNumel(), l.readout().Count)
	}
	step := optim.StepOf(s.set)
	return step.Words(sizes) + int64(s.rows*step.Micro())
}

// bindOptimizer binds the end of a training step.
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
		so := stageOps{stage: stOptimizer, ops: same(p.Ops), from: n - 1, to: n, part: p}
		if p.Clips {
			so.stage = stClip
		}
		s.plan = append(s.plan, so)
	}
	return err
}
