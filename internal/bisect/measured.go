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
	for _, p := range s.pairs() {
		m := s.summary(s.quartetsOf(p.commit, p.against))
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
	m := s.summary(s.Check)
	m.Commit, m.P = s.N(), 1
	return m
}

// quartetsOf are those of a commit against another, after the check.
func (s *Search) quartetsOf(commit, against int) (out []Quartet) {
	for _, q := range s.Quartet {
		if q.Commit == commit && q.Against == against {
			out = append(out, q)
		}
	}
	return out
}

// summary is the change in quartets with its interval: the gate's estimate, and their median
// without an interval where they are too few for one.
func (s *Search) summary(quartets []Quartet) Measured {
	m := Measured{Quartets: len(quartets), Ratio: gpuprof.Number(math.NaN()), CI95: noInterval()}
	if e, ok := s.estimate(quartets); ok {
		m.Ratio, m.CI95 = gpuprof.Number(s.Ratio(e.Theta)), s.interval(e)
	} else if len(quartets) > 0 {
		m.Ratio = gpuprof.Number(s.Ratio(stats.Median(s.effects(quartets, func(Quartet) bool { return true }))))
	}
	return m
}

// leastPairs is how many pairs of processes have an interval: as many as a gate's verdict needs.
const leastPairs = 6

// estimate is the change in quartets as a gate estimates it: by the mean of pairs of processes,
// and by ranks where some are far slower than others. It is above 0 where the newer commit is
// worse; ok is false for fewer than leastPairs.
func (s *Search) estimate(quartets []Quartet) (e stats.Effect, ok bool) {
	if 2*len(quartets) < leastPairs {
		return e, false
	}
	var older, newer [][]float64
	for _, q := range quartets {
		v := q.Values
		older = append(older, []float64{float64(v[0])}, []float64{float64(v[3])})
		newer = append(newer, []float64{float64(v[1])}, []float64{float64(v[2])})
	}
	margin := s.equivalence()
	blocks, ok := stats.NewBlocks(older, newer, nil, margin)
	if !ok {
		return e, false
	}
	if e, ok = blocks.Estimate(blocks.Noise(margin).Rule, stats.NewBootstrap(s.Options.Seed, 0)); ok && s.sign() < 0 {
		e = e.Negate()
	}
	return e, ok
}

// equivalence is the change that does not matter, a logarithm: the gate's share of the threshold.
func (s *Search) equivalence() float64 { return math.Log1p(0.4 * s.Options.Threshold) }

// interval holds an effect with 95 %, as changes; noInterval where an end is not finite.
func (s *Search) interval(e stats.Effect) [2]gpuprof.Number {
	ends := []float64{s.Ratio(e.Lower(0.975)), s.Ratio(e.Upper(0.975))}
	slices.Sort(ends)
	if math.IsInf(ends[1], 0) || ends[0] <= -1 {
		return noInterval()
	}
	return [2]gpuprof.Number{gpuprof.Number(ends[0]), gpuprof.Number(ends[1])}
}

// changeOf is a counter's change against GOOD.
func (s *Search) changeOf(m int) gpuprof.Number {
	old := s.value(0)
	return gpuprof.Number((s.value(m) - old) / old)
}
