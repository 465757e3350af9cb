package traffic

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/gpuprof/gpuprof"
)

// Answer compares the service in virtual time with a result of queueing theory.
type Answer struct {
	Name             string
	Error, Tolerance float64 // relative
}

// known is a figure of a simulated service, with its value in theory.
type known struct {
	name string
	got  func(*Account) float64
	want float64
	tail bool // the figure is a tail quantile, which depends on the few busy periods that reach it
}

// KnownAnswers simulates loads with known results, up to four hours each: a schedule with exact latencies; mean wait
// and p99 of M/D/1 and M/M/1; mean latency and batch size of greedy batching; mean wait and batch size of batching
// with a delay.
func KnownAnswers(ctx context.Context) ([]Answer, error) {
	const ms = time.Millisecond
	const service, load, hour = 5 * ms, 0.7, time.Hour
	exponential := rand.New(rand.NewPCG(3, 4))
	apart, err := scheduleError(ctx)
	if err != nil {
		return nil, err
	}
	out := []Answer{{Name: "schedule", Error: apart}}
	rate := load / service.Seconds()
	wait := func(a *Account) float64 { return a.queue.Mean() }
	for _, c := range []struct {
		of    simulation
		known []known
	}{
		{simulation{times: Draw(int(rate*hour.Seconds()), rate, 1, 7), most: 1, time: func(int) time.Duration { return service }}, []known{
			{"M/D/1", wait, load * service.Seconds() / (2 * (1 - load)), false},
			// From Erlang's distribution of the M/D/1 wait.
			{"M/D/1-p99", func(a *Account) float64 { return a.queue.At(0.99) }, 6.485499 * service.Seconds(), true},
		}},
		{simulation{times: Draw(int(4*rate*hour.Seconds()), rate, 1, 11), most: 1, time: func(int) time.Duration { return time.Duration(exponential.ExpFloat64() * float64(service)) }}, []known{
			{"M/M/1", wait, load * service.Seconds() / (1 - load), false},
			{"M/M/1-p99", func(a *Account) float64 { return a.latency.At(0.99) }, service.Seconds() * math.Log(100) / (1 - load), true},
		}},
		// tau = 4 ms, alpha = 1 ms, rate times alpha = 0.7; values from the Markov chain of batch sizes. Twenty
		// minutes suffice: means of batches vary less than the wait at a single server.
		{simulation{times: Draw(int(700*hour.Seconds()/3), 700, 1, 5), most: 1024, time: func(b int) time.Duration { return 4*ms + time.Duration(b)*ms }}, []known{
			{"greedy-batching", func(a *Account) float64 { return a.latency.Mean() }, 22.645806e-3, false},
			{"greedy-batch", (*Account).meanBatch, 9.337478, false},
		}},
		// A batch begins at 32 requests or after 0.1 s, at 100 requests per second; a slot is always free.
		{simulation{times: Draw(int(100*hour.Seconds()), 100, 1, 9), most: 32, delay: 100 * ms, depth: 1024, beside: true, time: func(int) time.Duration { return ms }}, []known{
			{"delay-batching", wait, 54.545454e-3, false},
			{"delay-batch", (*Account).meanBatch, 11, false},
		}},
	} {
		books, err := c.of.run(ctx)
		if err != nil {
			return out, err
		}
		for _, k := range c.known {
			tolerance := 0.01
			if k.tail {
				tolerance = 0.02
			}
			out = append(out, Answer{k.name, math.Abs(k.got(books)/k.want - 1), tolerance})
		}
	}
	return out, nil
}

// scheduleError returns the largest relative error of the latencies of six requests in five settings of the batcher.
// One batch is in flight and takes 4 ms plus 1 ms per request. All latencies are known exactly.
func scheduleError(ctx context.Context) (worst float64, err error) {
	const ms = time.Millisecond
	for _, c := range []struct {
		most      int
		delay     time.Duration
		latencies [6]float64 // ms
	}{
		{1, 0, [6]float64{5, 8, 12, 10, 14, 5}}, {4, 0, [6]float64{5, 9, 8, 7, 6, 5}}, {4, 5 * ms, [6]float64{12, 10, 9, 11, 10, 10}},
		{2, 5 * ms, [6]float64{8, 6, 10, 9, 8, 10}}, {4, 100 * ms, [6]float64{18, 16, 15, 8, 106, 87}},
	} {
		var got latencies
		_, err := simulation{times: []time.Duration{0, 2 * ms, 3 * ms, 10 * ms, 11 * ms, 30 * ms}, most: c.most, delay: c.delay, sender: &got,
			time: func(b int) time.Duration { return 4*ms + time.Duration(b)*ms }}.run(ctx)
		if err != nil {
			return 0, err
		}
		for i, want := range c.latencies {
			worst = max(worst, math.Abs(float64(got[i])/1e6/want-1))
		}
	}
	return worst, nil
}

type latencies [6]time.Duration

// Over implements Sender.
func (l *latencies) Over(r *Request, _ Outcome, now time.Duration) { l[r.ID] = now - r.Due }

// simulation is a service in virtual time with an unbounded queue. A batch has up to most requests, waits up to delay
// to fill, and takes time(requests). Up to depth batches are in flight (0: one), in parallel if beside is set.
type simulation struct {
	times  []time.Duration
	most   int
	delay  time.Duration
	depth  int
	beside bool
	time   func(int) time.Duration
	sender Sender // may be nil
}

func (s simulation) run(ctx context.Context) (*Account, error) {
	books := NewAccount(s.most, time.Second, false)
	q := NewQueue(0, RefuseNew, books)
	world := &Virtual{Source: &Schedule{Times: s.times, Queue: q}, Time: s.time, Beside: s.beside}
	service := Service{World: world, Queue: q, Runner: world, Batcher: Batcher{MaxBatch: s.most, MaxDelay: s.delay}, Depth: max(s.depth, 1), Books: books, Sender: s.sender}
	if err := service.Run(ctx); err != nil {
		return nil, err
	}
	if faults := books.Faults(int64(len(s.times))); len(faults) > 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrCheck, "simulating %d requests: %s, so no times are reported", len(s.times), faults[0]).WithFix("report this as a bug")
	}
	return books, nil
}
