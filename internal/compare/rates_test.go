//go:build !race

// The simulated gates and rates share no memory between their goroutines but the counts that they return: the race
// detector would take minutes to find nothing.

package compare_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/perf/benchmath"

	"github.com/gpuprof/gpuprof/internal/compare"
)

// noiseModel is a machine with its name in the tables of docs/statistics.md.
type noiseModel struct {
	name string
	machine
}

func noiseModels() []noiseModel {
	steady := machine{shift: 0.01, sample: 0.01, samples: 10}
	with := func(name string, change func(*machine)) noiseModel {
		m := steady
		change(&m)
		return noiseModel{name, m}
	}
	shared := usual()
	shared.bursts = 0.3
	return []noiseModel{
		{"1 % between processes", steady},
		{"usual noise", usual()},
		{"15 % slow processes", uneven(0.15)},
		{"30 % slow processes", uneven(0.30)},
		{"bursts of other work", shared},
		with("walk of 1 % a process", func(m *machine) { m.drift = 0.01 }),
		with("walk of 2 % a process", func(m *machine) { m.drift = 0.02 }),
		with("drift of 0.4 % a process", func(m *machine) { m.ramp = 0.004 }),
		with("wave of 10 %, four processes long", func(m *machine) { m.sine = 0.1 }),
		with("clock ticks of 67 %", func(m *machine) { m.tick = 0.67 }),
		with("half of a process throttled", func(m *machine) { m.throttle = 0.5 }),
		with("two modes 30 % apart", func(m *machine) { m.modes = 0.5 }),
	}
}

// decision is the outcome of one comparison of one metric.
type decision struct {
	verdict   compare.Verdict
	covers    bool // the interval holds the true change
	interval  bool // there is one
	benchstat bool // calls the medians of processes different at 5 %
	pooled    bool // Mann and Whitney's test calls all samples different at 5 %
	wrong     bool // the ratio lies on the wrong side of 1
}

// way is one way into a comparison; it compares sides whose new one is slower by a
// logarithm.
type way struct {
	name    string
	compare func(m machine, effect float64, seed uint64) (decision, error)
}

func waysIn() []way {
	return []way{
		{"one job", func(m machine, effect float64, seed uint64) (decision, error) {
			c, err := job{m: m, effects: []float64{effect}, timeFor: timeFor}.gate(seed)
			return decided(c, err, effect)
		}},
		{filesWay, func(m machine, effect float64, seed uint64) (decision, error) {
			rng := rand.New(rand.NewPCG(2027, seed))
			old, now := m.run(10, 0, rng), m.run(10, effect, rng)
			c, err := compare.Compare(old, now, compare.Options{Judge: true})
			return besides(old, now)(decided(c, err, effect))
		}},
		{"baseline of 3 sessions of 6 runs", stored(3)},
		{"baseline of 10 sessions of 6 runs", stored(10)},
	}
}

func stored(sessions int) func(m machine, effect float64, seed uint64) (decision, error) {
	return func(m machine, effect float64, seed uint64) (decision, error) {
		m.session = 0.01
		rng := rand.New(rand.NewPCG(2028, seed))
		var old []*compare.Result
		for range sessions {
			old = append(old, m.run(6, 0, rng))
		}
		c, err := compare.CompareStored(old, m.run(6, effect, rng), compare.Options{Judge: true})
		return decided(c, err, effect)
	}
}

// run is one session of n processes of one program.
func (m machine) run(n int, effect float64, rng *rand.Rand) *compare.Result {
	r := side(1)
	w, lives := m.begin(rng), m.lives(n, rng)
	for i := range n {
		r.Metrics[0].Runs = append(r.Metrics[0].Runs, w.process(effect+lives[i], float64(i)/float64(n)-0.5))
	}
	return r
}

func decided(c *compare.Comparison, err error, effect float64) (decision, error) {
	if err != nil {
		return decision{}, err
	}
	m := c.Metrics[0]
	lo, hi, true := float64(m.CI95[0]), float64(m.CI95[1]), math.Exp(effect)
	d := decision{verdict: m.Verdict, interval: !math.IsNaN(lo)}
	d.covers = lo <= true*(1+1e-9) && true <= hi*(1+1e-9)
	d.wrong = (float64(m.Ratio)-1)*effect < 0
	return d, nil
}

// besides adds the verdicts of benchstat and of a pooled test on the same data.
func besides(old, now *compare.Result) func(decision, error) (decision, error) {
	return func(d decision, err error) (decision, error) {
		differ := func(a, b []float64) bool {
			t := benchmath.DefaultThresholds
			c := benchmath.AssumeNothing.Compare(benchmath.NewSample(a, &t), benchmath.NewSample(b, &t))
			return c.P < c.Alpha
		}
		a, b := old.Metrics[0].Runs, now.Metrics[0].Runs
		d.benchstat = differ(medians(a), medians(b))
		d.pooled = differ(slices.Concat(a...), slices.Concat(b...))
		return d, err
	}
}

func medians(runs [][]float64) []float64 {
	out := make([]float64, len(runs))
	for i, r := range runs {
		s := slices.Sorted(slices.Values(r))
		out[i] = (s[(len(s)-1)/2] + s[len(s)/2]) / 2
	}
	return out
}

// rates are the decisions of many comparisons, in counts.
type rates struct {
	n, regressed, improved, open, covers, intervals, benchstat, pooled, wrong int
}

func (w way) rates(t *testing.T, m machine, effect float64, n int) rates {
	t.Helper()
	all := make([]decision, n)
	var group sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for k := range workers {
		group.Go(func() {
			for i := k; i < n; i += workers {
				d, err := w.compare(m, effect, uint64(i))
				if err != nil {
					t.Error(err)
					return
				}
				all[i] = d
			}
		})
	}
	group.Wait()
	r := rates{n: n}
	count := func(yes bool, into *int) {
		if yes {
			*into++
		}
	}
	for _, d := range all {
		count(d.verdict == compare.Regressed, &r.regressed)
		count(d.verdict == compare.Improved, &r.improved)
		count(d.verdict == compare.Inconclusive, &r.open)
		count(d.covers, &r.covers)
		count(d.interval, &r.intervals)
		count(d.benchstat, &r.benchstat)
		count(d.pooled, &r.pooled)
		count(d.wrong, &r.wrong)
	}
	return r
}

// rateRow is a line of the table of docs/statistics.md.
func (w way) rateRow(t *testing.T, m noiseModel, n int) string {
	t.Helper()
	null, small, large := w.rates(t, m.machine, 0, n), w.rates(t, m.machine, math.Log(1.05), n), w.rates(t, m.machine, math.Log(1.10), n)
	others := ""
	if null.benchstat+null.pooled > 0 || w.name == filesWay {
		others = fmt.Sprintf("%s, %s", percent(null.benchstat, n), percent(null.pooled, n))
	}
	return fmt.Sprintf("| %s | %s | %s, %s | %s | %s | %s | %s | %s |", w.name, m.name, percent(null.regressed, n), percent(null.improved, n), percent(null.open, n),
		percent(null.covers, null.intervals), percent(small.regressed, n), percent(large.regressed, n), others)
}

func percent(k, n int) string { return fmt.Sprintf("%.1f", 100*float64(k)/float64(max(n, 1))) }

// limits are what a way in must keep under a noise model, as shares: false alarms in either
// direction, inconclusive without a change, coverage, and found at +5 and +10 %.
type limits struct{ falsely, open, covers, small, large float64 }

// kept holds the limits of single rows. In every other row false alarms are at most 5 %, the level of its test, and
// intervals cover at least 85 %.
var kept = map[string]limits{
	"one job/15 % slow processes":                          {0.01, 0.15, 0.9, 0.85, 0.95},
	"one job/usual noise":                                  {0.01, 0.01, 0.9, 0.9, 0.98},
	"one job/wave of 10 %, four processes long":            {0.01, 1, 0.9, 0, 0},
	"one job/half of a process throttled":                  {0.01, 0.1, 0.9, 0.8, 0.95},
	"one job/clock ticks of 67 %":                          {0.01, 1, 0.9, 0, 0.5},
	"two files of 10 runs/1 % between processes":           {0.01, 0.1, 0.9, 0, 0.9},
	"two files of 10 runs/15 % slow processes":             {0.01, 0.25, 0.9, 0, 0.75},
	"two files of 10 runs/walk of 1 % a process":           {0.01, 1, 0.9, 0, 0},
	"two files of 10 runs/walk of 2 % a process":           {0.01, 1, 0.9, 0, 0},
	"two files of 10 runs/drift of 0.4 % a process":        {0.01, 1, 0.9, 0, 0},
	"baseline of 3 sessions of 6 runs/usual noise":         {0.01, 1, 0.9, 0, 0},
	"baseline of 10 sessions of 6 runs/usual noise":        {0.01, 0.4, 0.9, 0, 0.9},
	"baseline of 3 sessions of 6 runs/15 % slow processes": {0.01, 1, 0.9, 0, 0.5},
}

// check reports the limits that a way in misses by more than three standard errors of n comparisons.
func (w way) check(t *testing.T, m noiseModel, n int) {
	t.Helper()
	l, ok := kept[w.name+"/"+m.name]
	if !ok {
		l = limits{0.05, 1, 0.85, 0, 0}
	}
	null, small, large := w.rates(t, m.machine, 0, n), w.rates(t, m.machine, math.Log(1.05), n), w.rates(t, m.machine, math.Log(1.10), n)
	for _, c := range []struct {
		what  string
		k, of int
		limit float64
		most  bool
	}{
		{"regressed without a change", null.regressed, n, l.falsely, true}, {"improved without a change", null.improved, n, l.falsely, true},
		{"inconclusive without a change", null.open, n, l.open, true}, {"intervals that hold the change", null.covers, null.intervals, l.covers, false},
		{"+5 % found", small.regressed, n, l.small, false}, {"+10 % found", large.regressed, n, l.large, false},
	} {
		chance := 3 * math.Sqrt(c.limit*(1-c.limit)*float64(c.of))
		expected := c.limit * float64(c.of)
		if c.most && float64(c.k) > expected+chance || !c.most && float64(c.k) < expected-chance {
			t.Errorf("%s, %s: %s %d of %d, and the limit is %g %%", w.name, m.name, c.what, c.k, c.of, 100*c.limit)
		}
	}
}

// TestRates checks every way into a comparison under every noise: by day with so few comparisons that they show only
// a gross fault.
func TestRates(t *testing.T) {
	n := 20
	if nightly {
		n = tableTrials
	}
	for _, w := range waysIn() {
		for _, m := range noiseModels() {
			w.check(t, m, n)
		}
	}
}

const (
	tableTrials = 1000
	filesWay    = "two files of 10 runs"
	ratesPage   = "../../docs/statistics.md"
	ratesHead   = "| way in | noise | unchanged: regressed, improved (%) | unchanged: inconclusive | 95 % intervals that hold | +5 % found | +10 % found | benchstat, pooled test: unchanged called different |"
)

var update = flag.Bool("update", false, "write the table of rates into docs/statistics.md")

// TestRatesInTheDocs compares the table of docs/statistics.md with the same code and seeds: all rows by night, one by day.
func TestRatesInTheDocs(t *testing.T) {
	text, err := os.ReadFile(ratesPage)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	var rows []string
	for _, w := range waysIn() {
		for i, m := range noiseModels() {
			if nightly || *update || w.name == filesWay && i == 2 {
				rows = append(rows, w.rateRow(t, m, tableTrials))
			}
		}
	}
	if *update {
		from := strings.Index(page, ratesHead)
		if from < 0 {
			t.Fatalf("%s has no table of rates", ratesPage)
		}
		to := from + strings.Index(page[from:]+"\n\n", "\n\n")
		page = page[:from] + ratesHead + "\n|---|---|---:|---:|---:|---:|---:|---:|\n" + strings.Join(rows, "\n") + page[min(to, len(page)):]
		if err := os.WriteFile(ratesPage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, row := range rows {
		if !strings.Contains(page, row+"\n") {
			t.Errorf("%s lacks the row\n%s\nwrite it with go test ./internal/compare -run TestRatesInTheDocs -update", ratesPage, row)
		}
	}
}
