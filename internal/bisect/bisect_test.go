//go:build !race

// One goroutine searches, which takes ten times as long under the race detector.

package bisect

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
)

// cell is one row of the table of error rates.
type cell struct {
	planted
	right, open float64 // the least share that is right; the largest that stays open
}

// simulate runs searches and counts how they end.
func simulate(c planted, searches int) (right1, wrong, open, builds, quartets float64) {
	for i := range searches {
		f, culprits := newFake(c, uint64(i+1))
		s := f.search()
		for k := range c.likely { // spread over the range, one of them the culprit
			m := 1 + (culprits[0]-1+k*c.commits/c.likely)%c.commits
			s.Commits[m-1].Likely = k > 0 || !c.misled
		}
		o := f.found(s)
		switch {
		case o.Found == Open:
			open++
		case right(o, culprits):
			right1++
		default:
			wrong++
		}
		builds += float64(f.builds)
		quartets += float64(len(s.Check) + len(s.Quartet))
	}
	n := float64(searches)
	return right1 / n, wrong / n, open / n, builds / n, quartets / n
}

func usual(commits int, noise, effect float64) planted {
	return planted{commits: commits, noise: noise, effect: effect, drift: 0.003, scatter: 0.003, build: 3}
}

// The error rates of the table of docs/statistics.md in small: 40 searches a cell. Of 40,
// 2 wrong are 5 %; the bounds of "right" leave three of 40 for chance.
func TestErrorRates(t *testing.T) {
	t.Parallel()
	for _, c := range []cell{
		{usual(16, 0.01, 0.10), 0.99, 0}, {usual(256, 0.01, 0.10), 0.99, 0}, {usual(64, 0.01, 0.05), 0.97, 0.03},
		{usual(64, 0.02, 0.10), 0.97, 0.03}, {usual(64, 0.02, 0.05), 0.92, 0.05}, {usual(256, 0.02, 0.05), 0.92, 0.05},
		{usual(64, 0.03, 0.10), 0.92, 0.05}, {usual(64, 0.03, 0.05), 0.82, 0.15},
	} {
		t.Run(fmt.Sprintf("%d commits, noise %g, effect %g", c.commits, c.noise, c.effect), func(t *testing.T) {
			t.Parallel()
			right, wrong, open, builds, quartets := simulate(c.planted, 40)
			if wrong > 0.05 || right < c.right || open > c.open {
				t.Errorf("right %.3f, wrong %.3f, open %.3f; %.1f builds, %.0f quartets", right, wrong, open, builds, quartets)
			}
		})
	}
}

// What cannot be built, a machine that drifts, free and dear builds.
func TestVariants(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]struct {
		change func(*planted)
		right  float64
	}{
		"drift":       {func(p *planted) { p.drift = 0.01 }, 0.92},
		"broken":      {func(p *planted) { p.broken = 0.1 }, 0.92},
		"half broken": {func(p *planted) { p.broken = 0.4 }, 0.92},
		"dear builds": {func(p *planted) { p.build = 30 }, 0.92},
		"free builds": {func(p *planted) { p.build = 0 }, 0.92},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := usual(256, 0.02, 0.05)
			v.change(&p)
			right, wrong, open, builds, quartets := simulate(p, 40)
			if wrong > 0.05 || right < v.right {
				t.Errorf("right %.3f, wrong %.3f, open %.3f; %.1f builds, %.0f quartets", right, wrong, open, builds, quartets)
			}
		})
	}
}

// A right --prior saves builds; a wrong one costs some, and leads to no other commit.
func TestPrior(t *testing.T) {
	t.Parallel()
	p := usual(64, 0.02, 0.05)
	_, _, _, builds, _ := simulate(p, 40)
	p.likely = 6
	right, wrong, _, fewer, _ := simulate(p, 40)
	if fewer > builds-0.5 || right < 0.92 || wrong > 0.05 {
		t.Errorf("%.1f builds, %.1f with the culprit among 6 likely commits; right %.3f, wrong %.3f", builds, fewer, right, wrong)
	}
	p.misled = true
	right, wrong, _, more, _ := simulate(p, 40)
	if more > builds+2 || right < 0.92 || wrong > 0.05 {
		t.Errorf("%.1f builds, %.1f with 6 other likely commits; right %.3f, wrong %.3f", builds, more, right, wrong)
	}
}

// BenchmarkErrorRates is the whole table: go test -bench ErrorRates -benchtime 1x ./internal/bisect
func BenchmarkErrorRates(b *testing.B) {
	for _, noise := range []float64{0.01, 0.02, 0.03} {
		for _, effect := range []float64{0.10, 0.05, 0.02} {
			for _, n := range []int{16, 64, 256, 1024} {
				b.Run(fmt.Sprintf("noise=%g/effect=%g/commits=%d", noise, effect, n), func(b *testing.B) {
					for range b.N {
						right, wrong, open, builds, quartets := simulate(usual(n, noise, effect), 100)
						b.ReportMetric(right, "right")
						b.ReportMetric(wrong, "wrong")
						b.ReportMetric(open, "open")
						b.ReportMetric(builds, "builds")
						b.ReportMetric(quartets, "quartets")
					}
				})
			}
		}
	}
}

// measured is a search of nine commits with quartets of some of them.
func measured(rng *rand.Rand) *Search {
	s := &Search{Metric: "step", Unit: "s", Commits: make([]Commit, 9), Options: Options{Confidence: 0.95, Scatter: 0.003, BudgetS: math.Inf(1)}}
	add := func(commit, against int, level float64) Quartet {
		r := gpuprof.Number(math.Exp(level + 0.02*rng.NormFloat64()))
		return Quartet{Commit: commit, Against: against, Values: [4]gpuprof.Number{1, r, r, 1}, Seconds: 1}
	}
	for range 9 {
		s.Check = append(s.Check, add(9, 0, 0.05))
	}
	for range 1 + rng.IntN(12) {
		m := 1 + rng.IntN(8)
		against := 0
		if rng.IntN(4) == 0 {
			against = rng.IntN(m)
		}
		level := 0.0
		if m >= 5 && against < 5 {
			level = 0.05
		}
		s.Quartet = append(s.Quartet, add(m, against, level))
	}
	return s
}

// The posterior equals brute force over every commit and every point of the change.
func TestPosteriorIsBruteForce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		s := measured(rand.New(rand.NewPCG(seed, 1)))
		for i := range s.Commits {
			s.Commits[i].Likely = seed%2 == 1 && (uint64(i)*seed)%3 == 0
		}
		m := s.estimateModel()
		want := make([]float64, 10)
		sum := 0.0
		for h := 1; h <= 9; h++ {
			for i := range 9 {
				z := 2.2 * (float64(i) - 4) / 4
				theta := max(m.theta+z*m.error, 0.3*m.theta)
				like := math.Exp(-z * z / 2)
				if s.At(h).Likely {
					like *= 3
				}
				for commit := 1; commit <= 9; commit++ {
					for against := 0; against < commit; against++ {
						mu := 0.0
						if h <= commit && h > against {
							mu = theta
						}
						like *= integrated(s, commit, against, mu, m)
					}
				}
				want[h] += like
			}
			sum += want[h]
		}
		p, total := s.Posterior(), 0.0
		for h := 1; h <= 9; h++ {
			got := p.Of(h-1, h)
			total += got
			if math.Abs(got-want[h]/sum) > 1e-9 {
				t.Errorf("seed %d, commit %d: %.12f, by brute force %.12f", seed, h, got, want[h]/sum)
			}
		}
		if math.Abs(total-1) > 1e-9 {
			t.Errorf("seed %d: the sum is %.12f", seed, total)
		}
	}
}

// integrated is the likelihood of a pair's quartets, the offset integrated by the same nodes.
func integrated(s *Search, commit, against int, mu float64, m model) float64 {
	sum := 0.0
	for _, node := range hermite {
		product := node[1]
		for _, q := range s.Quartet {
			if q.Commit == commit && q.Against == against {
				x := (s.Effect(q) - mu - 2*m.scatter*node[0]) / m.spread
				product *= math.Pow(1+x*x/4, -2.5)
			}
		}
		sum += product
	}
	return sum / math.SqrtPi
}

// The nodes integrate a normal density and its square exactly.
func TestHermite(t *testing.T) {
	t.Parallel()
	one, square := 0.0, 0.0
	for _, n := range hermite {
		one, square = one+n[1], square+n[1]*n[0]*n[0]
	}
	if math.Abs(one/math.SqrtPi-1) > 1e-9 || math.Abs(square/math.SqrtPi-0.5) > 1e-9 {
		t.Errorf("the integrals are %.12f and %.12f", one/math.SqrtPi, square/math.SqrtPi)
	}
}

// The order of quartets does not matter to the posterior.
func TestOrderDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
		s := measured(rng)
		before := s.Posterior()
		rng.Shuffle(len(s.Quartet), func(i, j int) { s.Quartet[i], s.Quartet[j] = s.Quartet[j], s.Quartet[i] })
		rng.Shuffle(len(s.Check), func(i, j int) { s.Check[i], s.Check[j] = s.Check[j], s.Check[i] })
		after := s.Posterior()
		for m := range 10 {
			if a, b := before.UpTo(m), after.UpTo(m); math.Abs(a-b) > 1e-9 || m > 0 && a < before.UpTo(m-1) {
				t.Fatalf("up to commit %d: %.12f, in another order %.12f", m, a, b)
			}
		}
	})
}

// The smallest set holds the confidence, and no part of it can be left out.
func TestSmallestSet(t *testing.T) {
	t.Parallel()
	p := Posterior{ends: []int{4, 5, 8, 9}, mass: []float64{0.04, 0.5, 0.45, 0.01}, upTo: []float64{0, 0.04, 0.54, 0.99}}
	if got := p.Smallest(0.95); !reflect.DeepEqual(got, []Span{{5, 8}}) {
		t.Errorf("%v", got)
	}
	if got := p.Smallest(0.999); !reflect.DeepEqual(got, []Span{{1, 9}}) {
		t.Errorf("%v", got)
	}
}

// The same state and seed give the same search, and one that is interrupted at any
// quartet, written, read and continued ends as the one that was not.
func TestInterruptedAnywhere(t *testing.T) {
	t.Parallel()
	p := usual(40, 0.02, 0.06)
	p.broken = 0.1
	whole, _ := newFake(p, 7)
	s := whole.search()
	if err := s.Run(whole, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	want := *s.Outcome
	for at := 1; at <= whole.taken-9; at++ {
		f, _ := newFake(p, 7)
		s := f.search()
		var saved []byte
		save := func() error {
			text, err := json.Marshal(s)
			saved = text
			return err
		}
		if err := save(); err != nil {
			t.Fatal(err)
		}
		f.ends = f.taken + at
		if err := s.Run(f, save); !errors.Is(err, errEnded) {
			t.Fatal(err)
		}
		s = &Search{}
		if err := json.Unmarshal(saved, s); err != nil {
			t.Fatal(err)
		}
		f.ends = 0
		if err := s.Run(f, save); err != nil {
			t.Fatal(err)
		}
		if s.Outcome.From != want.From || s.Outcome.To != want.To || s.Outcome.P != want.P {
			t.Errorf("interrupted at %d: commit %d, P %.6f; without: %d, %.6f", at, s.Outcome.To, s.Outcome.P, want.To, want.P)
		}
	}
}

// A counter is found with as many processes as a bisection takes, and commits that do
// not build are part of the range.
func TestCounter(t *testing.T) {
	t.Parallel()
	for culprit := 1; culprit <= 64; culprit++ {
		f, _ := newFake(planted{commits: 64}, 1)
		f.broken = map[int]bool{20: true, 21: true, 40: true}
		s := &Search{Metric: "launches", Exact: true, Commits: make([]Commit, 64), Options: Options{Confidence: 0.95, BudgetS: math.Inf(1)}}
		count := counting{f, culprit}
		q, _, err := count.Quartet(64, 0)
		if err != nil {
			t.Fatal(err)
		}
		s.Check = []Quartet{q}
		if err := s.Run(count, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		if o := s.Outcome; culprit < o.From || culprit > o.To || o.From < o.To && !f.broken[o.From] || len(s.Quartet) > 8 {
			t.Errorf("culprit %d: %s %d to %d after %d quartets", culprit, o.Found, o.From, o.To, len(s.Quartet))
		}
	}
}

type counting struct {
	*fake
	culprit int
}

func (c counting) Quartet(commit, against int) (Quartet, []Build, error) {
	if c.broken[commit] {
		return Quartet{}, nil, &Unfit{Commit: commit, Cause: errEnded}
	}
	q := Quartet{Commit: commit, Against: against, Values: [4]gpuprof.Number{40, 40, 40, 40}, Seconds: 1}
	if commit >= c.culprit {
		q.Values[1], q.Values[2] = 41, 41
	}
	return q, nil, nil
}

// With two culprits the named one explains a part of the change, and the other is in the remaining commits.
func TestTwoCulprits(t *testing.T) {
	t.Parallel()
	parts, searches := 0, 0
	for seed := range uint64(12) {
		f, _ := newFake(usual(64, 0.01, 0.04), seed)
		f.steps = map[int]float64{20: 0.05, 50: 0.05}
		s := f.search()
		o := f.found(s)
		if o.Found == Open {
			continue
		}
		searches++
		if o.Rest != nil && (o.To == 20 && o.Rest.From <= 50 && o.Rest.To >= 50 || o.To == 50 && o.Rest.From <= 20 && o.Rest.To >= 20) {
			parts++
		}
	}
	if searches < 5 || parts < searches*8/10 {
		t.Errorf("%d of %d searches named a part and where the rest is", parts, searches)
	}
}

// A budget that ends gives the smallest set of commits that holds the confidence.
func TestBudgetEnds(t *testing.T) {
	t.Parallel()
	f, culprits := newFake(usual(64, 0.02, 0.05), 3)
	s := f.search()
	s.Options.BudgetS = s.Spent() + 8
	if err := s.Run(f, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	o := s.Outcome
	in := false
	for _, span := range o.Set {
		in = in || culprits[0] >= span.From && culprits[0] <= span.To
	}
	if o.Found != Open || !in || o.Why != "the budget ended" {
		t.Errorf("%+v; the culprit is %d", o, culprits[0])
	}
}

// A plan expects what simulated searches with the same noise take.
func TestPlan(t *testing.T) {
	t.Parallel()
	f, _ := newFake(usual(64, 0.02, 0.05), 4)
	s := f.search()
	p := s.Expect()
	if p.Builds < 5 || p.Builds > 16 || p.Quartets < 10 || p.Quartets > 80 || p.Ended < 0.8 || !(p.Seconds > p.Quartets) {
		t.Errorf("%+v", p)
	}
}
