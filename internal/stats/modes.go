package stats

import (
	"math"
	"slices"
)

// Modes describes a program whose processes each take one of two times.
type Modes struct {
	Low, High float64 // medians of the two modes, logarithms
	Share     float64 // of the processes in the high mode
}

const (
	// A mode has at least fewestInMode processes, and at least the share leastShare of all processes.
	fewestInMode = 3
	leastShare   = 0.2
	// modesApart is the least distance between the modes, in multiples of either's range.
	modesApart = 4
)

// FindModes splits the log medians of processes at the widest gap, and reports whether both parts are modes. Each part
// needs the least number and share of processes, and the distance between them must exceed slack (of the logarithm)
// and modesApart times the range of either. Single slow processes form no mode.
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

// modeDeviations returns the absolute deviations of the log medians of both sides from the median of their mode, or of
// their side if it has none. together is the probability that two processes of a side are of the same mode; the smaller
// of both sides.
func modeDeviations(a, b []float64, slack float64) (out []float64, sameModeProbability float64) {
	sameModeProbability = 1
	for _, logs := range [][]float64{a, b} {
		m, ok := FindModes(logs, slack)
		if !ok {
			m.Low, m.High = Median(logs), math.Inf(1)
		}
		sameModeProbability = min(sameModeProbability, m.Share*m.Share+(1-m.Share)*(1-m.Share))
		for _, x := range logs {
			out = append(out, min(math.Abs(x-m.Low), math.Abs(x-m.High)))
		}
	}
	return out, sameModeProbability
}
