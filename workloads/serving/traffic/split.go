package traffic

import (
	"slices"
	"time"
)

// Splitter divides the waiting requests into batches of measured sizes, so that the sum of the batches' times is least.
type Splitter struct {
	first []int           // for each number of waiting requests: the largest batch of the best division
	cost  []time.Duration // for each number of waiting requests: the time of the best division
	sizes []int
}

// Sizes returns the batch sizes to measure: the powers of two below most, and most itself.
func Sizes(most int) []int {
	var out []int
	for b := 1; b < most; b *= 2 {
		out = append(out, b)
	}
	return append(out, most)
}

// NewSplitter computes the best division for every number of requests up to the largest size, by dynamic programming:
// cost(n) is the minimum over sizes b of times[b] + cost(n-b). If pad is set, a batch may hold fewer requests than its
// size and takes the time of its size.
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

// First returns the largest batch of the best division of n requests; it runs first.
func (s *Splitter) First(n int) int { return s.first[min(n, len(s.first)-1)] }

// Padded returns the smallest of sizes that is at least n, or n if there is none.
func Padded(sizes []int, n int) int {
	for _, b := range sizes {
		if b >= n {
			return b
		}
	}
	return n
}
