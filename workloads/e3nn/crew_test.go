package e3nn

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Every row is done once, in any number of loops after any number of calls.
func TestCrewDoesEveryRow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCrew(rapid.IntRange(2, 5).Draw(t, "threads"), rapid.IntRange(1, 9).Draw(t, "chunk"))
		defer c.close()
		for range rapid.IntRange(1, 20).Draw(t, "loops") {
			loop := c.run
			if rapid.Bool().Draw(t, "follow") {
				loop = c.follow
			}
			done := make([]atomic.Int32, rapid.IntRange(0, 100).Draw(t, "rows"))
			loop(len(done), math.MaxInt64, func(lo, hi int) int {
				for i := lo; i < hi; i++ {
					done[i].Add(1)
				}
				return hi - lo
			})
			for i := range done {
				if n := done[i].Load(); n != 1 {
					t.Fatalf("row %d of %d was done %d times", i, len(done), n)
				}
			}
		}
	})
}

// Who stops early has done all rows up to some, and these came to enough.
func TestCrewStopsWhenItHasEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		worth := rapid.SliceOfN(rapid.IntRange(0, 5), 1, 100).Draw(t, "worth")
		enough := int64(rapid.IntRange(0, 300).Draw(t, "enough"))
		c := newCrew(rapid.IntRange(2, 5).Draw(t, "threads"), rapid.IntRange(1, 9).Draw(t, "chunk"))
		defer c.close()
		done := make([]atomic.Bool, len(worth))
		c.run(len(worth), enough, func(lo, hi int) (sum int) {
			for i := lo; i < hi; i++ {
				done[i].Store(true)
				sum += worth[i]
			}
			return sum
		})
		sum, rows := int64(0), 0
		for rows < len(worth) && done[rows].Load() {
			sum += int64(worth[rows])
			rows++
		}
		for i := rows; i < len(worth); i++ {
			if done[i].Load() {
				t.Fatalf("row %d was done and row %d was not", i, rows)
			}
		}
		if rows < len(worth) && sum < enough {
			t.Fatalf("%d rows of %d came to %d, %d are enough", rows, len(worth), sum, enough)
		}
	})
}

// Nobody could do the rows of such a loop alone: every helper comes when it is
// called. When the crew is closed nobody is left over.
func TestCrewHelps(t *testing.T) {
	const threads = 4
	before := runtime.NumGoroutine()
	c := newCrew(threads, 1)
	for range 50 {
		var all sync.WaitGroup
		all.Add(threads)
		c.run(threads, math.MaxInt64, func(int, int) int {
			all.Done()
			all.Wait()
			return 0
		})
	}
	c.close()
	nobodyLeft(t, before)
}

// nobodyLeft waits for goroutines to end: one that was told to is counted until
// it is scheduled.
func nobodyLeft(t *testing.T, before int) {
	t.Helper()
	for end := time.Now().Add(4 * time.Minute); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, there were %d", runtime.NumGoroutine(), before)
		}
	}
}

// A session on a GPU's host has help with its batches, which ends with it.
func TestCUDACollators(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	d := openSimulated(t, false)
	before := runtime.NumGoroutine()
	s := openOn(t, d, "small", "batch=700", "mul=1", "lmax=0")
	if n := s.Input()["collate_threads"]; n != 2 {
		t.Errorf("%d edges are made by %v goroutines", s.edges, n)
	}
	if runtime.NumGoroutine() <= before {
		t.Error("nobody helps")
	}
	run(t, s, 3)
	closed(t, s)
	nobodyLeft(t, before)
}

// A caller that has looked in vain parks until the helper is out of the loop.
func TestCrewCallerParks(t *testing.T) {
	c := newCrew(1, 1)
	defer c.close()
	for range 20 {
		var inside atomic.Bool
		left := false
		go func() { // the helper
			for c.joinLoop(0) == 0 {
				runtime.Gosched()
			}
			inside.Store(true)
			for c.state.Load()&crewParked == 0 {
				runtime.Gosched()
			}
			left = true
			c.leaveLoop()
		}()
		c.run(1, math.MaxInt64, func(int, int) int {
			for !inside.Load() {
				runtime.Gosched()
			}
			return 0
		})
		if !left {
			t.Fatal("the caller went on without its helper")
		}
	}
}
