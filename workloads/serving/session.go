package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/serving/traffic"
)

// session is the opened workload: everything is allocated.
type session struct {
	dev   device.Device
	k     settings
	net   network
	mem   op.Arena
	slots []slot

	main    device.Stream // copies, and the network with streams=shared
	compute device.Stream // for the network; nil with streams=new
	pace    loop.Pace     // waits of the knobs async_copy, item_reads and sync
	graphs  loop.Graphs
	first   time.Duration // latency of the first request, in a batch of one

	sizes   []int // batch sizes that may run with pad=on or split=best
	split   *traffic.Splitter
	times   map[int]time.Duration // measured time of a batch by size; nil where not measured
	batch   int                   // requests per step
	ready   []byte                // prepared requests of the batch being assembled
	slowest time.Duration         // longest time for reading an outside request; 0 is the default
	wrong   int                   // number of answers in steps that belong to another request
	trace   []time.Duration       // schedule of the trace file, or nil
}

type slot struct {
	at              int           // index among the slots
	in, out         device.Buffer // host memory
	ready, ran, end device.Event  // after the copy to the device, the network, and the copy back
	own             device.Stream // this batch's stream, with streams=new
	used            bool
	requests        int // padded size of the batch
	ids             []int64
	calls           []*traffic.Call // the callers of the requests, if they come from outside
}

func open(ctx context.Context, d device.Device, c workloads.Config) (*session, error) {
	k, err := readSettings(c.Knobs, c.Seed)
	if err != nil {
		return nil, err
	}
	s := &session{
		dev: d, k: k, mem: op.Arena{Dev: d}, slots: make([]slot, k.Slots), pace: workloads.Read[loop.Pace](c.Knobs), sizes: traffic.Sizes(k.MaxBatch),
	}
	if file, is := s.k.traceFile(); is {
		s.trace, err = readTrace(ctx, file)
	}
	if err == nil {
		err = s.allocate(ctx)
	}
	if err == nil {
		err = s.firstRequest(ctx)
	}
	if err == nil && (s.k.BestSplit || s.k.Overload == traffic.Deadline) {
		err = s.timeSizes(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.batch = s.k.MaxBatch
	if s.k.BestSplit {
		s.split = traffic.NewSplitter(s.times, s.k.Pad)
		s.batch = min(s.batch, s.split.First(s.batch))
	}
	s.describeStages()
	return s, nil
}

func (s *session) allocate(ctx context.Context) error {
	err := s.pace.LimitThreads(s.dev)
	if err != nil {
		return err
	}
	if s.main, err = s.dev.NewStream("main"); err != nil {
		return err
	}
	switch s.k.Streams {
	case streamsShared:
		s.compute = s.main
	case streamsOwn:
		if s.compute, err = s.dev.NewStream("network"); err != nil {
			return err
		}
	}
	s.pace.Compute, s.pace.Copies = s.main, s.main
	if s.k.Network == networkSynthetic {
		s.net, err = newSynthetic(s.dev, s.k)
	} else {
		s.net, err = newResidual(ctx, s.dev, s.main, s.k)
	}
	if err != nil {
		return err
	}
	if s.pace.Items > 0 {
		s.pace.Item = s.mem.Bytes("a number read alone", wordBytes, device.Pageable)
	}
	place := device.Pinned
	if !s.k.Pinned {
		place = device.Pageable
	}
	if s.net.hostPrepares() {
		s.ready = make([]byte, s.net.requestBytes()*s.k.MaxBatch)
	}
	for i := range s.slots {
		l := &s.slots[i]
		l.at = i
		l.in = s.mem.Bytes("the requests of a batch", s.net.requestBytes()*s.k.MaxBatch, place)
		l.out = s.mem.Bytes("the answers of a batch", s.net.answerBytes()*s.k.MaxBatch, place)
		if s.mem.Err != nil {
			return s.mem.Err
		}
		l.ids = make([]int64, 0, s.k.MaxBatch)
		for _, e := range []*device.Event{&l.ready, &l.ran, &l.end} {
			if *e, err = s.dev.NewEvent(); err != nil {
				return err
			}
		}
	}
	return nil
}

// captureGraphs captures the network for each slot and batch size.
func (s *session) captureGraphs(ctx context.Context) error {
	on := cmp.Or(s.compute, s.main) // streams=new has no compute; a graph runs on any stream
	for k := range s.slots {
		for _, size := range s.sizes {
			s.graphs.Capture(ctx, s.dev, on, loop.GraphKey{Slot: k, Count: size}, func() error { return s.net.run(on, k, size, 0, loop.Silent{}) })
		}
	}
	return s.graphs.Err
}

// firstRequest answers the first request in a batch of one and records its latency. With warm=off nothing has run
// before. The latency then includes the time for loading kernels, which was measured when the network was opened.
func (s *session) firstRequest(ctx context.Context) error {
	warm := s.k.Warm
	if warm { // also before a capture, during which a library may not load kernels
		if err := s.warmUp(ctx); err != nil {
			return err
		}
	}
	if s.k.Graph {
		if err := s.captureGraphs(ctx); err != nil {
			return err
		}
	}
	l := &s.slots[0]
	l.ids = append(l.ids[:0], 0)
	began := time.Now()
	if err := s.run(l, 0, loop.Silent{}); err != nil {
		return fmt.Errorf("answering the first request: %w", err)
	}
	if err := l.end.Wait(); err != nil {
		return fmt.Errorf("answering the first request: %w", err)
	}
	s.first = time.Since(began)
	if !warm {
		s.first += s.net.loadTime()
		if err := s.warmUp(ctx); err != nil {
			return err
		}
	}
	s.wrong += s.countWrong(l)
	return s.releaseSlot(l)
}

func (s *session) warmUp(ctx context.Context) error {
	return s.net.warmUp(ctx, s.dev, cmp.Or(s.compute, s.main))
}

// timeSizes measures the time of a batch of each size, copies included.
func (s *session) timeSizes(ctx context.Context) error {
	s.times = map[int]time.Duration{}
	l := &s.slots[0]
	for _, b := range s.sizes {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("timing batches of %d: %w", b, err)
		}
		took, err := loop.Shortest(func() error {
			l.ids = l.ids[:0]
			for i := range b {
				l.ids = append(l.ids, int64(i))
			}
			if err := s.run(l, 0, loop.Silent{}); err != nil {
				return err
			}
			return s.finish(l, loop.Silent{})
		}, nil)
		if err != nil {
			return fmt.Errorf("timing batches of %d: %w", b, err)
		}
		s.times[b] = took
	}
	return nil
}

// Main implements workloads.Session.
func (s *session) Main() device.Stream { return s.main }

// Depth implements workloads.Session.
func (s *session) Depth() int { return len(s.slots) }

// Stages implements workloads.Session.
func (s *session) Stages() []gpuprof.Stage { return s.pace.Stages() }

// Cycle implements workloads.Session.
func (s *session) Cycle() int { return s.pace.Cycle() }

// Work implements workloads.Session.
func (s *session) Work() (float64, string) { return float64(s.batch), "requests" }

// Input implements workloads.Session.
func (s *session) Input() map[string]any {
	in := map[string]any{"batch": s.batch, "batches_in_flight": len(s.slots), "images": images, "first_request_s": s.first.Seconds()}
	if n := len(s.graphs.Of); n > 0 {
		in["graphs"], in["graph_setup_s"] = n, s.graphs.Seconds
	}
	maps.Copy(in, s.net.facts())
	if s.k.BestSplit {
		for b, t := range s.times {
			in[fmt.Sprintf("batch_%d_s", b)] = t.Seconds()
		}
	}
	return in
}

// Substituted implements workloads.Substituter.
func (s *session) Substituted() string {
	if n, ok := s.net.(*residual); ok {
		return n.substitution()
	}
	return ""
}

// Close implements workloads.Session. It waits for the batches in flight.
func (s *session) Close() error {
	var errs []error
	for i := range s.slots {
		if own := s.slots[i].own; own != nil {
			errs = append(errs, own.Sync(), own.Close())
		}
	}
	if s.main != nil {
		errs = append(errs, s.main.Sync())
	}
	if s.compute != nil && s.compute != s.main {
		errs = append(errs, s.compute.Sync(), s.compute.Close())
	}
	if s.main != nil {
		errs = append(errs, s.main.Close())
	}
	if s.net != nil {
		errs = append(errs, s.net.close())
	}
	return errors.Join(append(errs, s.mem.Free())...)
}
