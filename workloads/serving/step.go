package serving

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/serving/traffic"
)

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
	if !s.net.hostPrepares() {
		all[stPreprocess].MaxSpans = 0
	}
	s.describeBatch(all, s.paddedSize(s.batch))
	if len(s.graphs.Of) > 0 {
		all[stForward].MaxSpans = 1
	}
	all[stSync].MaxSpans = s.pace.Items
	if s.pace.Blocking {
		all[stSync].MaxSpans += 2 // one for each copy
	}
	if s.pace.Every > 0 {
		all[stSync].MaxSpans++
	}
	s.pace.Describe(all)
}

func (s *session) describeBatch(all []gpuprof.Stage, b int) {
	in, out := int64(b*s.net.requestBytes()), int64(b*s.net.answerBytes())
	all[stH2D].Minimum, all[stD2H].Minimum = gpuprof.Cost{BytesRead: in, BytesWritten: in}, gpuprof.Cost{BytesRead: out, BytesWritten: out}
	s.net.describeStages(all, b)
}

// Alone implements workloads.Server.
func (s *session) Alone() ([]gpuprof.Stage, float64) {
	all := allStages()
	s.describeBatch(all, 1)
	if n, ok := s.net.(*synthetic); ok {
		return all, n.batchTime(1).Seconds()
	}
	return all, 0
}

func (s *session) paddedSize(b int) int {
	if s.k.Pad {
		return traffic.Padded(s.sizes, b)
	}
	return b
}

// Step implements workloads.Session: it takes one batch from a queue that is never empty, and checks the answers of
// the previous batch in the same slot.
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

// run assembles the batch of requests l.ids for step i, enqueues its work, and waits where the knobs require it.
func (s *session) run(l *slot, i int, p workloads.Probe) error {
	if s.net.hostPrepares() {
		sp := p.Begin(s.pace.Span[stPreprocess], nil)
		s.prepareRequests(l)
		p.End(sp)
	}
	sp := p.Begin(s.pace.Span[stBatch], nil)
	s.assembleBatch(l)
	p.End(sp)
	sp = p.Begin(s.pace.Span[stH2D], s.main)
	err := s.main.Copy(s.net.inputBuffer(l.at), 0, l.in, 0, l.requests*s.net.requestBytes())
	p.End(sp)
	if err != nil {
		return err
	}
	if err := s.pace.SyncIfBlocking(s.main, p); err != nil {
		return err
	}
	if err := s.forward(l, p); err != nil {
		return err
	}
	sp = p.Begin(s.pace.Span[stD2H], s.main)
	if err := s.main.Copy(l.out, 0, s.net.outputBuffer(l.at), 0, l.requests*s.net.answerBytes()); err != nil {
		return err
	}
	p.End(sp)
	l.used = true
	if err := s.main.Record(l.end); err != nil {
		return err
	}
	if err := s.pace.SyncIfBlocking(s.main, p); err != nil {
		return err
	}
	return s.pace.Wait(i, s.net.outputBuffer(l.at), l.requests*s.net.answerBytes()/wordBytes, p)
}

func (s *session) prepareRequests(l *slot) {
	n := s.net.requestBytes()
	for k, id := range l.ids {
		s.fillRequest(s.ready[k*n:(k+1)*n], l, k, id)
	}
}

func (s *session) fillRequest(dst []byte, l *slot, k int, id int64) {
	if len(l.calls) > 0 {
		s.net.decodeRequest(dst, l.calls[k].Request)
		return
	}
	s.net.writeRequest(dst, id)
}

// assembleBatch copies the requests to the memory that the device reads. It pads the batch with copies of the first
// request.
func (s *session) assembleBatch(l *slot) {
	in, n := l.in.Bytes(), s.net.requestBytes()
	l.requests = s.paddedSize(len(l.ids))
	if s.net.hostPrepares() {
		copy(in, s.ready[:len(l.ids)*n])
	} else {
		for k, id := range l.ids {
			s.fillRequest(in[k*n:(k+1)*n], l, k, id)
		}
	}
	for k := len(l.ids); k < l.requests; k++ {
		copy(in[k*n:(k+1)*n], in[:n])
	}
}

// forward runs the network on its stream, after the copy to the device and before the copy back. The copies may be on
// another stream.
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
	if err := s.net.prepareBatch(on, l.at, l.requests, s.pace.Span[stPrepare], p); err != nil {
		return err
	}
	if err := s.runNetwork(on, l, p); err != nil {
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

// runNetwork enqueues the network for a batch, as single launches or as the graph captured for the batch's size. With
// pad=on only sizes with a graph occur.
func (s *session) runNetwork(on device.Stream, l *slot, p workloads.Probe) error {
	if replayed, err := s.graphs.Replay(loop.GraphKey{Slot: l.at, Count: l.requests}, on, s.pace.Span[stForward], p); replayed {
		return err
	}
	return s.net.run(on, l.at, l.requests, s.pace.Span[stForward], p)
}

func (s *session) finish(l *slot, p workloads.Probe) error {
	sp := p.Begin(s.pace.Span[stBackpressure], nil)
	err := l.end.Wait()
	p.End(sp)
	if err != nil {
		return err
	}
	sp = p.Begin(s.pace.Span[stAnswer], nil)
	s.wrong += s.countWrong(l)
	p.End(sp)
	return s.releaseSlot(l)
}

// countWrong counts the answers of a batch that belong to another request.
func (s *session) countWrong(l *slot) (wrong int) {
	out, n := l.out.Bytes(), s.net.answerBytes()
	for k, id := range l.ids {
		if !s.net.isRight(out[k*n:(k+1)*n], id) {
			wrong++
		}
	}
	return wrong
}

func (s *session) releaseSlot(l *slot) error {
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
