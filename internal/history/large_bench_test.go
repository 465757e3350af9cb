package history

import (
	"path"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkHundredThousand reads a store of 100,000 sessions of four benchmarks in
// packs, one an hour, whose names are in the cache: it answers within 2 s.
func BenchmarkHundredThousand(b *testing.B) {
	const benchmarks, each = 4, 25000
	bucket := unflushed(b.TempDir())
	s := NewStore(bucket, filepath.Join(b.TempDir(), "cache"))
	template := madeSession(b, 0, 0.01)
	for k := range benchmarks {
		months := map[string][]string{}
		texts := map[string][][]byte{}
		for i := range each {
			one := *template
			one.Benchmark.Name = "bench" + string(rune('a'+k))
			one.Commit = commitAt(i)
			one.Session.Started = began().Add(time.Duration(i) * time.Hour)
			name, text, err := one.encode()
			if err != nil {
				b.Fatal(err)
			}
			folder := path.Dir(name)
			months[folder], texts[folder] = append(months[folder], name), append(texts[folder], text)
		}
		for folder := range months {
			if _, err := s.writePack(b.Context(), folder, months[folder], texts[folder]); err != nil {
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
