package model

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestStrideIDs: ids with a stride do not make the search for them slow.
func TestStrideIDs(t *testing.T) {
	for shift := range 50 {
		const n = 4096
		p := launchTable{n: n, low: 0, high: (n - 1) << shift}
		p.allocateSlots()
		if p.dense != nil {
			if len(p.dense) > widestSpread*n+1024 {
				t.Errorf("stride 2^%d: a list of %d for %d ids", shift, len(p.dense), n)
			}
			continue
		}
		for i := range int64(n) {
			if s := p.findSlot(i << shift); s.call != callUnknownID {
				t.Fatalf("stride 2^%d: id %d is there already", shift, i)
			}
			p.addID(i << shift)
		}
		// A run of taken slots is what a search that misses walks through.
		longest, run := 0, 0
		for i := range 2 * len(p.slots) {
			run++
			if p.slots[i%len(p.slots)].call == callUnknownID {
				run = 0
			}
			longest = max(longest, run)
		}
		if longest > n/16 {
			t.Errorf("stride 2^%d: %d of %d slots in a row are taken", shift, longest, n)
		}
	}
}

func TestSortOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{0, 1, 2, 3, 7, 100, 1001} {
		for _, kind := range []string{"random", "sorted", "reversed", "two lists", "equal"} {
			v := make([]int, n)
			for i := range v {
				switch kind {
				case "random":
					v[i] = rng.IntN(n)
				case "sorted":
					v[i] = i
				case "reversed":
					v[i] = -i
				case "two lists":
					v[i] = i % (n/2 + 1)
				}
			}
			order, want := make([]int32, n), make([]int32, n)
			for i := range order {
				order[i], want[i] = int32(i), int32(i)
			}
			slices.SortStableFunc(want, func(a, b int32) int { return v[a] - v[b] })
			sortOrder(order, func(a, b int32) bool { return v[a] < v[b] })
			if !slices.Equal(order, want) {
				t.Fatalf("%d %s: %v, want %v", n, kind, order, want)
			}
			sorted := slices.Clone(v)
			permuteInPlace(sorted, order)
			if !slices.IsSorted(sorted) {
				t.Fatalf("%d %s: moved to %v", n, kind, sorted)
			}
		}
	}
}
