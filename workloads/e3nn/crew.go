package e3nn

import (
	"sync"
	"sync/atomic"
)

// workerPool runs loops over rows on several goroutines, including the caller's. It allocates nothing after its creation. The
// caller never waits for a helper, one of the other goroutines, to begin: it computes the chunks that no helper takes.
//
// The caller's goroutine is locked to its thread, because a GPU context is, so yielding or parking takes two thread
// switches. Therefore the caller and the helpers poll for each other for longer than a chunk takes, and park only
// after that.
type workerPool struct {
	wake   chan struct{} // wakes parked helpers
	nudge  chan struct{} // see wakeHelpers
	ended  sync.WaitGroup
	parked chan struct{} // the last helper that leaves a loop wakes the caller here

	state atomic.Uint64 // number of the loop<<32 | crewOpen | crewParked | number of helpers in the loop
	_     [56]byte      // separate cache line: polls of state would slow writes to next
	next  atomic.Int64  // first row not yet taken
	got   atomic.Int64  // sum of the results of the completed rows
	_     [48]byte

	chunk int
	// Bounds and body of the loop. Only the caller writes them, while no helper is in the loop.
	number, rows int
	enough       int64
	do           func(lo, hi int) int
}

const (
	crewOpen   = 1 << 31 // helpers may join the loop
	crewParked = 1 << 30 // the caller is parked
	crewInside = 1<<32 - 1
	// crewLooks is the number of polls before a thread parks: about 10 us for the caller, 60 us for a helper's slower
	// polls.
	crewLooks = 1 << 15
)

// newCrew makes a crew of the caller and threads-1 helpers, which take chunk rows at a time; close ends them.
func newCrew(threads, chunk int) *workerPool {
	c := &workerPool{chunk: chunk, wake: make(chan struct{}, threads-1), nudge: make(chan struct{}), parked: make(chan struct{})}
	for range threads - 1 {
		c.ended.Go(c.helpLoops)
	}
	c.ended.Go(func() {
		for range c.nudge { // receives only to be woken
		}
	})
	return c
}

func (c *workerPool) close() {
	close(c.wake)
	close(c.nudge)
	c.ended.Wait()
}

// run calls do for rows in order, in chunks on several threads, until all rows are done or the sum of do's results
// reaches enough. The rows that are left out are the last ones.
func (c *workerPool) run(rows int, enough int64, do func(lo, hi int) int) {
	c.open(rows, enough, do)
	c.wakeHelpers()
	c.finish()
}

// follow runs a loop immediately after another, while the helpers still poll.
func (c *workerPool) follow(rows int, enough int64, do func(lo, hi int) int) {
	c.open(rows, enough, do)
	c.finish()
}

func (c *workerPool) open(rows int, enough int64, do func(lo, hi int) int) {
	c.rows, c.enough, c.do = rows, enough, do
	c.next.Store(0)
	c.got.Store(0)
	c.number++
	c.state.Store(uint64(c.number)<<32 | crewOpen)
}

// wakeHelpers wakes the helpers, and last of all a goroutine without work. The Go scheduler keeps the goroutine that
// was woken last for the waker's own processor. Idle processors take it only after about 60 us, a delay that must not
// hit a helper.
func (c *workerPool) wakeHelpers() {
	for range cap(c.wake) {
		select {
		case c.wake <- struct{}{}:
		default: // the helpers have not run since the last call
		}
	}
	select {
	case c.nudge <- struct{}{}:
	default:
	}
}

// finish takes part in the loop and waits for the helpers in it.
func (c *workerPool) finish() {
	c.work()
	if c.state.And(^uint64(crewOpen))&crewInside == crewOpen {
		return
	}
	for range crewLooks {
		if c.state.Load()&crewInside == 0 {
			return
		}
	}
	if c.state.Or(crewParked)&crewInside != 0 {
		<-c.parked
	}
}

// work takes chunks in order until none is left or the results of the completed chunks reach enough. If a thread
// compares before another adds its result, it computes at worst one chunk too many.
func (c *workerPool) work() {
	rows, chunk, enough, do := c.rows, c.chunk, c.enough, c.do
	for c.got.Load() < enough {
		lo := int(c.next.Add(int64(chunk))) - chunk
		if lo >= rows {
			return
		}
		c.got.Add(int64(do(lo, min(lo+chunk, rows))))
	}
}

func (c *workerPool) helpLoops() {
	for range c.wake {
		last := uint64(0)
		// Several loops may follow one wake-up.
		for i := 0; i < crewLooks; i++ {
			if n := c.joinLoop(last); n != last {
				c.work()
				c.leaveLoop()
				last, i = n, 0
			}
		}
	}
}

// joinLoop joins the open loop and returns its number. It returns last if there is no open loop other than last.
func (c *workerPool) joinLoop(last uint64) uint64 {
	for {
		s := c.state.Load()
		if s&crewOpen == 0 || s>>32 == last {
			return last
		}
		if c.state.CompareAndSwap(s, s+1) {
			return s >> 32
		}
	}
}

func (c *workerPool) leaveLoop() {
	if c.state.Add(^uint64(0))&crewInside == crewParked {
		c.parked <- struct{}{}
	}
}
