package e3nn

import (
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
)

// Step implements workloads.Session: one batch through the pipeline; in training, all its micro-batches.
func (s *session) Step(i int, p workloads.Probe) error {
	if err := p.Start(i); err != nil {
		return err
	}
	micros := s.k.Micro()
	for micro := range micros {
		if micro > 0 {
			if err := s.ResetStats(p); err != nil {
				return err
			}
		}
		if err := s.microStep(i*micros+micro, micro, p); err != nil {
			return err
		}
	}
	if s.k.Trains() && s.train.step.ReadsLoss(i) {
		if _, err := s.Read(s.back.energy, 0, p); err != nil {
			return err
		}
	}
	result := s.slots[(i*micros+micros-1)%depth].result
	return s.Wait(i, result, result.Len()/4, p)
}

// microStep passes one micro-batch through the pipeline. i counts micro-batches over all steps.
func (s *session) microStep(i, micro int, p workloads.Probe) error {
	k := i % depth
	sl := &s.slots[k]
	if err := s.WaitForSlot(&sl.Events, p); err != nil {
		return err
	}
	if err := s.checkFinite(i, sl); err != nil {
		return err
	}
	batch := i % len(s.in.batches)
	sp := p.Begin(s.Span[stCollate], nil)
	edges := s.batches.collate(&sl.host, batch)
	p.End(sp)
	if s.dropEdges != nil {
		edges = s.dropEdges(sl)
	}
	if err := s.send(sl, edges, p); err != nil {
		return err
	}
	if err := s.runDevice(k, micro, edges, p); err != nil {
		return err
	}
	s.train.done++
	return s.receive(sl, p)
}

// runDevice enqueues a step's device work, as launches or as a graph, which covers all edges of its batch.
func (s *session) runDevice(k, micro, edges int, p workloads.Probe) error {
	if s.dropEdges == nil {
		if replayed, err := s.graphs.Replay(loop.GraphKey{Slot: k, Count: edges}, s.Compute, s.Span[stGraph], p); replayed {
			return err
		}
	}
	s.setEdges(k, edges)
	return s.compute(k, micro, p)
}

// compute enqueues the operations of slot k for micro-batch micro, with the number of edges that the caller has set.
func (s *session) compute(k, micro int, p workloads.Probe) error {
	for j := range s.plan {
		so := &s.plan[j]
		if !so.appliesTo(micro) || so.part != nil && s.train.step.Skips(so.part) {
			continue
		}
		sp := p.Begin(s.Span[so.stage], s.Compute)
		for _, b := range so.ops[k] {
			if err := b.Enqueue(s.Compute); err != nil {
				return err
			}
		}
		p.End(sp)
		if so.part == nil { // not a part of an optimizer step
			continue
		}
		if err := s.train.step.ReadState(so.part, func(from device.Buffer, at int) (float32, error) { return s.Read(from, at, p) }); err != nil {
			return err
		}
	}
	return nil
}

// send copies a batch to the device, with streams=2 during the device's computation.
func (s *session) send(sl *slot, edges int, p workloads.Probe) error {
	sp := p.Begin(s.Span[stH2D], s.Copies)
	h, d := &sl.host, &sl.dev
	if err := s.Copies.Copy(d.src, 0, h.src, 0, 4*edges); err != nil {
		return err
	}
	if err := s.Copies.Copy(d.dst, 0, h.dst, 0, 4*edges); err != nil {
		return err
	}
	if err := s.Copies.Copy(d.rowptr, 0, h.rowptr, 0, 4*(s.rows+1)); err != nil {
		return err
	}
	if err := s.Copies.Copy(d.vec, 0, h.vec, 0, 12*edges); err != nil {
		return err
	}
	if h.perm != nil {
		if err := s.Copies.Copy(d.colptr, 0, h.colptr, 0, h.colptr.Len()); err != nil {
			return err
		}
		if err := s.Copies.Copy(d.perm, 0, h.perm, 0, 4*edges); err != nil {
			return err
		}
	}
	p.End(sp)
	return s.WaitForCopy(&sl.Events, p)
}

// receive copies the result to the host, with streams=3 during the next step, and releases the slot.
func (s *session) receive(sl *slot, p workloads.Probe) error {
	if err := s.Computed(&sl.Events); err != nil {
		return err
	}
	sp := p.Begin(s.Span[stD2H], s.Results)
	err := s.Results.Copy(sl.out, 0, sl.result, 0, sl.out.Len())
	if err == nil && sl.energy != nil {
		err = s.Results.Copy(sl.energy, 0, s.back.energy, 0, 4)
	}
	p.End(sp)
	if err != nil {
		return err
	}
	if err := s.RecordFree(&sl.Events); err != nil {
		return err
	}
	return s.SyncIfBlocking(s.Results, p)
}

// outputOf returns a layer's output in slot k. Slots share all outputs but the result, which may still be copied during
// the next step.
func (s *session) outputOf(k, layer int) device.Buffer {
	if layer == len(s.layers)-1 && !s.goesBack() {
		return s.slots[k].result
	}
	return s.layers[layer].out
}

// placeResults sets each slot's result buffer: the last layer's output, the forces on all points, or the loss.
func (s *session) placeResults() {
	first := s.layers[len(s.layers)-1].out
	switch {
	case s.k.Trains():
		first = s.back.energy
	case s.goesBack():
		first = s.back.forces
	}
	for k := range s.slots {
		if s.slots[k].result = first; k > 0 && s.overlapsResults() {
			s.slots[k].result = s.mem.Words("a slot's result", s.resultWords(), device.OnDevice)
		}
	}
}

func (s *session) overlapsResults() bool { return s.ThreeStreams }

func (s *session) resultWords() int64 {
	switch {
	case s.k.Trains():
		return 1
	case s.goesBack():
		return 3 * int64(s.points())
	}
	return int64(s.rows) * int64(s.lastLayer().Out.Dim())
}
