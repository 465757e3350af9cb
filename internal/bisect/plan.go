package bisect

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

const (
	plannedFor   = 20  // number of simulated searches
	mostQuartets = 400 // limit of each simulation
)

// Plan is the expected remainder of a search: medians of simulated searches with the measured change, noise and build
// time.
type Plan struct {
	Builds   float64 `json:"builds"`
	Quartets float64 `json:"quartets"`
	Seconds  float64 `json:"seconds"`
	// Ended is the share of simulated searches that name a commit within the budget.
	Ended float64 `json:"ended"`
}

// Expect simulates searches that start from this one's check of BAD against GOOD.
func (s *Search) Expect() Plan {
	var builds, quartets, seconds []float64
	ended := 0
	rng := rand.New(rand.NewPCG(s.Options.Seed, 0x706c616e))
	for range plannedFor {
		own := *s
		sim := &simulated{s: &own, m: s.estimateModel(), rng: rng, culprit: 1 + rng.IntN(s.N()), cost: s.buildCost(), each: s.quartetSeconds()}
		for range s.N() + 1 {
			sim.offsets = append(sim.offsets, s.Options.Scatter*rng.NormFloat64())
		}
		own.Quartet, own.After, own.Pending = nil, nil, nil
		own.Builds, own.Failed = append([]Build(nil), s.Builds...), nil
		before, spent := len(own.Builds), own.Spent()
		for len(own.Quartet) < mostQuartets {
			step, ok := own.Next()
			if !ok {
				break
			}
			own.Pending = &step
			if own.measure(sim, step) != nil {
				break
			}
		}
		if own.Conclude().Found != Open {
			ended++
		}
		builds = append(builds, float64(len(own.Builds)-before))
		quartets = append(quartets, float64(len(own.Quartet)))
		seconds = append(seconds, own.Spent()-spent)
	}
	return Plan{stats.Median(builds), stats.Median(quartets), stats.Median(seconds), float64(ended) / plannedFor}
}

func (s *Search) quartetSeconds() float64 {
	sum, n := 0.0, 0
	for _, q := range slices.Concat(s.Check, s.Quartet) {
		sum, n = sum+q.Seconds, n+1
	}
	return sum / float64(max(n, 1))
}

// simulated is a Runner that draws the measurements of a simulated search.
type simulated struct {
	s          *Search
	m          model
	rng        *rand.Rand
	culprit    int
	offsets    []float64
	cost, each float64 // a build in quartets; a quartet in seconds
}

// Quartet implements Runner.
func (f *simulated) Quartet(commit, against int) (Quartet, []Build, error) {
	q := Quartet{Commit: commit, Against: against, Seconds: f.each}
	var builds []Build
	for _, m := range []int{commit, against} {
		if m > 0 && !f.s.isBuilt(m) {
			builds = append([]Build{{Commit: m, Seconds: f.cost * f.each}}, builds...)
		}
	}
	if f.s.Exact {
		for i := range q.Values {
			q.Values[i] = gpuprof.Number(f.s.counterValue(0))
		}
		if commit >= f.culprit {
			q.Values[1] = gpuprof.Number(f.s.counterValue(f.s.N()))
		}
		return q, builds, nil
	}
	d := f.offsets[commit] - f.offsets[against] + f.m.spread*f.rng.NormFloat64()
	if commit >= f.culprit && against < f.culprit {
		d += f.m.theta
	}
	ratio := gpuprof.Number(math.Exp(f.s.sign() * d))
	q.Values = [4]gpuprof.Number{1, ratio, ratio, 1}
	return q, builds, nil
}
