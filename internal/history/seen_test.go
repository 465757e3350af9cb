//go:build !race

// One goroutine computes for half a minute under the race detector and shares nothing.

package history

import (
	"math/rand/v2"
	"testing"
)

// A change for the worse that no alarm is raised for yet is seen, and as many more sessions as
// it asks for, and four, raise the alarm: those to come are not just like those before.
func TestSeenAndNotCertain(t *testing.T) {
	o := Options{Watch: true, Threshold: 0.05}.fillDefaults()
	seen, kept := 0, 0
	for i := range 40 {
		values := stepped(noisy(rand.New(rand.NewPCG(uint64(i), 17)), 80, 0.01, 0), 40, 1.2)
		for n := 41; n < 60; n++ {
			tr := trendOf(values[:n], nil)
			tr.analyse(o)
			m := tr.Metrics[0]
			if len(m.Alarms) > 0 {
				break
			}
			if len(m.Seen) == 0 {
				continue
			}
			s := m.Seen[0]
			if seen++; s.Sessions == 0 || s.Ratio < 1.05 {
				t.Fatalf("%+v", s)
			}
			tr = trendOf(values[:n+s.Sessions+4], nil)
			tr.analyse(o)
			if len(tr.Metrics[0].Alarms) > 0 {
				kept++
			}
			break
		}
	}
	if seen < 25 || kept < seen*75/100 {
		t.Errorf("%d changes were seen, and the sessions that they asked for raised %d alarms", seen, kept)
	}
	steady := trendOf(noisy(rand.New(rand.NewPCG(1, 17)), 60, 0.01, 0), nil)
	if steady.analyse(o); len(steady.Metrics[0].Seen) > 0 {
		t.Errorf("nothing changed, and %+v is seen", steady.Metrics[0].Seen)
	}
}
