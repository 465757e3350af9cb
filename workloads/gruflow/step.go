package gruflow

import (
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
)

// Step implements workloads.Session: one recurrent step of all carriers.
func (s *session) Step(i int, p workloads.Probe) error {
	if err := p.Start(i); err != nil {
		return err
	}
	k := i % depth
	sl := &s.slots[k]
	if err := s.WaitForSlot(&sl.Events, p); err != nil {
		return err
	}
	if err := s.checkFinite(i, sl); err != nil {
		return err
	}
	if err := s.send(sl, i%s.batches, p); err != nil {
		return err
	}
	if err := s.runDevice(k, p); err != nil {
		return err
	}
	if err := s.receive(sl, p); err != nil {
		return err
	}
	if err := s.readLoss(i, p); err != nil {
		return err
	}
	if s.rec != nil {
		s.windows += s.k.Micro()
	}
	if s.train != nil {
		s.train.done++
	}
	return s.Wait(i, s.flow.metrics, s.metricWords(), p)
}

// send copies a batch of inputs to the device, concurrently with the device's computation.
func (s *session) send(sl *slot, batch int, p workloads.Probe) error {
	sp := p.Begin(s.Span[stH2D], s.Copies)
	n := sl.x.Len()
	err := s.Copies.Copy(sl.x, 0, s.inputs, batch*n, n)
	p.End(sp)
	if err != nil {
		return err
	}
	return s.WaitForCopy(&sl.Events, p)
}

// runDevice enqueues a step's device work, as launches or as a graph.
func (s *session) runDevice(k int, p workloads.Probe) error {
	if replayed, err := s.graphs.Replay(loop.GraphKey{Slot: k}, s.stream, s.Span[stGraph], p); replayed {
		return err
	}
	return s.compute(k, p)
}

// compute enqueues a slot's groups. The copy of all metrics to the host is in the span of the stage that completes
// them, because no thread waits for this copy before the slot's next use.
func (s *session) compute(k int, p workloads.Probe) error {
	sl := &s.slots[k]
	micro := 0
	for i := range sl.groups {
		g := &sl.groups[i]
		if g.micro > micro {
			micro = g.micro
			if err := s.ResetStats(p); err != nil {
				return err
			}
		}
		if g.part != nil && s.train.step.Skips(g.part) {
			continue
		}
		sp := p.Begin(s.Span[g.stage], s.stream)
		err := s.run(g)
		if err == nil && g.stage == s.lastRead() && s.Items == 0 {
			err = s.readPacked(sl)
		}
		p.End(sp)
		if err != nil {
			return err
		}
		if g.part == nil { // not a part of an optimizer step
			continue
		}
		if err := s.train.step.ReadState(g.part, func(from device.Buffer, at int) (float32, error) { return s.Read(from, at, p) }); err != nil {
			return err
		}
	}
	return nil
}

// readLoss reads the loss on the host as often as the knob loss_read requires.
func (s *session) readLoss(i int, p workloads.Probe) error {
	if s.train == nil || !s.train.step.ReadsLoss(i) {
		return nil
	}
	_, err := s.Read(s.train.loss, 0, p)
	return err
}

// lastRead returns the index of the stage after which the metrics are complete.
func (s *session) lastRead() int {
	if s.train != nil {
		return stLoss
	}
	return stMetrics
}

func (s *session) readPacked(sl *slot) error {
	return s.stream.Copy(sl.metrics, 0, s.flow.metrics, 0, sl.metrics.Len())
}

// receive copies the records to the host and releases the slot.
func (s *session) receive(sl *slot, p workloads.Probe) error {
	sp := p.Begin(s.Span[stD2H], s.stream)
	err := s.stream.Copy(sl.out, 0, s.flow.record, 0, sl.out.Len())
	p.End(sp)
	if err != nil {
		return err
	}
	return s.RecordFree(&sl.Events)
}

// pools combines the workload's pool and, if there is one, the device's pool below it.
type pools struct{ s *session }

// ResetPeak implements device.Pool: it resets the peaks of both pools.
func (p pools) ResetPeak() error {
	p.s.memory.ResetPeak()
	if p.s.devPool != nil {
		return p.s.devPool.ResetPeak()
	}
	return nil
}

// Reserved implements device.Pool: it returns the bytes that the workload's pool holds.
func (p pools) Reserved() int64 { return p.s.memory.Stats().Reserved }

// TrimPool implements device.Pool: it returns unused scratch memory to the device, and from the device's pool, if
// there is one, to the system.
func (p pools) TrimPool() error {
	if err := p.s.memory.Trim(); err != nil || p.s.devPool == nil {
		return err
	}
	return p.s.devPool.TrimPool()
}
