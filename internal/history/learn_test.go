package history

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestLearnScatter: what a result's class shows of builds of equal code is learned where
// commits were measured again, and not where none was.
func TestLearnScatter(t *testing.T) {
	for name, c := range map[string]struct {
		times int
		known bool
	}{"each commit twice": {2, true}, "each commit once": {1, false}} {
		t.Run(name, func(t *testing.T) {
			s, rng := NewStore(unflushed(t.TempDir()), ""), rand.New(rand.NewPCG(1, 1))
			for i := range 40 / c.times {
				own := 0.010 * (1 + 0.01*rng.NormFloat64())
				for again := range c.times {
					r := made(c.times*i+again, own*(1+0.001*rng.NormFloat64()))
					one, err := NewSession(r, nil, Origin{Project: "demo", Commit: commitAt(i), Written: began().Add(time.Duration(i) * time.Hour)})
					if err != nil {
						t.Fatal(err)
					}
					if _, err := s.Add(t.Context(), one); err != nil {
						t.Fatal(err)
					}
				}
			}
			learned, err := s.Learn(t.Context(), made(0, 0.010), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := learned.Scatter["step"]; ok != c.known || ok && (got < 0.005 || got > 0.015) {
				t.Errorf("scatter %g, %t; planted 0.01, known %t", got, ok, c.known)
			}
			if learned.Spread["step"] <= 0 {
				t.Error("no spread between sessions was learned")
			}
		})
	}
}

// A store with two benchmarks of one machine teaches each its own spread, however many
// sessions the other has; what was added under another name is found too.
func TestLearnIsOfTheBenchmark(t *testing.T) {
	s, rng := NewStore(unflushed(t.TempDir()), ""), rand.New(rand.NewPCG(2, 1))
	add := func(name, metric string, sessions int, spread float64) {
		t.Helper()
		for i := range sessions {
			r := made(i, 0.010*(1+spread*rng.NormFloat64()))
			r.Metrics[0].Name, r.Total = metric, metric
			one, err := NewSession(r, nil, Origin{Project: "demo", Benchmark: name, Commit: commitAt(i)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Add(t.Context(), one); err != nil {
				t.Fatal(err)
			}
		}
	}
	learn := func(metric string) (float64, bool) {
		t.Helper()
		r := made(0, 0.010)
		r.Metrics[0].Name, r.Total = metric, metric
		learned, err := s.Learn(t.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		v, ok := learned.Spread[metric]
		return v, ok
	}
	add("e3nn-small", "step", 20, 0.005)
	add("nightly", "step", 40, 0.04)
	add("other", "latency", 12, 0.03)
	if v, ok := learn("step"); !ok || v > 0.012 {
		t.Errorf("the spread of the result's own benchmark: %g, %t; planted 0.005", v, ok)
	}
	if v, ok := learn("latency"); !ok || v < 0.015 {
		t.Errorf("the spread of latency: %g; planted 0.03", v)
	}
	if _, ok := learn("nothing"); ok {
		t.Error("a metric that no session has was learned")
	}
}
