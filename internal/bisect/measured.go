package bisect

import (
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// Measured is what was measured of one commit against another.
type Measured struct {
	Commit, Against int
	Quartets        int
	Ratio           gpuprof.Number    // the metric's change as a share: 0.05 is 5 % more
	CI95            [2]gpuprof.Number // null for a counter
	// P is that the change is at the commit or before it, after its last quartet.
	P gpuprof.Number
}

// Measured lists the pairs of commits in the order they were first measured.
func (s *Search) Measured() []Measured {
	var out []Measured
	noise := s.spread()
	for _, p := range s.pairs() {
		m := s.summary(p.d, noise)
		m.Commit, m.Against = p.commit, p.against
		if s.Exact {
			m.Ratio, m.CI95 = s.changeOf(p.commit), noInterval()
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

// Whole is BAD against GOOD, before anything was searched.
func (s *Search) Whole() Measured {
	if s.Exact {
		return Measured{Commit: s.N(), Quartets: len(s.Check), Ratio: s.changeOf(s.N()), CI95: noInterval(), P: 1}
	}
	m := s.summary(s.effects(s.Check, func(Quartet) bool { return true }), s.spread())
	m.Commit, m.P = s.N(), 1
	return m
}

// summary is the median of quartets with its interval, both as changes.
func (s *Search) summary(d []float64, noise float64) Measured {
	m := Measured{Quartets: len(d), Ratio: gpuprof.Number(math.NaN()), CI95: noInterval()}
	if len(d) == 0 {
		return m
	}
	mid := stats.Median(d)
	half := normal95 * noise * math.Sqrt(medianError/float64(len(d)))
	ends := []float64{s.Ratio(mid - half), s.Ratio(mid + half)}
	slices.Sort(ends)
	m.Ratio, m.CI95 = gpuprof.Number(s.Ratio(mid)), [2]gpuprof.Number{gpuprof.Number(ends[0]), gpuprof.Number(ends[1])}
	return m
}

// changeOf is a counter's change against GOOD.
func (s *Search) changeOf(m int) gpuprof.Number {
	old := s.value(0)
	return gpuprof.Number((s.value(m) - old) / old)
}
