package collate

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
)

// Stages of a step, in order. Stage starved is the caller's time until the batch is complete: with workers the wait
// for them, without workers the making of the batch. Stages sample and collate are spans inside it.
const (
	stStarved = iota
	stSample
	stCollate
	stStage
	stH2D
	stConsume
	stSync
	stBackpressure
	stageCount
)

func allStages() []gpuprof.Stage {
	return append([]gpuprof.Stage{
		{Name: "starved", Kind: gpuprof.WaitStage, Role: gpuprof.RoleInput},
		{Name: "sample", Kind: gpuprof.HostStage, Role: gpuprof.RoleSample},
		{Name: loop.Collate, Kind: gpuprof.HostStage, Role: gpuprof.RoleCollate},
		{Name: loop.Stage, Kind: gpuprof.HostStage, Role: gpuprof.RoleStaging},
		loop.Transfer(), {Name: "consume"},
	}, loop.Waits()...)
}

func (s *session) describeStages() {
	all := allStages()
	for i := range all {
		all[i].MaxSpans = 1
	}
	all[stSync].MaxSpans += s.Items
	if s.Blocking {
		all[stSync].MaxSpans++
	}
	var bytes int64
	for _, f := range fields {
		bytes += int64(4 * s.survey.mean[f.unit] * float64(f.width))
	}
	// A copy reads and writes the same number of bytes.
	all[stH2D].Minimum = gpuprof.Cost{BytesRead: bytes, BytesWritten: bytes}
	for _, u := range []int{uEdge, uReach} {
		cost := consumeCost(int(s.survey.mean[u]+0.5), s.k.Consume)
		all[stConsume].Minimum = all[stConsume].Minimum.Add(cost)
		cost.Launches = 1
		all[stConsume].Parts = append(all[stConsume].Parts, gpuprof.Part{Kernel: consumeKernel.Name, Cost: cost})
	}
	s.Describe(all)
}

// Step implements workloads.Session: it passes one batch from its maker to the device.
func (s *session) Step(i int, p workloads.Probe) error {
	if err := p.Start(i); err != nil {
		return err
	}
	l := &s.lanes[i%depth]
	if err := s.WaitForSlot(&l.Events, p); err != nil {
		return err
	}
	sl, err := s.fetch(i, p)
	if err != nil {
		return err
	}
	sp := p.Begin(stStage, nil)
	err = s.stageBatch(l, sl)
	p.End(sp)
	if err != nil {
		return err
	}
	if err := s.sendBatch(l, p); err != nil {
		return err
	}
	if err := s.run(l, p); err != nil {
		return err
	}
	return s.Wait(i, l.out, max(1, l.from.rows[uEdge]+l.from.rows[uReach]), p)
}

// fetch takes batch i from the workers, or makes it.
func (s *session) fetch(i int, p workloads.Probe) (*slot, error) {
	sp := p.Begin(stStarved, nil)
	var sl *slot
	var err error
	if s.pool != nil {
		s.watch.recordQueue(s.pool.ready.Load())
		sl, err = s.pool.nextBatch(i)
	} else {
		sl = s.own[i%depth]
		err = s.makeHere(i, sl, p)
	}
	p.End(sp)
	if err != nil {
		return nil, err
	}
	s.watch.recordBatch(sl)
	return sl, nil
}

func (s *session) makeHere(i int, sl *slot, p workloads.Probe) error {
	sl.index, sl.cost = i, batchCost{}
	sp := p.Begin(stSample, nil)
	err := s.maker.drawSamples(sl)
	p.End(sp)
	if err != nil {
		return err
	}
	sp = p.Begin(stCollate, nil)
	err = s.maker.collate(sl)
	p.End(sp)
	return err
}

// stageBatch copies the batch to staging memory, from which the device copies. With pinned=off it does not copy if
// the device can read the slot's memory.
func (s *session) stageBatch(l *lane, sl *slot) error {
	if !l.placed.fits(sl.rows) {
		bigger := l.placed.grownTo(sl.rows)
		if err := l.placeBuffers(s, bigger.caps); err != nil {
			return err
		}
	}
	switch {
	case s.k.Pinned == pinnedBatch:
		if err := s.mem.Drop(l.host); err != nil {
			return err
		}
		l.staged = frameOf(sl.rows)
		l.host = s.mem.Bytes("staging memory", 4*l.staged.words, device.Pinned)
	case s.k.Pinned == pinnedOff && sl.buf != nil:
		if sl.spill {
			if err := s.enlarge(sl); err != nil {
				return err
			}
		}
		l.from, l.buf = sl.batch, sl.buf
		return nil
	case l.host == nil || !l.staged.fits(sl.rows):
		if err := s.mem.Drop(l.host); err != nil {
			return err
		}
		place := device.Pinned
		if s.k.Pinned == pinnedOff {
			place = device.Pageable
		}
		l.staged = l.placed
		l.host = s.mem.Bytes("staging memory", 4*l.staged.words, place)
	}
	if s.mem.Err != nil {
		return s.mem.Err
	}
	l.from, l.buf = sl.batch, l.host
	l.from.mem, l.from.at = l.host.Bytes(), l.staged.at
	for f := range fields {
		copy(l.from.bytesOf(f), sl.bytesOf(f))
	}
	return nil
}

// enlarge moves a slot's spilled batch to device-readable memory that fits it.
func (s *session) enlarge(sl *slot) error {
	bigger := sl.frame.grownTo(sl.rows)
	if err := s.mem.Drop(sl.buf); err != nil {
		return err
	}
	if sl.buf = s.mem.Bytes("a batch", 4*bigger.words, device.Pageable); s.mem.Err != nil {
		return s.mem.Err
	}
	old := sl.batch
	sl.home, sl.frame, sl.spill = sl.buf.Bytes(), bigger, false
	sl.mem, sl.at = sl.home, bigger.at
	for f := range fields {
		copy(sl.bytesOf(f), old.bytesOf(f))
	}
	return nil
}

// sendBatch copies a batch to the device array by array, like a loop over a dictionary of tensors.
func (s *session) sendBatch(l *lane, p workloads.Probe) error {
	sp := p.Begin(stH2D, s.Copies)
	for f := range fields {
		if err := s.Copies.Copy(l.dev, 4*l.placed.at[f], l.buf, 4*l.from.at[f], 4*l.from.wordsOf(f)); err != nil {
			return err
		}
	}
	p.End(sp)
	return s.WaitForCopy(&l.Events, p)
}

// run launches the kernel for the batch's atom edges, then for its probe edges.
func (s *session) run(l *lane, p workloads.Probe) error {
	edges, reach := l.from.rows[uEdge], l.from.rows[uReach]
	device.View[consumeView](&l.args[1]).at.Set(edges)
	sp := p.Begin(stConsume, s.Compute)
	if err := s.Compute.Launch(s.consume, edges, &l.args[0]); err != nil {
		return err
	}
	if err := s.Compute.Launch(s.consume, reach, &l.args[1]); err != nil {
		return err
	}
	p.End(sp)
	return s.RecordFree(&l.Events)
}
