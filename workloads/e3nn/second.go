package e3nn

import (
	"fmt"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// pullBuffers are the additions of a loss on forces. With v its gradient by every force, and forces = -dE/dpos, the
// gradient by a parameter is the gradient of the slope
//
//	v.forces = sum over edges of u . dE/dvec,  u = v of the destination - v of the source,
//
// which is the rate of change of E when vectors move along u. A change therefore propagates forwards first, alongside
// the kept values of the layers, and then both propagate back. The tensor product is linear in features, harmonics and
// weights, so its change and the backward pass of the change are products as before with one argument exchanged. A
// change is written d here; the gradient of the slope by a change is the energy's own gradient by the value, which
// layerBack kept.
type pullBuffers struct {
	v, u, db, dy           device.Buffer // v [points,3], u [E,3]; changes of basis and harmonics
	da, dh, dw             device.Buffer // changes of a layer's values on edges
	dmid, more, dpre, dout device.Buffer // on rows; more is the second half of dmid
	gpre, gmid, gw, ga     device.Buffer // gradients of the slope by a layer's values
}

// layerBuffers returns the buffers that the next layer overwrites.
func (p pullBuffers) layerBuffers() []device.Buffer {
	return []device.Buffer{p.da, p.dh, p.dw, p.dmid, p.more, p.dpre, p.dout, p.gpre, p.gmid, p.gw, p.ga}
}

// secondRequests lists the memory of pullBuffers.
func (s *session) secondRequests(e int64, w widest) []request {
	p, rows, sh := &s.pull, int64(s.rows), int64((s.model.LMax+1)*(s.model.LMax+1))
	list := []request{
		{"the loss's gradient by forces", 3 * int64(s.points()), []*device.Buffer{&p.v}},
		{"directions of edges", 3 * e, []*device.Buffer{&p.u}},
		{"the radial basis' change", e * basisSize, []*device.Buffer{&p.db}},
		{"the harmonics' change", e * sh, []*device.Buffer{&p.dy}},
	}
	for _, r := range []struct {
		what  string
		words int64
		to    []*device.Buffer
	}{
		{"the hidden layer's change", e * mlpHidden, []*device.Buffer{&p.da, &p.dh, &p.ga}},
		{"the weights' change", e * w.weights, []*device.Buffer{&p.dw, &p.gw}},
		{"the messages' change", rows * w.mid, []*device.Buffer{&p.dmid, &p.more, &p.gmid}},
		{"the mixed messages' change", rows * w.linear, []*device.Buffer{&p.dpre, &p.gpre}},
		{"the output's change", rows * w.out, []*device.Buffer{&p.dout}},
	} {
		for _, b := range r.to {
			list = append(list, request{r.what, r.words, []*device.Buffer{b}})
		}
	}
	return list
}

// bindSecond binds the operations after the forces: their loss, the change along it, and every layer's backward pass
// of the change.
func (s *session) bindSecond() error {
	if err := s.bindResiduals(stForceLoss); err != nil {
		return fmt.Errorf("the loss on forces: %w", err)
	}
	e, p := s.slots[0].dev, s.pull
	u, err := s.keepBound(s.positions().BindGrad(s.dev, p.v, e.src, e.dst, e.colptr, p.u, s.edges))
	if err != nil {
		return err
	}
	basis, err := s.keepBound(op.BasisTangent{Basis: s.radialBasis()}.Bind(s.dev, e.vec, p.u, p.db, s.edges))
	if err != nil {
		return err
	}
	sph, err := s.keepBound(op.SphTangent{Sph: op.Sph{LMax: s.model.LMax}}.Bind(s.dev, e.vec, p.u, p.dy, s.edges))
	if err != nil {
		return err
	}
	s.plan = append(s.plan, stageOps{stage: stEdgeTangent, ops: repeatOps(u, basis, sph)})
	for i := len(s.model.Layers) - 1; i >= 0; i-- {
		if err := s.bindLayerSecond(i); err != nil {
			return fmt.Errorf("layer %d, gradients of forces: %w", i+1, err)
		}
	}
	return nil
}

func (s *session) bindLayerSecond(i int) error {
	again, err := s.bindAgain(i)
	if err != nil {
		return err
	}
	if len(again) > 0 {
		s.plan = append(s.plan, stageOps{stage: stRecompute, layer: i, ops: repeatOps(again...)})
	}
	if err := s.bindChange(i); err != nil {
		return err
	}
	l, k, b, p, w := s.model.Layers[i], s.work[i], s.back.of[i], s.pull, s.layers[i]
	gate, err := s.keepBound(op.GateSecond{Gate: l.Gate}.Bind(s.dev, k.pre, p.dpre, b.dout, p.gpre, s.rows))
	if err != nil {
		return err
	}
	linear, err := s.keepBound(op.LinearGrad{Linear: l.Linear}.Bind(s.dev, p.gpre, w.mix, p.gmid, s.rows))
	if err != nil {
		return err
	}
	s.plan = append(s.plan, stageOps{stage: stLinearGateSecond, layer: i, ops: repeatOps(gate, linear)})
	if err := s.bindProductSecond(i); err != nil {
		return err
	}
	mlp, err := s.keepBound(op.MLPSecond{MLP: s.mlps[i]}.Bind(s.dev, op.MLPSecondBuffers{A: k.a, DA: p.da, W2: w.w2, GW: p.gw, GDH: b.dh, GA: p.ga}, s.edges))
	if err != nil {
		return err
	}
	s.plan = append(s.plan, stageOps{stage: stRadialSecond, layer: i, ops: repeatOps(mlp)})
	return s.bindGrads(i)
}

// changeProduct returns the product that changes go through: one kernel for every impl, as in the backward pass.
func (s *session) changeProduct(i int) op.TensorProduct {
	return op.TensorProduct{TP: s.model.Layers[i].TP, Impl: op.ImplCSR, Layout: s.layout, Scale: s.products[i].Scale}
}

// bindChange binds a layer's change: of its weights, of the sum over neighbours, which has the change by the harmonics
// and the change by the weights, and of its output.
func (s *session) bindChange(i int) error {
	l, k, p, w, e := s.model.Layers[i], s.work[i], s.pull, s.layers[i], s.slots[0].dev
	mlp, err := s.keepBound(op.MLPTangent{MLP: s.mlps[i]}.Bind(s.dev, op.MLPTangentBuffers{A: k.a, DB: p.db, W1: w.w1, W2: w.w2, DA: p.da, DH: p.dh, DW: p.dw}, s.edges))
	if err != nil {
		return err
	}
	var products []*op.Bound
	for _, of := range []struct{ y, w, to device.Buffer }{{p.dy, k.w, p.dmid}, {s.harmonics, p.dw, p.more}} {
		product, _, err := s.changeProduct(i).Bind(s.dev, op.TPBuffers{X: w.x, Y: of.y, W: of.w, Src: e.src, Dst: e.dst, RowPtr: e.rowptr, Out: of.to}, len(s.in.crystal.Positions), s.rows, s.edges)
		if _, err := s.keepBound(product, err); err != nil {
			return err
		}
		products = append(products, product)
	}
	sum, err := s.keepBound(op.BindAdd(s.dev, p.more, p.dmid, s.rows*l.TP.Out.Dim()))
	if err != nil {
		return err
	}
	linear, err := s.keepBound(l.Linear.Bind(s.dev, p.dmid, w.mix, p.dpre, s.rows))
	if err != nil {
		return err
	}
	gate, err := s.keepBound(op.GateTangent{Gate: l.Gate}.Bind(s.dev, k.pre, p.dpre, p.dout, s.rows))
	if err != nil {
		return err
	}
	s.plan = append(s.plan, stageOps{stage: stRadialTangent, layer: i, ops: repeatOps(mlp)}, stageOps{stage: stProductTangent, layer: i, ops: repeatOps(append(products, sum)...)},
		stageOps{stage: stLinearGateTangent, layer: i, ops: repeatOps(linear, gate)})
	return nil
}

// productTerm is one of the products of the slope: of harmonics y and weights w, with the gradient dz of its sums. A
// term without weights has no gradient by them: the energy's backward pass has left the gradient by their change.
type productTerm struct {
	y, w, dz device.Buffer
	weights  bool
}

// productTerms returns the terms of a layer.
func (s *session) productTerms(i int) []productTerm {
	k, b, p := s.work[i], s.back.of[i], s.pull
	return []productTerm{{s.harmonics, k.w, p.gmid, true}, {p.dy, k.w, b.dmid, true}, {s.harmonics, p.dw, b.dmid, false}}
}

// termGrad binds the backward pass of a layer's term number n: the first writes the weights' gradients.
func (s *session) termGrad(i, n int) op.TensorProductGrad {
	return op.TensorProductGrad{Product: s.products[i], AddW: n > 0}
}

// bindProductSecond binds the backward pass of a layer's product and of its change.
func (s *session) bindProductSecond(i int) error {
	e := s.slots[0].dev
	for _, so := range s.gradientVariants() {
		var all []*op.Bound
		for n, term := range s.productTerms(i) {
			g := s.termGrad(i, n)
			g.AddX = so.adds || n > 0
			bufs := op.TPGradBuffers{X: s.layers[i].x, Y: term.y, W: term.w, DOut: term.dz, Src: e.src, Dst: e.dst, ColPtr: e.colptr, Perm: e.perm, DX: s.train.grads[i].x}
			if term.weights {
				bufs.DW = s.pull.gw
			}
			one, err := s.keepBound(g.Bind(s.dev, bufs, len(s.in.crystal.Positions), s.rows, s.edges))
			if err != nil {
				return err
			}
			all = append(all, one)
		}
		so.stage, so.layer, so.ops = stProductSecond, i, repeatOps(all...)
		s.plan = append(s.plan, so)
	}
	return nil
}

// gradTerm is a pair of buffers whose outer products are added to a weight's gradient.
type gradTerm struct{ a, b device.Buffer }

// gradTerms returns the terms of the gradients of a layer's w1, w2, mixing weights and readout: for the energy's
// gradient one each, for the slope's one for the values and one for the changes.
func (s *session) gradTerms(i int) (w1, w2, mix []gradTerm, readout gradTerm) {
	k, b, p := s.work[i], s.back.of[i], s.pull
	if !s.goesBackTwice() {
		return []gradTerm{{s.basis, b.da}}, []gradTerm{{k.h, b.dw}}, []gradTerm{{k.mid, b.dpre}}, gradTerm{s.back.drho, s.layers[i].out}
	}
	return []gradTerm{{s.basis, p.ga}, {p.db, b.da}}, []gradTerm{{k.h, p.gw}, {p.dh, b.dw}}, []gradTerm{{k.mid, p.gpre}, {p.dmid, b.dpre}}, gradTerm{s.back.drho, p.dout}
}

// secondScratch returns the bytes that the operations of bindLayerSecond allocate, without recomputed weights.
func (s *session) secondScratch(l layer, i int, e int64) int64 {
	edges, atoms := int(e), len(s.in.crystal.Positions)
	products := int64(0)
	for n := range 3 { // productTerms
		products += s.termGrad(i, n).Scratch(atoms, s.rows, edges, false, true, s.dev.Info().Kind)
	}
	return op.MLPTangent{MLP: s.mlps[i]}.Scratch(edges) + 2*s.changeProduct(i).Scratch(atoms, s.rows, edges) + l.Linear.Scratch(s.rows) +
		op.GateTangent{Gate: l.Gate}.Scratch() + op.GateSecond{Gate: l.Gate}.Scratch() + op.LinearGrad{Linear: l.Linear}.Scratch(s.rows) +
		int64(len(s.gradientVariants()))*products + op.MLPSecond{MLP: s.mlps[i]}.Scratch(edges) + s.gradScratch(l, i, e)
}
