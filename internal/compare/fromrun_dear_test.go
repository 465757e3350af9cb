package compare_test

import (
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// A file from before the probe's limit held on the host has the probe in its
// step. Compared with a run of the same steps that has not, the program did not
// become faster.
func TestOldProbedStepIsNotCompared(t *testing.T) {
	old := &gpuprof.Run{Workload: "w", Device: gpuprof.Env{Kind: "host"}, Overhead: &gpuprof.Ratio{Ratio: 1.58, CI95: [2]float64{1.5, 1.66}}}
	for block := range 4 {
		for range 6 {
			old.Order, old.Flags = append(old.Order, gpuprof.Order{Block: block, Side: block % 2}), append(old.Flags, nil)
		}
	}
	same := func(v float64, n int) []float64 { return slices.Repeat([]float64{v}, n) }
	old.Step, old.BareStep = stats.Summarise("s", same(6.12e-6, 12)), stats.Summarise("s", same(3.86e-6, 12))
	old.Throughput = &gpuprof.Throughput{Unit: "flows/s", Series: stats.Summarise("flows/s", same(1/6.12e-6, 2))}
	old.Stages = []gpuprof.StageResult{{Name: "gru", Parent: "step", Exposed: old.Step}}
	got := fromRun(t, old)
	if m := got.Metric("step"); m == nil || stats.Median(m.Runs[0]) != 3.86e-6 {
		t.Errorf("step %+v, want the bare one of 3.86 us", m)
	}
	if m := got.Metric("throughput"); m == nil || stats.Median(m.Runs[0]) < 0.99/3.86e-6 {
		t.Errorf("throughput %+v, want that of bare steps", m)
	}
	if m := got.Metric("step/gru"); m == nil || stats.Median(m.Runs[0]) != 6.12e-6 {
		t.Errorf("stage %+v, want the probed breakdown", m)
	}
	if len(got.RunInfo) != 1 {
		t.Errorf("%d processes", len(got.RunInfo))
	}
	// Within the limit, and where the interval does not decide, the step is the recorded one.
	for _, ci := range [][2]float64{{0.999, 1.004}, {0.88, 1.51}} {
		old.Overhead.CI95 = ci
		if m := fromRun(t, old).Metric("step"); stats.Median(m.Runs[0]) != 6.12e-6 {
			t.Errorf("overhead %v: step %v", ci, m.Runs)
		}
	}
}
