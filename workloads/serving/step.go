package serving

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/serving/traffic"
)

// stageAt is a stage by its place in the step.
type stageAt int

// The stages of a step.
const (
	stPreprocess stageAt = iota
	stBatch
	stH2D
	stPrepare
	stForward
	stD2H
	stSync
	stBackpressure
	stAnswer
	stageCount
)

// allStages are the stages by these constants.
func allStages() []gpuprof.Stage {
	return []gpuprof.Stage{
		{Name: "preprocess", Kind: gpuprof.HostStage}, {Name: "batch", Kind: gpuprof.HostStage, Role: gpuprof.RoleCollate},
		loop.Transfer(), {Name: "prepare"}, {Name: "forward"}, loop.Result(),
		loop.Waits()[0], loop.Waits()[1], {Name: "answer", Kind: gpuprof.HostStage},
	}
}

func (s stageAt) name() string { return allStages()[s].Name }

func (s *session) describeStages() {
	all := allStages()
	for i := range all {
		all[i].MaxSpans = 1
	}
	all[stPrepare].MaxSpans, all[stForward].MaxSpans = 0, 0
	if !s.net.prepares() {
		all[stPreprocess].MaxSpans = 0
	}
	s.describeBatch(all, s.padded(s.batch))
	if s.graphs.made > 0 {
		all[stForward].MaxSpans = 1
	}
	all[stSync].MaxSpans = s.pace.Items
	if s.pace.Blocking {
		all[stSync].MaxSpans += 2 // either copy
	}
	if s.pace.Every > 0 {
		all[stSync].MaxSpans++
	}
	s.stages = nil
	for i, st := range all {
		s.index[i] = -1
		if st.MaxSpans > 0 {
			s.index[i] = len(s.stages)
			s.stages = append(s.stages, st)
		}
	}
	s.pace.SyncAt, s.pace.SlotAt = s.index[stSync], s.index[stBackpressure]
}

// describeBatch fills in what a batch of b requests asks of each stage.
func (s *session) describeBatch(all []gpuprof.Stage, b int) {
	in, out := int64(b*s.net.requestBytes()), int64(b*s.net.answerBytes())
	all[stH2D].Minimum, all[stD2H].Minimum = gpuprof.Cost{BytesRead: in, BytesWritten: in}, gpuprof.Cost{BytesRead: out, BytesWritten: out}
	s.net.describe(all, b)
}

// Alone implements workloads.Server.
func (s *session) Alone() ([]gpuprof.Stage, float64) {
	all := allStages()
	s.describeBatch(all, 1)
	if n, ok := s.net.(*synthetic); ok {
		return all, n.takes(1).Seconds()
	}
	return all, 0
}

// padded is the size that a batch of b runs with.
func (s *session) padded(b int) int {
	if s.pad {
		return traffic.Padded(s.sizes, b)
	}
	return b
}

// Step implements workloads.Session: one batch of a queue that is never empty. The answers
// that it gives are those of the batch whose place it takes.
func (s *session) Step(i int, p workloads.Probe) error {
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
	return s.run(l, i, p)
}

// run assembles the batch of the requests in l.ids, the i-th, enqueues everything of it and
// waits as the knobs async_copy, item_reads and sync ask for.
func (s *session) run(l *slot, i int, p workloads.Probe) error {
	if s.net.prepares() {
		sp := p.Begin(s.index[stPreprocess], nil)
		s.prepare(l)
		p.End(sp)
	}
	sp := p.Begin(s.index[stBatch], nil)
	s.assemble(l)
	p.End(sp)
	sp = p.Begin(s.index[stH2D], s.main)
	err := s.main.Copy(s.net.requests(l.at), 0, l.in, 0, l.requests*s.net.requestBytes())
	p.End(sp)
	if err != nil {
		return err
	}
	if err := s.pace.Block(s.main, p); err != nil {
		return err
	}
	if err := s.forward(l, p); err != nil {
		return err
	}
	sp = p.Begin(s.index[stD2H], s.main)
	if err := s.main.Copy(l.out, 0, s.net.answers(l.at), 0, l.requests*s.net.answerBytes()); err != nil {
		return err
	}
	p.End(sp)
	l.used = true
	if err := s.main.Record(l.end); err != nil {
		return err
	}
	if err := s.pace.Block(s.main, p); err != nil {
		return err
	}
	return s.pace.Wait(i, s.net.answers(l.at), l.requests*s.net.answerBytes()/wordBytes, p)
}

// prepare prepares each request by itself, as a service does before it makes batches.
func (s *session) prepare(l *slot) {
	n := s.net.requestBytes()
	for k, id := range l.ids {
		s.fill(s.ready[k*n:(k+1)*n], l, k, id)
	}
}

// fill writes request k of a batch as the device gets it.
func (s *session) fill(dst []byte, l *slot, k int, id int64) {
	if len(l.calls) > 0 {
		s.net.take(dst, l.calls[k].Request)
		return
	}
	s.net.fill(dst, id)
}

// assemble puts the requests into the memory that the device copies from; what fills the
// batch up repeats the first.
func (s *session) assemble(l *slot) {
	in, n := l.in.Bytes(), s.net.requestBytes()
	l.requests = s.padded(len(l.ids))
	if s.net.prepares() {
		copy(in, s.ready[:len(l.ids)*n])
	} else {
		for k, id := range l.ids {
			s.fill(in[k*n:(k+1)*n], l, k, id)
		}
	}
	for k := len(l.ids); k < l.requests; k++ {
		copy(in[k*n:(k+1)*n], in[:n])
	}
}

// forward runs the network on its stream, after the copy to the device and before that
// back, whichever stream it is.
func (s *session) forward(l *slot, p workloads.Probe) error {
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
	if err := s.net.prepare(on, l.at, l.requests, s.index[stPrepare], p); err != nil {
		return err
	}
	if err := s.network(on, l, p); err != nil {
		return err
	}
	if on == s.main {
		return nil
	}
	if err := on.Record(l.ran); err != nil {
		return err
	}
	return s.main.WaitFor(l.ran)
}

// finish waits until a batch is done and looks at its answers.
func (s *session) finish(l *slot, p workloads.Probe) error {
	sp := p.Begin(s.index[stBackpressure], nil)
	err := l.end.Wait()
	p.End(sp)
	if err != nil {
		return err
	}
	sp = p.Begin(s.index[stAnswer], nil)
	s.wrong += s.answers(l)
	p.End(sp)
	return s.release(l)
}

// answers is how many of a batch's answers belong to another request.
func (s *session) answers(l *slot) (wrong int) {
	out, n := l.out.Bytes(), s.net.answerBytes()
	for k, id := range l.ids {
		if !s.net.right(out[k*n:(k+1)*n], id) {
			wrong++
		}
	}
	if s.witness != nil {
		s.witness.see(l.ids, out[:len(l.ids)*n])
	}
	return wrong
}

// release gives a slot back.
func (s *session) release(l *slot) error {
	l.used = false
	clear(l.calls)
	l.calls = l.calls[:0]
	if l.own == nil {
		return nil
	}
	err := l.own.Close()
	l.own = nil
	return err
}
