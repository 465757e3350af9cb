//go:build !race

// Each of these soaks waits four seconds for callers that are slow; soak_test.go has the same goroutines under the detector.

package serving

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// found keeps the failures of a test instead of failing it.
type found struct {
	testing.TB
	mu   sync.Mutex
	list []string
}

func (f *found) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, fmt.Sprintf(format, args...))
}

// Each fault that the soak is for fails it: memory that is kept, a request that is lost on its way, one that is answered
// twice, and an answer that is another caller's.
func TestSoakFails(t *testing.T) {
	var kept [][]*[4]int
	odd := func(change func(next http.RoundTripper, q *http.Request) (*http.Response, error)) func(http.RoundTripper, *http.Request) (*http.Response, error) {
		var n atomic.Int64
		return func(next http.RoundTripper, q *http.Request) (*http.Response, error) {
			// Some 90 of 1,000 requests: of the 32 callers that leave the books may have each or not, and on a busy machine
			// two thirds of the requests are refused, which are never answered wrongly.
			if n.Add(1)%10 != 7 {
				return next.RoundTrip(q)
			}
			return change(next, q)
		}
	}
	for name, c := range map[string]struct {
		faults
		says string
	}{
		"leak": {faults{leak: func() {
			objects := make([]*[4]int, 10_000) // two batches are more than the room that the soak gives
			for i := range objects {
				objects[i] = new([4]int)
			}
			kept = append(kept, objects)
		}}, "live early"},
		"lost": {faults{on: odd(func(_ http.RoundTripper, q *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody, Request: q}, nil
		})}, "the books have"},
		"twice": {faults{on: odd(func(next http.RoundTripper, q *http.Request) (*http.Response, error) {
			again, err := http.NewRequest(q.Method, q.URL.String(), strings.NewReader(asked(1)))
			if err != nil {
				return nil, err
			}
			if first, err := next.RoundTrip(again); err == nil {
				first.Body.Close()
			}
			return next.RoundTrip(q)
		})}, "the books have"},
		"mixed up": {faults{on: odd(func(next http.RoundTripper, q *http.Request) (*http.Response, error) {
			other, err := http.NewRequest(q.Method, q.URL.String(), strings.NewReader(asked(500_123)))
			if err != nil {
				return nil, err
			}
			return next.RoundTrip(other)
		})}, "was answered"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &found{TB: t}
			soakOutside(f, "refuse-new", 0, c.faults)
			if !slices.ContainsFunc(f.list, func(s string) bool { return strings.Contains(s, c.says) }) {
				t.Errorf("the soak found %q, want %q", f.list, c.says)
			}
		})
	}
	runtime.KeepAlive(kept)
}
