package host

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/gpuprof/gpuprof/workloads/device"
)

const (
	// ringLen bounds the items of a stream before the caller waits; CUDA queues about as many.
	ringLen = 1024
	// refill is the number of items of a full ring that must be done before the caller continues, so that the two do
	// not wake each other for every item.
	refill = ringLen / 8
	// spins is how often a goroutine polls and yields before it parks, some 30 us. Waking a parked one costs its
	// waker about 8 us and lets it start after about 25, so spinning for as long covers the gaps inside a step and
	// frees an idle core soon after.
	spins = 300
)

type itemKind uint8

const (
	itemLaunch itemKind = iota
	itemCopy
	itemRecord
	itemWait
	itemQuit
)

// item is one piece of queued work. One struct for all kinds keeps the ring a plain array: no pointers to allocate,
// no interfaces to convert.
type item struct {
	kind itemKind

	fn   *kernelFunc // launch
	n    int         // items of a launch, bytes of a copy
	args device.Args

	dst, src       *Buffer // copy
	dstOff, srcOff int

	event *Event // record; its number when captured
	gen   uint64

	after    *Stream // wait: until this stream has done
	afterSeq uint64  // this item
}

// queue is the ring between the caller and a stream's goroutine: one writer, one reader. Items are numbered from 1.
type queue struct {
	ring [ringLen]item

	// Fields of the caller.
	last     uint64 // number of the last item enqueued
	doneSeen uint64 // a lower bound of done
	_        [64]byte

	tail   atomic.Uint64 // last, published
	parked atomic.Bool   // the reader sleeps, or is about to
	wake   chan struct{}
	nudge  *nudge
	_      [64]byte

	// Fields of the reader.
	done   atomic.Uint64 // number of the last item finished
	wakeAt atomic.Uint64 // lowest number that a goroutine sleeps for
	mu     sync.Mutex
	woken  sync.Cond
}

func (q *queue) init() {
	q.wake = make(chan struct{}, 1)
	q.woken.L = &q.mu
	q.wakeAt.Store(math.MaxUint64)
}

// nextSlot returns the next free item; the caller waits here while the ring is full.
func (q *queue) nextSlot() *item {
	if q.last-q.doneSeen >= ringLen {
		q.doneSeen = q.done.Load()
		if q.last-q.doneSeen >= ringLen {
			q.await(q.last - ringLen + refill)
			q.doneSeen = q.done.Load()
		}
	}
	return &q.ring[(q.last+1)%ringLen]
}

// publish makes the slot visible to the reader.
func (q *queue) publish() {
	q.last++
	q.tail.Store(q.last)
	// The reader sets parked before it looks at tail a last time, so one of
	// the two sees the other.
	if q.parked.Load() && q.parked.CompareAndSwap(true, false) {
		q.wake <- struct{}{}
		q.nudge.push()
	}
}

// awaitItem waits for item seq and returns it.
func (q *queue) awaitItem(seq uint64) *item {
	for range spins {
		if q.tail.Load() >= seq {
			return &q.ring[seq%ringLen]
		}
		runtime.Gosched()
	}
	// A loop, because a wake-up may be late: a writer that saw parked for an item that the reader then found by
	// itself wakes the reader when it parks next.
	for q.tail.Load() < seq {
		q.parked.Store(true)
		if q.tail.Load() < seq || !q.parked.CompareAndSwap(true, false) {
			<-q.wake
		}
	}
	return &q.ring[seq%ringLen]
}

// finish marks item seq as done and wakes the goroutines that sleep for it.
func (q *queue) finish(seq uint64) {
	q.done.Store(seq)
	if seq < q.wakeAt.Load() {
		return
	}
	q.mu.Lock()
	q.wakeAt.Store(math.MaxUint64)
	q.mu.Unlock()
	q.woken.Broadcast()
}

// await blocks until item seq is done. Several goroutines may wait.
func (q *queue) await(seq uint64) {
	for range spins {
		if q.done.Load() >= seq {
			return
		}
		runtime.Gosched()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		// As in publish: wakeAt first, then done.
		q.wakeAt.Store(min(q.wakeAt.Load(), seq))
		if q.done.Load() >= seq {
			return
		}
		q.woken.Wait()
	}
}
