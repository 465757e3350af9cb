package collate

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/measure"
)

func plan(t *testing.T, samples int, set ...string) measure.Plan {
	return measure.Plan{
		Workload: New(), Preset: "small", Knobs: resolve(t, "small", set...).Knobs, Seed: 1, Mode: gpuprof.Steady,
		MaxTime: 20 * time.Second, Warmup: measure.Warmup{Steps: 2}, Samples: samples,
	}
}

// In every sample of a real run the exposed times add up to the step; starved
// is the time the device had nothing to do; the pipeline's own account is there.
func TestRunReconciles(t *testing.T) {
	for _, set := range []string{ // a batch of 32 is long beside what interrupts a step that starves; others may be short
		"workers=0,impl=naive,sync=never,batch=32", "workers=1,impl=naive,sync=never,batch=32", "workers=1,worker_kind=process,prefetch=1,impl=naive,sync=never,batch=32",
		"workers=2,pinned=off,async_copy=off,item_reads=2,batch=4", "workers=1,persistent=off,epoch=2,sync=never,batch=4",
	} {
		t.Run(set, func(t *testing.T) {
			r, err := measure.Run(t.Context(), openHost(t, 0), plan(t, 12, append(strings.Split(set, ","), "consume=1")...))
			if err != nil {
				t.Fatal(err)
			}
			addUp(t, r)
			if strings.Contains(set, "naive") {
				starvedIsIdle(t, r)
				exampleAgrees(t, r)
			}
			for _, name := range []string{"batches_made", "bytes_per_batch_mean", "make_sample_s", "make_collate_s", "input_bytes_per_s"} {
				if v, ok := r.Input[name]; !ok || v == int64(0) || v == 0.0 {
					t.Errorf("input has %s = %v", name, v)
				}
			}
			if q, ok := r.Telemetry["queue_depth"]; ok == strings.HasPrefix(set, "workers=0") || ok && (len(q.TimeS) != len(q.Value) || len(q.TimeS) < 12) {
				t.Errorf("queue depth over time: %v", q)
			}
			if n := len(r.Telemetry["input_rate"].TimeS); n < 12 {
				t.Errorf("input rate over time has %d points", n)
			}
		})
	}
}

// timed are the steps that the stages were timed in: on a busy machine the probe may
// look too dear for the step that is reported.
func timed(r *gpuprof.Run) []float64 {
	if r.ProbedStep != nil {
		return r.ProbedStep.Runs[0]
	}
	return r.Step.Runs[0]
}

func addUp(t *testing.T, r *gpuprof.Run) {
	t.Helper()
	for i, period := range timed(r) {
		sum := 0.0
		for _, s := range r.Stages {
			if s.Parent == "step" {
				sum += s.Exposed.Runs[0][i]
			}
		}
		if math.Abs(sum-period) > 1e-9*period {
			t.Fatalf("sample %d: exposed times add up to %v, the step is %v", i, sum, period)
		}
	}
}

// starvedIsIdle compares starved with the time in which no device stage ran,
// less what a batch that has come spends in staging, which has a stage of its
// own. The median over samples: what a busy machine interrupts is in the others.
func starvedIsIdle(t *testing.T, r *gpuprof.Run) {
	t.Helper()
	var ratios []float64
	for i, period := range timed(r) {
		at := func(stage string) float64 { return r.Stage(stage).Exposed.Runs[0][i] }
		if idle := period - at("h2d") - at("consume") - at("stage"); idle > 0.2*period { // else a batch was ready
			ratios = append(ratios, at("starved")/idle)
		}
	}
	slices.Sort(ratios)
	if len(ratios) < len(timed(r))/3 {
		t.Fatalf("only %d samples starved: the test shows nothing", len(ratios))
	}
	if m := ratios[len(ratios)/2]; m < 0.95 || m > 1 {
		t.Errorf("starved is %.3f of the time in which the device was idle (%v)", m, ratios)
	}
}

// exampleAgrees finds the sample that the example step shows and compares what
// it says about starving with the holes between the example's device spans.
func exampleAgrees(t *testing.T, r *gpuprof.Run) {
	t.Helper()
	best := math.Inf(1)
	for i, period := range timed(r) {
		busy, starved := holes(r.ExampleStep, period)
		said := r.Stage("starved").Exposed.Runs[0][i]
		ran := r.Stage("h2d").Exposed.Runs[0][i] + r.Stage("consume").Exposed.Runs[0][i]
		best = min(best, math.Abs(starved-said)/period+math.Abs(busy-ran)/period)
	}
	if best > 0.01 {
		t.Errorf("no sample reports the starving that the example step shows; the nearest is off by %.3f of the step", best)
	}
}

// holes adds up, over [0, period), where a device span runs, and where none
// does while the caller starves.
func holes(spans []gpuprof.Span, period float64) (busy, starved float64) {
	cuts := []float64{0, period}
	for _, s := range spans {
		cuts = append(cuts, min(max(s.StartS, 0), period), min(max(s.StartS+s.DurS, 0), period))
	}
	slices.Sort(cuts)
	for i, from := range cuts[1:] {
		mid, length := (from+cuts[i])/2, from-cuts[i]
		device, waits := false, false
		for _, s := range spans {
			if s.Kernel == "" && mid >= s.StartS && mid < s.StartS+s.DurS {
				device = device || s.Lane != "host"
				waits = waits || s.Lane == "host" && s.Stage == "starved"
			}
		}
		if device {
			busy += length
		} else if waits {
			starved += length
		}
	}
	return busy, starved
}

// A broken file ends the run as partial, named, with what was measured before.
func TestBrokenFileLeavesAPartialRun(t *testing.T) {
	for _, kind := range []string{"goroutine", "process"} {
		t.Run(kind, func(t *testing.T) {
			dir := writeStructures(t, 80)
			broken := filepath.Join(dir, "0070.xyz")
			if err := os.WriteFile(broken, []byte("nonsense\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			r, err := measure.Run(t.Context(), openHost(t, 0), plan(t, 12, "workers=2", "worker_kind="+kind, "batch=2", "probes=2", "structures="+dir))
			if r == nil || err == nil {
				t.Fatalf("run %v, error %v", r, err)
			}
			if r.Status != gpuprof.Partial || !strings.Contains(r.Reason, "0070.xyz") || !strings.Contains(r.Reason, "batch 35") {
				t.Errorf("status %s, reason %q", r.Status, r.Reason)
			}
			if r.Step.N() == 0 {
				t.Error("nothing of what was measured is left")
			}
			t.Logf("%d samples kept", r.Step.N())
		})
	}
}

// A file that breaks during the warm-up leaves every batch before its own, and
// the result says that these are no samples.
func TestBrokenFileInTheWarmUp(t *testing.T) {
	for _, set := range []string{"workers=0", "workers=2", "workers=2,worker_kind=process", "workers=1,persistent=off,epoch=4"} {
		t.Run(set, func(t *testing.T) {
			dir := writeStructures(t, 40)
			if err := os.WriteFile(filepath.Join(dir, "0027.xyz"), []byte("nonsense\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			p := plan(t, 12, append(strings.Split(set, ","), "batch=2", "probes=2", "structures="+dir)...)
			p.Warmup = measure.Warmup{Steps: 100}
			r, err := measure.Run(t.Context(), openHost(t, 0), p)
			if r == nil || err == nil {
				t.Fatalf("run %v, error %v", r, err)
			}
			if r.Status != gpuprof.Partial || !strings.Contains(r.Reason, "0027.xyz") || !strings.Contains(r.Reason, "batch 13") {
				t.Errorf("status %s, reason %q", r.Status, r.Reason)
			}
			if n := r.Step.N(); n != 13 || !slices.ContainsFunc(r.Warnings, func(w gpuprof.Warning) bool { return w.Code == "warm-up-only" }) {
				t.Errorf("%d of the 13 batches before it are kept; warnings %v", n, r.Warnings)
			}
			addUp(t, r)
		})
	}
}
