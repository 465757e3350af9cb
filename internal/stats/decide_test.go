package stats_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof/internal/stats"
)

// blocks draws k blocks of n samples.
func blocks(t *rapid.T, label string, k int) [][]float64 {
	out := make([][]float64, k)
	for i := range out {
		out[i] = rapid.SliceOfN(rapid.Float64Range(1e-3, 10), 1, 15).Draw(t, fmt.Sprint(label, i))
	}
	return out
}

func scaled(runs [][]float64, by float64) [][]float64 {
	out := make([][]float64, len(runs))
	for i, r := range runs {
		for _, v := range r {
			out[i] = append(out[i], by*v)
		}
	}
	return out
}

func near(a, b, tol float64) bool { return math.Abs(a-b) <= tol*(1+math.Abs(b)) }

func TestPairedProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(2, 12).Draw(t, "k")
		a, b := blocks(t, "a", k), blocks(t, "b", k)
		e, ok := stats.Paired(a, b)
		if !ok || !e.OK() || e.Nu != float64(k-1) {
			t.Fatalf("%+v %v", e, ok)
		}
		if swap, _ := stats.Paired(b, a); swap != e.Negate() {
			t.Fatalf("swapped: %+v, want %+v", swap, e.Negate())
		}
		if s, _ := stats.Paired(scaled(a, 1000), scaled(b, 1000)); !near(s.Theta, e.Theta, 1e-9) || !near(s.SE, e.SE, 1e-9) {
			t.Fatalf("in milliseconds: %+v, in seconds %+v", s, e)
		}
		if s, _ := stats.Paired(a, scaled(b, 2)); !near(s.Theta, e.Theta+math.Ln2, 1e-9) {
			t.Fatalf("doubled: %+v after %+v", s, e)
		}
		mixed := make([][]float64, k)
		for i := range a {
			mixed[i] = rapid.Permutation(a[i]).Draw(t, "order")
		}
		if s, _ := stats.Paired(mixed, b); s != e {
			t.Fatalf("shuffled samples: %+v, want %+v", s, e)
		}
	})
}

// What slows a turn of both sides down cancels in blocks measured side by side,
// and does not in the ratio of the medians.
func TestAlignedBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	const k, n = 6, 9
	a, b, aligned := make([][]float64, k), make([][]float64, k), make([]bool, k)
	for i := range k {
		aligned[i] = true
		for range n {
			both := math.Exp(rng.NormFloat64())
			a[i] = append(a[i], both*math.Exp(0.01*rng.NormFloat64()))
			b[i] = append(b[i], 1.1*both*math.Exp(0.01*rng.NormFloat64()))
		}
	}
	paired := func(a, b [][]float64, aligned []bool) (stats.Effect, bool) {
		x, ok := stats.NewBlocks(a, b, aligned, 0.02)
		if !ok {
			return stats.Effect{}, false
		}
		return x.Estimate(stats.PairedMean)
	}
	e, ok := paired(a, b, aligned)
	if !ok || math.Abs(e.Theta-math.Log(1.1)) > 0.01 || e.SE > 0.01 {
		t.Errorf("side by side: %+v %v", e, ok)
	}
	if back, _ := paired(b, a, aligned); back.Theta != -e.Theta || !near(back.SE, e.SE, 1e-9) {
		t.Errorf("swapped: %+v, want %+v", back, e.Negate())
	}
	apart, _ := stats.Paired(a, b)
	if apart.SE < 0.1 {
		t.Errorf("apart: %+v", apart)
	}
	// Sides of different lengths have no turns, and blocks that are not aligned none either.
	b[0] = b[0][:n-1]
	if e, ok = paired(a, b, []bool{true, false}); !ok || math.Abs(e.Theta-apart.Theta) > 0.2 {
		t.Errorf("no turns: %+v %v", e, ok)
	}
}

func TestPairedRefuses(t *testing.T) {
	one, two := [][]float64{{1}}, [][]float64{{1}, {2}}
	for name, c := range map[string][2][][]float64{
		"one block":    {one, one},
		"unequal":      {two, one},
		"empty":        {{{1}, {}}, two},
		"zero":         {{{1}, {0}}, two},
		"negative":     {two, {{1}, {-1}}},
		"not a number": {two, {{1}, {math.NaN()}}},
		"infinite":     {two, {{1}, {math.Inf(1)}}},
		"nothing":      {nil, nil},
	} {
		if e, ok := stats.Paired(c[0], c[1]); ok {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestEffect(t *testing.T) {
	e := stats.Effect{Theta: 0.05, SE: 0.01, Nu: 11}
	// Tables of Student's t: t(11) at 0.95 is 1.7959, at 0.975 2.2010, at 0.90 1.3634.
	if !near(e.Upper(0.975), 0.05+0.022010, 1e-4) || !near(e.Lower(0.95), 0.05-0.017959, 1e-4) || !near(e.MDE(0.02, 0.05, 0.90), 0.02+0.031593, 1e-4) {
		t.Errorf("bounds %v %v, MDE %v", e.Upper(0.975), e.Lower(0.95), e.MDE(0.02, 0.05, 0.9))
	}
	if !near(e.PNotAbove(0.05-0.017959), 0.05, 1e-4) || !near(e.PNotAbove(0.05), 0.5, 1e-9) {
		t.Errorf("p %v", e.PNotAbove(0.05-0.017959))
	}
	normal := stats.Effect{Theta: 1.959964, SE: 1, Nu: math.Inf(1)}
	if !near(normal.PNotAbove(0), 0.025, 1e-5) || !near(normal.Upper(0.975), 2*1.959964, 1e-5) {
		t.Errorf("normal: %v %v", normal.PNotAbove(0), normal.Upper(0.975))
	}
	sure := stats.Effect{Theta: 0.03, SE: 0, Nu: 5}
	if sure.PNotAbove(0.02) != 0 || sure.PNotAbove(0.03) != 1 || sure.Upper(0.975) != 0.03 {
		t.Error("without noise a test is a comparison")
	}
	for _, bad := range []stats.Effect{{Theta: math.NaN(), SE: 1, Nu: 5}, {Theta: 1, SE: math.NaN(), Nu: 5}, {Theta: 1, SE: 1}, {Theta: math.Inf(1), SE: 1, Nu: 5}} {
		if bad.OK() || !math.IsNaN(bad.PNotAbove(0)) {
			t.Errorf("%+v can be tested", bad)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		e := stats.Effect{Theta: rapid.Float64Range(-1, 1).Draw(t, "theta"), SE: rapid.Float64Range(1e-4, 1).Draw(t, "se"), Nu: float64(rapid.IntRange(1, 40).Draw(t, "nu"))}
		if e.Lower(0.975) > e.Theta || e.Upper(0.975) < e.Theta || e.Negate().Upper(0.9) != -e.Lower(0.9) {
			t.Fatalf("bounds of %+v", e)
		}
		// A bound is the value at which the test's decision changes.
		if p := e.PNotAbove(e.Lower(0.95)); !near(p, 0.05, 1e-6) {
			t.Fatalf("p at the bound %v", p)
		}
		if e.MDE(0, 0.05, 0.9) > e.MDE(0, 0.05, 0.95) || e.MDE(0.01, 0.05, 0.9) < e.MDE(0, 0.05, 0.9) {
			t.Fatal("more power or a higher bar takes a larger effect")
		}
	})
}

// An effect of the size of the MDE must be found about as often as promised.
func TestMDEIsDetected(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	const trials, sigma, n = 4000, 0.02, 12
	found := 0
	truth := stats.Effect{SE: sigma / math.Sqrt(n), Nu: n - 1}.MDE(0.02, 0.05, 0.90)
	for range trials {
		x := make([]float64, n)
		for i := range x {
			x[i] = truth + sigma*rng.NormFloat64()
		}
		mean, sd := stat.MeanStdDev(x, nil)
		if (stats.Effect{Theta: mean, SE: sd / math.Sqrt(n), Nu: n - 1}).PNotAbove(0.02) <= 0.05 {
			found++
		}
	}
	if share := float64(found) / trials; share < 0.88 || share > 0.95 {
		t.Errorf("found %.3f of the time, promised 0.90", share)
	}
}

func TestHolm(t *testing.T) {
	// The example of Holm's procedure by hand: 3 x 0.01, then 2 x 0.02, then 0.03
	// raised to what came before.
	got := stats.Holm([]float64{0.03, 0.01, 0.02})
	for i, want := range []float64{0.04, 0.03, 0.04} {
		if !near(got[i], want, 1e-12) {
			t.Errorf("adjusted %v", got)
		}
	}
	if got := stats.Holm([]float64{0.01, math.NaN()}); got[0] != 0.02 || !math.IsNaN(got[1]) {
		t.Errorf("a test that could not be made counts: %v", got)
	}
	if len(stats.Holm(nil)) != 0 {
		t.Error("nothing to adjust")
	}
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 50).Draw(t, "p")
		q := stats.Holm(p)
		for i := range p {
			if q[i] < p[i] || q[i] > min(1, float64(len(p))*p[i]) {
				t.Fatalf("%v became %v of %d", p[i], q[i], len(p))
			}
			for j := range p {
				if p[i] < p[j] && q[i] > q[j] {
					t.Fatal("the order changed")
				}
			}
		}
		order := rapid.Permutation(seq(len(p))).Draw(t, "order")
		mixed := make([]float64, len(p))
		for i, o := range order {
			mixed[i] = p[o]
		}
		for i, v := range stats.Holm(mixed) {
			if v != q[order[i]] {
				t.Fatal("depends on the order")
			}
		}
	})
}

func seq(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, seed := rapid.IntRange(1, 40).Draw(t, "n"), rapid.Uint64().Draw(t, "seed")
		order, whole := stats.MirroredOrder, n%2 == 0
		if rapid.Bool().Draw(t, "balanced") {
			order, whole = stats.BalancedOrder, n%6 == 0
		}
		first := order(n, seed)
		if len(first) != n || !slices.Equal(first, order(n, seed)) {
			t.Fatal("not the same again")
		}
		var sides []bool
		for _, b := range first {
			sides = append(sides, b, !b)
		}
		if _, shift := stats.CheckOrder(sides); whole && shift != 0 {
			t.Fatalf("%v: %v", sides, shift)
		}
		// A linear drift adds up to nothing in it.
		slope := rapid.Float64Range(-0.1, 0.1).Draw(t, "slope")
		logs := make([]float64, len(sides))
		for i := range logs {
			logs[i] = slope * float64(i)
		}
		if whole && n >= 4 {
			if d := stats.FindTrend(logs, sides); math.Abs(d.Bias) > 1e-12 || !near(d.Slope, slope, 1e-9) {
				t.Fatalf("%+v for a slope of %v", d, slope)
			}
		}
	})
	for name, c := range map[string]struct {
		order    []bool
		separate bool
		shift    float64
	}{
		"all A, then B": {[]bool{false, false, false, true, true, true}, true, 3},
		"ABBA BAAB":     {[]bool{false, true, true, false, true, false, false, true}, false, 0},
		"ABAB":          {[]bool{false, true, false, true}, false, 1},
		"one side":      {[]bool{true, true}, false, 0},
	} {
		if separate, shift := stats.CheckOrder(c.order); separate != c.separate || shift != c.shift {
			t.Errorf("%s: %v %v", name, separate, shift)
		}
	}
}

func TestFindTrend(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	order := append(make([]bool, 6), slices.Repeat([]bool{true}, 6)...)
	logs := func(slope, step, noise float64) []float64 {
		out := make([]float64, 12)
		for i := range out {
			out[i] = slope*float64(i) + noise*rng.NormFloat64()
			if order[i] {
				out[i] += step
			}
		}
		return out
	}
	if d := stats.FindTrend(logs(0.01, 0, 0.001), order); d.P > 1e-6 || math.Abs(d.Bias-0.06) > 0.003 {
		t.Errorf("a drift of 1 %% a run: %+v", d)
	}
	for _, at := range []int{2, 3, 4, 6, 8, 9, 10} {
		x := logs(0, 0.3, 0.001)
		for i := at; i < 12; i++ {
			x[i] += 0.08
		}
		d := stats.FindTrend(x, order)
		if at == 6 { // the border of the sides
			if d.Step != 0 && d.P <= 0.01 {
				t.Errorf("a step between the sides is one inside a side: %+v", d)
			}
			continue
		}
		want := 0.08 * (1 - float64(max(6-at, 0))/6)
		if at > 6 {
			want = 0.08 * float64(12-at) / 6
		}
		if d.Step != at || math.Abs(d.Height-0.08) > 0.002 || math.Abs(d.Bias-want) > 0.003 {
			t.Errorf("a step at run %d: %+v, want a bias of %g", at, d, want)
		}
	}
	stepped := 0
	for range 1000 {
		if stats.FindTrend(logs(0.004, 0, 0.003), order).Step != 0 {
			stepped++
		}
	}
	if stepped > 20 { // a drift of one standard deviation a run
		t.Errorf("a drift is taken for a step %d times of 1,000", stepped)
	}
	alarms := 0
	for range 1000 {
		if stats.FindTrend(logs(0, 0.2, 0.01), order).P <= 0.05 {
			alarms++
		}
	}
	if alarms < 25 || alarms > 80 { // 50 expected, four standard deviations
		t.Errorf("a step between the sides is taken for a drift %d times of 1,000", alarms)
	}
	for name, d := range map[string]stats.Trend{
		"few":      stats.FindTrend([]float64{1, 2, 3, 4}, []bool{false, false, true, true}),
		"one side": stats.FindTrend([]float64{1, 2, 3, 4, 5}, make([]bool, 5)),
		"constant": stats.FindTrend(make([]float64, 12), order),
	} {
		if d.P != 1 {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func TestCounts(t *testing.T) {
	count := func(v ...float64) stats.Count {
		c, ok := stats.CountOf(v)
		if !ok {
			t.Fatal("no count")
		}
		return c
	}
	for _, c := range []struct {
		old, now stats.Count
		sign     int
		certain  bool
	}{
		{count(3, 3), count(3), 0, true},
		{count(3, 3), count(4, 4), 1, true},
		{count(3), count(2), -1, true},
		{count(3, 4), count(5, 6), 1, true},
		{count(3, 4), count(3, 4), 0, false},
		{count(3, 3), count(3, 4), 0, false},
		{count(0), count(0), 0, true},
	} {
		sign, certain := stats.CompareCounts(c.old, c.now)
		if sign != c.sign || certain != c.certain {
			t.Errorf("%+v to %+v: %d %v", c.old, c.now, sign, certain)
		}
	}
	if _, ok := stats.CountOf(nil); ok {
		t.Error("nothing was counted")
	}
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 9), 1, 6)
		a, _ := stats.CountOf(values.Draw(t, "a"))
		b, _ := stats.CountOf(values.Draw(t, "b"))
		s, c := stats.CompareCounts(a, b)
		back, c2 := stats.CompareCounts(b, a)
		if s != -back || c != c2 {
			t.Fatalf("%d %v, swapped %d %v", s, c, back, c2)
		}
	})
}

func TestMedianErrorAndSpread(t *testing.T) {
	source := rand.NewPCG(41, 42)
	rng := rand.New(source)
	// Few samples too, and a distribution for which a formula of the standard deviation does not hold.
	for name, draw := range map[string]func() float64{"normal": rng.NormFloat64, "exponential": rng.ExpFloat64} {
		source.Seed(41, 42) // a map has no order
		for _, n := range []int{3, 5, 9, 40, 400} {
			most := 0.15
			if n == 5 {
				most = 0.3 // the interval is the range of the samples, which a long tail widens
			}
			var errs, medians []float64
			for range 2000 {
				x := make([]float64, n)
				for i := range x {
					x[i] = draw()
				}
				errs, medians = append(errs, stats.MedianError(x)), append(medians, stats.Median(x))
			}
			if got, want := stat.Mean(errs, nil), stat.StdDev(medians, nil); math.Abs(got/want-1) > most {
				t.Errorf("%s, %d samples: estimated %.3f, the medians scatter by %.3f", name, n, got, want)
			}
		}
	}
	if !math.IsNaN(stats.MedianError([]float64{1})) {
		t.Error("one sample has no such interval")
	}
	if s := stats.SessionSpread([]float64{0, 0.02}); !near(s.Sigma, 0.0141421, 1e-5) || s.Nu != 1 {
		t.Errorf("spread %+v", s)
	}
	if s := stats.SessionSpread([]float64{0}); !math.IsNaN(s.Sigma) {
		t.Error("one session has no spread")
	}
	if got := stats.LogMedians([][]float64{{1, 4}, {8}}); len(got) != 2 || !near(got[0], math.Log(2), 1e-12) {
		t.Errorf("log medians %v", got)
	}
	if stats.LogMedians([][]float64{{1}, {0}}) != nil || stats.LogMedians(nil) != nil {
		t.Error("zero has no logarithm")
	}
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float64Range(0.1, 10), 2, 60).Draw(t, "x")
		k := rapid.Float64Range(0.1, 1000).Draw(t, "k")
		if a, b := stats.MedianError(x), stats.MedianError(scaled([][]float64{x}, k)[0]); !near(b, k*a, 1e-9) || a < 0 {
			t.Fatalf("%v, scaled by %v: %v", a, k, b)
		}
	})
}
