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
	adam  optim.Adam
}

// layerGrads are the gradients of a layer's parameters.
type layerGrads struct{ x, w1, w2, mix, readout gpuprof.Buffer }

// optimizerKnobs are those of the step that training ends with.
func optimizerKnobs() []gpuprof.Knob {
	ways := gpuprof.Choice("optimizer", "Adam of pass=train: fused (one launch for every five tensors), foreach (a launch per operation), loop (a launch per operation and tensor)", optim.Fused, optim.Foreach, optim.Loop)
	ways.Acts = []string{"optimizer", "graph", gpuprof.StageLaunch}
	ways.Advice = map[string]string{gpuprof.AnyValue: "update all parameters in one launch"}
	ways.PyTorch = map[string]string{
		optim.Fused: "torch.optim.Adam(params, fused=True)", optim.Foreach: "torch.optim.Adam(params, foreach=True)", optim.Loop: "torch.optim.Adam(params, foreach=False)",
	}
	return []gpuprof.Knob{
		gpuprof.FloatKnob("lr", "learning rate of pass=train", 1e-3, 0, 10).AsModel(),
		gpuprof.FloatKnob("clip", "largest norm of all gradients together in pass=train; larger ones are scaled down", 1, 0, 1e6).AsModel(),
		ways,
	}
}

// openTraining allocates gradients and moments.
func (s *session) openTraining() error {
	t := &s.train
	t.adam = optim.Adam{Impl: s.set["optimizer"], Rate: s.set.Float("lr"), Limit: s.set.Float("clip")}
	var all []optim.Tensor
	for i, p := range s.layers {
		g := &layerGrads{}
		for k, tensor := range s.tensors(i) {
			b := s.mem.Words("gradients", int64(len(tensor.values)), gpuprof.OnDevice)
			*[]*gpuprof.Buffer{&g.x, &g.w1, &g.w2, &g.mix, &g.readout}[k] = b
			of := []gpuprof.Buffer{p.x, p.w1, p.w2, p.mix, p.readout}[k]
			all = append(all, optim.Tensor{Name: tensor.name, N: len(tensor.values), P: of, G: b})
		}
		t.grads = append(t.grads, *g)
	}
	if s.mem.Err != nil {
		return s.mem.Err
	}
	return t.adam.Open(&s.mem, s.Compute, all)
}

// tensor is a parameter as it was drawn, in the session's layout.
type tensor struct {
	name   string
	values []float32
}

func (s *session) tensors(i int) []tensor {
	p := s.params
	var all []tensor
	for _, t := range []tensor{{"features", s.stored(i)}, {"w1", p.w1[i]}, {"w2", p.w2[i]}, {"mix", p.mix[i]}, {"readout", p.readout[i]}} {
		t.name = fmt.Sprintf("%s %d", t.name, i+1)
		all = append(all, t)
	}
	return all
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

// restart gives the parameters the values they were drawn with.
func (s *session) restart() error {
	for i, p := range s.layers {
		for k, t := range s.tensors(i) {
			if err := op.Send(s.dev, s.Compute, []gpuprof.Buffer{p.x, p.w1, p.w2, p.mix, p.readout}[k], t.values); err != nil {
				return err
			}
		}
	}
	return s.train.adam.Reset(s.Compute)
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
	words := int64(0)
	for _, l := range s.model.Layers {
		sizes = append(sizes, len(s.in.crystal.Positions)*l.In.Dim(), basisSize*mlpHidden, mlpHidden*l.TP.WeightNumel(), l.Linear.WeightNumel(), l.readout().Count)
	}
	for _, n := range sizes {
		words += int64(n)
	}
	return words + (&optim.Adam{Impl: s.set["optimizer"]}).Words(sizes)
}

// bindOptimizer binds the end of a training step.
func (s *session) bindOptimizer() error {
	clip, err := s.keep(s.train.adam.BindClip())
	if err != nil {
		return err
	}
	step, err := s.keep(s.train.adam.BindStep())
	if err != nil {
		return err
	}
	s.plan = append(s.plan, stageOps{stage: stClip, ops: same(clip)}, stageOps{stage: stOptimizer, ops: same(step)})
	return nil
}
