package workloads

import (
	"context"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/loadtest"
)

// Server is a session that can serve requests under load: the part of a run in which
// callers wait for answers.
type Server interface {
	// Serve runs the load for a warm-up and one unbroken stretch. The requests so far are
	// returned beside an error, nil where there are none.
	Serve(ctx context.Context, l Load) (*loadtest.Requests, error)
	// Alone returns the stages of a batch of one request with the least each must do, and
	// their time in s where it is known beforehand, else 0.
	Alone() (stages []gpuprof.Stage, s float64)
}

// Substituter is a session that may compute by other means than its settings name, where those failed. It says so in a
// sentence, "" where it does not: a run warns with it, a check notes it, and tune refuses to measure it.
type Substituter interface{ Substituted() string }

// Load is what Serve is asked for.
type Load struct {
	// Throughput is what the service was measured to do when its queue is never empty, in
	// requests per second. The settings may name the rate as a share of it.
	Throughput float64
	// Rate, where it is not 0, is the rate to use whatever the settings say, in requests per
	// second: another process of the run, or the other side of a comparison, took it.
	Rate float64
	// MinTime is the least length of the stretch, MaxTime the most of warm-up and stretch.
	MinTime, MaxTime time.Duration
	// Progress may be nil.
	Progress func(done, total float64, note string)
	// Listening is told the address, host:port, at which requests from outside are taken
	// from now on; may be nil.
	Listening func(address string)
}
