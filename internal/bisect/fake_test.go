package bisect

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gpuprof/gpuprof"
)

// fake is a runner without programs: a range with planted changes and made noise. Its
// clock counts quartets.
type fake struct {
	n       int
	steps   map[int]float64 // change that comes with a commit, as a logarithm
	offsets []float64       // of the builds
	noise   float64         // of a process
	drift   float64         // of the machine, per process
	build   float64         // seconds; a quartet takes one
	broken  map[int]bool
	rng     *rand.Rand
	walk    float64
	built   map[int]bool
	builds  int
	clock   float64
	ends    int // fails with errEnded at this quartet, 0 never
	taken   int
	slow    float64 // share of processes that are 20 to 100 % slow
}

var errEnded = errors.New("interrupted")

type planted struct {
	commits               int
	noise, effect         float64
	drift, scatter, build float64
	broken                float64
	two                   bool
	likely                int  // commits that change a path of --prior
	misled                bool // the culprit is none of them
	slow                  float64
}

func newFake(p planted, seed uint64) (*fake, []int) {
	rng := rand.New(rand.NewPCG(seed, 0x626973656374))
	f := &fake{n: p.commits, noise: p.noise, drift: p.drift, build: p.build, slow: p.slow, rng: rng, steps: map[int]float64{}, broken: map[int]bool{}, built: map[int]bool{}}
	for range p.commits + 1 {
		f.offsets = append(f.offsets, p.scatter*rng.NormFloat64())
	}
	culprits := []int{1 + rng.IntN(p.commits)}
	if p.two {
		other := 1 + rng.IntN(p.commits)
		culprits = append(culprits, other)
	}
	for _, c := range culprits {
		f.steps[c] += math.Log1p(p.effect)
	}
	for m := 1; m < p.commits; m++ {
		f.broken[m] = rng.Float64() < p.broken
	}
	return f, culprits
}

func (f *fake) level(m int) float64 {
	sum := f.offsets[m]
	for c, step := range f.steps {
		if c <= m {
			sum += step
		}
	}
	return sum
}

// process is one time: 3 % of processes are 3 to 33 % slow.
func (f *fake) process(m int) float64 {
	f.walk += f.drift * f.rng.NormFloat64()
	log := f.level(m) + f.walk + f.noise*f.rng.NormFloat64()
	if f.rng.Float64() < 0.03 {
		log += math.Log1p(0.03 + 0.3*f.rng.Float64())
	}
	if f.slow > 0 && f.rng.Float64() < f.slow {
		log += math.Log(1.2 + 0.8*f.rng.Float64())
	}
	return math.Exp(log)
}

func (f *fake) Quartet(commit, against int) (Quartet, []Build, error) {
	if f.taken++; f.taken == f.ends {
		return Quartet{}, nil, errEnded
	}
	var builds []Build
	for _, m := range []int{commit, against} {
		if f.built[m] {
			continue
		}
		if f.broken[m] {
			f.clock += f.build
			return Quartet{}, builds, &Unfit{Commit: m, Seconds: f.build, Cause: errors.New("does not compile")}
		}
		f.built[m] = true
		f.builds++
		f.clock += f.build
		builds = append(builds, Build{Commit: m, Seconds: f.build})
	}
	q := Quartet{Commit: commit, Against: against, StartS: f.clock, Seconds: 1}
	for i, m := range []int{against, commit, commit, against} {
		q.Values[i] = gpuprof.Number(f.process(m))
	}
	f.clock++
	return q, builds, nil
}

// search is one that has been checked with nine quartets, as the gate does.
func (f *fake) search() *Search {
	s := &Search{Metric: "step", Unit: "s", Options: Options{Threshold: 0.05, Confidence: 0.95, Scatter: 0.003, BudgetS: 1e9, Keeps: true}}
	for i := range f.n {
		s.Commits = append(s.Commits, Commit{ID: string(rune('a' + i%26))})
	}
	for range 9 {
		q, builds, err := f.Quartet(f.n, 0)
		if err != nil {
			panic(err)
		}
		s.Check, s.Builds = append(s.Check, q), append(s.Builds, builds...)
	}
	return s
}

// found runs a search to its end or to 150 quartets.
func (f *fake) found(s *Search) Outcome {
	for len(s.Check)+len(s.Quartet) < 150 {
		step, ok := s.Next()
		if !ok {
			break
		}
		s.Pending = &step
		if err := s.measure(f, step); err != nil {
			panic(err)
		}
	}
	return s.Conclude()
}

// right says that a culprit is named, alone or with commits that cannot be measured.
func right(o Outcome, culprits []int) bool {
	return slices.ContainsFunc(culprits, func(c int) bool { return c >= o.From && c <= o.To })
}
