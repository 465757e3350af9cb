package stats

import (
	"math"
	"slices"
)

// Modes are the two times that processes of one program take, where they take one of two.
type Modes struct {
	Low, High float64 // logarithms: the medians of either
	Share     float64 // of the processes that take the high one
}

const (
	// fewestInMode is how many processes make a mode, and leastShare which share of them.
	fewestInMode = 3
	leastShare   = 0.2
	// modesApart is how many times further apart modes lie than processes of one differ, by the
	// range of those.
	modesApart = 4
)

// FindModes splits the logarithms of processes' medians at the widest gap, and reports whether
// both parts are modes: each has its share, and they lie further apart than slack and than
// modesApart times the range of either. Slow processes have times of their own each and are none.
func FindModes(logs []float64, slack float64) (m Modes, ok bool) {
	s := slices.Sorted(slices.Values(logs))
	at, gap := 0, 0.0
	for i := 1; i < len(s); i++ {
		if d := s[i] - s[i-1]; d > gap {
			at, gap = i, d
		}
	}
	low, high := s[:at], s[at:]
	least := max(fewestInMode, int(math.Ceil(leastShare*float64(len(s)))))
	if len(low) < least || len(high) < least || gap <= slack || gap < modesApart*max(low[len(low)-1]-low[0], high[len(high)-1]-high[0]) {
		return Modes{}, false
	}
	return Modes{Median(low), Median(high), float64(len(high)) / float64(len(s))}, true
}
