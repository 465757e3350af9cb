package gridsim

import (
	"testing"
	"time"
)

// The allocator's series have a value for every step. Idle bytes are those that are
// reserved and not in use.
func TestObserved(t *testing.T) {
	s := openSession(t, append(tinyGrid("impl=split,allocator=pool,pool_trim=every:3,roi=on"), "live=every:2")...)
	run(t, s, 12)
	figures, tracks := s.Observed(time.Now())
	for _, name := range []string{"memory_in_use", "memory_reserved", "memory_idle", "largest_idle_block", "driver_allocs", "driver_frees"} {
		track := tracks[name]
		if len(track.Value) != 12 || len(track.TimeS) != 12 {
			t.Errorf("%s has %d values", name, len(track.Value))
			continue
		}
		if track.Unit != "B" {
			continue
		}
		for _, suffix := range []string{"_mean", "_peak"} {
			if _, ok := figures[name+suffix]; !ok {
				t.Errorf("figure %s%s is missing", name, suffix)
			}
		}
	}
	for i := range 12 {
		if tracks["memory_in_use"].Value[i]+tracks["memory_idle"].Value[i] != tracks["memory_reserved"].Value[i] {
			t.Errorf("step %d: in use and idle are not what is reserved", i)
		}
	}
	if figures["frames_shown"] != 5 || figures["bytes_shown"] != int64(5*4*4*9) {
		t.Errorf("%v", figures)
	}
}

// A long run keeps a bounded number of points, spread over all of it.
func TestWatchThins(t *testing.T) {
	var w watch
	m := &direct{}
	for i := range 3 * watchPoints {
		m.c.inUse = int64(i)
		w.note(m)
	}
	if w.used > watchPoints || w.used < watchPoints/2 || w.points[0].inUse > 8 || w.points[w.used-1].inUse < 3*watchPoints-8 {
		t.Errorf("%d points from %d to %d", w.used, w.points[0].inUse, w.points[w.used-1].inUse)
	}
	for i := 1; i < w.used; i++ {
		if d := w.points[i].inUse - w.points[i-1].inUse; d != int64(w.every) {
			t.Fatalf("point %d is %d steps after the one before, every %d", i, d, w.every)
		}
	}
}
