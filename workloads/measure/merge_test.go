package measure

import (
	"math"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// merged joins made-up processes of one plan.
func merged(t *testing.T, runs ...*gpuprof.Run) *gpuprof.Run {
	t.Helper()
	for _, r := range runs {
		r.Workload, r.Preset = "w", "small"
		if r.Status == "" {
			r.Status = gpuprof.Complete
		}
	}
	m, err := Merge(runs)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// What one process saw of the energy is not the whole run's: a pass that was
// not valid says nothing about the others', and their time counts together.
func TestMergeEnergy(t *testing.T) {
	pass := func(gross, idle, seconds float64, steps int) *gpuprof.Run {
		return &gpuprof.Run{EnergyStep: stats.Summarise("J", []float64{gross, gross}), Energy: &gpuprof.Energy{GrossStepJ: gross, NetStepJ: gpuprof.Number(gross / 2),
			CounterW: 100 * gross, InstantW: gpuprof.Number(101 * gross), IdleW: gpuprof.Number(idle), Seconds: seconds, Updates: 60, Steps: steps, Valid: true}}
	}
	invalid := &gpuprof.Run{Energy: &gpuprof.Energy{GrossStepJ: 9, Seconds: 1, Updates: 3, Steps: 10, Reason: "the counter moved 3 times"}}
	m := merged(t, invalid, pass(1, 20, 1, 100), pass(3, 20, 3, 300))
	want := gpuprof.Energy{GrossStepJ: 2.5, NetStepJ: 1.25, CounterW: 250, InstantW: 252.5, IdleW: 20, Seconds: 4, Updates: 120, Steps: 400, Valid: true}
	if *m.Energy != want || m.EnergyStep.N() != 4 {
		t.Errorf("%+v from %d samples, want %+v from 4", *m.Energy, m.EnergyStep.N(), want)
	}
	if m := merged(t, pass(1, 20, 2, 100), pass(1, math.NaN(), 2, 100)); !math.IsNaN(float64(m.Energy.IdleW)) || m.Energy.CounterW != 100 {
		t.Errorf("a process that does not know the idle power: %+v", *m.Energy)
	}
	if m := merged(t, &gpuprof.Run{}, invalid); m.Energy == nil || m.Energy.Valid || m.Energy.Reason == "" {
		t.Errorf("no valid pass: %+v", m.Energy)
	}
	if m := merged(t, &gpuprof.Run{}, &gpuprof.Run{}); m.Energy != nil {
		t.Errorf("no pass: %+v", m.Energy)
	}
}

func TestMergeLadder(t *testing.T) {
	ladder := func(ratio float64, apart bool) *gpuprof.Run {
		return &gpuprof.Run{Ladder: []gpuprof.Rung{{Probe: probeStages, Over: probeSteps, Ratio: gpuprof.Ratio{Ratio: ratio, CI95: [2]float64{ratio, ratio}}, Apart: apart}}}
	}
	m := merged(t, ladder(1, false), ladder(1.01, false), ladder(1.0201, true), &gpuprof.Run{})
	g := m.Ladder[0]
	if len(m.Ladder) != 1 || math.Abs(g.Ratio.Ratio-1.01) > 1e-9 || g.CI95[0] > 1 || g.CI95[1] < 1.02 || !g.Apart {
		t.Errorf("%+v, want x1.01 with all processes in the interval, and apart", m.Ladder)
	}
	if m := merged(t, &gpuprof.Run{}, ladder(1.02, false)); len(m.Ladder) != 1 || m.Ladder[0].Ratio.Ratio != 1.02 || m.Ladder[0].Apart {
		t.Errorf("one ladder: %+v", m.Ladder)
	}
}

// The example is of an ordinary process, not of the one that was disturbed.
func TestMergeExampleStep(t *testing.T) {
	step := func(s float64, stage string) *gpuprof.Run {
		r := &gpuprof.Run{Step: stats.Summarise("s", []float64{s, s, s})}
		if stage != "" {
			r.ExampleStep = []gpuprof.Span{{Stage: stage}}
		}
		return r
	}
	if m := merged(t, step(9, "disturbed"), step(1, "ordinary"), step(1.1, "other")); m.ExampleStep[0].Stage != "other" {
		t.Errorf("%+v of a step of %g", m.ExampleStep, m.Step.Median)
	}
	if m := merged(t, step(1, ""), step(2, "only")); len(m.ExampleStep) != 1 {
		t.Error("the only example is lost")
	}
}

// Figures that every process measures once are not the first one's.
func TestMergeFigures(t *testing.T) {
	process := func(copied, bound, sample float64) *gpuprof.Run {
		return &gpuprof.Run{Ceilings: gpuprof.Ceilings{CopyBytesPerS: copied, FlopsPerS: 10 - copied}, Input: map[string]any{"make_sample_s": sample, "workers": 1., "shape_s": "many"},
			Stages: []gpuprof.StageResult{{Name: "a", Parent: "step", BoundS: bound}}}
	}
	first := process(4, 3, 9)
	m := merged(t, first, process(8, 2, 1), process(6, 0, 2))
	if m.Ceilings != (gpuprof.Ceilings{CopyBytesPerS: 8, FlopsPerS: 6}) || m.Stages[0].BoundS != 2 {
		t.Errorf("%+v, bound %g", m.Ceilings, m.Stages[0].BoundS)
	}
	if m.Input["make_sample_s"] != 2. || m.Input["workers"] != 1. || m.Input["shape_s"] != "many" || first.Input["make_sample_s"] != 9. {
		t.Errorf("%v, and the first process's %v", m.Input, first.Input)
	}
}

// A check that failed is seen, whichever process made it.
func TestMergeFailedCheck(t *testing.T) {
	failed := &gpuprof.Run{Status: gpuprof.Invalid, Reason: "check failed", Checks: []gpuprof.Check{{Stage: "a"}}}
	for _, status := range []gpuprof.Status{gpuprof.Complete, gpuprof.Partial} {
		m := merged(t, &gpuprof.Run{Status: status, Checks: []gpuprof.Check{{Stage: "a", Pass: true}}}, failed)
		if m.Status != gpuprof.Invalid || m.Reason != "process 2: check failed" || !slices.Equal(m.Failed(), failed.Checks) {
			t.Errorf("after a %s process: %s, %q, %+v", status, m.Status, m.Reason, m.Checks)
		}
	}
}
