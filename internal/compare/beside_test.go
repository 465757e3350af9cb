package compare

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
)

// besideBlocks are blocks of a program whose wall time varies by wall, and whose CPU time, 10 % longer on the new side,
// varies by 0.1 %.
func besideBlocks(n int, wall float64) []Block {
	rng := rand.New(rand.NewPCG(3, 4))
	side := func(cpu, wall float64) *Result {
		return &Result{Source: "x", Status: gpuprof.Complete, Metrics: []MetricData{
			{Metric: Metric{Name: "wall", Unit: "s"}, Runs: [][]float64{{1 + wall}}},
			{Metric: Metric{Name: "cpu", Unit: "s", Beside: true}, Runs: [][]float64{{cpu * (1 + 0.001*rng.NormFloat64())}}},
		}}
	}
	var out []Block
	for i := range n {
		sign := [2]float64{-wall, wall}
		out = append(out, Block{A: side(1, sign[i%2]), B: side(1.1, sign[i/2%2]), BFirst: i%2 == 1})
	}
	return out
}

// CPU time is printed with wall time, judged if --metric names it, and proposed if wall time cannot be judged.
func TestBesideIsJudgedWhenNamed(t *testing.T) {
	c, err := NewGate(Options{}).Stage1(besideBlocks(Stage1Blocks, 0.2))
	if err != nil {
		t.Fatal(err)
	}
	if c.Metrics[1].Name != "cpu" || c.Metrics[1].Verdict != Explains || c.Verdict != Inconclusive {
		t.Errorf("%s: %+v", c.Verdict, c.Metrics)
	}
	if next := strings.Join(c.Next, "\n"); !strings.Contains(next, "judge cpu with --metric cpu: it could show a change of ") {
		t.Errorf("cpu is not offered:\n%s", next)
	}
	if c, err = NewGate(Options{Only: []string{"cpu"}}).Stage1(besideBlocks(Stage1Blocks, 0.2)); err != nil || c.Verdict != Regressed {
		t.Errorf("%v, %+v", err, c)
	}
	if c, err = NewGate(Options{}).Stage1(besideBlocks(Stage1Blocks, 0.001)); err != nil || c.Verdict == Regressed || strings.Contains(strings.Join(c.Next, "\n"), "cpu") {
		t.Errorf("%v, %+v", err, c)
	}
}
