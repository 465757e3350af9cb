package e3nn

import (
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/optim"
)

// bindBack makes the operations of the backward pass, in execution order: the energy, the layers from last to first,
// and the operations that all layers share.
func (s *session) bindBack() error {
	if err := s.bindLoss(); err != nil {
		return fmt.Errorf("the energy: %w", err)
	}
	for i := len(s.model.Layers) - 1; i >= 0; i-- {
		if err := s.bindLayerBack(i); err != nil {
			return fmt.Errorf("layer %d backwards: %w", i+1, err)
		}
	}
	if !s.computesForces() {
		return s.bindOptimizer()
	}
	e, b := s.slots[0].dev, s.back
	sph, err := s.keepBound(op.SphGrad{Sph: op.Sph{LMax: s.model.LMax}}.Bind(s.dev, e.vec, b.dy, b.slope, b.f, s.edges))
	if err != nil {
		return err
	}
	forces, err := s.keepBound(s.positions().Bind(s.dev, op.PositionsBuffers{F: b.f, RowPtr: e.rowptr, ColPtr: e.colptr, Perm: e.perm, Out: b.forces}, s.edges))
	if err != nil {
		return err
	}
	s.plan = append(s.plan, stageOps{stage: stSphBack, ops: repeatOps(sph)}, stageOps{stage: stForces, ops: repeatOps(forces)})
	return nil
}

func (s *session) positions() op.Positions {
	return op.Positions{Points: s.points(), Atoms: len(s.in.crystal.Positions), Rows: s.rows}
}

// bindLoss binds the readouts and the sum of their values. The sum is the energy; its derivative with respect to each
// row's value is 1. In training, bindLoss binds the sum of squared errors instead.
func (s *session) bindLoss() error {
	b := s.back
	ones := make([]float32, s.rows)
	for i := range ones {
		ones[i] = 1
	}
	var ops []*op.Bound
	for i, l := range s.model.Layers {
		r := l.readout()
		r.Add = i > 0
		one, err := s.keepBound(r.Bind(s.dev, s.layers[i].out, s.layers[i].readout, b.rho, s.rows))
		if err != nil {
			return err
		}
		ops = append(ops, one)
	}
	if s.k.Trains() {
		return s.bindResiduals(ops...)
	}
	sum, err := s.keepBound(op.Sum{N: s.rows}.Bind(s.dev, b.rho, b.energy))
	if err != nil {
		return err
	}
	s.plan = append(s.plan, stageOps{stage: stLoss, ops: repeatOps(append(ops, sum)...)})
	return op.Send(s.dev, s.Compute, b.drho, ones)
}

// bindResiduals binds the start of the backward pass for every micro-batch: the readouts, the squared errors and their
// sum, and the scaling of their gradients. For the first micro-batch it also binds the zeroing of accumulated
// gradients.
func (s *session) bindResiduals(readouts ...*op.Bound) error {
	b, step, n := s.back, &s.train.step, s.rows
	sum, err := s.keepBound(op.Sum{N: n}.Bind(s.dev, b.losses, b.energy))
	if err != nil {
		return err
	}
	for micro, target := range s.train.targets {
		residual, err := s.keepBound(op.Residual{Rows: n}.Bind(s.dev, b.rho, target, b.drho, b.losses))
		if err != nil {
			return err
		}
		ops := append(slices.Clone(readouts), residual, sum)
		more := step.Scaled(optim.Cotangent{B: b.drho, N: n})
		if micro == 0 {
			more = append(more, step.Zeros()...)
		}
		if len(more) > 0 {
			begin, err := s.keepBound(op.BindLaunches(s.dev, "the start of the way back", gpuprof.Cost{}, more...))
			if err != nil {
				return err
			}
			ops = append(ops, begin)
		}
		s.plan = append(s.plan, stageOps{stage: stLoss, ops: repeatOps(ops...), from: micro, to: micro + 1})
	}
	return nil
}

// bindLayerBack binds a layer's backward pass: it recomputes discarded values, then runs the readout, gate and linear
// layer, the tensor product and the MLP. The last layer, which runs first, overwrites the gradients of values that all
// layers read; the other layers add to them.
func (s *session) bindLayerBack(i int) error {
	l, p, k, b, own, e := s.model.Layers[i], s.layers[i], s.work[i], s.back, s.back.of[i], s.slots[0].dev
	again, err := s.bindAgain(i)
	if err != nil {
		return err
	}
	if len(again) > 0 {
		s.plan = append(s.plan, stageOps{stage: stRecompute, layer: i, ops: repeatOps(again...)})
	}
	readout, err := s.keepBound(l.readout().BindGrad(s.dev, b.drho, p.readout, own.dout, s.rows))
	if err != nil {
		return err
	}
	gate, err := s.keepBound(op.GateGrad{Gate: l.Gate}.Bind(s.dev, k.pre, own.dout, own.dpre, s.rows))
	if err != nil {
		return err
	}
	linear, err := s.keepBound(op.LinearGrad{Linear: l.Linear}.Bind(s.dev, own.dpre, p.mix, own.dmid, s.rows))
	if err != nil {
		return err
	}
	grads := op.TPGradBuffers{X: p.x, Y: s.harmonics, W: k.w, DOut: own.dmid, Src: e.src, Dst: e.dst, ColPtr: e.colptr, Perm: e.perm, DY: b.dy, DW: own.dw}
	mlp, err := s.keepBound(s.mlpGrad(i).Bind(s.dev, op.MLPGradBuffers{A: k.a, W1: p.w1, W2: p.w2, DW: own.dw, DA: own.da, DB: b.db}, s.edges))
	if err != nil {
		return err
	}
	radial := []*op.Bound{mlp}
	if i == 0 && s.computesForces() { // the gradient of the basis is complete after layer 0
		basis, err := s.keepBound(op.BasisGrad{Basis: s.radialBasis()}.Bind(s.dev, e.vec, b.db, b.slope, s.edges))
		if err != nil {
			return err
		}
		radial = append(radial, basis)
	}
	s.plan = append(s.plan, stageOps{stage: stLinearGateBack, layer: i, ops: repeatOps(readout, gate, linear)})
	if err := s.bindProductGrad(i, grads); err != nil {
		return err
	}
	s.plan = append(s.plan, stageOps{stage: stRadialBack, layer: i, ops: repeatOps(radial...)})
	if s.computesForces() {
		return nil
	}
	return s.bindGrads(i)
}

func (s *session) bindAgain(i int) ([]*op.Bound, error) {
	switch s.k.Recompute {
	case recomputeOff:
		return nil, nil
	case recomputeAll:
		return s.recomputed[i], nil
	}
	weights, err := s.keepBound(s.mlps[i].BindWeights(s.dev, s.work[i].h, s.layers[i].w2, s.work[i].w, s.edges))
	if err != nil {
		return nil, err
	}
	return []*op.Bound{weights}, nil
}

func (s *session) isFirstBack(i int) bool { return i == len(s.model.Layers)-1 }

func (s *session) productGrad(i int) op.TensorProductGrad {
	return op.TensorProductGrad{Product: s.products[i], AddY: !s.isFirstBack(i)}
}

func (s *session) mlpGrad(i int) op.MLPGrad {
	return op.MLPGrad{MLP: s.mlps[i], Add: !s.isFirstBack(i)}
}
