package host

import (
	"math"
	"runtime"
	"testing"
	"time"
)

// TestLateWake wakes a parked reader without an item, as a writer does that
// was interrupted between its look at parked and its wake-up.
func TestLateWake(t *testing.T) {
	q := new(queue)
	q.init()
	q.nudge = newNudge()
	defer q.nudge.close()
	parks := func() {
		t.Helper()
		for deadline := time.Now().Add(4 * time.Minute); !q.parked.Load(); runtime.Gosched() {
			if time.Now().After(deadline) {
				t.Fatal("the reader does not park")
			}
		}
	}
	got := make(chan int, 1)
	go func() { got <- q.awaitItem(1).n }()
	for range 3 {
		parks()
		if !q.parked.CompareAndSwap(true, false) {
			t.Fatal("somebody else woke the reader")
		}
		q.wake <- struct{}{}
	}
	parks()
	q.nextSlot().n = 7
	q.publish()
	if n := <-got; n != 7 {
		t.Errorf("the reader took %d before the item was there", n)
	}
}

// TestFullRing checks that the caller is held while the ring is full and goes
// on once an eighth is worked off.
func TestFullRing(t *testing.T) {
	q := new(queue)
	q.init()
	q.nudge = newNudge()
	defer q.nudge.close()
	for range ringLen {
		q.nextSlot()
		q.publish()
	}
	more := make(chan struct{})
	go func() {
		q.nextSlot()
		close(more)
	}()
	// The caller must have found the ring full before anything is finished.
	for q.wakeAt.Load() == math.MaxUint64 {
		runtime.Gosched()
	}
	for seq := uint64(1); seq <= refill; seq++ {
		select {
		case <-more:
			t.Fatalf("a slot of a full ring was given out after %d items", seq-1)
		default:
		}
		q.finish(seq)
	}
	<-more
}
