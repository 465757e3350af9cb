package loop

// Lifetimes derives which blocks of memory each of n operations takes before it runs and releases after it: a block
// lives from the first operation that uses it to the last. uses lists the blocks that operation i reads or writes; take
// and give are called for its blocks in this order, once for each block.
func Lifetimes[B comparable](n int, uses func(i int) []B, take, give func(i int, b B)) {
	last := map[B]int{}
	for i := range n {
		for _, b := range uses(i) {
			if _, lives := last[b]; !lives {
				take(i, b)
			}
			last[b] = i
		}
	}
	for i := range n {
		for _, b := range uses(i) {
			if at, lives := last[b]; lives && at == i {
				give(i, b)
				delete(last, b)
			}
		}
	}
}
