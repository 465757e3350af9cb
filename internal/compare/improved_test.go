package compare_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/compare"
)

// stageOf is what a stage of a gate measures: metric x with this factor between the
// sides and this scatter of processes, metric other with its own factor.
type stageOf struct {
	blocks   int
	x, sigma float64
	other    float64
}

func (s stageOf) measure(rng *rand.Rand) []compare.Block {
	at := func(x, other float64) func(int) []compare.MetricData {
		return func(int) []compare.MetricData {
			return []compare.MetricData{spread(rng, x, s.sigma)(0)[0], timed("other", noisy(rng, 1, 10, other, 0.003))}
		}
	}
	return blocksOf(s.blocks, at(1, 1), at(s.x, s.other))
}

// A gate gives improved only to changes beyond doubt, or found again in fresh blocks. A change that is not confirmed
// passes with a sentence, and Unconfirmed names it while fresh blocks can confirm it.
func TestGateConfirmsImprovements(t *testing.T) {
	const few, later, unsure = 3, compare.Stage2Blocks, 1.045
	for name, c := range map[string]struct {
		stages  []stageOf
		up      []string // what needs stage 2
		verdict compare.Verdict
		exit    int
		reason  string
		seen    int  // stages before that the metric's evidence shows
		open    bool // fresh blocks can confirm x after the last stage
	}{
		"beyond doubt":           {stages: []stageOf{{6, 0.9, 0.003, 1}}, verdict: compare.Improved, reason: "all 6 blocks of stage 1 agree"},
		"three blocks":           {stages: []stageOf{{few, 0.5, 0.003, 0.5}}, verdict: compare.Improved, reason: "all 3 blocks"},
		"two blocks":             {stages: []stageOf{{2, 0.5, 0.003, 0.5}}, verdict: compare.Inconclusive, exit: 3, reason: "2 runs"},
		"within the threshold":   {stages: []stageOf{{6, 0.96, 0.003, 1}}, verdict: compare.Same, reason: "faster in stage 1, but not confirmed", open: true},
		"confirmed alone":        {stages: []stageOf{{6, 0.96, 0.003, 1}, {later, 0.96, 0.003, 1}}, verdict: compare.Improved, seen: 1},
		"not confirmed alone":    {stages: []stageOf{{6, 0.96, 0.003, 1}, {later, 1, 0.003, 1}}, verdict: compare.Same, reason: "stage 2 did not find it again"},
		"found again":            {stages: []stageOf{{6, 0.96, 0.003, unsure}, {later, 0.96, 0.003, 1}}, up: []string{"other"}, verdict: compare.Improved, seen: 1},
		"not found again":        {stages: []stageOf{{6, 0.96, 0.003, unsure}, {later, 1, 0.003, 1}}, up: []string{"other"}, verdict: compare.Same, reason: "stage 2 did not find it again"},
		"slower when asked":      {stages: []stageOf{{6, 0.96, 0.003, unsure}, {later, 1.5, 0.003, 1}}, up: []string{"other"}, verdict: compare.Inconclusive, exit: 3, reason: "faster in stage 1 and slower in the fresh blocks of stage 2", seen: 1},
		"slower alone":           {stages: []stageOf{{6, 0.96, 0.003, 1}, {later, 1.02, 0.003, 1}}, verdict: compare.Inconclusive, exit: 3, reason: "the program or the machine changed", seen: 1},
		"open, then faster":      {stages: []stageOf{{6, 1.045, 0.003, 1}, {later, 0.9, 0.003, 1}}, up: []string{"x"}, verdict: compare.Improved, seen: 1},
		"scattered":              {stages: []stageOf{{6, 1, 0.2, 1}, {later, 0.4, 0.2, 1}}, up: []string{"x"}, verdict: compare.Same, reason: "faster in stage 2, but processes of one side differ", open: true},
		"scattered, found again": {stages: []stageOf{{6, 1, 0.2, 1}, {later, 0.4, 0.2, 1}, {later, 0.4, 0.2, 1}}, up: []string{"x"}, verdict: compare.Improved, seen: 2},
		"scattered, found once":  {stages: []stageOf{{6, 1, 0.2, 1}, {later, 0.4, 0.2, 1}, {later, 1, 0.2, 1}}, up: []string{"x"}, verdict: compare.Same, reason: "stage 3 did not find it again"},
		"beside a sure slowdown": {stages: []stageOf{{6, 0.96, 0.003, 1.5}}, verdict: compare.Same, exit: 1, reason: "not confirmed"},
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(79, 1))
			g := compare.NewGate(compare.Options{})
			got := stage1(t, g, c.stages[0].measure(rng))
			if up := g.Escalated(); !slices.Equal(up, c.up) {
				t.Fatalf("escalated %v, want %v", up, c.up)
			}
			if len(c.stages) > 1 {
				if got.Count(compare.Improved) > 0 {
					t.Errorf("improved before it was found again: %+v", metric(t, got, "x"))
				}
				got = stage2(t, g, c.stages[1].measure(rng))
			}
			if len(c.stages) > 2 {
				if got.Count(compare.Improved) > 0 {
					t.Errorf("improved before it was found twice: %+v", metric(t, got, "x"))
				}
				var err error
				if got, err = g.Stage3(c.stages[2].measure(rng)); err != nil {
					t.Fatal(err)
				}
			}
			m := metric(t, got, "x")
			if m.Verdict != c.verdict || got.ExitCode != c.exit || !strings.Contains(m.Reason, c.reason) || c.reason == "" && m.Reason != "" {
				t.Errorf("%s because %q, exit %d, %+v; want %s, %d", m.Verdict, m.Reason, got.ExitCode, got.Metrics, c.verdict, c.exit)
			}
			if (m.Stage1 != nil) != (c.seen > 0) && m.Reason == "" {
				t.Errorf("evidence of stage 1: %+v", m.Stage1)
			}
			if open := slices.Contains(g.Unconfirmed(), "x"); open != c.open || open != m.Unconfirmed() && c.exit == 0 {
				t.Errorf("the gate can confirm %v, and the metric is unconfirmed: %v; want %v", g.Unconfirmed(), m.Unconfirmed(), c.open)
			}
			if len(g.Doubtful()) > 0 || c.exit == 0 && len(got.Next) > 0 {
				t.Errorf("doubtful %v, next %q", g.Doubtful(), got.Next)
			}
		})
	}
}

// Where processes differ by more than the threshold, an improvement that stage 2
// found must be found by stage 3 as well, which a slowdown needs here.
func TestGateConfirmsImprovementsTwice(t *testing.T) {
	for third, want := range map[float64]compare.Verdict{0.4: compare.Improved, 1: compare.Same, 2.5: compare.Inconclusive} {
		rng := rand.New(rand.NewPCG(80, 1))
		measure := func(n int, slow, fast float64) []compare.Block {
			at := func(slow, fast float64) func(int) []compare.MetricData {
				return func(int) []compare.MetricData {
					slower, faster := spread(rng, slow, 0.15)(0)[0], spread(rng, fast, 0.15)(0)[0]
					slower.Name = "slower"
					return []compare.MetricData{faster, slower}
				}
			}
			return blocksOf(n, at(1, 1), at(slow, fast))
		}
		g := compare.NewGate(compare.Options{})
		stage1(t, g, measure(6, 1.25, 1.02))
		if c := stage2(t, g, measure(12, 2, 0.4)); c.Count(compare.Improved) > 0 || !slices.Equal(g.Doubtful(), []string{"slower"}) {
			t.Fatalf("after stage 2: doubtful %v, %+v", g.Doubtful(), c.Metrics)
		}
		c, err := g.Stage3(measure(12, 2, third))
		if err != nil {
			t.Fatal(err)
		}
		m := metric(t, c, "x")
		if m.Verdict != want || c.ExitCode != 1 || (want == compare.Same) != strings.Contains(m.Reason, "stage 3 did not find it again") {
			t.Errorf("%g in stage 3: exit %d, %+v", third, c.ExitCode, m)
		}
	}
}
