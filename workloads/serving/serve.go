package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/latency"
	"github.com/gpuprof/gpuprof/internal/loadtest"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/serving/traffic"
)

// The window of a load is divided into blocks, each of at least blockTimes relaxation times of the queue and at least
// blockLength requests. If the time limit allows, the window is long enough for 20 such blocks.
const (
	blockTimes  = 10
	blocks      = 20
	blockLength = 1000 // requests
	// warmUpShare is the largest share of the load's time that the warm-up may take.
	warmUpShare = 0.25
)

type runner struct {
	s       *session
	head, n int // oldest batch and number of batches in the ring of slots
	batches int
	front   *front // nil unless requests come from outside
}

// Start implements traffic.Runner.
func (r *runner) Start(batch []traffic.Request, _ time.Duration) error {
	l := &r.s.slots[(r.head+r.n)%len(r.s.slots)]
	l.ids = l.ids[:0]
	for i := range batch {
		l.ids = append(l.ids, batch[i].ID)
		if r.front != nil {
			l.calls = append(l.calls, r.front.callers.Call(batch[i].Ticket))
		}
	}
	if err := r.s.run(l, r.batches, loop.Silent{}); err != nil {
		return r.s.batchFailure(l, err)
	}
	r.n, r.batches = r.n+1, r.batches+1
	return nil
}

// batchFailure waits until no work of the batch is in progress. It returns a traffic.BatchError, after which the
// service continues, or err itself if the device no longer works.
func (s *session) batchFailure(l *slot, err error) error {
	errs := []error{s.main.Sync()}
	for _, other := range []device.Stream{s.compute, l.own} {
		if other != nil && other != s.main {
			errs = append(errs, other.Sync())
		}
	}
	if dead := errors.Join(append(errs, s.releaseSlot(l))...); dead != nil {
		return err
	}
	return &traffic.BatchError{Err: err}
}

// Done implements traffic.Runner.
func (r *runner) Done() (bool, error) {
	if r.n == 0 {
		return false, nil
	}
	return r.s.slots[r.head].end.Done()
}

// Finish implements traffic.Runner.
func (r *runner) Finish() (int, error) {
	l := &r.s.slots[r.head]
	r.head, r.n = (r.head+1)%len(r.s.slots), r.n-1
	var wrong int
	if r.front != nil {
		wrong = r.front.deliverAnswers(l)
	} else {
		wrong = r.s.countWrong(l)
	}
	return wrong, r.s.releaseSlot(l)
}

// drainSlots waits for the batches of the measured steps and checks their answers.
func (s *session) drainSlots() error {
	for i := range s.slots {
		if l := &s.slots[i]; l.used {
			if err := s.finish(l, loop.Silent{}); err != nil {
				return err
			}
		}
	}
	return s.main.Sync()
}

// plan is a load before it is served.
type plan struct {
	rate         float64       // requests per second; 0 in a closed loop
	warm, window time.Duration // lengths of the warm-up and of the measurement
	relax        time.Duration // relaxation time of the queue
	times        []time.Duration
	clients      int
	throughput   float64
	waits, from  string
	outside      *loadtest.Outside // figures of callers from outside
	arrivals     string
}

// Serve implements workloads.Server.
func (s *session) Serve(ctx context.Context, l workloads.Load) (*loadtest.Requests, error) {
	if err := s.drainSlots(); err != nil {
		return nil, fmt.Errorf("waiting for the device before the load: %w", err)
	}
	if s.wrong > 0 {
		return nil, s.wrongAnswers(s.wrong)
	}
	if s.k.countClients() > 0 { // half of the time is for a second load, on a schedule
		l.MinTime, l.MaxTime = l.MinTime/2, l.MaxTime/2
	}
	p, err := s.planLoad(l)
	if err != nil {
		return nil, err
	}
	if address, is := s.k.address(); is {
		return s.serveOutside(ctx, l, p, address)
	}
	out, err := s.serveLoad(ctx, l, p)
	if err == nil && p.clients > 0 {
		out.OnSchedule, err = s.onSchedule(ctx, l, out)
	}
	return out, err
}

// serveLoad serves one plan. If it fails, it also returns the requests served until then, or nil if there are none.
func (s *session) serveLoad(ctx context.Context, l workloads.Load, p *plan) (*loadtest.Requests, error) {
	service, world := s.newService(p, &runner{s: s})
	books, q := service.Books, service.Queue
	var source traffic.Source
	if p.clients > 0 {
		c := &traffic.Clients{N: p.clients, Until: p.warm + p.window, WarmUp: p.warm, Queue: q}
		source, service.Sender = c, c
		world.BeginOutside(ctx)
		c.Begin(world.Now())
		world.End() // no goroutine sends from here on: each next request follows an answer
	} else {
		source = &traffic.Schedule{Times: p.times, WarmUp: p.warm, Queue: q}
		world.Begin(ctx, source)
	}
	stop := reportProgress(ctx, l, p)
	err := service.Run(ctx)
	world.Close()
	stop()
	out, failed := s.result(p, books, source.Sent())
	return out, cmp.Or(err, failed)
}

// onSchedule serves a second load on a schedule, at the rate that the closed loop reached. If the closed loop kept the
// service busy, the queue of this load grows until its end.
func (s *session) onSchedule(ctx context.Context, l workloads.Load, closed *loadtest.Requests) (*loadtest.OnSchedule, error) {
	rate := l.Rate
	if total := closed.Sum(); rate == 0 && total.Seconds > 0 {
		rate = roundRate(float64(total.Completed) / total.Seconds)
	}
	if rate == 0 { // the closed loop answered nothing
		return nil, nil
	}
	p := &plan{throughput: l.Throughput, from: loadtest.FromSchedule, arrivals: arriveGamma, rate: rate}
	s.drawSchedule(p, l)
	out, err := s.serveLoad(ctx, l, p)
	return out.AsOnSchedule(), err
}

// newService makes the service loop that serves a plan in real time, with its clock.
func (s *session) newService(p *plan, run *runner) (*traffic.Service, *traffic.Real) {
	slo := seconds(s.k.SLO)
	books := traffic.NewAccount(s.k.MaxBatch, slo, p.waits == loadtest.WaitsRoom)
	q := traffic.NewQueue(s.k.Queue, s.k.Overload, books)
	world := &traffic.Real{Queue: q, Runner: run}
	return &traffic.Service{World: world, Queue: q, Runner: run, Depth: len(s.slots), Books: books,
		Batcher: traffic.Batcher{MaxBatch: s.k.MaxBatch, MaxDelay: seconds(s.k.MaxDelay), Split: s.split, Rule: s.k.Overload, SLO: slo, Alone: s.times[1]}}, world
}

func reportProgress(ctx context.Context, l workloads.Load, p *plan) (stop func()) {
	if l.Progress == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for began := time.Now(); ; {
			l.Progress(time.Since(began).Seconds(), (p.warm + p.window).Seconds(), "")
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return func() { cancel(); <-done }
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }

// planLoad chooses the arrivals, the rate and the lengths of a load from the settings.
func (s *session) planLoad(l workloads.Load) (*plan, error) {
	p := &plan{throughput: l.Throughput, from: loadtest.FromSchedule, arrivals: s.k.Arrivals}
	if s.k.Overload == traffic.Block {
		p.waits = loadtest.WaitsRoom
	}
	if _, is := s.k.address(); is { // the arrival times are unknown in advance
		p.from, p.window = loadtest.FromFirstByte, l.MaxTime
		return p, nil
	}
	if p.clients = s.k.countClients(); p.clients > 0 {
		p.from, p.waits = loadtest.FromSend, loadtest.WaitsAnswer
		s.setLengths(p, l, latency.Settled)
		return p, nil
	}
	if s.trace != nil {
		s.planTrace(p)
		return p, nil
	}
	if p.rate = cmp.Or(l.Rate, s.k.Rate); p.rate == 0 {
		p.rate = roundRate(cmp.Or(s.k.Load, usualLoad) * l.Throughput)
	}
	if !(p.rate > 0) {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "making a load of a share of the throughput: the throughput is unknown").WithFix("give --set rate=REQUESTS_PER_SECOND")
	}
	s.drawSchedule(p, l)
	return p, nil
}

// roundRate rounds a rate to four digits, so that a user can repeat the rate with --set rate.
func roundRate(rate float64) float64 {
	out, _ := strconv.ParseFloat(strconv.FormatFloat(rate, 'g', 4, 64), 64)
	return out
}

// drawSchedule sets the lengths of a load and draws its arrival times at the plan's rate.
func (s *session) drawSchedule(p *plan, l workloads.Load) {
	s.setLengths(p, l, p.rate/l.Throughput)
	n := int(math.Ceil(p.rate * (p.warm + p.window).Seconds()))
	p.times = traffic.Draw(max(n, 1), p.rate, s.k.CV, s.k.Seed)
}

// setLengths sets the durations of the warm-up and of the measured window for a utilisation rho.
func (s *session) setLengths(p *plan, l workloads.Load, rho float64) {
	if math.IsNaN(rho) || l.Throughput <= 0 {
		rho = latency.Settled
	}
	each := 1e-3
	if l.Throughput > 0 {
		each = 1 / l.Throughput
	}
	p.relax = seconds(latency.Relaxation(1/each, rho/each))
	p.warm = latency.WarmUps * p.relax
	p.warm = min(p.warm, time.Duration(warmUpShare*float64(l.MaxTime)))
	rate := cmp.Or(p.rate, max(l.Throughput, 1))
	p.window = min(max(l.MinTime, blocks*max(seconds(blockLength/rate), blockTimes*p.relax)), max(l.MaxTime-p.warm, 0))
}

// planTrace takes the plan's schedule from the trace file. Its first tenth is the warm-up.
func (s *session) planTrace(p *plan) {
	p.times = s.trace
	end := p.times[len(p.times)-1]
	p.warm = end / 10
	p.window = end - p.warm
	if end > 0 {
		p.rate = float64(len(p.times)-1) / end.Seconds()
	}
	if p.throughput > 0 {
		p.relax = seconds(latency.Relaxation(p.throughput, p.rate))
	}
}

// result converts the account of a load into a result. The error is of kind ErrCheck if the account's sums do not
// agree.
func (s *session) result(p *plan, books *traffic.Account, sent int64) (*loadtest.Requests, error) {
	served, err := books.Served(blockTimes * p.relax)
	if err != nil {
		return nil, err
	}
	served.FirstS = s.first.Seconds()
	served.Outside = p.outside
	out := &loadtest.Requests{
		Arrivals: p.arrivals, Rate: p.rate, RateKnobs: []string{"load", "rate"}, Throughput: p.throughput, SLO: s.k.SLO,
		From: p.from, Waits: p.waits, Processes: []loadtest.Served{served},
	}
	if err := latency.Summarise(out, s.k.Seed); err != nil {
		return nil, err
	}
	if faults := books.Faults(sent); len(faults) > 0 {
		return out, gpuprof.Errorf(gpuprof.ErrCheck, "serving: %s, so no times are reported", strings.Join(faults, "; ")).WithFix("report this as a bug")
	}
	return out, nil
}

func (s *session) wrongAnswers(n int) error {
	return gpuprof.Errorf(gpuprof.ErrCheck, "serving: %d answers belonged to another request, so no times are reported", n).WithFix("report this as a bug")
}
