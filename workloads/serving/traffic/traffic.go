// Package traffic is a service under load without its network: requests that arrive by a schedule, a bounded queue, a
// batcher, and the account of every caller's latency.
//
// The package reads top down: arrivals.go draws a schedule, queue.go holds the waiting requests, batcher.go decides
// when a batch begins and of how many, split.go how to divide the waiting requests, engine.go is the loop of the
// service, account.go records it. The loop takes its clock and its batches from two interfaces: real.go is real time,
// virtual.go simulates an hour of load in a second, with the same code in between.
//
// Times are durations since the load began.
package traffic

import "time"

// Forever is later than every other time.
const Forever = time.Duration(1<<63 - 1)

// Request is one call of the service. Its latency is its answer's time less Due, whatever delayed its sending, so that
// a slow service delays no clock (no coordinated omission).
type Request struct {
	ID    int64
	Due   time.Duration // scheduled
	Sent  time.Duration // put into the queue
	Taken time.Duration // its batch began
	// Counted is false in the warm-up.
	Counted bool
	// Ticket is the sender's own, for Sender.Over.
	Ticket int
}

// Outcome is the end of a request.
type Outcome uint8

// Outcomes.
const (
	Completed Outcome = iota
	Refused           // by the overload rule
	Expired           // refused because it could not be answered in time
	Failed            // with its batch
)

// Overload is the rule for requests that find the queue full, or that are too old.
type Overload string

// Rules of overload.
const (
	RefuseNew Overload = "refuse-new"
	RefuseOld Overload = "refuse-old"
	Deadline  Overload = "deadline"
	Block     Overload = "block"
)

// World is the time in which a service runs.
type World interface {
	Now() time.Duration
	// Admit puts the requests due by now into the queue, unless a goroutine of its own does so.
	Admit(now time.Duration)
	// Await returns at a time of its choice, at the latest when a request is put into the queue, the oldest of the
	// batches in flight is complete, or at until. seen is the number of requests put into the queue when the caller
	// read it.
	Await(until time.Duration, seen int64, flying int) error
	// Over reports whether no request will come any more.
	Over() bool
}

// Runner runs batches, which are done in the order in which they began.
type Runner interface {
	// Start begins a batch; it may keep batch until Finish. An error that is a BatchError
	// fails the batch's members only.
	Start(batch []Request, now time.Duration) error
	// Done reports whether the oldest batch has ended.
	Done() (bool, error)
	// Finish takes the oldest batch's answers, and returns how many members received the answer to another request.
	Finish() (wrong int, err error)
}

// BatchError is a failure of one batch, after which the service continues.
type BatchError struct{ Err error }

func (e *BatchError) Error() string { return e.Err.Error() }
func (e *BatchError) Unwrap() error { return e.Err }

// Sender receives the outcomes of its requests. The loop of the service calls it or, for requests that the queue
// refuses, the goroutine that put the request in.
type Sender interface {
	Over(r *Request, how Outcome, now time.Duration)
}
