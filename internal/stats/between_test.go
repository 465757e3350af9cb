package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/gpuprof/gpuprof/internal/stats"
)

// TestAnotherProcessCoverage: what is said of another process must hold for one
// in 95 of 100, and for the median over all processes, whether processes differ,
// sessions, or both, and whether the history is of one program or of several.
func TestAnotherProcessCoverage(t *testing.T) {
	for name, c := range map[string]struct {
		programs, sessions, processes int
		session, process              float64 // sigmas of the logarithm
	}{
		"five processes of one session":          {1, 1, 5, 0, 0.02},
		"twelve of one session":                  {1, 1, 12, 0, 0.05},
		"eight sessions of one":                  {1, 8, 1, 0.05, 0.01},
		"eight sessions of three":                {1, 8, 3, 0.05, 0.01},
		"six sessions of six that do not differ": {1, 6, 6, 0, 0.03},
		"six programs of two sessions of two":    {6, 2, 2, 0.05, 0.01},
		"four programs of one session":           {4, 1, 3, 0, 0.03},
	} {
		rng := rand.New(rand.NewPCG(21, uint64(len(name))))
		const trials = 2000
		other, centre := 0, 0
		for range trials {
			var programs [][][]float64
			for range c.programs {
				var sessions [][]float64
				level := rng.NormFloat64()
				for range c.sessions {
					var s []float64
					at := level + c.session*rng.NormFloat64()
					for range c.processes {
						s = append(s, at+c.process*rng.NormFloat64())
					}
					sessions = append(sessions, s)
				}
				programs = append(programs, sessions)
			}
			share, ok := stats.AnotherProcess(programs)
			if !ok {
				t.Fatalf("%s: nothing is said", name)
			}
			process := func() float64 { return c.session*rng.NormFloat64() + c.process*rng.NormFloat64() }
			this, bound := process(), math.Log1p(share)
			if math.Abs(process()-this) <= bound {
				other++
			}
			if math.Abs(this) <= bound {
				centre++
			}
		}
		// 95 % stated; Satterthwaite's degrees of freedom are an approximation,
		// and the count's own error is 0.5 %.
		if other < trials*93/100 || centre < trials*95/100 {
			t.Errorf("%s: another process in %d, the median over processes in %d of %d", name, other, centre, trials)
		}
	}
}

func TestAnotherProcessOfTooLittle(t *testing.T) {
	for _, programs := range [][][][]float64{nil, {{}}, {{{1}}}, {{{1, 2, 3, 4}}}, {{{1, 2}}, {{1, 2}}}, {{{1, math.NaN(), 3, 4, 5, 6}}}} {
		if share, ok := stats.AnotherProcess(programs); ok {
			t.Errorf("%v gave %v", programs, share)
		}
	}
	if share, ok := stats.AnotherProcess([][][]float64{{{2, 2, 2}, {2, 2, 2}}}); !ok || share != 0 {
		t.Errorf("processes that do not differ: %v %t", share, ok)
	}
}

// TestAnotherProcessAlike: processes that measured the same scatter by nothing, also where the
// mean of their logarithms is rounded.
func TestAnotherProcessAlike(t *testing.T) {
	rounded := 0
	for us := range 200 {
		x := math.Log(float64(us+1) * 1e-6)
		alike := []float64{x, x, x, x, x, x}
		if stat.Mean(alike, nil) != x {
			rounded++
		}
		for name, programs := range map[string][][][]float64{
			"one session": {{alike}}, "two sessions": {{alike, alike}}, "two programs": {{alike}, {{0.1, 0.1, 0.1}, {0.1}}},
		} {
			if share, ok := stats.AnotherProcess(programs); !ok || share != 0 {
				t.Errorf("%s of %d us: a share of %g, %v", name, us+1, share, ok)
			}
		}
	}
	if rounded == 0 {
		t.Error("no mean is rounded, so this proves nothing")
	}
}
