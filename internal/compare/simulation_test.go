//go:build !race

// The simulated gates and rates share no memory between their goroutines but the counts that they return: the race
// detector would take minutes to find nothing.

package compare_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
)

const simulatedMetrics = 40

// timeFor is for how many blocks of a later stage a simulated gate has time: 48
// blocks of two processes of 2.5 s are four minutes.
const timeFor = 24

var metricNames = func() (names [simulatedMetrics]string) {
	for i := range names {
		names[i] = fmt.Sprintf("m%02d", i)
	}
	return names
}()

// stage measures n blocks in balanced order: of all metrics, or of those that are
// open only, as no other is looked at.
func (m machine) stage(n int, effects []float64, open []string, rng *rand.Rand) []compare.Block {
	order := compare.Order(n, rng.Uint64())
	blocks := make([]compare.Block, n)
	for k := range blocks {
		blocks[k] = compare.Block{A: side(len(effects)), B: side(len(effects)), BFirst: order[k]}
	}
	lives := m.lives(2*n, rng)
	for i, effect := range effects {
		if open != nil && !slices.Contains(open, metricNames[i]) {
			continue
		}
		w := m.begin(rng)
		if m.alone {
			lives = m.lives(2*n, rng)
		}
		for k := range blocks {
			b := &blocks[k]
			sides := [2]*compare.Result{b.A, b.B}
			for turn := range 2 {
				isB := (turn == 1) != b.BFirst
				place := (float64(2*k+turn)+0.5)/float64(2*n) - 0.5
				if slow := lives[2*k+turn]; isB {
					sides[1].Metrics[i].Runs = [][]float64{w.process(effect+slow, place)}
				} else {
					sides[0].Metrics[i].Runs = [][]float64{w.process(slow, place)}
				}
			}
		}
	}
	return blocks
}

func side(metrics int) *compare.Result {
	r := &compare.Result{Source: "simulated", Status: gpuprof.Complete, Metrics: make([]compare.MetricData, metrics)}
	for i := range r.Metrics {
		r.Metrics[i].Metric = compare.Metric{Name: metricNames[i], Unit: "s"}
	}
	return r
}

// tally counts gates: those that a function holds for, those that went to stage 2
// and 3, and the blocks of all.
type tally struct {
	hits                  []atomic.Int64
	second, third, blocks atomic.Int64
}

// gates runs n gates and counts those that each find holds for.
func gates(t *testing.T, n int, j job, finds ...func(*compare.Comparison) bool) *tally {
	t.Helper()
	var next atomic.Int64
	out := &tally{hits: make([]atomic.Int64, len(finds))}
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(n) {
					return
				}
				c, err := j.gate(uint64(i))
				if err != nil {
					t.Error(err)
					return
				}
				for i, find := range finds {
					if find(c) {
						out.hits[i].Add(1)
					}
				}
				if c.Stages > 1 {
					out.second.Add(1)
				}
				if c.Stages > 2 {
					out.third.Add(1)
				}
				out.blocks.Add(int64(len(c.Order) / 2))
			}
		})
	}
	group.Wait()
	return out
}

// job is one kind of simulated gate; timeFor blocks of each later stage fit.
type job struct {
	m       machine
	effects []float64
	options compare.Options
	timeFor int
	first   int // blocks of stage 1 that fit, 0: all
	seeds   uint64
}

func (j job) gate(seed uint64) (*compare.Comparison, error) {
	rng := rand.New(rand.NewPCG(2026+j.seeds, seed))
	g := compare.NewGate(j.options)
	later := func(open []string) []compare.Block {
		open = append(open, g.Unconfirmed()...)
		return j.m.stage(min(g.Useful(), j.timeFor), j.effects, open, rng)
	}
	first := cmp.Or(j.first, compare.Stage1Blocks)
	c, err := g.Stage1(j.m.stage(first, j.effects, nil, rng))
	if err != nil || len(g.Escalated())+len(g.Unconfirmed()) == 0 {
		return c, err
	}
	c, err = g.Stage2(later(g.Escalated()))
	if err != nil || len(g.Doubtful())+len(g.Unconfirmed()) == 0 {
		return c, err
	}
	return g.Stage3(later(g.Doubtful()))
}

// doubt is how often a rate just beyond its target may pass for one that keeps it.
const doubt = 0.05

// How many gates a row plays. Of 300 none may fail to show that fewer than 1 % do,
// of 500 one (Clopper and Pearson, 95 %); of 200, 188 show that 90 % are found.
// A gate of one metric alone costs a fortieth, so a thousand of them are played.
const (
	rare  = 300
	burst = 500
	often = 200
	alone = 1000
)

// scale is how many of the gates a test plays, and what their counts have to show.
type scale struct {
	share int // one gate in so many
	// meets says whether k gates of n agree with a rate of at most (or at least) limit.
	meets func(k, n int, limit float64, most bool) bool
}

// someGates run everything that a gate may run, with many at once, and contradict no
// target: no fewer than one series in twenty at the limit would go as far beyond it.
var someGates = scale{share: 20, meets: func(k, n int, limit float64, most bool) bool {
	b := distuv.Binomial{N: float64(n), P: limit}
	if most {
		return b.CDF(float64(k-1)) <= 1-doubt
	}
	return b.CDF(float64(k)) >= doubt
}}

// The rule's error rates, of gates of 40 metrics or of one alone. A target counts as
// met where the gates show it, not where they merely come out on its right side.
func TestSimulatedGates(t *testing.T) { simulatedGates(t, someGates) }

func simulatedGates(t *testing.T, of scale) {
	all := func(v float64) []float64 {
		e := make([]float64, simulatedMetrics)
		for i := range e {
			e[i] = math.Log(v)
		}
		return e
	}
	one := func(v float64) []float64 {
		e := make([]float64, simulatedMetrics)
		e[7] = math.Log(v)
		return e
	}
	fails := func(c *compare.Comparison) bool { return c.ExitCode == 1 }
	verdict := func(v compare.Verdict) func(*compare.Comparison) bool {
		return func(c *compare.Comparison) bool { return c.Metrics[7].Verdict == v }
	}
	noisy, drifting := usual(), usual()
	noisy.shift, noisy.drift, noisy.sample = 2*noisy.shift, 2*noisy.drift, 2*noisy.sample
	drifting.linear = 0.04
	inconclusive := func(c *compare.Comparison) bool { return c.ExitCode == 3 }
	each := func(share float64) machine {
		m := uneven(share)
		m.alone = true
		return m
	}
	unevenDrift := uneven(0.15)
	unevenDrift.linear = 0.04
	// A machine shared with other work.
	shared := usual()
	shared.bursts = 0.3
	type want struct {
		what        string
		find        func(*compare.Comparison) bool
		least, most float64 // rates; 0 and 1 are no targets
	}
	found := func(least float64) want {
		return want{what: "found", find: verdict(compare.Regressed), least: least, most: 1}
	}
	fail := func(most float64) want { return want{what: "gates that fail", find: fails, least: 0, most: most} }
	open := func(most float64) want { return want{what: "inconclusive", find: inconclusive, least: 0, most: most} }
	improves := func(least, most float64) want {
		return want{what: "a metric improved", find: func(c *compare.Comparison) bool { return c.Count(compare.Improved) > 0 }, least: least, most: most}
	}
	for _, c := range []struct {
		name    string
		m       machine
		effects []float64
		first   int // blocks of stage 1 that fit, 0: all
		gates   int
		wants   []want
	}{
		{"no change", usual(), one(1), 0, rare, []want{fail(0.01), improves(0, 0.01), open(1)}},
		{"every metric +2 %", usual(), all(1.02), 0, often, []want{fail(0.065)}},
		{"one metric +5 %", usual(), one(1.05), 0, often, []want{found(0.9)}},
		{"one metric +10 %", usual(), one(1.10), 0, rare, []want{found(0.99)}},
		{"one metric +5 %, noise doubled", noisy, one(1.05), 0, alone, []want{{"passed", verdict(compare.Same), 0, 0.05}, found(0)}},
		{"no change, 4 % linear drift", drifting, one(1), 0, rare, []want{fail(0.01), improves(0, 0.01)}},
		{"one metric +5 %, 4 % linear drift", drifting, one(1.05), 0, often, []want{found(0.9)}},
		{"no change, bursts of other work", shared, one(1), 0, burst, []want{fail(0.01), improves(0, 0.01), open(1)}},
		{"one metric +60 %, bursts of other work", shared, one(1.6), 0, often, []want{found(0.9)}},
		{"no change, 15 % slow processes", uneven(0.15), one(1), 0, rare, []want{fail(0.01), improves(0, 0.01), open(0.15)}},
		{"no change, 30 % slow processes", uneven(0.30), one(1), 0, rare, []want{fail(0.01), improves(0, 0.01), open(1)}},
		{"no change, 15 % slow processes, each metric its own", each(0.15), one(1), 0, rare, []want{fail(0.01), improves(0, 0.01)}},
		{"no change, 30 % slow processes, each metric its own", each(0.30), one(1), 0, alone, []want{fail(0.01), improves(0, 0.01)}},
		{"one metric +5 %, 15 % slow processes", uneven(0.15), one(1.05), 0, often, []want{found(0.85)}},
		{"one metric +10 %, 15 % slow processes", uneven(0.15), one(1.10), 0, often, []want{found(0.85), open(0.15)}},
		{"one metric +10 %, 30 % slow processes", uneven(0.30), one(1.10), 0, often, []want{found(0)}},
		{"one metric +10 %, 15 % slow processes, 4 % linear drift", unevenDrift, one(1.10), 0, often, []want{found(0)}},
		{"no change of one metric alone, 15 % slow processes", uneven(0.15), []float64{0}, 0, alone, []want{fail(0.01), improves(0, 0.01), open(0.15)}},
		{"no change of one metric alone, 30 % slow processes", uneven(0.30), []float64{0}, 0, alone, []want{fail(0.01), improves(0, 0.01), open(1)}},
		{"no change of one metric alone, bursts of other work", shared, []float64{0}, 0, alone, []want{fail(0.01), improves(0, 0.01), open(1)}},
		// Stage 1 passes these, so that each single block has to agree, and no other confirms it.
		{"one metric alone -10 %", usual(), []float64{math.Log(0.9)}, 0, alone, []want{improves(0.95, 1), fail(0.01), open(0.01)}},
		{"one metric alone -10 %, 15 % slow processes", uneven(0.15), []float64{math.Log(0.9)}, 0, alone, []want{improves(0.9, 1), fail(0.01), open(0.15)}},
		{"no change of one metric alone, 30 % slow, time for 3 blocks", uneven(0.30), []float64{0}, 3, alone, []want{fail(0.01), improves(0, 0.01)}},
		{"no change of one metric alone, bursts, time for 3 blocks", shared, []float64{0}, 3, alone, []want{fail(0.01), improves(0, 0.01)}},
	} {
		finds := make([]func(*compare.Comparison) bool, len(c.wants))
		for i, w := range c.wants {
			finds[i] = w.find
		}
		n := c.gates / of.share
		got := gates(t, n, job{m: c.m, effects: c.effects, timeFor: timeFor, first: c.first}, finds...)
		for i, w := range c.wants {
			hits := int(got.hits[i].Load())
			t.Logf("| %s: %s | %d of %d | %s | %d, %d | %.1f |", c.name, w.what, hits, n, target(w.least, w.most), got.second.Load(), got.third.Load(), float64(got.blocks.Load())/float64(n))
			if w.most < 1 && !of.meets(hits, n, w.most, true) || w.least > 0 && !of.meets(hits, n, w.least, false) {
				t.Errorf("%s: %s %d of %d, and the target is %s", c.name, w.what, hits, n, target(w.least, w.most))
			}
		}
	}
}

func target(least, most float64) string {
	switch {
	case least > 0:
		return fmt.Sprintf("at least %g %%", 100*least)
	case most < 1:
		return fmt.Sprintf("at most %g %%", 100*most)
	}
	return "none"
}

// What gate --plan promises from a measurement of the noise holds: gates with as
// many blocks find the slowdown eight times of ten at least, the noise itself being
// estimated from 24 blocks only.
func TestPlannedGates(t *testing.T) { plannedGates(t, someGates) }

func plannedGates(t *testing.T, of scale) {
	const (
		metrics = 4
		plans   = 10
	)
	noisy := usual()
	noisy.shift, noisy.drift, noisy.sample = 2*noisy.shift, 2*noisy.drift, 2*noisy.sample
	shared := usual()
	shared.shift = 0.15
	for _, c := range []struct {
		name      string
		m         machine
		threshold float64
	}{
		{"usual noise", usual(), 0.02},
		{"usual noise", usual(), 0.05},
		{"usual noise", usual(), 0.10},
		{"noise doubled", noisy, 0.05},
		{"15 % slow processes", uneven(0.15), 0.05},
		{"15 % slow processes", uneven(0.15), 0.10},
		{"30 % slow processes", uneven(0.30), 0.10},
		{"processes 15 % apart", shared, 0.30},
	} {
		name, m, threshold := c.name, c.m, c.threshold
		var blocks, found, all float64
		for i := range max(1, plans/of.share) {
			seed := uint64(i)
			aa, err := compare.MeasureNoise(m.stage(24, make([]float64, metrics), nil, rand.New(rand.NewPCG(7, seed))), compare.Options{BlockSeconds: 2})
			if err != nil {
				t.Fatal(err)
			}
			plan := aa.Plan(threshold)
			if back := aa.Smallest(float64(plan.Seconds)); back > threshold*1.0001 || plan.Seconds != 2*plan.Blocks {
				t.Errorf("%s: %+v, and in that time the smallest is %g", name, plan, back)
			}
			effects := make([]float64, metrics)
			effects[2] = math.Log1p(threshold)
			stage := int(plan.Blocks) - compare.Stage1Blocks
			if aa.Metrics[0].Spread > math.Log1p(threshold) || aa.Metrics[0].SlowShare >= 0.2 { // stages 2 and 3 share the time
				stage /= 2
			}
			const each = 10
			j := job{m: m, effects: effects, options: compare.Options{Margins: compare.Margins{Threshold: threshold}, Seed: seed}, timeFor: stage, seeds: seed}
			got := gates(t, each, j, func(c *compare.Comparison) bool { return c.Metrics[2].Verdict == compare.Regressed })
			blocks, found, all = blocks+float64(plan.Blocks), found+float64(got.hits[0].Load()), all+each
		}
		t.Logf("| %s | %g %% | %.0f | %.0f of %.0f |", name, 100*threshold, blocks*10/all, found, all)
		if !of.meets(int(found), int(all), 0.8, false) {
			t.Errorf("%s: a plan for %g %% finds %.0f of %.0f", name, 100*threshold, found, all)
		}
	}
}
