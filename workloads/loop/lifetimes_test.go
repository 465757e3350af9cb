package loop

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// lists has what each operation takes and gives.
func lists[B comparable](program [][]B) (take, give [][]B) {
	take, give = make([][]B, len(program)), make([][]B, len(program))
	Lifetimes(len(program), func(i int) []B { return program[i] },
		func(i int, b B) { take[i] = append(take[i], b) }, func(i int, b B) { give[i] = append(give[i], b) })
	return take, give
}

// A block is held from the first operation that uses it to the last, taken once and given once, whatever the program.
func TestLifetimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		program := rapid.SliceOf(rapid.SliceOfN(rapid.IntRange(0, 5), 0, 4)).Draw(t, "blocks that each operation uses")
		take, give := lists(program)
		held, done := map[int]bool{}, map[int]bool{}
		for i, uses := range program {
			for _, b := range take[i] {
				if held[b] || done[b] || !slices.Contains(uses, b) {
					t.Fatalf("operation %d takes block %d, held %t, given before %t, by %v", i, b, held[b], done[b], uses)
				}
				held[b] = true
			}
			for _, b := range uses {
				if !held[b] {
					t.Fatalf("operation %d uses block %d, which is not held", i, b)
				}
			}
			for _, b := range give[i] {
				later := slices.ContainsFunc(program[i+1:], func(uses []int) bool { return slices.Contains(uses, b) })
				if !held[b] || later || !slices.Contains(uses, b) {
					t.Fatalf("operation %d gives block %d, held %t, used later %t, by %v", i, b, held[b], later, uses)
				}
				held[b], done[b] = false, true
			}
		}
		for b, is := range held {
			if is {
				t.Errorf("block %d is never given", b)
			}
		}
	})
}

// The order of the results is that of an operation's uses.
func TestLifetimesKeepOrder(t *testing.T) {
	program := [][]string{{"c", "a"}, {"b", "c", "a", "c"}}
	take, give := lists(program)
	if !slices.Equal(take[0], []string{"c", "a"}) || !slices.Equal(take[1], []string{"b"}) || give[0] != nil || !slices.Equal(give[1], []string{"b", "c", "a"}) {
		t.Errorf("taken %v, given %v", take, give)
	}
}
