package serving

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/serving/traffic"
)

// stageAt is a stage by its place in the step.
type stageAt int

// The stages of a step.
const (
	stBatch stageAt = iota
	stH2D
	stForward
	stD2H
	stBackpressure
	stAnswer
	stageCount
)

// allStages are the stages by these constants.
func allStages() []gpuprof.Stage {
	return []gpuprof.Stage{
		{Name: "batch", Kind: gpuprof.HostStage, Role: gpuprof.RoleCollate}, loop.Transfer(), {Name: "forward"}, loop.Result(),
		{Name: loop.Backpressure, Kind: gpuprof.WaitStage, Role: gpuprof.RoleSlot}, {Name: "answer", Kind: gpuprof.HostStage},
	}
}

func (s stageAt) name() string { return allStages()[s].Name }

func (s *session) describeStages() {
	all := allStages()
	for i := range all {
		all[i].MaxSpans = 1
	}
	n := int64(s.padded(s.batch)) * wordBytes
	copied := gpuprof.Cost{BytesRead: n, BytesWritten: n}
	all[stH2D].Minimum, all[stD2H].Minimum = copied, copied
	all[stForward].Parts = []gpuprof.Part{{Kernel: syntheticKernel.Name, Cost: gpuprof.Cost{BytesRead: n, BytesWritten: n, Launches: 1}}}
	s.stages = all
}

// padded is the size that a batch of b runs with.
func (s *session) padded(b int) int {
	if s.pad {
		return traffic.Padded(s.sizes, b)
	}
	return b
}

// Step implements gpuprof.Session: one batch of a queue that is never empty. The answers
// that it gives are those of the batch whose place it takes.
func (s *session) Step(i int, p gpuprof.Probe) error {
	if err := p.Start(i); err != nil {
		return err
	}
	l := &s.slots[i%len(s.slots)]
	if l.used {
		if err := s.finish(l, p); err != nil {
			return err
		}
	}
	l.ids = l.ids[:0]
	for k := range s.batch {
		l.ids = append(l.ids, int64(i)*int64(s.batch)+int64(k))
	}
	return s.run(l, p)
}

// run assembles the batch of the requests in l.ids and enqueues everything of it.
func (s *session) run(l *slot, p gpuprof.Probe) error {
	sp := p.Begin(int(stBatch), nil)
	s.assemble(l)
	p.End(sp)
	if err := s.send(l, p); err != nil {
		return err
	}
	if err := s.forward(l, p); err != nil {
		return err
	}
	sp = p.Begin(int(stD2H), s.main)
	if err := s.main.Copy(l.out, 0, l.devOut, 0, l.requests*wordBytes); err != nil {
		return err
	}
	p.End(sp)
	l.used = true
	return s.main.Record(l.end)
}

// assemble puts the requests into the memory that the device copies from; what fills the
// batch up repeats the first.
func (s *session) assemble(l *slot) {
	in := gpuprof.Floats(l.in)
	l.requests = s.padded(len(l.ids))
	for k := range l.requests {
		id := l.ids[0]
		if k < len(l.ids) {
			id = l.ids[k]
		}
		in[k] = s.net.inputs[id%images]
	}
}

func (s *session) send(l *slot, p gpuprof.Probe) error {
	sp := p.Begin(int(stH2D), s.main)
	err := s.main.Copy(l.devIn, 0, l.in, 0, l.requests*wordBytes)
	p.End(sp)
	return err
}

// forward runs the network on its stream, after the copy to the device and before that
// back, whichever stream it is.
func (s *session) forward(l *slot, p gpuprof.Probe) error {
	on := s.compute
	if on == nil {
		var err error
		if on, err = s.dev.NewStream("batch"); err != nil {
			return err
		}
		l.own = on
	}
	if on != s.main {
		if err := s.main.Record(l.ready); err != nil {
			return err
		}
		if err := on.WaitFor(l.ready); err != nil {
			return err
		}
	}
	s.net.set(&l.args, l.requests)
	sp := p.Begin(int(stForward), on)
	if err := on.Launch(s.net.fn, 1, &l.args); err != nil {
		return err
	}
	p.End(sp)
	if on == s.main {
		return nil
	}
	if err := on.Record(l.ran); err != nil {
		return err
	}
	return s.main.WaitFor(l.ran)
}

// finish waits until a batch is done and looks at its answers.
func (s *session) finish(l *slot, p gpuprof.Probe) error {
	sp := p.Begin(int(stBackpressure), nil)
	err := l.end.Wait()
	p.End(sp)
	if err != nil {
		return err
	}
	sp = p.Begin(int(stAnswer), nil)
	s.wrong += s.answers(l)
	p.End(sp)
	return s.release(l)
}

// answers is how many of a batch's answers belong to another request.
func (s *session) answers(l *slot) (wrong int) {
	out := gpuprof.Floats(l.out)
	for k, id := range l.ids {
		if out[k] != s.net.answer(int(id%images)) {
			wrong++
		}
	}
	return wrong
}

// release gives a slot back.
func (s *session) release(l *slot) error {
	l.used = false
	if l.own == nil {
		return nil
	}
	err := l.own.Close()
	l.own = nil
	return err
}
