package traffic

import (
	"testing"
	"time"
)

// Two callers at once: who read the clock first may reach the queue last, and refuse there the one that came since. That
// one was refused when it was put in at the soonest, and not before it was due.
func TestRefusedByAnEarlierCaller(t *testing.T) {
	for _, rule := range []Overload{RefuseNew, RefuseOld} {
		books := NewAccount(1, time.Second, false)
		q := NewQueue(1, rule, books)
		q.Put(Request{ID: 1, Due: 5 * ms, Counted: true}, 6*ms)
		q.Put(Request{ID: 0, Due: 3 * ms, Counted: true}, 4*ms)
		for _, r := range q.Take(nil, 1, 7*ms) {
			books.recordEnd(&r, Completed, 8*ms)
		}
		for _, fault := range books.Faults(2) {
			t.Errorf("%s: %s", rule, fault)
		}
	}
}
