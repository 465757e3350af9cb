package history

import (
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkHundredThousand reads a store of 100,000 sessions of four benchmarks, one an hour, of which the latest are in
// the cache.
func BenchmarkHundredThousand(b *testing.B) {
	const benchmarks, each = 4, 25000
	bucket := unflushed(b.TempDir())
	s := NewStore(bucket, filepath.Join(b.TempDir(), "cache"))
	template := madeSession(b, 0, 0.01)
	for k := range benchmarks {
		for i := range each {
			one := *template
			one.Benchmark.Name = "bench" + string(rune('a'+k))
			one.Commit = commitAt(i)
			one.Session.Started = began().Add(time.Duration(i) * time.Hour)
			if _, err := s.Add(b.Context(), &one); err != nil {
				b.Fatal(err)
			}
		}
	}
	began := time.Now()
	if _, err := s.Report(b.Context(), Options{}); err != nil {
		b.Fatal(err)
	}
	b.Logf("the first reading, without a cache, took %s", time.Since(began))
	for b.Loop() {
		r, err := s.Report(b.Context(), Options{})
		if err != nil || len(r.Trends) != benchmarks {
			b.Fatal(err)
		}
	}
}
