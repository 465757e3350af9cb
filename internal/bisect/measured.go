package bisect

import (
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// Measured summarises the measurements of one commit against another.
type Measured struct {
	Commit, Against int
	Quartets        int
	Ratio           gpuprof.Number    // relative change of the metric: 0.05 is 5 % more
	CI95            [2]gpuprof.Number // null for a counter
	// P is the probability, after the last quartet, that the change is at or before the commit.
	P gpuprof.Number
}

// Measured lists the measured pairs of commits, in the order of their first measurement.
func (s *Search) Measured() []Measured {
	var out []Measured
	for _, p := range s.measuredPairs() {
		m := s.summarise(s.quartetsOf(p.commit, p.against))
		m.Commit, m.Against = p.commit, p.against
		if s.Exact {
			m.Ratio, m.CI95 = s.counterChange(p.commit), emptyInterval()
		}
		for i, q := range s.Quartet {
			if q.Commit == p.commit && q.Against == p.against && i < len(s.After) {
				m.P = s.After[i].P
			}
		}
		out = append(out, m)
	}
	return out
}

// Whole summarises BAD against GOOD, from the check before the search.
func (s *Search) Whole() Measured {
	if s.Exact {
		return Measured{Commit: s.N(), Quartets: len(s.Check), Ratio: s.counterChange(s.N()), CI95: emptyInterval(), P: 1}
	}
	m := s.summarise(s.Check)
	m.Commit, m.P = s.N(), 1
	return m
}

// quartetsOf returns the quartets of a commit against another, without the check.
func (s *Search) quartetsOf(commit, against int) (out []Quartet) {
	for _, q := range s.Quartet {
		if q.Commit == commit && q.Against == against {
			out = append(out, q)
		}
	}
	return out
}

// summarise returns the metric's change in the quartets with its interval; with too few quartets only the median.
func (s *Search) summarise(quartets []Quartet) Measured {
	m := Measured{Quartets: len(quartets), Ratio: gpuprof.Number(math.NaN()), CI95: emptyInterval()}
	if e, ok := s.estimateChange(quartets); ok {
		m.Ratio, m.CI95 = gpuprof.Number(s.Ratio(e.Theta)), s.effectInterval(e)
	} else if len(quartets) > 0 {
		m.Ratio = gpuprof.Number(s.Ratio(stats.Median(s.listEffects(quartets))))
	}
	return m
}

// leastPairs is the least number of pairs of processes for an interval, as in a gate.
const leastPairs = 6

// estimateChange returns the metric's change in the quartets as a gate estimates it: by the mean over pairs of
// processes, or by ranks if some pairs are far slower. Positive is worse; ok is false below leastPairs.
func (s *Search) estimateChange(quartets []Quartet) (e stats.Effect, ok bool) {
	if 2*len(quartets) < leastPairs {
		return e, false
	}
	var older, newer [][]float64
	for _, q := range quartets {
		v := q.Values
		older = append(older, []float64{float64(v[0])}, []float64{float64(v[3])})
		newer = append(newer, []float64{float64(v[1])}, []float64{float64(v[2])})
	}
	margin := s.irrelevantChange()
	blocks, ok := stats.NewBlocks(older, newer, nil, margin)
	if !ok {
		return e, false
	}
	if e, ok = blocks.Estimate(blocks.Noise(margin).Rule); ok && s.sign() < 0 {
		e = e.Negate()
	}
	return e, ok
}

// irrelevantChange returns the logarithm of the largest irrelevant change: 0.4 of the threshold, as in a gate.
func (s *Search) irrelevantChange() float64 { return math.Log1p(0.4 * s.Options.Threshold) }

// effectInterval returns the 95 % interval as relative changes; emptyInterval if an end is not finite.
func (s *Search) effectInterval(e stats.Effect) [2]gpuprof.Number {
	ends := []float64{s.Ratio(e.Lower(0.975)), s.Ratio(e.Upper(0.975))}
	slices.Sort(ends)
	if math.IsInf(ends[1], 0) || ends[0] <= -1 {
		return emptyInterval()
	}
	return [2]gpuprof.Number{gpuprof.Number(ends[0]), gpuprof.Number(ends[1])}
}

// counterChange returns a counter's relative change from GOOD to commit m.
func (s *Search) counterChange(m int) gpuprof.Number {
	old := s.counterValue(0)
	return gpuprof.Number((s.counterValue(m) - old) / old)
}
