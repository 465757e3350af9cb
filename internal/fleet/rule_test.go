//go:build !race

// One goroutine judges made-up fleets, which takes ten times as long under the race detector.

package fleet

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// simulated is a fleet as the table of docs/fleet.md has it: spreads of chips and nodes,
// the noise of a measurement and the part of measurements that is disturbed by 3 to 25 %.
type simulated struct {
	name                 string
	nodes                int
	chip, node, noise    float64
	disturbed            float64
	falseChecks          int // most of healthy checks, in percent, with a false flag
	fdr, found8, found15 float64
}

func fleets() []simulated {
	return []simulated{
		{"chips 0.8 %, noise 0.5 %", 128, .008, 0, .005, 0, 0, 0.005, 0.98, 1},
		{"chips 1.5 %, nodes 1 %, noise 1 %", 128, .015, .01, .01, 0, 5, 0.01, 0.7, 0.99},
		{"the same, 5 % disturbed", 128, .015, .01, .01, .05, 10, 0.017, 0.7, 0.98},
		{"16 GPUs, the same", 2, .015, .01, .01, 0, 1, 0.01, 0.3, 0.99},
	}
}

const (
	simPerNode = 8
	simMetrics = 12
	simCompute = 6 // of them share the chip's factor; 3 more are of the link
	simRounds  = 3
)

// check is one check of a simulated fleet: the values, which of them are truly more than
// 5 % slow beside the median of the truth, and what was planted (8 and 15 %).
func (s *simulated) check(rng *rand.Rand, plant bool) (values []value, truly []bool, planted [2]map[int]bool) {
	gpus := s.nodes * simPerNode
	truth := make([][simMetrics]float64, gpus)
	for n := range s.nodes {
		node := s.node * rng.NormFloat64()
		for i := n * simPerNode; i < (n+1)*simPerNode; i++ {
			chip := s.chip * rng.NormFloat64()
			for m := range simMetrics {
				if m < simCompute {
					truth[i][m] = node + chip
				} else {
					truth[i][m] = s.chip / 2 * rng.NormFloat64()
				}
			}
		}
	}
	for k, kind := range []struct {
		by     float64
		lo, hi int
	}{{0.08, 0, simCompute}, {0.15, simCompute, simCompute + 3}} {
		planted[k] = map[int]bool{}
		for plant && len(planted[k]) < max(1, gpus/100) {
			i := rng.IntN(gpus)
			if !planted[k][i] {
				planted[k][i] = true
				for m := kind.lo; m < kind.hi; m++ {
					truth[i][m] += math.Log1p(-kind.by)
				}
			}
		}
	}
	for i := range truth {
		best, second := [simMetrics]float64{}, [simMetrics]float64{}
		for round := range simRounds {
			slower := 0.0
			if rng.Float64() < s.disturbed {
				slower = math.Log1p(-0.03 - 0.22*rng.Float64())
			}
			for m := range simMetrics {
				switch y := truth[i][m] + s.noise*rng.NormFloat64() + slower; {
				case round == 0:
					best[m], second[m] = y, math.Inf(-1)
				case y > best[m]:
					best[m], second[m] = y, best[m]
				case y > second[m]:
					second[m] = y
				}
			}
		}
		for m := range simMetrics {
			values = append(values, value{of: i, metric: fmt.Sprint(m), log: best[m], more: true, slack: 0.05, apart: best[m] - second[m]})
			// The medians of the truth are 0 but for a part of its spread.
			truly = append(truly, truth[i][m] < math.Log1p(-0.05))
		}
	}
	return values, truly, planted
}

// rates are what n checks of a healthy fleet and n of one with slow GPUs come to.
func (s *simulated) rates(n int) (falseChecks int, fdr, found8, found15 float64) {
	rng := rand.New(rand.NewPCG(1, 27))
	found, all := [2]float64{}, [2]float64{}
	for range n {
		values, truly, _ := s.check(rng, false)
		wrong := false
		for i, j := range judgeValues(values) {
			wrong = wrong || j.off && !truly[i]
		}
		if wrong {
			falseChecks++
		}
		values, truly, planted := s.check(rng, true)
		named, false1, hit := 0.0, 0.0, [2]map[int]bool{{}, {}}
		for i, j := range judgeValues(values) {
			if !j.off {
				continue
			}
			named++
			if !truly[i] {
				false1++
			}
			if m := i % simMetrics; m < simCompute {
				hit[0][j.of] = true
			} else if m < simCompute+3 {
				hit[1][j.of] = true
			}
		}
		fdr += false1 / max(1, named) / float64(n)
		for k := range planted {
			for i := range planted[k] {
				all[k]++
				if hit[k][i] {
					found[k]++
				}
			}
		}
	}
	return falseChecks, fdr, found[0] / all[0], found[1] / all[1]
}

// TestErrorRates: the rule keeps its rates of false alarms and finds what is planted.
func TestErrorRates(t *testing.T) {
	for _, s := range fleets() {
		n := 8 // 1,024 GPUs take most of a tenth of a second each
		if s.nodes == 2 {
			n = 100
		} else if s.disturbed > 0 {
			n = 20 // of 100 checks 6 have a false flag: 8 would hold one or none
		}
		wrong, fdr, found8, found15 := s.rates(n)
		t.Logf("%s: %d of %d healthy checks with a false flag, FDR %.4f, found 8 %%: %.2f, 15 %%: %.2f", s.name, wrong, n, fdr, found8, found15)
		if 100*wrong > s.falseChecks*n || fdr > s.fdr || found8 < s.found8 || found15 < s.found15 {
			t.Errorf("%s: %d of %d healthy checks with a false flag, FDR %.4f, found 8 %%: %.2f, 15 %%: %.2f", s.name, wrong, n, fdr, found8, found15)
		}
	}
}

// A GPU whose rounds disagree is not known to be slow, whatever the best of them says; one
// that is as slow in each is. Of fewer siblings than LeastSiblings none is off.
func TestUnsteady(t *testing.T) {
	for _, n := range []int{12, 20} {
		group := func(apart float64) []judged {
			var values []value
			for i := range n {
				values = append(values, value{of: i, log: 0.001 * float64(i%4), more: true, slack: 0.05, apart: 0.002 + 0.0005*float64(i%3)})
			}
			values[0].log, values[0].apart = -0.09, apart
			return judgeValues(values)
		}
		if steady := group(0.003); !steady[0].off || steady[1].off {
			t.Errorf("of %d: %+v and %+v, want the first alone", n, steady[0], steady[1])
		}
		if torn := group(0.12); torn[0].off || torn[0].unsteady != 0.12 {
			t.Errorf("of %d: %+v is off though its rounds differ by 12 %%", n, torn[0])
		}
	}
	// 4: the text says what the rule compared, the median of the other three.
	few := judgeValues([]value{{log: -0.09, slack: 0.05}, {of: 1, log: 0.01}, {of: 2, log: 0.02}, {of: 3, log: 0.03}})
	if few[0].median != 0.02 || few[0].off || !few[0].few {
		t.Errorf("the first of four is %+v, want it beyond the slack of a median of 0.02", few[0])
	}
}

// TestRobustTail: the tail that a figure is judged by is at least as heavy as that of normal
// siblings in units of their robust spread, for any number of them.
func TestRobustTail(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 8))
	for _, n := range []int{8, 9, 10, 11, 12, 16, 24, 64} {
		const groups = 4000
		tails := []float64{1e-2, 1e-3}
		below := make([]int, len(tails))
		values := make([]value, n)
		for range groups {
			for i := range values {
				values[i] = value{of: i, log: rng.NormFloat64(), more: true}
			}
			for _, j := range judgeValues(values) {
				for k, p := range tails {
					if j.p <= p {
						below[k]++
					}
				}
			}
		}
		for k, p := range tails {
			total := float64(groups * n)
			if got, most := float64(below[k])/total, p+4*math.Sqrt(p*float64(n)/total); got > most {
				t.Errorf("of %d siblings: %.2g of the values have a p of at most %g", n, got, p)
			}
		}
	}
}

// TestNoisySiblings: where the figures differ by more than the slack, a healthy fleet of any size
// is called uneven in one check of a hundred.
func TestNoisySiblings(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 8))
	for _, n := range []int{2, 4, 7, 8, 12, 30, 100} {
		const checks = 200
		wrong := 0
		for range checks {
			var values []value
			for i := range n {
				for m := range 12 {
					values = append(values, value{of: i, metric: fmt.Sprint(m), log: 0.3 * rng.NormFloat64(), more: true, slack: 0.05})
				}
			}
			if slices.ContainsFunc(judgeValues(values), func(j judged) bool { return j.off }) {
				wrong++
			}
		}
		if most := map[bool]int{true: 0, false: 8}[n < LeastSiblings]; wrong > most { // 2 of 200 and four standard deviations
			t.Errorf("%d siblings: %d of %d healthy checks have a false flag", n, wrong, checks)
		}
	}
}

// BenchmarkErrorRates is the whole table: 100 checks of each fleet.
func BenchmarkErrorRates(b *testing.B) {
	for _, s := range append(fleets(), simulated{name: "chips 2.5 %, nodes 1 %, noise 1 %, 5 % disturbed", nodes: 128, chip: .025, node: .01, noise: .01, disturbed: .05},
		simulated{name: "16 GPUs, 5 % disturbed", nodes: 2, chip: .015, node: .01, noise: .01, disturbed: .05}) {
		b.Run(s.name, func(b *testing.B) {
			for b.Loop() {
				wrong, fdr, found8, found15 := s.rates(100)
				b.ReportMetric(float64(wrong), "%false")
				b.ReportMetric(fdr, "fdr")
				b.ReportMetric(found8, "found8")
				b.ReportMetric(found15, "found15")
			}
		})
	}
}
