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
