// Package traffic is a service under load without its network: requests that arrive by a schedule, a bounded queue, a
// batcher, and the account of every caller's latency.
//
// Read top down: arrivals.go draws a schedule, queue.go holds the waiting requests, batcher.go decides when a batch
// begins and with how many requests, split.go divides the waiting requests into batches, engine.go is the service loop,
// account.go records. The loop takes its clock from the interface World and its batches from the interface Runner.
// real.go implements real time; virtual.go simulates an hour of load in a second. All other code is the same for both.
//
// Times are durations since the load began.
package traffic

import "time"

// Forever is later than every other time.
const Forever = time.Duration(1<<63 - 1)

// Request is one call of the service. Its latency is the time of its answer minus Due, even if it was sent late: a
// slow service cannot hide its own delays (coordinated omission).
type Request struct {
	ID    int64
	Due   time.Duration // scheduled time
	Sent  time.Duration // when it was put into the queue
	Taken time.Duration // when its batch began
	// Counted is false in the warm-up.
	Counted bool
	// Ticket identifies the request to its Sender.
	Ticket int
}

// Outcome is the result of one request.
type Outcome uint8

// Outcomes of a request.
const (
	Completed Outcome = iota
	Refused           // by the overload rule
	Expired           // refused because it could not be answered in time
	Failed            // its batch failed
)

// Overload is the rule for requests that find the queue full, or that are too old.
type Overload string

// Overload rules.
const (
	RefuseNew Overload = "refuse-new"
	RefuseOld Overload = "refuse-old"
	Deadline  Overload = "deadline"
	Block     Overload = "block"
)

// World is the clock by which a service runs, and where it waits for requests and answers.
type World interface {
	Now() time.Duration
	// Admit puts the requests that are due by now into the queue, unless their senders run in goroutines of their own.
	Admit(now time.Duration)
	// Await waits for the first of these: a new request in the queue, the end of the oldest batch in flight, the time
	// until. It may return earlier. seen is the number of requests ever put into the queue, as the caller last read it.
	// flying is the number of batches in flight.
	Await(until time.Duration, seen int64, flying int) error
	// Over reports whether no further request will come.
	Over() bool
}

// Runner runs batches. They end in the order in which they began.
type Runner interface {
	// Start begins a batch; it may keep the slice until Finish. A BatchError fails only this batch.
	Start(batch []Request, now time.Duration) error
	// Done reports whether the oldest batch has ended.
	Done() (bool, error)
	// Finish removes the oldest batch and delivers its answers. wrong counts answers that belong to another request.
	Finish() (wrong int, err error)
}

// BatchError is the failure of one batch; the service continues.
type BatchError struct{ Err error }

func (e *BatchError) Error() string { return e.Err.Error() }
func (e *BatchError) Unwrap() error { return e.Err }

// Sender receives the outcomes of its requests. The service loop calls it, except for a request that the queue refuses:
// then the goroutine that called Put calls it.
type Sender interface {
	Over(r *Request, how Outcome, now time.Duration)
}
