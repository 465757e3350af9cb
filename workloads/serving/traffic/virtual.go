package traffic

import (
	"errors"
	"time"
)

// Source sends requests when they are due.
type Source interface {
	Due() (time.Duration, bool) // due time of the next request that does not wait for an answer
	Send(now time.Duration) bool
	Sent() int64
}

// Virtual is a World and a Runner whose time jumps from event to event. It simulates a device that takes Time(b) for
// a batch of b requests, one batch at a time.
type Virtual struct {
	Source Source
	Time   func(b int) time.Duration
	// Beside runs all batches in flight in parallel, like a device of unlimited capacity.
	Beside bool
	// Stall is an interval in which the device does nothing: a batch that would end in it ends when the interval ends.
	Stall [2]time.Duration
	// Fails reports whether the batch with this number fails; if it is nil, no batch fails.
	Fails func(batch int) bool

	now    time.Duration
	ends   []virtualBatch // in flight, in order
	busy   time.Duration  // end of the device's current work
	number int
}

type virtualBatch struct {
	at     time.Duration
	number int
}

// Now implements World.
func (v *Virtual) Now() time.Duration { return v.now }

// Admit implements World.
func (v *Virtual) Admit(now time.Duration) { v.Source.Send(now) }

// Over implements World.
func (v *Virtual) Over() bool {
	_, more := v.Source.Due()
	return !more
}

// Await implements World: time advances to the next event. An answer comes before an arrival at the same time.
func (v *Virtual) Await(until time.Duration, _ int64, _ int) error {
	sent := v.Source.Sent()
	if v.Source.Send(v.now); v.Source.Sent() != sent {
		return nil // a sender had waited for a place in the queue
	}
	next := until
	if due, more := v.Source.Due(); more && due > v.now {
		next = min(next, due)
	}
	if len(v.ends) > 0 {
		next = min(next, v.ends[0].at)
	}
	if next != Forever {
		v.now = max(v.now, next)
	}
	return nil
}

// Start implements Runner.
func (v *Virtual) Start(batch []Request, now time.Duration) error {
	from := now
	if !v.Beside {
		from = max(from, v.busy)
	}
	end := from + v.Time(len(batch))
	if v.Stall[0] <= end && end < v.Stall[1] {
		end = v.Stall[1]
	}
	v.busy = end
	if n := len(v.ends); n > 0 {
		end = max(end, v.ends[n-1].at)
	}
	v.ends = append(v.ends, virtualBatch{end, v.number})
	v.number++
	return nil
}

// Done implements Runner.
func (v *Virtual) Done() (bool, error) { return len(v.ends) > 0 && v.ends[0].at <= v.now, nil }

// Finish implements Runner.
func (v *Virtual) Finish() (int, error) {
	b := v.ends[0]
	v.ends = v.ends[:copy(v.ends, v.ends[1:])]
	if v.Fails != nil && v.Fails(b.number) {
		return 0, &BatchError{errVirtual}
	}
	return 0, nil
}

var errVirtual = errors.New("the batch was made to fail")
