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
	"github.com/gpuprof/gpuprof/workloads/measure"
)

func plan(t *testing.T, samples int, set ...string) measure.Plan {
	return measure.Plan{
		Workload: New(), Preset: "small", Knobs: resolve(t, "small", set...).Knobs, Seed: 1, Mode: gpuprof.Steady,
		MaxTime: 20 * time.Second, Warmup: measure.Warmup{Steps: 2}, Samples: samples,
	}
}

// In every sample of a real run the exposed times add up to the step, and the
// pipeline's own account is there. TestStarvedIsIdle compares starved with the holes.
func TestRunReconciles(t *testing.T) {
	for _, set := range []string{
		"workers=0,impl=naive,sync=never,batch=4", "workers=1,impl=naive,sync=never,batch=4", "workers=1,worker_kind=process,prefetch=1,impl=naive,sync=never,batch=4",
		"workers=2,pinned=off,async_copy=off,item_reads=2,batch=4", "workers=1,persistent=off,epoch=2,sync=never,batch=4",
	} {
		t.Run(set, func(t *testing.T) { reconciles(t, set) })
	}
}

// reconciles measures a setting and looks at what holds for every one.
func reconciles(t *testing.T, set string) *gpuprof.Run {
	t.Helper()
	r, err := measure.Run(t.Context(), openHost(t, 0), plan(t, 12, append(strings.Split(set, ","), "consume=1")...))
	if err != nil {
		t.Fatal(err)
	}
	addUp(t, r)
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
	return r
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
