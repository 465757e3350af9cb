package e3nn

import "github.com/gpuprof/gpuprof"

// Step implements gpuprof.Session: one batch through the whole pipeline.
func (s *session) Step(i int, p gpuprof.Probe) error {
	if err := p.Start(i); err != nil {
		return err
	}
	k := i % depth
	sl := &s.slots[k]
	if sl.used {
		sp := p.Begin(s.index[stBackpressure], nil)
		err := sl.free.Wait()
		p.End(sp)
		if err != nil {
			return err
		}
	}
	batch := i % len(s.in.batches)
	sp := p.Begin(s.index[stCollate], nil)
	edges := s.batches.collate(&sl.host, batch)
	p.End(sp)
	if err := s.send(sl, edges, p); err != nil {
		return err
	}
	if err := s.device(k, batch, p); err != nil {
		return err
	}
	if err := s.receive(sl, p); err != nil {
		return err
	}
	return s.wait(i, p)
}

// device enqueues what a step does on the device, as launches or as a graph.
func (s *session) device(k, batch int, p gpuprof.Probe) error {
	if s.graphs.of[k] == nil {
		s.setEdges(k, s.in.edges[batch])
		return s.compute(k, p)
	}
	sp := p.Begin(s.index[stGraph], s.main)
	err := s.graphs.of[k][batch].Enqueue(s.main)
	p.End(sp)
	return err
}

// compute enqueues a slot's launches for the edges that were set.
func (s *session) compute(k int, p gpuprof.Probe) error {
	for j := range s.plan {
		so := &s.plan[j]
		sp := p.Begin(s.index[so.stage], s.main)
		for _, b := range so.ops[k] {
			if err := b.Enqueue(s.main); err != nil {
				return err
			}
		}
		p.End(sp)
	}
	return nil
}

// send copies a batch to the device, with streams=2 beside whatever runs there.
func (s *session) send(sl *slot, edges int, p gpuprof.Probe) error {
	sp := p.Begin(s.index[stH2D], s.copies)
	h, d := &sl.host, &sl.dev
	if err := s.copies.Copy(d.src, 0, h.src, 0, 4*edges); err != nil {
		return err
	}
	if err := s.copies.Copy(d.dst, 0, h.dst, 0, 4*edges); err != nil {
		return err
	}
	if err := s.copies.Copy(d.rowptr, 0, h.rowptr, 0, 4*(s.rows+1)); err != nil {
		return err
	}
	if err := s.copies.Copy(d.vec, 0, h.vec, 0, 12*edges); err != nil {
		return err
	}
	p.End(sp)
	if s.copies != s.main {
		if err := s.copies.Record(sl.ready); err != nil {
			return err
		}
		if err := s.main.WaitFor(sl.ready); err != nil {
			return err
		}
	}
	return s.block(s.copies, p)
}

// block waits for a copy where async_copy=off asks for it.
func (s *session) block(stream gpuprof.Stream, p gpuprof.Probe) error {
	if !s.blocking {
		return nil
	}
	return s.sync(stream, p)
}

func (s *session) sync(stream gpuprof.Stream, p gpuprof.Probe) error {
	sp := p.Begin(s.index[stSync], nil)
	err := stream.Sync()
	p.End(sp)
	return err
}

// receive copies the result back and hands the slot over.
func (s *session) receive(sl *slot, p gpuprof.Probe) error {
	sp := p.Begin(s.index[stD2H], s.main)
	err := s.main.Copy(sl.out, 0, s.result(), 0, sl.out.Len())
	p.End(sp)
	if err != nil {
		return err
	}
	sl.used = true
	if err := s.main.Record(sl.free); err != nil {
		return err
	}
	return s.block(s.main, p)
}

// result is the last layer's output on the device.
func (s *session) result() gpuprof.Buffer { return s.layers[len(s.layers)-1].out }

// wait does what the knobs item_reads, reset_stats, pool_trim and sync ask for.
func (s *session) wait(i int, p gpuprof.Probe) error {
	words := s.result().Len() / 4
	for j := range s.items {
		sp := p.Begin(s.index[stSync], nil)
		err := s.main.Copy(s.item, 0, s.result(), 4*(j%words), 4)
		if err == nil {
			err = s.main.Sync()
		}
		p.End(sp)
		if err != nil {
			return err
		}
	}
	if err := s.resetStats(p); err != nil {
		return err
	}
	if s.trims > 0 && (i+1)%s.trims == 0 {
		sp := p.Begin(s.index[stSync], nil)
		err := s.pool.TrimPool()
		p.End(sp)
		if err != nil {
			return err
		}
	}
	if s.every == 0 || (i+1)%s.every != 0 {
		return nil
	}
	return s.sync(s.main, p)
}

// resetStats begins a new peak of memory in use.
func (s *session) resetStats(p gpuprof.Probe) error {
	if s.reset == resetOff {
		return nil
	}
	if s.reset == resetSync {
		if err := s.sync(s.main, p); err != nil {
			return err
		}
	}
	return s.pool.ResetPeak()
}
