package events

import (
	"math"
	"testing"
)

// The rate of the two clocks counts once it is known well enough, and corrects
// only what differs by more than it may be off.
func TestDrift(t *testing.T) {
	const second = 1_000_000_000
	for name, c := range map[string]struct {
		device, host, slack int64
		known               bool
		multiplier          float64
	}{
		"too early":        {second / 1000, second / 1000, 5000, false, 1},
		"same rate":        {10 * second, 10 * second, 5000, true, 1},
		"within its error": {10 * second, 10*second + 4000, 5000, true, 1},
		"50 ppm fast":      {10*second + 500_000, 10 * second, 5000, true, float64(10*second) / float64(10*second+500_000)},
		"200 ppm slow":     {10*second - 2_000_000, 10 * second, 5000, true, float64(10*second) / float64(10*second-2_000_000)},
		"no clock":         {second, 2 * second, 5000, false, 1},
		"backwards":        {-second, second, 5000, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := synchroniser{slack: c.slack, multiplier: 1}
			s.compareClocks(c.device, c.host, c.slack)
			r := Recorder{sync: s}
			rate, bound, known := r.Drift()
			if known != c.known || s.multiplier != c.multiplier {
				t.Fatalf("known %t, multiplier %v, want %t, %v", known, s.multiplier, c.known, c.multiplier)
			}
			if known && (math.Abs(rate-float64(c.host)/float64(c.device)) > 1e-12 || bound <= 0 || bound > driftBound) {
				t.Errorf("rate %v, bound %v", rate, bound)
			}
			if c.multiplier != 1 {
				if got := s.hostTime(c.device); got != c.host {
					t.Errorf("%d ns of the device are %d, want %d", c.device, got, c.host)
				}
			} else if s.hostTime(12345) != 12345 {
				t.Error("an uncorrected time changed")
			}
		})
	}
}
