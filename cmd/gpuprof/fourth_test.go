package main

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/advise"
	"github.com/gpuprof/gpuprof/workloads/testkit/toy"
)

// squares is a made-up run of the toy on a GPU; nothing here was measured. Times
// are in microseconds.
func squares(t *testing.T, halt string, stages map[string]float64) *gpuprof.Run {
	t.Helper()
	knobs, err := workloads.Resolve(toy.Workload{}, "tiny", gpuprof.Settings{"halt": halt})
	if err != nil {
		t.Fatal(err)
	}
	const n = 40
	step, rate := make([]float64, n), make([]float64, n)
	r := &gpuprof.Run{Head: document.NewHead(document.Run, gpuprof.Tool{Name: "gpuprof"}), Status: gpuprof.Complete, Workload: "squares", Preset: "tiny", Seed: 1, Mode: gpuprof.Steady, Knobs: knobs,
		ModelKnobs: []string{"count"}, Device: gpuprof.Env{Kind: "cuda", Name: "Made-up GPU", CPUCores: 2}, Counters: map[string]float64{"sync_points": 1}, Input: map[string]any{}}
	for _, name := range []string{"fetch", "up", "squaring", "down", "halted", "full", gpuprof.StageLaunch, gpuprof.StageGap} {
		x := make([]float64, n)
		for i := range x {
			x[i] = stages[name] * 1e-6 * (1 + 0.001*float64(i%3))
			step[i] += x[i]
		}
		st := gpuprof.StageResult{Name: name, Parent: gpuprof.StageStep, Exposed: stats.Summarise("s", x), Counters: map[string]float64{}}
		if name == "squaring" {
			st.Device = stats.Summarise("s", x)
		} else {
			st.Host = stats.Summarise("s", x)
		}
		r.Stages = append(r.Stages, st)
	}
	for i := range rate {
		rate[i] = 8192 / step[i]
	}
	r.Step, r.Throughput = stats.Summarise("s", step), &gpuprof.Throughput{Unit: "numbers/s", Series: stats.Summarise("numbers/s", rate)}
	return r
}

// Advice about a workload that advise does not know: its own words and values.
func TestAdviceAboutAFourthWorkload(t *testing.T) {
	slow := squares(t, "step", map[string]float64{"fetch": 300, "squaring": 700, "halted": 200, gpuprof.StageLaunch: 20})
	o := advise.Options{Workload: toy.Workload{}}
	found := advise.Findings([]*gpuprof.Run{slow}, o)[0]
	if len(found) != 1 || found[0].Rule != "explicit-sync" || found[0].Stage != "halted" || found[0].Knob != "halt" || found[0].To != "never" || found[0].ClaimS <= 0 {
		t.Fatalf("%+v", found)
	}
	if f := found[0]; f.PyTorch != "leave torch.cuda.synchronize() out" || !strings.Contains(f.Command, "gpuprof run squares --preset tiny") || !strings.Contains(f.Command, "--set halt=step,never") {
		t.Errorf("%q, %q", f.Command, f.PyTorch)
	}
	// Without the workload nothing is known of its knobs, and nothing is said.
	if found := advise.Findings([]*gpuprof.Run{slow}, advise.Options{})[0]; len(found) > 0 {
		t.Errorf("without its workload: %+v", found)
	}
	// No knob acts on what the host thread does itself: what to try is the stage's.
	alone := squares(t, "never", map[string]float64{"fetch": 900, "squaring": 300})
	if found := advise.Findings([]*gpuprof.Run{alone}, o)[0]; len(found) != 1 || found[0].Command != "gpuprof run squares --set count=16384" || found[0].PyTorch != "fetch in a worker" {
		t.Errorf("%+v", found)
	}
	// Against an earlier run, the knob that acts on the stage is named.
	old, now := result(t, squares(t, "never", map[string]float64{"squaring": 700})), result(t, slow)
	c := &compare.Comparison{Causes: []compare.Cause{{Stage: "halted", ShareOfChange: 0.4, Change: 200e-6}, {Stage: "squaring", ShareOfChange: 0.6, Change: 300e-6}},
		Differences: []compare.Difference{{Field: "halt", Kind: "knob", Old: "never", New: "step"}}}
	for _, f := range advise.AgainstBaseline(c, old, now, o) {
		if (f.Knob == "halt") != (f.Stage == "halted") {
			t.Errorf("%+v", f)
		}
	}
}

func result(t *testing.T, r *gpuprof.Run) *compare.Result {
	t.Helper()
	out, err := compare.FromRun(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
