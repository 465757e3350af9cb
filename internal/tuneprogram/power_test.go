package tuneprogram

import (
	"context"
	"testing"
	"time"
)

// TestPower: how often a search finds the one setting with a gain among settings without effect. slow is the share of
// runs that take half as long again, as on a machine with other work. A setting without effect in the recommended set
// counts as other.
func TestPower(t *testing.T) {
	const searches = 30
	for _, tt := range []struct {
		budget            time.Duration
		noise, slow, gain float64
		found, other      int // at least, at most
	}{
		{2 * time.Minute, 0.03, 0, 1, 0, 0},
		{2 * time.Minute, 0.03, 0, 1.15, 15, 0},
		{2 * time.Minute, 0.03, 0, 14, 28, 0},
		{2 * time.Minute, 0.1, 0.1, 3, 28, 0},
		{4 * time.Minute, 0.15, 0.3, 3, 22, 1},
		{10 * time.Minute, 0.03, 0, 1.15, 28, 0},
		{10 * time.Minute, 0.1, 0.1, 1.5, 27, 2},
		{10 * time.Minute, 0.15, 0.3, 1, 0, 1},
		{10 * time.Minute, 0.15, 0.3, 14, 27, 2},
	} {
		found, other := 0, 0
		for seed := range uint64(searches) {
			m := &machine{noise: tt.noise, slow: tt.slow, gains: map[string]float64{"num_workers=2": tt.gain}}
			r, err := m.search(context.Background(), seed, tt.budget, nil)
			if err != nil {
				t.Fatal(err)
			}
			switch recommended(r) {
			case "num_workers=2":
				found++
			case "":
			default:
				other++
			}
		}
		t.Logf("budget %v, noise %v, slow %v, gain %v: found in %d of %d, another set in %d",
			tt.budget, tt.noise, tt.slow, tt.gain, found, searches, other)
		if found < tt.found || other > tt.other {
			t.Errorf("at least %d and at most %d wanted", tt.found, tt.other)
		}
	}
}
