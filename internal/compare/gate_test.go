package compare_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
)

// blocksOf measures n blocks: old and new make the metrics of one process.
func blocksOf(n int, old, now func(k int) []compare.MetricData) []compare.Block {
	order := compare.Order(n, 1)
	out := make([]compare.Block, n)
	for k := range out {
		out[k] = compare.Block{A: result("A", old(k)...), B: result("B", now(k)...), BFirst: order[k]}
	}
	return out
}

// process is one process of metric x.
func process(rng *rand.Rand, value, sigma float64) func(int) []compare.MetricData {
	return func(int) []compare.MetricData {
		return []compare.MetricData{timed("x", noisy(rng, 1, 10, value, sigma)), counted("launches", 7)}
	}
}

func stage1(t *testing.T, g *compare.Gate, blocks []compare.Block) *compare.Comparison {
	t.Helper()
	c, err := g.Stage1(blocks)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func stage2(t *testing.T, g *compare.Gate, blocks []compare.Block) *compare.Comparison {
	t.Helper()
	c, err := g.Stage2(blocks)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestGateStages(t *testing.T) {
	for name, c := range map[string]struct {
		value     float64 // of the new side
		sigma     float64
		escalated bool
		verdict   compare.Verdict
		exit      int
	}{
		"unchanged": {1, 0.003, false, compare.Pass, 0},
		"+4.5 %":    {1.045, 0.003, true, compare.Regressed, 1},
		"+10 %":     {1.1, 0.003, false, compare.Regressed, 1}, // beyond doubt
		"-10 %":     {0.9, 0.003, false, compare.Improved, 0},
		"wild":      {1, 0.3, true, compare.Inconclusive, 3},
	} {
		rng := rand.New(rand.NewPCG(71, 1))
		quiet, now := process(rng, 1, 0.003), process(rng, c.value, c.sigma)
		g := compare.NewGate(compare.Options{})
		one := stage1(t, g, blocksOf(compare.Stage1Blocks, quiet, now))
		if got := len(g.Escalated()) > 0; got != c.escalated || one.Stages != 1 {
			t.Errorf("%s: escalated %v", name, g.Escalated())
			continue
		}
		if metric(t, one, "launches").Verdict != compare.Same {
			t.Errorf("%s: counters are settled at once", name)
		}
		final := one
		if c.escalated {
			m := metric(t, one, "x")
			if one.ExitCode != 3 || m.Verdict != compare.Inconclusive || !strings.Contains(m.Reason, "stage 2") || len(one.Next) == 0 {
				t.Errorf("%s: before stage 2: exit %d, %+v", name, one.ExitCode, m)
			}
			final = stage2(t, g, blocksOf(compare.Stage2Blocks, quiet, now))
			m = metric(t, final, "x")
			if final.Stages != 2 || !m.Escalated || m.Stage1 == nil || m.Stage1.Runs != [2]int{6, 6} || m.Runs != [2]int{12, 12} || len(final.Metrics) != 2 {
				t.Errorf("%s: after stage 2: %+v", name, m)
			}
		}
		if final.Verdict != c.verdict || final.ExitCode != c.exit || final.Kind != "gate" || final.SessionSpread != 0 {
			t.Errorf("%s: %s exit %d: %+v", name, final.Verdict, final.ExitCode, final.Metrics)
		}
		if m := metric(t, final, "x"); m.Verdict == compare.Inconclusive && (m.MDE < 0.05 || len(final.Next) == 0 || !strings.Contains(final.Next[0], "runs")) {
			t.Errorf("%s: MDE %v, next %v", name, m.MDE, final.Next)
		}
	}
}

// Stage 2 decides on its own data: an excursion of stage 1 must not show in it.
func TestStagesAreNotPooled(t *testing.T) {
	rng := rand.New(rand.NewPCG(72, 1))
	same, slow := process(rng, 1, 0.003), process(rng, 1.045, 0.003)
	g := compare.NewGate(compare.Options{})
	stage1(t, g, blocksOf(6, same, slow))
	c := stage2(t, g, blocksOf(12, same, same))
	if m := metric(t, c, "x"); m.Verdict != compare.Same || math.Abs(float64(m.Ratio)-1) > 0.01 || m.Stage1.Ratio < 1.04 {
		t.Errorf("%+v", m)
	}
}

func TestStage2Gaps(t *testing.T) {
	rng := rand.New(rand.NewPCG(73, 1))
	same, slow := process(rng, 1, 0.003), process(rng, 1.045, 0.003)
	without := func(int) []compare.MetricData { return []compare.MetricData{counted("launches", 8)} }
	g := compare.NewGate(compare.Options{})
	if _, err := g.Stage2(blocksOf(12, same, same)); !errors.Is(err, gpuprof.ErrInput) {
		t.Errorf("stage 2 first: %v", err)
	}
	stage1(t, g, blocksOf(6, same, slow))
	c := stage2(t, g, blocksOf(12, without, without))
	if m := metric(t, c, "x"); m.Verdict != compare.Inconclusive || !strings.Contains(m.Reason, "stage 2 did not measure it") {
		t.Errorf("%+v", m)
	}
	// A counter that changes only now counts.
	g = compare.NewGate(compare.Options{})
	stage1(t, g, blocksOf(6, same, slow))
	c = stage2(t, g, blocksOf(12, same, func(k int) []compare.MetricData {
		return append([]compare.MetricData{counted("launches", 9)}, slow(k)[0])
	}))
	if metric(t, c, "launches").Verdict != compare.Regressed || metric(t, c, "x").Verdict != compare.Regressed {
		t.Errorf("%+v", c.Metrics)
	}
	for _, bad := range [][]compare.Block{nil, {{A: result("A")}}} {
		if _, err := compare.NewGate(compare.Options{}).Stage1(bad); !errors.Is(err, gpuprof.ErrInput) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func TestGateRules(t *testing.T) {
	rng := rand.New(rand.NewPCG(74, 1))
	same := process(rng, 1, 0.002)
	gate := func(blocks []compare.Block) *compare.Comparison {
		return stage1(t, compare.NewGate(compare.Options{}), blocks)
	}
	if c := gate(blocksOf(5, same, same)); c.ExitCode != 3 || !strings.Contains(metric(t, c, "x").Reason, "5 runs") {
		t.Errorf("five blocks: exit %d %q", c.ExitCode, metric(t, c, "x").Reason)
	}
	long := func(int) []compare.MetricData { return []compare.MetricData{timed("x", noisy(rng, 1, 30, 1, 0.002))} }
	if c := gate(blocksOf(1, long, long)); c.ExitCode != 3 {
		t.Errorf("one process of 30 samples: exit %d", c.ExitCode)
	}
	gap := blocksOf(6, same, same)
	gap[2].B.Metrics = gap[2].B.Metrics[1:]
	if c := gate(gap); c.ExitCode != 3 || !strings.Contains(metric(t, c, "x").Reason, "run 3 of the new side did not measure it") {
		t.Errorf("a gap: exit %d %q", c.ExitCode, metric(t, c, "x").Reason)
	}
	hot := blocksOf(6, same, same)
	for _, b := range hot {
		b.B.RunInfo = []compare.RunInfo{{Flagged: 0.5, Codes: []string{"throttled"}}}
	}
	if c := gate(hot); c.ExitCode != 3 || !strings.Contains(metric(t, c, "x").Reason, "throttled") {
		t.Errorf("throttled on one side: exit %d", c.ExitCode)
	}
	changed := blocksOf(6, same, same)
	for k, b := range changed {
		b.A.Env, b.B.Env = map[string]string{"driver": "1"}, map[string]string{"driver": "1"}
		if k == 4 {
			b.B.Env["driver"] = "2"
		}
	}
	if c := gate(changed); c.ExitCode != 3 || len(c.Differences) != 1 || c.Differences[0].Field != "driver" {
		t.Errorf("a driver changed in the middle: exit %d %v", c.ExitCode, c.Differences)
	}
	crashed := blocksOf(6, same, same)
	crashed[1].B.Failed = []string{"y: crashed"}
	if c := gate(crashed); c.ExitCode != 4 || !slices.Contains(c.Failed, "B: y: crashed") {
		t.Errorf("a crash: exit %d %v", c.ExitCode, c.Failed)
	}
	// A counter that a side counts differently each time is none.
	odd := func(k int) []compare.MetricData { return []compare.MetricData{counted("launches", float64(7+k%2))} }
	if c := gate(blocksOf(6, odd, odd)); c.ExitCode != 3 || !strings.Contains(c.Metrics[0].Reason, "not exact") {
		t.Errorf("unsteady counter: exit %d %+v", c.ExitCode, c.Metrics[0])
	}
	// Several lines of one process are one run.
	lines := func(int) []compare.MetricData { return []compare.MetricData{timed("x", noisy(rng, 5, 1, 1, 0.002))} }
	if m := metric(t, gate(blocksOf(6, lines, lines)), "x"); m.Runs != [2]int{6, 6} || m.Verdict != compare.Same {
		t.Errorf("%+v", m)
	}
	higher := func(v float64) func(int) []compare.MetricData {
		return func(int) []compare.MetricData {
			return []compare.MetricData{{Metric: compare.Metric{Name: "rate", Unit: "1/s", HigherIsBetter: true}, Runs: noisy(rng, 1, 10, v, 0.002)}}
		}
	}
	g := compare.NewGate(compare.Options{})
	c := stage1(t, g, blocksOf(6, higher(100), higher(80)))
	if m := metric(t, c, "rate"); m.Verdict != compare.Regressed || m.Ratio > 0.85 || math.Abs(m.Worse()-0.25) > 0.01 || len(g.Escalated()) > 0 {
		t.Errorf("a rate far lower: %+v", m)
	}
	g = compare.NewGate(compare.Options{})
	stage1(t, g, blocksOf(6, higher(100), higher(95.8)))
	c = stage2(t, g, blocksOf(12, higher(100), higher(95.8)))
	if m := metric(t, c, "rate"); m.Verdict != compare.Regressed || m.Ratio > 0.97 || math.Abs(m.Worse()-0.044) > 0.01 {
		t.Errorf("a lower rate: %+v", m)
	}
}

// All of A, then all of B, in blocks that the caller says were so taken cannot
// happen; but blocks in which A is always first can, and a drift inside them.
func TestGateAlwaysSameOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(75, 1))
	drifting := func(mirrored bool) *compare.Comparison {
		order := make([]bool, 6)
		if mirrored {
			order = compare.Order(6, 1)
		}
		var blocks []compare.Block
		for k, first := range order {
			at := func(place int) []compare.MetricData {
				return []compare.MetricData{timed("x", noisy(rng, 1, 10, math.Exp(0.03*float64(place)), 0.001))}
			}
			b := compare.Block{BFirst: first}
			if first {
				b.A, b.B = result("A", at(2*k+1)...), result("B", at(2*k)...)
			} else {
				b.A, b.B = result("A", at(2*k)...), result("B", at(2*k+1)...)
			}
			blocks = append(blocks, b)
		}
		return stage1(t, compare.NewGate(compare.Options{}), blocks)
	}
	if m := metric(t, drifting(false), "x"); m.Verdict != compare.Inconclusive || !strings.Contains(m.Reason, "drifts") {
		t.Errorf("A always first: %+v", m)
	}
	if m := metric(t, drifting(true), "x"); strings.Contains(m.Reason, "drifts") {
		t.Errorf("mirrored: %+v", m)
	}
}

func TestGateIsSymmetric(t *testing.T) {
	rng := rand.New(rand.NewPCG(76, 1))
	for range 30 {
		blocks := blocksOf(6, process(rng, 1, 0.01), process(rng, math.Exp(0.1*rng.NormFloat64()), 0.01))
		swapped, milli := slices.Clone(blocks), slices.Clone(blocks)
		for i, b := range blocks {
			swapped[i] = compare.Block{A: b.B, B: b.A, BFirst: !b.BFirst}
			kilo := func(r *compare.Result) *compare.Result {
				m := r.Metrics[0]
				m.Runs = scaledRuns(m.Runs, 1000)
				return result("x", m, r.Metrics[1])
			}
			milli[i] = compare.Block{A: kilo(b.A), B: kilo(b.B), BFirst: b.BFirst}
		}
		judge := func(b []compare.Block) (compare.MetricResult, []byte) {
			c := stage1(t, compare.NewGate(compare.Options{Seed: 3}), b)
			text, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			return metric(t, c, "x"), text
		}
		m, text := judge(blocks)
		back, _ := judge(swapped)
		big, _ := judge(milli)
		if math.Abs(float64(m.Ratio*back.Ratio)-1) > 1e-12 || math.Abs(float64(m.CI95[0]*back.CI95[1])-1) > 1e-12 {
			t.Errorf("%+v, swapped %+v", m, back)
		}
		if big.Verdict != m.Verdict || big.Escalated != m.Escalated || math.Abs(float64(big.P/m.P)-1) > 1e-6 {
			t.Errorf("%+v, in milliseconds %+v", m, big)
		}
		if _, again := judge(blocks); !bytes.Equal(text, again) {
			t.Error("the same blocks gave other bytes")
		}
	}
}

// A gate that stage 1 ends says so of what it leaves undecided, and asks for no
// more time for it.
func TestGateEndsEarly(t *testing.T) {
	rng := rand.New(rand.NewPCG(77, 1))
	sides := func(n int, x float64) []compare.Block {
		at := func(x float64) func(int) []compare.MetricData {
			return func(int) []compare.MetricData {
				return []compare.MetricData{timed("x", noisy(rng, 1, 10, x, 0.003)), timed("y", noisy(rng, 1, 10, 1, 0.3)), counted("launches", 7)}
			}
		}
		return blocksOf(n, at(1), at(x))
	}
	for n, exit := range map[int]int{2: 3, 3: 1, 6: 1} {
		g := compare.NewGate(compare.Options{})
		c := stage1(t, g, sides(n, 1.5))
		y := metric(t, c, "y")
		if c.ExitCode != exit || len(g.Escalated()) > 0 || y.Verdict != compare.Inconclusive {
			t.Errorf("%d blocks: exit %d, escalated %v, %+v", n, c.ExitCode, g.Escalated(), c.Metrics)
		}
		if n == 6 && (!strings.Contains(y.Reason, "the gate ended when stage 1 had found x slower") || len(c.Next) > 0) {
			t.Errorf("y: %q, next %q", y.Reason, c.Next)
		}
	}
	// Two blocks of six that do not agree, or one that is no slower, are not beyond doubt.
	g := compare.NewGate(compare.Options{})
	blocks := sides(6, 1.5)
	blocks[3] = sides(1, 1)[0]
	if stage1(t, g, blocks); !slices.Contains(g.Escalated(), "x") {
		t.Errorf("one block disagrees: escalated %v", g.Escalated())
	}
}

// The total of a result is judged, and its parts explain it, unless they are named.
func TestGateJudgesTheTotal(t *testing.T) {
	rng := rand.New(rand.NewPCG(78, 1))
	sides := func(step, part float64) []compare.Block {
		at := func(step, part float64) func(int) []compare.MetricData {
			return func(int) []compare.MetricData {
				return []compare.MetricData{timed("step", noisy(rng, 1, 10, step, 0.003)), timed("step/gemm", noisy(rng, 1, 10, part, 0.003)),
					timed("energy_step", noisy(rng, 1, 10, 1, 0.3)), counted("launches", 7)}
			}
		}
		blocks := blocksOf(6, at(1, 0.3), at(step, part))
		for _, b := range blocks {
			for _, r := range []*compare.Result{b.A, b.B} {
				r.Total, r.Stages = "step", []string{"step/gemm"}
			}
		}
		return blocks
	}
	for name, c := range map[string]struct {
		step, part float64
		o          compare.Options
		exit       int
		part1      compare.Verdict
	}{
		"a part alone":            {1, 0.36, compare.Options{}, 0, compare.Explains},
		"the total":               {1.2, 0.5, compare.Options{}, 1, compare.Explains},
		"a part that is named":    {1, 0.36, compare.Options{Only: []string{"step/*"}}, 1, compare.Regressed},
		"a part with a threshold": {1, 0.36, compare.Options{Metrics: []compare.MarginsFor{{Metric: "step/gemm", Margins: compare.Margins{Threshold: 0.1}}}}, 1, compare.Regressed},
	} {
		g := compare.NewGate(c.o)
		got := stage1(t, g, sides(c.step, c.part))
		part := metric(t, got, "step/gemm")
		if got.ExitCode != c.exit || part.Verdict != c.part1 || math.Abs(float64(part.Ratio)-c.part/0.3) > 0.02 || math.IsNaN(float64(part.CI95[0])) || len(g.Escalated()) > 0 {
			t.Errorf("%s: exit %d, escalated %v, %+v", name, got.ExitCode, g.Escalated(), part)
		}
	}
	blocks := sides(1, 0.3)
	for _, b := range blocks {
		b.B.Metrics[3] = counted("launches", 8)
	}
	if got := stage1(t, compare.NewGate(compare.Options{}), blocks); got.ExitCode != 1 {
		t.Errorf("a counter: exit %d", got.ExitCode)
	}
}
