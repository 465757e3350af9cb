package judge

import (
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/compare"
)

// timedSides is a benchmark of two sides with a clock that moves as long as they take.
type timedSides struct {
	now      time.Time
	old, new float64 // seconds a process takes, and what it reports
	spread   float64
	rng      *rand.Rand
	blocks   int
}

func (m *timedSides) block(bFirst bool) (compare.Block, error) {
	m.blocks++
	side := func(name string, takes float64) *compare.Result {
		m.now = m.now.Add(time.Duration(takes * float64(time.Second)))
		run := make([]float64, 10)
		process := m.spread * m.rng.NormFloat64()
		for i := range run {
			run[i] = takes * (1 + process + 0.005*m.rng.NormFloat64())
		}
		return &compare.Result{Source: name, Status: gpuprof.Complete, Metrics: []compare.MetricData{{Metric: compare.Metric{Name: "time", Unit: "s"}, Runs: [][]float64{run}}}}
	}
	return compare.Block{A: side("old", m.old), B: side("new", m.new), BFirst: bFirst}, nil
}

func (m *timedSides) gate(t *testing.T, budget time.Duration, o compare.Options) *compare.Comparison {
	t.Helper()
	m.now, m.rng = time.Unix(1_800_000_000, 0), rand.New(rand.NewPCG(1, 2))
	if m.spread == 0 {
		m.spread = 0.01
	}
	run := &BlockRun{App: &cli.App{Tables: &cli.Tables{}, Ctx: t.Context(), Stdout: io.Discard, Stderr: io.Discard}, Source: m, Clock: func() time.Time { return m.now }, Began: m.now, Budget: budget,
		Check: func(b compare.Block) error { return CouldWork(b, o, nil) }}
	c, counted, err := run.Judge(o)
	if err != nil {
		t.Fatal(err)
	}
	if len(counted) != m.blocks || len(c.Order) != 2*m.blocks {
		t.Errorf("%d blocks measured, %d counted, %d turns", m.blocks, len(counted), len(c.Order))
	}
	if spent := m.now.Sub(run.Began); spent > budget && m.blocks > 1 { // one block is always measured
		t.Errorf("%s spent of %s", spent, budget)
	}
	return c
}

// A slowdown beyond doubt is found in the time there is, and a size of stage 2
// that suits the time and the noise finds what is not beyond doubt.
func TestGateWithinItsBudget(t *testing.T) {
	for name, c := range map[string]struct {
		timedSides
		budget          time.Duration
		exit, stages    int
		fewest, most    int // blocks
		next            string
		alsoWithoutNext bool
	}{
		"5x, 1 s to 5 s, 20 s":           {timedSides{old: 1, new: 5}, 20 * time.Second, 1, 1, 3, 4, "", true},
		"5x, 0.2 s to 1 s, 20 s":         {timedSides{old: 0.2, new: 1}, 20 * time.Second, 1, 1, 6, 6, "", true},
		"60 s a process, twice as slow":  {timedSides{old: 60, new: 120}, 10 * time.Minute, 1, 1, 3, 4, "", true},
		"20 s a process, +30 %":          {timedSides{old: 20, new: 26}, 10 * time.Minute, 1, 1, 6, 6, "", true},
		"20 s a process, the same":       {timedSides{old: 20, new: 20}, 10 * time.Minute, 0, 1, 6, 6, "", true},
		"22 s a process, +4.5 %":         {timedSides{old: 22, new: 23, spread: 0.01}, 10 * time.Minute, 1, 2, 12, 13, "", true},
		"a noisy machine with time":      {timedSides{old: 1, new: 1.1, spread: 0.04}, 10 * time.Minute, 1, 2, 30, 400, "", true},
		"a noisy machine without":        {timedSides{old: 1, new: 1.0, spread: 0.04}, 30 * time.Second, 3, 2, 12, 16, "runs per side", false},
		"too little for three blocks":    {timedSides{old: 10, new: 50}, 20 * time.Second, 3, 1, 1, 1, "give --budget", false},
		"three blocks that do not agree": {timedSides{old: 10, new: 10}, 60 * time.Second, 3, 1, 3, 3, "give --budget", false},
	} {
		t.Run(name, func(t *testing.T) {
			m := c.timedSides
			got := m.gate(t, c.budget, compare.Options{Seed: 1})
			if got.ExitCode != c.exit || got.Stages != c.stages || m.blocks < c.fewest || m.blocks > c.most {
				t.Errorf("exit %d after %d stages and %d blocks, want %d, %d, %d to %d: %+v", got.ExitCode, got.Stages, m.blocks, c.exit, c.stages, c.fewest, c.most, got.Metrics[0])
			}
			if next := strings.Join(got.Next, "\n"); !strings.Contains(next, c.next) || c.alsoWithoutNext && next != "" || strings.Count(next, "--budget") > 1 {
				t.Errorf("next: %q", next)
			}
		})
	}
}

// An improvement that passed stage 1 is measured in fresh blocks, and without time for them the budget is proposed.
func TestGateConfirmsAnImprovement(t *testing.T) {
	for name, c := range map[string]struct {
		budget  time.Duration
		verdict compare.Verdict
		stages  int
		next    string
	}{
		"with time":    {20 * time.Minute, compare.Improved, 2, ""},
		"without time": {5 * time.Minute, compare.Pass, 1, "give --budget"},
	} {
		t.Run(name, func(t *testing.T) {
			m := timedSides{old: 20, new: 19.1, spread: 0.005}
			got := m.gate(t, c.budget, compare.Options{Seed: 1})
			if got.Verdict != c.verdict || got.Stages != c.stages || got.ExitCode != 0 {
				t.Errorf("%s, exit %d after %d stages: %+v", got.Verdict, got.ExitCode, got.Stages, got.Metrics[0])
			}
			if next := strings.Join(got.Next, "\n"); !strings.Contains(next, c.next) || c.next == "" && next != "" {
				t.Errorf("next: %q", next)
			}
		})
	}
}

// Runs that would be needed are said with the time they take.
func TestRunsNeededHaveHours(t *testing.T) {
	m := timedSides{old: 30, new: 30.5, spread: 0.2}
	next := strings.Join(m.gate(t, 30*time.Minute, compare.Options{Seed: 1}).Next, "\n")
	if !strings.Contains(next, "runs per side would be needed") || !strings.Contains(next, " h)") {
		t.Errorf("next: %q", next)
	}
}
