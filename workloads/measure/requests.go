package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/latency"
	"github.com/gpuprof/gpuprof/internal/loadtest"
	"github.com/gpuprof/gpuprof/probes/events"
	"github.com/gpuprof/gpuprof/workloads"
)

const (
	// longestLoad is the longest load of a run without a time limit, which is a run with a MaxTime above endless.
	longestLoad = 60 * time.Second
	endless     = 100 * time.Hour
	lateFix     = "stop other programs on the machine, lower the rate, or give the service fewer threads"
	// refusedShare is the least share of refused requests that gives a warning when the load's rate is below the
	// throughput that the steps reached without load.
	refusedShare = 0.01
	// leastCounted is the least number of requests for which figures are given.
	leastCounted = 20
)

// serveLoad applies a load to a serving session, after the steps, whose throughput may determine the load's rate.
func (r *runner) serveLoad() error {
	server, ok := r.sess.(workloads.Server)
	if !ok || r.plan.NoRequests {
		return nil
	}
	r.plan.report("requests", 0, 1, "")
	if err := r.sess.Main().Sync(); err != nil {
		return fmt.Errorf("waiting for the device before the load: %w", err)
	}
	if _, _, err := r.rec.Reset(events.Nothing); err != nil {
		return fmt.Errorf("beginning the load: %w", err)
	}
	load := workloads.Load{Throughput: r.throughputSoFar(), Rate: r.plan.Rate, MinTime: r.plan.MinTime, MaxTime: r.plan.MaxTime, Listening: r.plan.Listening}
	if load.MaxTime > endless {
		load.MaxTime = longestLoad
	}
	load.Progress = func(done, total float64, note string) { r.plan.report("requests", done, total, note) }
	out, err := server.Serve(r.ctx, load)
	if out != nil && !errors.Is(err, gpuprof.ErrCheck) {
		r.run.Requests = out
		r.alone, r.aloneS = server.Alone()
		r.judgeRequests(out)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("serving requests: %w", err)
	}
	return err
}

// judgeRequests warns of conditions that make a load's figures less reliable.
func (r *runner) judgeRequests(q *loadtest.Requests) {
	total := q.Sum()
	if total.Completed < leastCounted {
		r.fewAnswered(q, total)
		return
	}
	r.judgeRefused(q, total)
	r.judgeWarmUp(q)
	median, hasMedian := q.Latency.At(0.5)
	if q.SenderLate != "" {
		r.warn("generator-late", q.SenderLate, lateFix)
		if q.Told() == 0 && r.run.Status == gpuprof.Complete { // the sender's delay determines even the median latency
			r.run.Status, r.run.Reason = gpuprof.Partial, loadtest.ReasonGenerator
			r.behind = gpuprof.Errorf(nil, "serving requests: the sender was later than the median latency, so the latencies measure the sender").
				WithFix("lower the rate, or stop other programs on the machine")
		}
	}
	if q.OnSchedule != nil && q.OnSchedule.SenderLate != "" {
		r.warn("generator-late", "behind the callers that wait "+q.OnSchedule.SenderLate, lateFix)
	}
	if hasMedian && len(q.Processes) == 1 && median.CI95 == nil {
		r.warn("few-requests", fmt.Sprintf("the load of %s makes %d of the 10 blocks that the interval of a percentile needs", gpuprof.FormatSeconds(total.Seconds), len(q.Processes[0].Blocks)),
			"give more time with --max-time")
	}
}

func (r *runner) fewAnswered(q *loadtest.Requests, total loadtest.Served) {
	text, fix := "of %d requests after the warm-up of the load %d were answered", "give more time with --max-time, or a higher rate"
	switch {
	case q.From == loadtest.FromFirstByte && total.Scheduled == 0:
		r.warn("few-requests", "no request came while the run listened", "send some to the address that the run prints, or give it more time with --max-time")
		return
	case q.From == loadtest.FromFirstByte:
		text, fix = "of %d requests from outside %d were answered", "send more while the run listens, or give it more time with --max-time"
	case total.Refused > total.Completed:
		fix = "lower the rate, or let requests wait longer before they are refused"
	}
	r.warn("few-requests", fmt.Sprintf(text, total.Scheduled, total.Completed), fix)
}

// judgeWarmUp warns of a load whose warm-up was too short for the queue, empty at first, to reach its usual length.
func (r *runner) judgeWarmUp(q *loadtest.Requests) {
	if q.From != loadtest.FromSchedule || !(q.Throughput > 0) || q.Rate > latency.Settled*q.Throughput {
		return
	}
	relax := latency.Relaxation(q.Throughput, q.Rate)
	had := q.Processes[0].WarmUpS / relax
	if had >= latency.WarmUps*(1-1e-6) {
		return
	}
	r.warn("load-warm-up-cut", fmt.Sprintf("the load's warm-up took %s, %.2g of the %d times of %s in which a queue at %.2f of the throughput forgets that it was empty",
		gpuprof.FormatSeconds(q.Processes[0].WarmUpS), had, latency.WarmUps, gpuprof.FormatSeconds(relax), q.Rate/q.Throughput),
		"give more time with --max-time, or a lower rate; a trace's first tenth is its warm-up")
}

// judgeRefused warns if a service refuses many scheduled requests although their rate is below the throughput that
// its steps reached without load.
func (r *runner) judgeRefused(q *loadtest.Requests, total loadtest.Served) {
	if q.From != loadtest.FromSchedule || q.Rate >= q.Throughput || float64(total.Refused) < refusedShare*float64(total.Scheduled) {
		return
	}
	r.warn("refused-below-throughput", fmt.Sprintf("%.0f %% of the requests were refused at a rate of %.2f of the throughput: under load the service answered %s, and %s in the steps",
		100*float64(total.Refused)/float64(total.Scheduled), q.Rate/q.Throughput, gpuprof.FormatSI(float64(total.Completed)/total.Seconds, "requests/s"), gpuprof.FormatSI(q.Throughput, "requests/s")),
		"lower the rate, or give the service fewer threads where it shares CPUs with the sender; a longer queue helps against bursts alone")
}
