//go:build !race

// Under the race detector this takes ten times as long; it runs in one goroutine, where the detector finds nothing.

package history

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestPruneLaws: whatever is pruned, every commit keeps a session, and all that lie near a change or are young stay.
func TestPruneLaws(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := NewStore(newMemory(), "")
		n := rapid.IntRange(1, 40).Draw(rt, "sessions")
		commits := map[string]bool{}
		step := rapid.IntRange(0, n).Draw(rt, "step")
		for i := range n {
			seconds := 0.01
			if i >= step {
				seconds = 0.012
			}
			one := madeSession(t, i, seconds)
			one.Commit = commitAt(i / rapid.IntRange(1, 4).Draw(rt, "repeats"))
			if _, err := s.Add(t.Context(), one); err != nil {
				rt.Fatal(err)
			}
			commits[one.Commit.Short()] = true
		}
		now := began().AddDate(2, 0, 0)
		if rapid.Bool().Draw(rt, "one more") {
			if _, err := s.Add(t.Context(), madeSession(t, 100, 0.01)); err != nil {
				rt.Fatal(err)
			}
			commits[commitAt(100).Short()] = true
		}
		before := reported(t, s, Options{Last: 1000})
		near := map[string]bool{}
		for _, m := range before.Trends[0].Metrics {
			for _, c := range m.Changes {
				for k := max(0, c.At-besideChange); k < min(len(before.Trends[0].Sessions), c.At+besideChange); k++ {
					near[before.Trends[0].Sessions[k].Object] = true
				}
			}
		}
		in, _ := s.list(t.Context(), Filter{})
		keep := time.Duration(rapid.IntRange(0, 3*365*24).Draw(rt, "hours")) * time.Hour
		young := map[string]bool{}
		for _, r := range in.refs {
			young[r.name] = !r.at.Add(keep).Before(now)
		}
		pruned, _, err := s.Prune(t.Context(), Options{}, keep, now, true)
		if err != nil {
			rt.Fatal(err)
		}
		for _, p := range pruned {
			if young[p.Name] {
				rt.Fatalf("%s was removed and is young", p.Name)
			}
		}
		left, err := s.list(t.Context(), Filter{})
		if err != nil {
			rt.Fatal(err)
		}
		stays := map[string]bool{}
		for _, r := range left.refs {
			delete(commits, r.commit)
			stays[r.name] = true
		}
		if len(commits) > 0 {
			rt.Fatalf("commits without a session: %v", slices.Collect(maps.Keys(commits)))
		}
		for name := range near {
			if !stays[name] {
				rt.Fatalf("%s is near a change and was removed", name)
			}
		}
	})
}
