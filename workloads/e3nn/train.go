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
	grads []layerGrads
	step  optim.Step
	done  int // steps since the start
}

// layerGrads are the gradients of a layer's parameters.
type layerGrads struct{ x, w1, w2, mix, readout gpuprof.Buffer }

// openTraining allocates gradients and moments.
func (s *session) openTraining() error {
	t := &s.train
	t.step = optim.StepOf(s.set)
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

// drawTarget is normal.
func (s *session) drawTarget() []float32 {
	rng := rand.New(rand.NewPCG(s.seed, 5))
	t := make([]float32, s.rows)
	for i := range t {
		t[i] = float32(rng.NormFloat64())
	}
	return t
}

// bindGrads binds the sums over edges and rows of a layer's weights. The features'
// are in the tensor product's way back.
func (s *session) bindGrads(i int) error {
	l, k, b, g := s.model.Layers[i], s.work[i], s.back, s.train.grads[i]
	mlp, err := s.keep(op.MLPWeightGrad{MLP: s.mlps[i]}.Bind(s.dev, s.basis, b.da, k.h, b.dw, g.w1, g.w2, s.edges))
	if err != nil {
		return err
	}
	linear, err := s.keep(op.LinearWeightGrad{Linear: l.Linear}.Bind(s.dev, k.mid, b.dpre, g.mix, s.rows))
	if err != nil {
		return err
	}
	readout, err := s.keep(l.readout().BindWeightGrad(s.dev, b.drho, s.layers[i].out, g.readout, s.rows))
	if err != nil {
		return err
	}
	s.plan = append(s.plan, stageOps{stGrads, i, same(mlp, linear, readout)})
	return nil
}

func (s *session) gradScratch(l layer, i int, e int64) int64 {
	kind := s.dev.Info().Kind
	return op.MLPWeightGrad{MLP: s.mlps[i]}.Scratch(int(e), kind) + op.LinearWeightGrad{Linear: l.Linear}.Scratch(s.rows, kind) + l.readout().WeightScratch(s.rows, kind)
}

// trainWords is what openTraining allocates.
func (s *session) trainWords() int64 {
	var sizes []int
	for _, l := range s.model.Layers {
		sizes = append(sizes, len(s.in.crystal.Positions)*l.In.Dim(), basisSize*mlpHidden, mlpHidden*l.TP.WeightNumel(), l.Linear.WeightNumel(), l.readout().Count)
	}
	step := optim.StepOf(s.set)
	return step.Words(sizes)
}

// bindOptimizer binds the end of a training step.
func (s *session) bindOptimizer() error {
	clip, step, err := s.train.step.Bind()
	if err != nil {
		return err
	}
	s.closers = append(s.closers, clip, step)
	s.plan = append(s.plan, stageOps{stage: stClip, ops: same(clip)}, stageOps{stage: stOptimizer, ops: same(step)})
	return nil
}
