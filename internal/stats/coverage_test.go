//go:build !race

package stats_test

// Simulations of the intervals' coverage. They are one goroutine's arithmetic, as the whole
// package is: the race detector has nothing to find there, and makes them eight times as long.

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/gpuprof/gpuprof/internal/stats"
)

// With many pairs, of which neighbours are joined, the interval must cover like one of few, and reflect the scatter of
// the ratios themselves.
func TestMedianRatioOfMany(t *testing.T) {
	for _, c := range []struct{ pairs, size int }{{8, 128}, {60, 128}, {300, 30}} {
		rng := rand.New(rand.NewPCG(31, uint64(c.pairs)))
		const trials = 60
		covered := 0
		var thetas, halves []float64
		for range trials {
			a, b := make([][]float64, c.pairs), make([][]float64, c.pairs)
			for k := range a {
				drift := 0.02 * rng.NormFloat64()
				levelA, levelB := drift+0.02*rng.NormFloat64(), drift+0.02*rng.NormFloat64()
				for range c.size {
					a[k] = append(a[k], 1.5*math.Exp(levelA+0.05*rng.NormFloat64()))
					b[k] = append(b[k], math.Exp(levelB+0.05*rng.NormFloat64()))
				}
			}
			r, ok := stats.MedianRatio(a, b)
			if !ok {
				t.Fatal("no ratio")
			}
			if r.CI95[0] <= 1.5 && 1.5 <= r.CI95[1] {
				covered++
			}
			thetas, halves = append(thetas, math.Log(r.Ratio/1.5)), append(halves, math.Log(r.CI95[1]/r.Ratio))
		}
		if covered < 51 { // 95 % expected; under 51 of 60 once in 1,000
			t.Errorf("%d pairs of %d: covered %d of %d", c.pairs, c.size, covered, trials)
		}
		sum := 0.0
		for _, x := range thetas {
			sum += x * x
		}
		if w := stats.Median(halves) / math.Sqrt(sum/trials); w < 1.4 || w > 3.2 {
			t.Errorf("%d pairs of %d: half-width is %.2f times the scatter", c.pairs, c.size, w)
		}
	}
}

// Blocks share a drift, samples scatter and one in ten is disturbed: the
// interval must still cover the true ratio.
func TestMedianRatioCoverage(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	covered := 0
	var thetas, halves []float64
	const trials = 40
	for range trials {
		a, b := make([][]float64, 8), make([][]float64, 8)
		for k := range a {
			drift := math.Exp(0.01 * rng.NormFloat64())
			for range 7 {
				one := func() float64 {
					v := drift * math.Exp(0.02*rng.NormFloat64())
					if rng.IntN(10) == 0 {
						v *= 1.3
					}
					return v
				}
				a[k], b[k] = append(a[k], 1.05*one()), append(b[k], one())
			}
		}
		r, ok := stats.MedianRatio(a, b)
		if !ok {
			t.Fatal("no ratio")
		}
		if r.CI95[0] <= 1.05 && 1.05 <= r.CI95[1] {
			covered++
		}
		thetas, halves = append(thetas, math.Log(r.Ratio)), append(halves, math.Log(r.CI95[1]/r.Ratio))
	}
	if covered < trials*85/100 { // 95 % expected; under 34 of 40 once in 10,000
		t.Errorf("covered %d of %d", covered, trials)
	}
	// Nor is it needlessly wide: half-width over the estimate's own scatter is
	// t's 2.36 in the mean.
	if w := stat.Mean(halves, nil) / stat.StdDev(thetas, nil); w < 1.4 || w > 3.6 {
		t.Errorf("half-width is %.2f times the scatter", w)
	}
}

// The interval of the paired mean covers at least as often as promised, whatever the blocks and samples: here the
// processes of a block differ by half of what the medians scatter. The errors of the medians, which are in the scatter
// of the blocks too, widen it no further than they can.
func TestPairedCoverage(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{1, 2, 5, 10, 30} {
		for _, k := range []int{2, 3, 6, 12} {
			const trials = 1000
			covered, squares, errors := 0, 0.0, 0.0
			for range trials {
				a, b := make([][]float64, k), make([][]float64, k)
				for i := range k {
					shift := 0.03 / math.Sqrt(float64(n)) * rng.NormFloat64()
					for range n {
						a[i] = append(a[i], math.Exp(0.02*rng.NormFloat64()))
						b[i] = append(b[i], math.Exp(0.1+shift+0.02*rng.NormFloat64()))
					}
				}
				e, ok := stats.Paired(a, b)
				if !ok {
					t.Fatal("no effect")
				}
				if e.Lower(0.975) <= 0.1 && 0.1 <= e.Upper(0.975) {
					covered++
				}
				squares, errors = squares+(e.Theta-0.1)*(e.Theta-0.1), errors+e.SE*e.SE
			}
			if covered < 929 { // 95 % less three standard errors
				t.Errorf("n %d, K %d: covered %d of %d", n, k, covered, trials)
			}
			// At most the errors of medians count twice, with K/(K-1). 1,000 trials know the ratio to a tenth.
			blocks := float64(k)
			if wide := math.Sqrt(errors / squares); wide < 0.85 || wide > 1.15*math.Sqrt(1+blocks/(blocks-1)) {
				t.Errorf("n %d, K %d: the error is %.2f times the scatter", n, k, wide)
			}
		}
	}
}

// The error is that of a bootstrap over blocks and samples in the limit of many draws: the mean over blocks of the
// variance of a resampled median, and the variance of the medians between blocks, over K. (Draws would take the mean of
// resampled medians in place of a median, which scatters up to 7 % less.)
func TestPairedAgreesWithTheLimit(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{1, 5, 10, 11, 30} {
		for _, k := range []int{6, 12} {
			a, b := make([][]float64, k), make([][]float64, k)
			for i := range k {
				shift := 0.01 * rng.NormFloat64()
				for range n {
					a[i] = append(a[i], math.Exp(0.02*rng.NormFloat64()))
					b[i] = append(b[i], math.Exp(shift+0.02*rng.NormFloat64()))
				}
			}
			var within float64
			var centres []float64
			for i := range k {
				within += (resampledVariance(a[i]) + resampledVariance(b[i])) / float64(k)
				both := stats.LogMedians([][]float64{a[i], b[i]})
				centres = append(centres, both[1]-both[0])
			}
			between := stat.PopVariance(centres, nil)
			want := math.Sqrt((within + between) / float64(k) * float64(k) / float64(k-1))
			e, ok := stats.Paired(a, b)
			most := 1e-6
			if n%2 == 0 {
				most = 0.25 / float64(n) // the mean of the middle two is a middle value of another distribution
			}
			if !ok || math.Abs(e.SE/want-1) > most {
				t.Errorf("n %d, K %d: standard error %.5f, in the limit %.5f", n, k, e.SE, want)
			}
		}
	}
}

// resampledVariance returns the variance of the log of the median of a resample, from many plain resamples where n is
// even and exactly, by the binomial, where it is odd.
func resampledVariance(x []float64) float64 {
	logs := make([]float64, len(x))
	for i, v := range x {
		logs[i] = math.Log(v)
	}
	slices.Sort(logs)
	n := len(logs)
	if n%2 == 0 {
		rng := rand.New(rand.NewPCG(8, 9))
		draws := make([]float64, 20000)
		pick := make([]float64, n)
		for d := range draws {
			for i := range pick {
				pick[i] = logs[rng.IntN(n)]
			}
			slices.Sort(pick)
			draws[d] = (pick[n/2-1] + pick[n/2]) / 2
		}
		return stat.PopVariance(draws, nil)
	}
	mean, variance := 0.0, 0.0
	tail := func(p float64) float64 { // at least m of n fall below p
		sum := 0.0
		for j := (n + 1) / 2; j <= n; j++ {
			lg, _ := math.Lgamma(float64(n + 1))
			l1, _ := math.Lgamma(float64(j + 1))
			l2, _ := math.Lgamma(float64(n - j + 1))
			sum += math.Exp(lg-l1-l2) * math.Pow(p, float64(j)) * math.Pow(1-p, float64(n-j))
		}
		return sum
	}
	for i, v := range logs {
		w := tail(float64(i+1)/float64(n)) - tail(float64(i)/float64(n))
		mean += w * v
		variance += w * v * v
	}
	return variance - mean*mean
}

// TestWithinCoverage: of nine processes in ten, the interval holds the long-run median, or none is printed. Neighbouring
// samples are correlated, over a fifth of the samples at most. The binomial interval holds it in 20 to 85 of 100 cases.
func TestWithinCoverage(t *testing.T) {
	most := 300_000 // samples of all trials of a size
	if nightly {
		most = 600_000
	}
	for name, c := range map[string]struct {
		make  series
		sizes []int
	}{
		"independent":       {autoregressive(0, 0), []int{6, 10, 20, 100, 300, 1000, 3000}},
		"AR(1) 0.5":         {autoregressive(0.5, 0), []int{10, 20, 40, 100, 300, 1000, 3000}},
		"AR(1) 0.8":         {autoregressive(0.8, 0.5), []int{10, 20, 40, 100, 300, 1000, 3000}},
		"AR(1) 0.9":         {autoregressive(0.9, 0.5), []int{40, 100, 300, 1000, 3000}},
		"AR(1) 0.97":        {autoregressive(0.97, 0), []int{20, 40, 100, 300, 1000, 3000}},
		"AR(1) 0.99":        {autoregressive(0.99, 0), []int{20, 40, 100, 300, 1000, 3000}},
		"blocks of 5":       {shifted(5), []int{10, 20, 40, 100, 300, 1000, 3000}},
		"blocks of 20":      {shifted(20), []int{100, 300, 1000, 3000}},
		"blocks of 60":      {shifted(60), []int{300, 1000, 3000}},
		"blocks of 128":     {shifted(128), []int{1000, 3000}},
		"blocks of 500":     {shifted(500), []int{3000}},
		"a slow drift away": {autoregressive(0.999, 0), []int{30000}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, n := range c.sizes {
				trials := min(600, most/n)
				missed, other := 0, 0
				rng := rand.New(rand.NewPCG(11, uint64(n)))
				for range trials {
					x := c.make(rng, 2*n)
					s := stats.Summarise("s", x[:n])
					if s.CI95[0] > 1 || 1 > s.CI95[1] {
						missed++
					}
					if m := stats.Median(x[n:]); s.CI95[0] > m || m > s.CI95[1] {
						other++
					}
				}
				// Three standard errors of the count above 10 of 100.
				rate := func(p float64) int {
					return int(float64(trials)*p + 3*math.Sqrt(p*(1-p)*float64(trials)))
				}
				if missed > rate(0.1) {
					t.Errorf("%d samples: not the long-run median in %d of %d", n, missed, trials)
				}
				// The other half is as uncertain as this one: even an exact
				// interval holds its median in 83 of 100 (1.96 over sqrt 2).
				if other > rate(0.2) {
					t.Errorf("%d samples: not the process's other half in %d of %d", n, other, trials)
				}
			}
		})
	}
}

const (
	statisticsPage = "../../docs/statistics.md"
	withinHead     = "| samples of one process | number | interval printed (%) | of those, hold the long-run median | printed and wrong, of all |\n|---|---:|---:|---:|---:|\n"
)

var update = flag.Bool("update", false, "write the table of intervals into docs/statistics.md")

// TestWithinInTheDocs: the table of docs/statistics.md is what this code and these seeds give.
func TestWithinInTheDocs(t *testing.T) {
	const trials = 2000
	rows := ""
	for _, phi := range []float64{0, 0.5, 0.9, 0.99} {
		for _, n := range []int{10, 20, 50, 200} {
			rng := rand.New(rand.NewPCG(17, uint64(n)))
			printed, holds := 0, 0
			for range trials {
				s := stats.Summarise("s", autoregressive(phi, 0)(rng, n))
				if s.CI95.Known() {
					printed++
				}
				if s.CI95[0] <= 1 && 1 <= s.CI95[1] {
					holds++
				}
			}
			share := func(k, of int) float64 { return 100 * float64(k) / float64(max(of, 1)) }
			rows += fmt.Sprintf("| AR(1) %g | %d | %.1f | %.1f | %.1f |\n", phi, n, share(printed, trials), share(holds, printed), share(printed-holds, trials))
			// Ten samples show too little: a limit that keeps more intervals of independent ones prints more wrong ones.
			if least := map[int]float64{10: 0.8}[n]; phi == 0 && float64(printed) < cmp.Or(least, 0.95)*trials {
				t.Errorf("%d independent samples: %d intervals of %d", n, printed, trials)
			}
			// An interval of 95 % may be wrong once in twenty: three standard errors more.
			if wrong := printed - holds; n >= 20 && float64(wrong) > 0.05*trials+3*math.Sqrt(0.05*0.95*trials) {
				t.Errorf("AR(1) %g, %d samples: %d of %d intervals are printed and wrong", phi, n, wrong, trials)
			}
		}
	}
	page, err := os.ReadFile(statisticsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), withinHead)
	_, after, _ := strings.Cut("\n"+rest, "\n\n")
	switch {
	case !ok:
		t.Fatalf("%s has no table of intervals within a process", statisticsPage)
	case *update:
		if err := os.WriteFile(statisticsPage, []byte(before+withinHead+rows+"\n"+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case !strings.HasPrefix(rest, rows+"\n"):
		t.Errorf("%s is out of date; write it with go test ./internal/stats -run TestWithinInTheDocs -update. The rows are\n%s", statisticsPage, rows)
	}
}
