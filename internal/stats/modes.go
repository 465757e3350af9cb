package stats

import (
	"math"
	"slices"
)

// Modes describes a program whose processes take one of two times.
type Modes struct {
	Low, High float64 // logarithms: the medians of both
	Share     float64 // share of the processes that take the high one
}

const (
	// fewestInMode is the least number of processes of a mode, and leastShare the least share.
	fewestInMode = 3
	leastShare   = 0.2
	// modesApart is the least distance of the modes, in multiples of the range of each.
	modesApart = 4
)

// FindModes splits the logarithms of processes' medians at the widest gap, and reports whether both parts are modes.
// Each needs its share, and their distance must exceed slack and modesApart times the range of either. Single slow
// processes have different times and form no mode.
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
