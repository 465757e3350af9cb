package traffic

import (
	"slices"
	"time"
)

// Splitter cuts a waiting set into batches of sizes whose times are known, so that the
// sum of the times is least.
type Splitter struct {
	first []int           // by the number that waits: the largest piece of the best cut
	cost  []time.Duration // of the best cut
	sizes []int
}

// Sizes returns the batch sizes to time: 1, 2, 4 … and most.
func Sizes(most int) []int {
	var out []int
	for b := 1; b < most; b *= 2 {
		out = append(out, b)
	}
	return append(out, most)
}

// NewSplitter makes the cuts of every number of requests up to the largest size, by
// dynamic programming: cost(n) is the least of times[b] + cost(n-b) over the sizes b. With
// pad, a batch may hold fewer requests than its size and takes as long.
func NewSplitter(times map[int]time.Duration, pad bool) *Splitter {
	s := &Splitter{}
	for b := range times {
		s.sizes = append(s.sizes, b)
	}
	slices.Sort(s.sizes)
	most := s.sizes[len(s.sizes)-1]
	s.first, s.cost = make([]int, most+1), make([]time.Duration, most+1)
	for n := 1; n <= most; n++ {
		s.cost[n] = Forever
		for _, b := range s.sizes {
			if b > n && !pad {
				break
			}
			rest := max(0, n-b)
			if c := times[b] + s.cost[rest]; c < s.cost[n] {
				s.cost[n], s.first[n] = c, max(b, s.first[rest])
			}
		}
	}
	return s
}

// First returns the largest piece of the best division of n requests, which runs first.
func (s *Splitter) First(n int) int { return s.first[min(n, len(s.first)-1)] }

// Padded returns the least of sizes that holds n.
func Padded(sizes []int, n int) int {
	for _, b := range sizes {
		if b >= n {
			return b
		}
	}
	return n
}
