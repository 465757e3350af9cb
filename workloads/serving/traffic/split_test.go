package traffic

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// cheapest is the least sum over every way to cut n, by trying all.
func cheapest(times map[int]time.Duration, n int, pad bool) time.Duration {
	if n <= 0 {
		return 0
	}
	best := Forever
	for b, c := range times {
		if b <= n || pad {
			if rest := cheapest(times, n-b, pad); rest != Forever {
				best = min(best, c+rest)
			}
		}
	}
	return best
}

// A cut is the cheapest of all, its first piece is one of its pieces and the largest of them.
func TestSplitter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 12).Draw(t, "most")
		pad := rapid.Bool().Draw(t, "pad")
		times := map[int]time.Duration{}
		for _, b := range Sizes(most) {
			times[b] = time.Duration(rapid.IntRange(1, 50).Draw(t, "time"))
		}
		s := NewSplitter(times, pad)
		for n := 1; n <= most; n++ {
			if got, want := s.cost[n], cheapest(times, n, pad); got != want {
				t.Fatalf("the cut of %d costs %d, the cheapest %d (%v)", n, got, want, times)
			}
			b := s.First(n)
			if times[b]+s.cost[max(0, n-b)] != s.cost[n] || (b > n && !pad) || s.First(max(0, n-b)) > b {
				t.Fatalf("the first piece of %d is %d (%v)", n, b, times)
			}
		}
	})
}

func TestSizes(t *testing.T) {
	for most, want := range map[int][]int{1: {1}, 2: {1, 2}, 6: {1, 2, 4, 6}, 32: {1, 2, 4, 8, 16, 32}} {
		if got := Sizes(most); !slices.Equal(got, want) {
			t.Errorf("sizes up to %d are %v, want %v", most, got, want)
		}
	}
	if got := Padded(Sizes(32), 9); got != 16 {
		t.Errorf("9 are padded to %d", got)
	}
}
