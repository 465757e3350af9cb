package host

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/gpuprof/gpuprof/workloads/device"
)

const (
	// ringLen is how many items a stream holds before the caller waits;
	// about what CUDA queues.
	ringLen = 1024
	// refill is how much of a full ring is worked off before the caller goes
	// on, so that the two do not wake each other for every item.
	refill = ringLen / 8
	// spins is how often a goroutine looks and yields before it parks, some
	// 30 us. Waking a parked one costs its waker about 8 us and lets it start
	// after about 25, so spinning for as long again covers the gaps inside a
	// step and leaves an idle core alone soon after.
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

// item is one piece of queued work. One struct for all kinds keeps the ring a
// plain array: no pointers to allocate, no interfaces to convert.
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

// queue is the ring between the caller and a stream's goroutine: one writer,
// one reader. Items are numbered from 1.
type queue struct {
	ring [ringLen]item

	// The caller's side.
	last     uint64 // number of the last item enqueued
	doneSeen uint64 // a lower bound of done
	_        [64]byte

	tail   atomic.Uint64 // last, published
	parked atomic.Bool   // the reader sleeps, or is about to
	wake   chan struct{}
	nudge  *nudge
	_      [64]byte

	// The reader's side.
	done   atomic.Uint64 // number of the last item finished
	wakeAt atomic.Uint64 // lowest number somebody sleeps for
	mu     sync.Mutex
	woken  sync.Cond
}

func (q *queue) init() {
	q.wake = make(chan struct{}, 1)
	q.woken.L = &q.mu
	q.wakeAt.Store(math.MaxUint64)
}

// slot is the next free item; the caller waits here while the ring is full.
func (q *queue) slot() *item {
	if q.last-q.doneSeen >= ringLen {
		q.doneSeen = q.done.Load()
		if q.last-q.doneSeen >= ringLen {
			q.await(q.last - ringLen + refill)
			q.doneSeen = q.done.Load()
		}
	}
	return &q.ring[(q.last+1)%ringLen]
}

// publish hands the slot over.
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

// take waits until item seq is there.
func (q *queue) take(seq uint64) *item {
	for range spins {
		if q.tail.Load() >= seq {
			return &q.ring[seq%ringLen]
		}
		runtime.Gosched()
	}
	// A loop, because a wake-up may be late: a writer that saw parked for an
	// item the reader then found by itself wakes it when it parks next.
	for q.tail.Load() < seq {
		q.parked.Store(true)
		if q.tail.Load() < seq || !q.parked.CompareAndSwap(true, false) {
			<-q.wake
		}
	}
	return &q.ring[seq%ringLen]
}

// finish marks item seq as done and wakes whoever sleeps for it.
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
