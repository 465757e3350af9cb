package e3nn

import (
	"sync"
	"sync/atomic"
)

// crew runs loops over rows on several goroutines, including the caller's. After its creation it allocates nothing,
// and a late or missing helper delays no other: the caller does the remaining chunks.
//
// A GPU's caller is locked to its thread, as its context is, and yielding or
// parking it takes two switches of threads. So caller and helpers only look for
// each other, for longer than a chunk takes, and park when that was in vain.
type crew struct {
	wake   chan struct{} // to helpers that are parked
	nudge  chan struct{} // see wakeHelpers
	ended  sync.WaitGroup
	parked chan struct{} // the last helper out of a loop wakes the caller here

	state atomic.Uint64 // number of the loop<<32 | crewOpen | crewParked | helpers in it
	_     [56]byte      // those who look at state would slow those who write next
	next  atomic.Int64  // first row not taken yet
	got   atomic.Int64  // sum of the results of the completed rows
	_     [48]byte

	chunk int
	// The loop's bounds and body. Only the caller writes them, while no helper is inside.
	number, rows int
	enough       int64
	do           func(lo, hi int) int
}

const (
	crewOpen   = 1 << 31 // helpers may join the loop
	crewParked = 1 << 30 // the caller waits to be woken
	crewInside = 1<<32 - 1
	// crewLooks is the number of polls before a thread sleeps: about 10 us for the caller, and 60 us for a helper, whose
	// poll is longer.
	crewLooks = 1 << 15
)

// newCrew makes a crew of the caller and threads-1 helpers that take chunk rows at a time; close ends them.
func newCrew(threads, chunk int) *crew {
	c := &crew{chunk: chunk, wake: make(chan struct{}, threads-1), nudge: make(chan struct{}), parked: make(chan struct{})}
	for range threads - 1 {
		c.ended.Go(c.helpLoops)
	}
	c.ended.Go(func() {
		for range c.nudge { // being woken is the point
		}
	})
	return c
}

func (c *crew) close() {
	close(c.wake)
	close(c.nudge)
	c.ended.Wait()
}

// run does rows in order, in chunks taken by several threads, until all rows are done or the sum of the results of do
// reaches enough. Rows that are left out follow all rows done.
func (c *crew) run(rows int, enough int64, do func(lo, hi int) int) {
	c.open(rows, enough, do)
	c.wakeHelpers()
	c.finish()
}

// follow does a loop immediately after another one, while the helpers are still awake.
func (c *crew) follow(rows int, enough int64, do func(lo, hi int) int) {
	c.open(rows, enough, do)
	c.finish()
}

func (c *crew) open(rows int, enough int64, do func(lo, hi int) int) {
	c.rows, c.enough, c.do = rows, enough, do
	c.next.Store(0)
	c.got.Store(0)
	c.number++
	c.state.Store(uint64(c.number)<<32 | crewOpen)
}

// wakeHelpers wakes the helpers.
//
// The scheduler keeps the goroutine woken last for the waker's own processor, and lets idle processors have it only
// after some 60 us: so that one is a goroutine with nothing to do.
func (c *crew) wakeHelpers() {
	for range cap(c.wake) {
		select {
		case c.wake <- struct{}{}:
		default: // they have not come since the last call
		}
	}
	select {
	case c.nudge <- struct{}{}:
	default:
	}
}

// finish takes part in the loop and waits for the helpers in it.
func (c *crew) finish() {
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

// work takes chunks until none is left. It checks for enough before it takes a chunk: later results of others belong
// to later rows.
func (c *crew) work() {
	rows, chunk, enough, do := c.rows, c.chunk, c.enough, c.do
	for c.got.Load() < enough {
		lo := int(c.next.Add(int64(chunk))) - chunk
		if lo >= rows {
			return
		}
		c.got.Add(int64(do(lo, min(lo+chunk, rows))))
	}
}

func (c *crew) helpLoops() {
	for range c.wake {
		last := uint64(0)
		// More than one loop follows a call.
		for i := 0; i < crewLooks; i++ {
			if n := c.joinLoop(last); n != last {
				c.work()
				c.leaveLoop()
				last, i = n, 0
			}
		}
	}
}

// joinLoop returns the number of the loop that it has joined, or last if there is no other to join.
func (c *crew) joinLoop(last uint64) uint64 {
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

func (c *crew) leaveLoop() {
	if c.state.Add(^uint64(0))&crewInside == crewParked {
		c.parked <- struct{}{}
	}
}
