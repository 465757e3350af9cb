package e3nn

import (
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/optim"
)

// bindBack makes the operations of the way back, in the order of the step: the
// energy, the layers from the last to the first, and what they share.
func (s *session) bindBack() error {
	if err := s.bindLoss(); err != nil {
		return fmt.Errorf("the energy: %w", err)
	}
	for i := len(s.model.Layers) - 1; i >= 0; i-- {
		if err := s.bindLayerBack(i); err != nil {
			return fmt.Errorf("layer %d backwards: %w", i+1, err)
		}
	}
	if !s.pulls() {
		return s.bindOptimizer()
	}
	e, b := s.slots[0].dev, s.back
	sph, err := s.keep(op.SphGrad{Sph: op.Sph{LMax: s.model.LMax}}.Bind(s.dev, e.vec, b.dy, b.slope, b.f, s.edges))
	if err != nil {
		return err
	}
	forces, err := s.keep(s.positions().Bind(s.dev, op.PositionsBuffers{F: b.f, RowPtr: e.rowptr, ColPtr: e.colptr, Perm: e.perm, Out: b.forces}, s.edges))
	if err != nil {
		return err
	}
	s.plan = append(s.plan, stageOps{stage: stSphBack, ops: same(sph)}, stageOps{stage: stForces, ops: same(forces)})
	if !s.second() {
		return nil
	}
	if err := s.bindSecond(); err != nil {
		return err
	}
	return s.bindOptimizer()
}

func (s *session) positions() op.Positions {
	return op.Positions{Points: s.points(), Atoms: len(s.in.crystal.Positions), Rows: s.rows}
}

// bindLoss binds the readouts and their sum, the energy, whose gradient by every
// row's value is 1. In training the sum is that of squared errors; a loss on forces takes
// the gradient alone.
func (s *session) bindLoss() error {
	b := s.back
	ones := make([]float32, s.rows)
	for i := range ones {
		ones[i] = 1
	}
	if s.second() {
		return op.Send(s.dev, s.Compute, b.drho, ones)
	}
	var ops []*op.Bound
	for i, l := range s.model.Layers {
		r := l.readout()
		r.Add = i > 0
		one, err := s.keep(r.Bind(s.dev, s.layers[i].out, s.layers[i].readout, b.rho, s.rows))
		if err != nil {
			return err
		}
		ops = append(ops, one)
	}
	if s.trains() {
		return s.bindResiduals(stLoss, ops...)
	}
	sum, err := s.keep(op.Sum{N: s.rows}.Bind(s.dev, b.rho, b.energy))
	if err != nil {
		return err
	}
	s.plan = append(s.plan, stageOps{stage: stLoss, ops: same(append(ops, sum)...)})
	return op.Send(s.dev, s.Compute, b.drho, ones)
}

// bindResiduals binds the squared errors of every micro-batch and their sum, what scales their
// gradients, and the zeros that gradients begin with: of the rows' values behind their
// readouts or, with none, of forces.
func (s *session) bindResiduals(stage int, readouts ...*op.Bound) error {
	b, step, n := s.back, &s.train.step, s.lossTerms()
	values, grad := b.rho, b.drho
	if s.second() {
		values, grad = b.forces, s.pull.v
	}
	sum, err := s.keep(op.Sum{N: n}.Bind(s.dev, b.losses, b.energy))
	if err != nil {
		return err
	}
	for micro, target := range s.train.targets {
		residual, err := s.keep(op.Residual{Rows: n}.Bind(s.dev, values, target, grad, b.losses))
		if err != nil {
			return err
		}
		ops := append(slices.Clone(readouts), residual, sum)
		more := step.Scaled(optim.Cotangent{B: grad, N: n})
		if micro == 0 {
			more = append(more, step.Zeros()...)
		}
		if len(more) > 0 {
			begin, err := s.keep(op.BindLaunches(s.dev, "the start of the way back", gpuprof.Cost{}, more...))
			if err != nil {
				return err
			}
			ops = append(ops, begin)
		}
		s.plan = append(s.plan, stageOps{stage: stage, ops: same(ops...), from: micro, to: micro + 1})
	}
	return nil
}

// bindLayerBack binds a layer's way back: what was not kept is made again, then the
// gate and the linear layer, the tensor product and the MLP. Gradients that layers
// share are written by the last layer, which goes first, and added to by the others.
func (s *session) bindLayerBack(i int) error {
	l, p, k, b, own, e := s.model.Layers[i], s.layers[i], s.work[i], s.back, s.back.of[i], s.slots[0].dev
	again, err := s.bindAgain(i)
	if err != nil {
		return err
	}
	if len(again) > 0 {
		s.plan = append(s.plan, stageOps{stage: stRecompute, layer: i, ops: same(again...)})
	}
	readout, err := s.keep(l.readout().BindGrad(s.dev, b.drho, p.readout, own.dout, s.rows))
	if err != nil {
		return err
	}
	gate, err := s.keep(op.GateGrad{Gate: l.Gate}.Bind(s.dev, k.pre, own.dout, own.dpre, s.rows))
	if err != nil {
		return err
	}
	linear, err := s.keep(op.LinearGrad{Linear: l.Linear}.Bind(s.dev, own.dpre, p.mix, own.dmid, s.rows))
	if err != nil {
		return err
	}
	grads := op.TPGradBuffers{X: p.x, Y: s.harmonics, W: k.w, DOut: own.dmid, Src: e.src, Dst: e.dst, ColPtr: e.colptr, Perm: e.perm, DY: b.dy, DW: own.dw}
	mlp, err := s.keep(s.mlpGrad(i).Bind(s.dev, op.MLPGradBuffers{A: k.a, W1: p.w1, W2: p.w2, DW: own.dw, DH: own.dh, DA: own.da, DB: b.db}, s.edges))
	if err != nil {
		return err
	}
	radial := []*op.Bound{mlp}
	if i == 0 && s.pulls() { // the basis has every layer's gradient now
		basis, err := s.keep(op.BasisGrad{Basis: s.radialBasis()}.Bind(s.dev, e.vec, b.db, b.slope, s.edges))
		if err != nil {
			return err
		}
		radial = append(radial, basis)
	}
	s.plan = append(s.plan, stageOps{stage: stLinearGateBack, layer: i, ops: same(readout, gate, linear)})
	if err := s.bindProductGrad(i, grads); err != nil {
		return err
	}
	s.plan = append(s.plan, stageOps{stage: stRadialBack, layer: i, ops: same(radial...)})
	if s.pulls() {
		return nil
	}
	return s.bindGrads(i)
}

// bindAgain is what makes a layer's values again that were not kept.
func (s *session) bindAgain(i int) ([]*op.Bound, error) {
	var again []*op.Bound
	if s.set["recompute"] == recomputeAll {
		again = append(again, s.again[i]...)
		if !s.hiddenOnly() { // the MLP has made the weights
			return again, nil
		}
	}
	if s.keepsWeights() {
		return again, nil
	}
	weights, err := s.keep(s.mlps[i].BindWeights(s.dev, s.work[i].h, s.layers[i].w2, s.work[i].w, s.edges))
	if err != nil {
		return nil, err
	}
	return append(again, weights), nil
}

// first says that a layer is the first to go back.
func (s *session) first(i int) bool { return i == len(s.model.Layers)-1 }

func (s *session) productGrad(i int) op.TensorProductGrad {
	return op.TensorProductGrad{Product: s.products[i], AddY: !s.first(i)}
}

// productWays are how often a layer's product is bound backwards.
func (s *session) productWays() int64 {
	if s.pulls() {
		return 1
	}
	return int64(len(s.variants()))
}

func (s *session) mlpGrad(i int) op.MLPGrad {
	return op.MLPGrad{MLP: s.mlps[i], Add: !s.first(i)}
}

// backScratch is the memory of the way back besides requests: parameters in words,
// and what the operations allocate in bytes.
func (s *session) backScratch(e int64) (words, scratch int64) {
	atoms := len(s.in.crystal.Positions)
	scratch = op.Sum{N: s.lossTerms()}.Scratch()
	for i, l := range s.model.Layers {
		words += int64(l.readout().Count)
		scratch += op.GateGrad{Gate: l.Gate}.Scratch() + op.LinearGrad{Linear: l.Linear}.Scratch(s.rows) +
			s.productWays()*s.productGrad(i).Scratch(atoms, s.rows, int(e), s.pulls(), !s.pulls(), s.dev.Info().Kind)
		again := int64(0)
		if !s.keepsWeights() && (s.hiddenOnly() || s.set["recompute"] != recomputeAll) {
			again = s.mlps[i].WeightsScratch(int(e))
		}
		scratch += again
		switch {
		case s.second():
			scratch += s.mlpGrad(i).Scratch(int(e)) + s.secondScratch(l, i, e) + again
		case s.pulls():
			scratch += s.mlpGrad(i).Scratch(int(e))
		default:
			scratch += s.mlpGrad(i).HiddenScratch(int(e)) + s.gradScratch(l, i, e)
		}
	}
	if s.trains() {
		words += s.trainWords()
	}
	return words, scratch
}
