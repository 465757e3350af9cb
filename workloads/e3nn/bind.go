package e3nn

import (
	"context"
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// Stages of a step, in order. A step has scatter only if the tensor product does not sum over neighbours itself, and
// loss to optimizer only with a backward pass. With a launch graph all device work is one stage, graph, instead of
// radial to optimizer: the host cannot time the parts of a graph.
const (
	stCollate = iota
	stH2D
	stRadial
	stSph
	stProduct
	stScatter
	stLinearGate
	stLoss
	stRecompute
	stLinearGateBack
	stProductBack
	stRadialBack
	stSphBack
	stForces
	stGrads
	stClip
	stOptimizer
	stGraph
	stD2H
	stSync
	stBackpressure
	stageCount
)

func allStages() []gpuprof.Stage {
	return append([]gpuprof.Stage{loop.Host(), loop.Transfer(), {Name: "radial"}, {Name: "sph"}, {Name: "tensor_product", TimedAlone: true},
		{Name: "scatter"}, {Name: "linear_gate"}, {Name: "loss"}, {Name: "recompute"}, {Name: "linear_gate_bwd"}, {Name: "tensor_product_bwd"},
		{Name: "radial_bwd"}, {Name: "sph_bwd"}, {Name: "forces"}, {Name: "grads"}, {Name: "clip"}, {Name: "optimizer"}, {Name: "graph"}, loop.Result()}, loop.Waits()...)
}

func (s *session) bindSlots(ctx context.Context) error {
	if err := s.bindOperations(ctx); err != nil {
		return err
	}
	if err := s.rebindSlots(); err != nil {
		return err
	}
	s.describeStages()
	if s.k.Graph {
		return s.captureGraphs(ctx)
	}
	return nil
}

// bindOperations binds the operations of a step to the buffers of the first slot (batch in flight).
func (s *session) bindOperations(ctx context.Context) error {
	first := s.slots[0].dev
	var shared []*op.Bound
	if s.goesBack() { // in a forward pass the MLP computes the radial functions itself
		basis, err := s.keepBound(s.radialBasis().Bind(s.dev, first.vec, s.basis, s.edges))
		if err != nil {
			return err
		}
		shared = append(shared, basis)
	}
	sph, err := s.keepBound(op.Sph{LMax: s.model.LMax}.Bind(s.dev, first.vec, s.harmonics, s.edges))
	if err != nil {
		return err
	}
	s.plan = append(s.plan, stageOps{stage: stSph, ops: repeatOps(sph)})
	if s.k.Autotune {
		if err := s.startTuning(append(slices.Clone(shared), sph)...); err != nil {
			return fmt.Errorf("tuning: %w", err)
		}
	}
	for i, l := range s.model.Layers {
		if err := s.bindLayer(ctx, i, l, shared); err != nil {
			return fmt.Errorf("layer %d: %w", i+1, err)
		}
	}
	if s.goesBack() {
		return s.bindBack()
	}
	return nil
}

func (s *session) bindMLP(i int) (*op.Bound, error) {
	b, k := s.layers[i], s.work[i]
	if s.goesBack() {
		return s.mlps[i].BindKept(s.dev, s.basis, b.w1, b.w2, k.a, k.h, k.w, s.edges)
	}
	return s.radialOf(i).Bind(s.dev, s.slots[0].dev.vec, b.w1, b.w2, k.w, s.edges)
}

func (s *session) bindProduct(i int) (product, scatter *op.Bound, err error) {
	b, e := s.layers[i], s.slots[0].dev
	bufs := op.TPBuffers{X: b.x, Y: s.harmonics, W: s.work[i].w, Src: e.src, Dst: e.dst, RowPtr: e.rowptr, Out: s.work[i].mid}
	return s.products[i].Bind(s.dev, bufs, len(s.in.crystal.Positions), s.rows, s.edges)
}

func (s *session) bindLayer(ctx context.Context, i int, l layer, shared []*op.Bound) error {
	if s.tuned != nil {
		if err := s.tuneLayer(ctx, i); err != nil {
			return err
		}
	}
	b := s.layers[i]
	mlp, err := s.keepBound(s.bindMLP(i))
	if err != nil {
		return err
	}
	product, scatter, err := s.bindProduct(i)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, product)
	if scatter != nil {
		s.closers = append(s.closers, scatter)
	}
	linear, err := s.keepBound(l.Linear.Bind(s.dev, s.work[i].mid, b.mix, s.work[i].pre, s.rows))
	if err != nil {
		return err
	}
	gate, err := s.keepBound(l.Gate.Bind(s.dev, s.work[i].pre, b.out, s.rows))
	if err != nil {
		return err
	}
	radial := []*op.Bound{mlp}
	if i == 0 { // all layers use the same basis
		radial = append(slices.Clone(shared), mlp)
	}
	s.plan = append(s.plan, stageOps{stage: stRadial, layer: i, ops: repeatOps(radial...)}, stageOps{stage: stProduct, layer: i, ops: repeatOps(product)})
	if scatter != nil {
		s.plan = append(s.plan, stageOps{stage: stScatter, layer: i, ops: repeatOps(scatter)})
	}
	s.plan = append(s.plan, stageOps{stage: stLinearGate, layer: i, ops: repeatOps(linear, gate)})
	if s.k.Recompute == recomputeAll && s.goesBack() { // the backward pass of the layer repeats these operations
		again := []*op.Bound{mlp, product}
		if scatter != nil {
			again = append(again, scatter)
		}
		s.recomputed = append(s.recomputed, append(again, linear))
	}
	return nil
}

func (s *session) keepBound(b *op.Bound, err error) (*op.Bound, error) {
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, b)
	return b, nil
}

func repeatOps(ops ...*op.Bound) (out [depth][]*op.Bound) {
	for i := range out {
		out[i] = ops
	}
	return out
}

// rebindSlots binds the operations to the buffers of the other slots (batches in flight). Slots share tables and
// scratch memory, which is safe because one stream runs them in order.
func (s *session) rebindSlots() error {
	from := s.slots[0].dev
	for k := 1; k < depth; k++ {
		to := s.slots[k].dev
		swap := map[device.Buffer]device.Buffer{from.src: to.src, from.dst: to.dst, from.rowptr: to.rowptr, from.vec: to.vec}
		swap[s.slots[0].result] = s.slots[k].result
		if from.perm != nil {
			swap[from.colptr], swap[from.perm] = to.colptr, to.perm
		}
		for i := range s.plan {
			ops := make([]*op.Bound, len(s.plan[i].ops[0]))
			for j, b := range s.plan[i].ops[0] {
				var err error
				if ops[j], err = b.Rebind(swap); err != nil {
					return err
				}
			}
			s.plan[i].ops[k] = ops
		}
	}
	return nil
}

// captureGraphs captures a step for each slot (a step in flight) and each number of edges that occurs in the rotation
// of batches, which is counted at set-up. Batches with the same number of edges share a graph, because it reads the
// batch from the slot.
func (s *session) captureGraphs(ctx context.Context) error {
	n := len(s.in.batches)
	for k := range depth {
		for b, edges := range s.in.edges {
			if n%depth == 0 && b%depth != k { // this slot never gets this batch
				continue
			}
			s.graphs.Capture(ctx, s.dev, s.Compute, loop.GraphKey{Slot: k, Count: edges}, func() error {
				s.setEdges(k, edges)
				return s.compute(k, 0, loop.Silent{})
			})
		}
	}
	return s.graphs.Err
}

func (s *session) describeStages() {
	s.setEdges(0, s.in.meanEdges())
	all, micros := allStages(), s.k.Micro()
	for i := range all {
		if all[i].Kind != gpuprof.DeviceStage {
			all[i].MaxSpans = micros
		}
	}
	all[stSync].MaxSpans += s.Items + 2 // spans of reads, reset, trim and sync
	if s.Blocking {
		all[stSync].MaxSpans += 2 * micros
	}
	if s.k.Trains() {
		all[stSync].MaxSpans += s.train.step.Reads()
	}
	graph := s.k.Graph
	for _, so := range s.plan {
		st := &all[so.stage]
		if graph {
			st = &all[stGraph]
		}
		for range so.repeatsIn(micros) {
			st.MaxSpans++
			for _, b := range so.ops[0] {
				st.Parts = append(st.Parts, b.Parts()...)
				st.Minimum = st.Minimum.Add(b.Minimum())
			}
		}
	}
	if graph {
		all[stGraph].MaxSpans, all[stGraph].Minimum.Launches = 1, 1
	}
	// A copy reads and writes the same number of bytes.
	e, out := int64(s.in.meanEdges()), s.resultWords()
	in := 4 * (5*e + int64(s.rows) + 1)
	if s.goesBack() {
		in += 4 * (e + int64(len(s.in.crystal.Positions)) + 2)
	}
	if s.slots[0].energy != nil {
		out++
	}
	in, out = in*int64(micros), out*int64(micros)
	all[stH2D].MaxSpans, all[stH2D].Minimum = micros, gpuprof.Cost{BytesRead: in, BytesWritten: in}
	all[stD2H].MaxSpans, all[stD2H].Minimum = micros, gpuprof.Cost{BytesRead: 4 * out, BytesWritten: 4 * out}
	s.Describe(all)
}

func (s *session) setEdges(slot, e int) {
	for i := range s.plan {
		for _, b := range s.plan[i].ops[slot] {
			b.SetEdges(e)
		}
	}
}
