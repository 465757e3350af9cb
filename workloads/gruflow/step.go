package gruflow

import (
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/optim"
)

// Step implements workloads.Session: one recurrent step of all carriers.
func (s *session) Step(i int, p workloads.Probe) error {
	if err := p.Start(i); err != nil {
		return err
	}
	k := i % depth
	sl := &s.slots[k]
	if err := s.Room(&sl.Events, p); err != nil {
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
		s.windows += microOf(s.set)
	}
	if s.train != nil {
		s.train.done++
	}
	return s.Wait(i, s.flow.metrics, s.metricWords(), p)
}

// send copies a batch of inputs to the device while the device computes.
func (s *session) send(sl *slot, batch int, p workloads.Probe) error {
	sp := p.Begin(s.index[stH2D], s.Copies)
	n := sl.x.Len()
	err := s.Copies.Copy(sl.x, 0, s.inputs, batch*n, n)
	p.End(sp)
	if err != nil {
		return err
	}
	return s.Arrive(&sl.Events, p)
}

// runDevice enqueues the device work of a step, as launches or as a graph.
func (s *session) runDevice(k int, p workloads.Probe) error {
	if s.graphs[k] == nil {
		return s.compute(k, p)
	}
	sp := p.Begin(s.index[stGraph], s.stream)
	err := s.graphs[k].Enqueue(s.stream)
	p.End(sp)
	return err
}

// compute enqueues a slot's groups. The packed read of the metrics belongs to their stage: no thread waits for it
// before the slot is used again.
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
		sp := p.Begin(s.index[g.stage], s.stream)
		err := s.run(g)
		if err == nil && g.stage == s.lastRead() && s.Items == 0 {
			err = s.readPacked(sl)
		}
		p.End(sp)
		if err != nil {
			return err
		}
		if err := s.readDecision(g.part, p); err != nil {
			return err
		}
	}
	return nil
}

// readDecision reads the value that the host needs for a decision after a part of the optimizer's step.
func (s *session) readDecision(part *optim.Part, p workloads.Probe) error {
	if part == nil { // a workload that does not train has no step
		return nil
	}
	return s.train.step.Hear(part, func(from device.Buffer, at int) (float32, error) { return s.Read(from, at, p) })
}

// readLoss reads the loss on the host as the knob loss_read requires.
func (s *session) readLoss(i int, p workloads.Probe) error {
	if s.train == nil || !s.train.step.ReadsLoss(i) {
		return nil
	}
	_, err := s.Read(s.train.loss, 0, p)
	return err
}

// lastRead returns the stage after which the metrics are complete.
func (s *session) lastRead() int {
	if s.train != nil {
		return stLoss
	}
	return stMetrics
}

// readPacked copies all metrics at once.
func (s *session) readPacked(sl *slot) error {
	return s.stream.Copy(sl.metrics, 0, s.flow.metrics, 0, sl.metrics.Len())
}

// receive copies the records back and hands the slot over.
func (s *session) receive(sl *slot, p workloads.Probe) error {
	sp := p.Begin(s.index[stD2H], s.stream)
	err := s.stream.Copy(sl.out, 0, s.flow.record, 0, sl.out.Len())
	p.End(sp)
	if err != nil {
		return err
	}
	return s.Leave(&sl.Events)
}

// pools are the workload's pool and, where it has one, the device's below it.
type pools struct{ s *session }

// ResetPeak implements device.Pool: both counters begin anew.
func (p pools) ResetPeak() error {
	p.s.memory.ResetPeak()
	if p.s.devPool != nil {
		return p.s.devPool.ResetPeak()
	}
	return nil
}

// Reserved implements device.Pool: the bytes that the workload's pool holds.
func (p pools) Reserved() int64 { return p.s.memory.Stats().Reserved }

// TrimPool implements device.Pool: unused scratch memory goes back to the device,
// and from its own pool, where it has one, to the system.
func (p pools) TrimPool() error {
	if err := p.s.memory.Trim(); err != nil || p.s.devPool == nil {
		return err
	}
	return p.s.devPool.TrimPool()
}
