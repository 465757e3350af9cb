package workloads

import (
	"context"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/loadtest"
)

// Server is a session that can serve requests under load, for the part of a run in which callers wait for answers.
type Server interface {
	// Serve runs the load for a warm-up and one uninterrupted measurement window. Even with an error it returns the
	// requests so far, or nil if there are none.
	Serve(ctx context.Context, l Load) (*loadtest.Requests, error)
	// Alone returns the stages of a batch of one request with their minimum costs. s is the time of this batch in seconds,
	// 0 if unknown.
	Alone() (stages []gpuprof.Stage, s float64)
}

// Substituter is a session that may replace a failed implementation by one that its settings do not name. Substituted
// returns a sentence about the replacement, or "" if there is none. A run prints the sentence as a warning, a check as
// a note; tune refuses to measure the session.
type Substituter interface{ Substituted() string }

// Load holds the parameters of Serve.
type Load struct {
	// Throughput is the measured rate of the service with a queue that is never empty, in requests per second. The
	// settings may give the rate of the load as a share of Throughput.
	Throughput float64
	// Rate, unless 0, replaces the rate in the settings, in requests per second. It repeats the rate of another process,
	// or of the other run in a comparison.
	Rate float64
	// MinTime is the minimum length of the measurement window, MaxTime the maximum of warm-up and window together.
	MinTime, MaxTime time.Duration
	// Progress may be nil.
	Progress func(done, total float64, note string)
	// Listening is called with the address host:port once the address accepts requests from outside; may be nil.
	Listening func(address string)
}
