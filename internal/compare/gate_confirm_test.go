package compare_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
)

// spread is one process of metric x on a machine whose processes differ by
// sigma, whatever their own samples say.
func spread(rng *rand.Rand, value, sigma float64) func(int) []compare.MetricData {
	return func(int) []compare.MetricData {
		return process(rng, value*math.Exp(sigma*rng.NormFloat64()), 0.003)(0)
	}
}

// Where processes of one side differ by more than the threshold, stages 2 and 3 decide together on what stage 2 does not
// pass; where they do not, stage 2 decides.
func TestGateConfirmsOnANoisyMachine(t *testing.T) {
	for name, c := range map[string]struct {
		sigma   float64
		third   float64 // how much slower the new side is in stage 3; 0 where there must be none
		verdict compare.Verdict
		exit    int
		reason  string
	}{
		"quiet":               {sigma: 0.01, verdict: compare.Regressed, exit: 1},
		"found again":         {sigma: 0.15, third: 2, verdict: compare.Regressed, exit: 1},
		"not found again":     {sigma: 0.15, third: 0.9, verdict: compare.Inconclusive, exit: 3, reason: "stages 2 and 3 contradict each other"},
		"the other way about": {sigma: 0.15, third: 0.5, verdict: compare.Inconclusive, exit: 3, reason: "the data allow anything from"},
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(72, 1))
			g := compare.NewGate(compare.Options{})
			if _, err := g.Stage3(nil); !errors.Is(err, gpuprof.ErrInput) {
				t.Errorf("stage 3 before the others: %v", err)
			}
			slower := 1.045 // not beyond doubt at stage 1
			if c.third > 0 {
				slower = 1.25
			}
			blocks := func(n int, slower float64) []compare.Block {
				return blocksOf(n, spread(rng, 1, c.sigma), spread(rng, slower, c.sigma))
			}
			stage1(t, g, blocks(compare.Stage1Blocks, slower))
			got := stage2(t, g, blocks(compare.Stage2Blocks, 2*slower/1.25))
			if doubt := len(g.Doubtful()) > 0; doubt != (c.third > 0) {
				t.Fatalf("doubtful: %v", g.Doubtful())
			}
			if c.third > 0 {
				m := metric(t, got, "x")
				if got.ExitCode != 3 || !strings.Contains(m.Reason, "stage 3 has not been measured") || !strings.Contains(strings.Join(got.Next, "\n"), "--budget") {
					t.Errorf("after stage 2: exit %d, %q, next %q", got.ExitCode, m.Reason, got.Next)
				}
				third, err := g.Stage3(blocks(compare.Stage2Blocks, c.third))
				if err != nil {
					t.Fatal(err)
				}
				got = throughJSON(t, third)
				m = metric(t, got, "x")
				if m.Stage1 == nil || len(m.Stage1.Samples.Old) != compare.Stage1Blocks || m.Stage2 == nil || m.Stage2.Ratio < 1.5 || len(m.Stage2.Samples.New) != compare.Stage2Blocks {
					t.Errorf("evidence of the stages before: %+v, %+v", m.Stage1, m.Stage2)
				}
				stages := map[int]int{}
				for _, turn := range got.Order {
					stages[turn.Stage]++
				}
				if got.Stages != 3 || stages[1] != 2*compare.Stage1Blocks || stages[2] != 2*compare.Stage2Blocks || stages[3] != 2*compare.Stage2Blocks {
					t.Errorf("%d stages, turns %v", got.Stages, stages)
				}
			}
			if m := metric(t, got, "x"); got.Verdict != c.verdict || got.ExitCode != c.exit || !strings.Contains(m.Reason, c.reason) {
				t.Errorf("%s, exit %d, %s because %q; want %s, %d", got.Verdict, got.ExitCode, m.Verdict, m.Reason, c.verdict, c.exit)
			}
		})
	}
}
