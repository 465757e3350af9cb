package gruflow

import "github.com/gpuprof/gpuprof"

// Step implements gpuprof.Session: one recurrent step of all carriers.
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
	if err := s.send(sl, i%s.batches, p); err != nil {
		return err
	}
	if err := s.device(k, p); err != nil {
		return err
	}
	if err := s.receive(sl, p); err != nil {
		return err
	}
	return s.wait(i, p)
}

// send copies a batch of inputs to the device beside whatever runs there.
func (s *session) send(sl *slot, batch int, p gpuprof.Probe) error {
	sp := p.Begin(s.index[stH2D], s.copies)
	n := sl.x.Len()
	err := s.copies.Copy(sl.x, 0, s.inputs, batch*n, n)
	p.End(sp)
	if err != nil {
		return err
	}
	if err := s.copies.Record(sl.ready); err != nil {
		return err
	}
	return s.stream.WaitFor(sl.ready)
}

// device enqueues what a step does on the device, as launches or as a graph.
func (s *session) device(k int, p gpuprof.Probe) error {
	if s.graphs[k] == nil {
		return s.compute(k, p)
	}
	sp := p.Begin(s.index[stGraph], s.stream)
	err := s.graphs[k].Enqueue(s.stream)
	p.End(sp)
	return err
}

// compute enqueues a slot's groups. The packed read of the metrics belongs to
// their stage: nobody waits for it before the slot is used again.
func (s *session) compute(k int, p gpuprof.Probe) error {
	sl := &s.slots[k]
	for i := range sl.groups {
		g := &sl.groups[i]
		sp := p.Begin(s.index[g.stage], s.stream)
		err := s.run(g)
		if err == nil && g.stage == stMetrics && s.items == 0 {
			err = s.readPacked(sl)
		}
		p.End(sp)
		if err != nil {
			return err
		}
	}
	return nil
}

// readPacked copies all metrics at once.
func (s *session) readPacked(sl *slot) error {
	return s.stream.Copy(sl.metrics, 0, s.flow.metrics, 0, sl.metrics.Len())
}

// receive copies the records back and hands the slot over.
func (s *session) receive(sl *slot, p gpuprof.Probe) error {
	sp := p.Begin(s.index[stD2H], s.stream)
	err := s.stream.Copy(sl.out, 0, s.flow.record, 0, sl.out.Len())
	p.End(sp)
	if err != nil {
		return err
	}
	sl.used = true
	return s.stream.Record(sl.free)
}

// wait does what the knobs item_reads, reset_stats, pool_trim and sync ask for.
func (s *session) wait(i int, p gpuprof.Probe) error {
	for j := range s.items {
		sp := p.Begin(s.index[stSync], nil)
		err := s.readItem(j % s.shape.metrics())
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
		err := s.trimPools()
		p.End(sp)
		if err != nil {
			return err
		}
	}
	if s.every == 0 || (i+1)%s.every != 0 {
		return nil
	}
	return s.syncMain(p)
}

// readItem reads one metric as .item() does.
func (s *session) readItem(word int) error {
	if err := s.stream.Copy(s.item, 0, s.flow.metrics, 4*word, 4); err != nil {
		return err
	}
	return s.stream.Sync()
}

func (s *session) syncMain(p gpuprof.Probe) error {
	sp := p.Begin(s.index[stSync], nil)
	err := s.stream.Sync()
	p.End(sp)
	return err
}

// resetStats begins a new peak of memory in use: the pool's counter, and the
// device's where it has one.
func (s *session) resetStats(p gpuprof.Probe) error {
	switch s.reset {
	case "off":
		return nil
	case resetSync:
		if err := s.syncMain(p); err != nil {
			return err
		}
	}
	s.pool.resetPeak()
	if s.devPool != nil {
		return s.devPool.ResetPeak()
	}
	return nil
}

// trimPools gives unused scratch memory back: to the device, and from its own
// pool, where it has one, to the system.
func (s *session) trimPools() error {
	if err := s.pool.trim(); err != nil || s.devPool == nil {
		return err
	}
	return s.devPool.TrimPool()
}
