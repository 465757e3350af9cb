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
	// Serve runs the load for a warm-up and one uninterrupted measurement window. It returns the requests so far even
	// with an error, nil if there are none.
	Serve(ctx context.Context, l Load) (*loadtest.Requests, error)
	// Alone returns the stages of a batch of one request with the least work of each, and their time in seconds if it
	// is known beforehand, else 0.
	Alone() (stages []gpuprof.Stage, s float64)
}

// Substituter is a session that may compute by other means than its settings name, if those failed. It returns one
// sentence about the substitution, "" without one: a run warns with it, a check notes it, and tune refuses to measure
// it.
type Substituter interface{ Substituted() string }

// Load holds the parameters of Serve.
type Load struct {
	// Throughput is the measured rate of the service with a queue that is never empty, in requests per second. The
	// settings may name the rate as a share of it.
	Throughput float64
	// Rate, unless 0, replaces the rate in the settings, in requests per second: another process of the run, or the
	// other side of a comparison, used it.
	Rate float64
	// MinTime is the least length of the measurement window, MaxTime the most of warm-up and window together.
	MinTime, MaxTime time.Duration
	// Progress may be nil.
	Progress func(done, total float64, note string)
	// Listening receives the address, host:port, that accepts requests from outside from now on; may be nil.
	Listening func(address string)
}
