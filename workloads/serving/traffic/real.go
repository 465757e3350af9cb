package traffic

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// poll is the pause between two checks of a waiting service: the delay until it notices an arrival or an answer.
const poll = 20 * time.Microsecond

// Real is a World in the machine's time. A goroutine sends the requests.
type Real struct {
	Queue  *Queue
	Runner Runner
	// Nap pauses while the service waits; nil sleeps up to 20 us. Tests with a simulated clock replace it.
	Nap func()

	ctx   context.Context
	began time.Time
	ended atomic.Bool // no sender remains
	wait  sync.WaitGroup
}

// Begin starts the clock and a goroutine in which source sends each request when it is due, until the last one or the
// end of ctx.
func (r *Real) Begin(ctx context.Context, source Source) {
	r.ctx, r.began = ctx, time.Now()
	r.wait.Go(func() {
		defer r.ended.Store(true)
		for ctx.Err() == nil {
			due, more := source.Due()
			if !more {
				return
			}
			if !sleepUntil(ctx, r.began, due) {
				return
			}
			for !source.Send(r.Now()) && ctx.Err() == nil {
				runtime.Gosched()
				nap(poll)
			}
		}
	})
}

// BeginOutside starts the clock of a service whose requests other goroutines send, until someone calls End.
func (r *Real) BeginOutside(ctx context.Context) { r.ctx, r.began = ctx, time.Now() }

// End declares that no sender remains.
func (r *Real) End() { r.ended.Store(true) }

// Close waits for the sending goroutine.
func (r *Real) Close() { r.wait.Wait() }

// At converts a time to the service's clock; times before the start become 0.
func (r *Real) At(t time.Time) time.Duration { return max(t.Sub(r.began), 0) }

// Now implements World.
func (r *Real) Now() time.Duration { return time.Since(r.began) }

// Admit implements World. It does nothing: senders have their own goroutines.
func (r *Real) Admit(time.Duration) {}

// Over implements World.
func (r *Real) Over() bool { return r.ended.Load() }

// Await implements World. It polls instead of blocking: a blocked goroutine is woken some 60 us late, which would add
// to every latency.
func (r *Real) Await(until time.Duration, seen int64, flying int) error {
	for {
		if r.ctx.Err() != nil || r.Queue.Given() != seen {
			return nil
		}
		if flying > 0 {
			if done, err := r.Runner.Done(); done || err != nil {
				return nil // the service gets the error from the Runner itself
			}
		} else if until == Forever && r.Over() {
			return nil
		}
		left := until - r.Now()
		if left <= 0 {
			return nil
		}
		runtime.Gosched()
		if r.Nap != nil {
			r.Nap()
		} else {
			nap(min(poll, left))
		}
	}
}

// coarse is the length of the last part of a pause, which is slept in short naps. A Go timer sleeps the part before,
// and may end a millisecond late.
const coarse = 2 * time.Millisecond

// sleepUntil sleeps until the duration until has passed since began. It returns false if the context ends first.
func sleepUntil(ctx context.Context, began time.Time, until time.Duration) bool {
	for {
		left := until - time.Since(began)
		switch {
		case left <= 0:
			return true
		case left > coarse:
			t := time.NewTimer(left - coarse)
			select {
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
				return false
			}
		default:
			runtime.Gosched()
			nap(min(left, 50*time.Microsecond))
		}
	}
}

// Sleep pauses for the duration d, with an error of some ten microseconds if the system allows it.
func Sleep(d time.Duration) { sleepUntil(context.Background(), time.Now(), d) }
