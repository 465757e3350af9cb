package loop

// Lifetimes derives which blocks each of n operations takes before it runs and gives back after it: a block is taken by
// the first operation that uses it and given by the last. uses returns the blocks that operation i reads or writes;
// both results list an operation's blocks in that order, each once.
func Lifetimes[B comparable](n int, uses func(i int) []B) (take, give [][]B) {
	first, last := map[B]int{}, map[B]int{}
	for i := range n {
		for _, b := range uses(i) {
			if _, used := first[b]; !used {
				first[b] = i
			}
			last[b] = i
		}
	}
	at := func(of map[B]int, i int) (all []B) {
		for _, b := range uses(i) {
			if j, is := of[b]; is && j == i {
				all = append(all, b)
				delete(of, b) // an operation may list a block twice
			}
		}
		return all
	}
	take, give = make([][]B, n), make([][]B, n)
	for i := range n {
		take[i], give[i] = at(first, i), at(last, i)
	}
	return take, give
}
