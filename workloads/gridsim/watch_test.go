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
