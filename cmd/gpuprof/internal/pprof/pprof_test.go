package pprof

import (
	"strconv"
	"sync"
	"testing"

	"github.com/google/pprof/profile"
)

// pprof fetches a profile and its base in two goroutines; it did so while the first was taken from the map.
func TestProfileAndBaseAreFetchedTogether(t *testing.T) {
	const sources = 64
	f := &runFetcher{ready: make(map[string]*profile.Profile)}
	for i := range sources {
		f.ready[strconv.Itoa(i)] = &profile.Profile{}
	}
	var wg sync.WaitGroup
	for i := range sources {
		wg.Go(func() {
			if p, _, err := f.Fetch(strconv.Itoa(i), 0, 0); err != nil || p == nil {
				t.Errorf("source %d: %v, %v", i, p, err)
			}
		})
	}
	wg.Wait()
	if len(f.ready) != 0 {
		t.Errorf("%d profiles were not taken", len(f.ready))
	}
}
