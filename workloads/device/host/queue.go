package host

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/gpuprof/gpuprof/workloads/device"
)

const (
	// ringLen is the maximum number of queued items of a stream; CUDA queues about as many.
	ringLen = 1024
	// refill is the number of items that must finish before the caller of a full ring continues, so that caller and stream
	// do not wake each other for every item.
	refill = ringLen / 8
	// spins is how often a goroutine polls and yields, for about 30 us, before it parks. That covers gaps inside a
	// step. A wake-up takes about as long: 8 us of the waker, and 25 us until the goroutine runs.
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

// item is one piece of queued work. One struct for all kinds makes the ring a plain array without allocations.
type item struct {
	kind itemKind

	fn   *kernelFunc // launch
	n    int         // items of a launch, bytes of a copy
	args device.Args

	dst, src       *Buffer // copy
	dstOff, srcOff int

	event *Event // record
	gen   uint64 // Event.gen of this record

	after    *Stream // wait: the stream to wait for
	afterSeq uint64  // wait: the number of its item that must be done
}

// queue is the ring from the caller to a stream's goroutine: one writer, one reader. Items count from 1.
type queue struct {
	ring [ringLen]item

	// Fields that the caller's goroutine uses.
	last     uint64 // number of the last item enqueued
	doneSeen uint64 // the value of done when the caller last read it
	_        [64]byte

	tail   atomic.Uint64 // last, once published
	parked atomic.Bool   // the reader sleeps or is about to
	wake   chan struct{}
	nudge  *nudge
	_      [64]byte

	// Fields for waiting until items are finished. Only the reader writes done.
	done   atomic.Uint64 // number of the last item finished
	wakeAt atomic.Uint64 // lowest item number that a goroutine waits for
	mu     sync.Mutex
	woken  sync.Cond
}

func (q *queue) init() {
	q.wake = make(chan struct{}, 1)
	q.woken.L = &q.mu
	q.wakeAt.Store(math.MaxUint64)
}

// nextSlot returns the next free item of the ring, for the caller to fill. It waits while the ring is full.
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

// publish makes the item that the caller has filled visible to the reader.
func (q *queue) publish() {
	q.last++
	q.tail.Store(q.last)
	// The reader sets parked before its last look at tail, so either the reader or this goroutine notices the other.
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
	// Loop, because a wake-up may be stale. The reader may have found the item itself while the writer was about to
	// wake it; the wake-up then ends a later wait.
	for q.tail.Load() < seq {
		q.parked.Store(true)
		if q.tail.Load() < seq || !q.parked.CompareAndSwap(true, false) {
			<-q.wake
		}
	}
	return &q.ring[seq%ringLen]
}

// finish marks item seq as done and wakes the goroutines that wait for it.
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
		// Store wakeAt before reading done, as in publish.
		q.wakeAt.Store(min(q.wakeAt.Load(), seq))
		if q.done.Load() >= seq {
			return
		}
		q.woken.Wait()
	}
}
