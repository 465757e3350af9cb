package search

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/latency"
	"github.com/gpuprof/gpuprof/internal/loadtest"
	"github.com/gpuprof/gpuprof/workloads"
)

// The goal latency is the time within which 99 of 100 scheduled requests are answered. Each block is a separate load
// with a warm-up, long enough for this percentile.
const (
	latencyShare = 0.99
	// latencyRequests is the number of requests in a block: twice the least number with ten beyond the percentile.
	latencyRequests = 2000
	// loadShare is the least share of a block after its warm-up (serving warms up for at most a quarter).
	loadShare = 0.75
	// longestLoad bounds a block. If a rate gives too few requests in this time, there is no percentile.
	longestLoad = 10 * time.Second
)

// load makes a session serve requests for one block and returns their p99 in seconds.
func (p *InProcess) load(ctx context.Context, s *bench, rate float64) (float64, error) {
	q, err := s.serve(ctx, rate, min(longestLoad, time.Duration(latencyRequests/rate/loadShare*1e9)))
	if err != nil {
		return 0, err
	}
	v, err := answeredWithin(q, latencyShare)
	if err != nil {
		return 0, fmt.Errorf("tuning for latency: %w", err)
	}
	half, err := answeredWithin(q, 0.5) // exists if the p99 does
	if err != nil {
		return 0, fmt.Errorf("tuning for latency: %w", err)
	}
	total := q.Sum()
	s.seen.P50S = append(s.seen.P50S, half)
	s.seen.Goodput = append(s.seen.Goodput, float64(total.InTime)/total.Seconds)
	if q.SenderLate != "" {
		s.seen.SenderLate++
	}
	return v, nil
}

func (s *bench) serve(ctx context.Context, rate float64, most time.Duration) (*loadtest.Requests, error) {
	server, err := s.openServer()
	if err != nil {
		return nil, err
	}
	q, err := server.Serve(ctx, workloads.Load{Throughput: s.work / s.stepS, Rate: rate, MaxTime: most, MinTime: most})
	switch {
	case err != nil:
		return nil, err
	case q.Rate == 0:
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "tuning for latency: callers from outside, and callers that wait for their answers, have no rate").WithFix("give requests a schedule, or use --goal time")
	case q.Waits == loadtest.WaitsRoom:
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "tuning for latency: the sender waits for room in the queue, which hides how long its requests should have taken").WithFix("let a full queue refuse requests")
	}
	return q, ctx.Err()
}

func (s *bench) openServer() (workloads.Server, error) {
	server, ok := s.sess.(workloads.Server)
	if !ok {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "tuning for latency: %s serves no requests", s.side.Workload.Name()).WithFix("use --goal time")
	}
	return server, nil
}

// rateOf returns every block's request rate: the rate that A's settings give with A's measured throughput.
func (p *InProcess) rateOf(ctx context.Context, a *bench) (float64, error) {
	if _, err := a.openServer(); err != nil || p.rate > 0 {
		return p.rate, err
	}
	q, err := a.serve(ctx, 0, 50*time.Millisecond)
	if err != nil {
		return 0, err
	}
	p.rate = q.Rate
	return p.rate, nil
}

// tooFew is the error that a rate gives too few requests for the percentile, with either setting.
type tooFew struct{ error }

func (e *tooFew) Unwrap() error { return e.error }

// answeredWithin returns the seconds within which a share of all scheduled requests was answered. A refused or failed
// request counts as never answered: a service must not look fast by refusing. The error gives the reason for a
// missing time.
func answeredWithin(q *loadtest.Requests, share float64) (float64, error) {
	total := q.Sum()
	if total.Scheduled == 0 || !latency.Enough(share, total.Scheduled) {
		return 0, &tooFew{gpuprof.Errorf(gpuprof.ErrInput, "%d requests came in %s at %g per second, too few for p%g", total.Scheduled, gpuprof.FormatSeconds(total.Seconds), q.Rate, 100*share).
			WithFix("give a higher rate, or use --goal time")}
	}
	within := share * float64(total.Scheduled) / float64(max(total.Completed, 1))
	if within > 1 {
		return 0, gpuprof.Errorf(gpuprof.ErrInput, "%d of %d requests were not answered, so there is no time within which %g %% were", total.Scheduled-total.Completed, total.Scheduled, 100*share).
			WithFix("give a lower rate, or stop other programs on the machine")
	}
	all := latency.New()
	for i := range q.Processes {
		h, err := latency.Decode(q.Processes[i].Latency)
		if err != nil {
			return 0, err
		}
		all.Merge(h)
	}
	return all.At(within), nil
}
