package loop

// Lifetimes derives which blocks of memory each of n operations takes before it runs and releases after it. A block
// lives from the first operation that uses it to the last. uses lists the blocks that operation i reads or writes.
// Lifetimes calls take and give once for each block, in this order for an operation's blocks.
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
