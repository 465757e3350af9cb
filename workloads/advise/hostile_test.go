package advise_test

import (
	"encoding/json"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/workloads/advise"
	"github.com/gpuprof/gpuprof/workloads/e3nn"
)

// hostile draws runs that a file may hold and no measurement gives: times that
// are NaN, infinite, negative or zero, series of differing lengths, stages
// missing or twice, knobs with any value.
func hostile(r *rapid.T) *gpuprof.Run {
	number := func(label string) float64 {
		return rapid.SampledFrom([]float64{0, 1e-6, 1e-3, 2e-3, 1, -1e-3, 1e300, -1e300, math.NaN(), math.Inf(1), math.Inf(-1), math.SmallestNonzeroFloat64}).Draw(r, label)
	}
	series := func(label string) *gpuprof.Series {
		if rapid.IntRange(0, 5).Draw(r, label+" there") == 0 {
			return nil
		}
		s := &gpuprof.Series{Unit: "s", Median: number(label + " median"), CI95: [2]float64{number(label + " lo"), number(label + " hi")}}
		odd := rapid.IntRange(0, 3).Draw(r, label+" odd") == 0
		for range rapid.IntRange(0, 2).Draw(r, label+" runs") {
			n := 16
			if odd {
				n = rapid.IntRange(0, 30).Draw(r, label+" n")
			}
			x, base := make([]float64, n), number(label)
			for i := range x {
				x[i] = base
			}
			if odd && n > 0 {
				x[0] = number(label + " first")
			}
			s.Runs = append(s.Runs, x)
		}
		return s
	}
	pick := func(label string, values ...string) string { return rapid.SampledFrom(values).Draw(r, label) }
	run := &gpuprof.Run{
		Status:   gpuprof.Status(pick("status", "complete", "partial", "")),
		Workload: pick("workload", "e3nn", "gruflow", "collate", "", "another"),
		Device: gpuprof.Env{Kind: pick("kind", "host", "cuda", ""), Arch: pick("arch", "sm_90", "sm_", "gfx90a", ""), CPUCores: rapid.IntRange(-1, 4).Draw(r, "cpus"),
			Cores: rapid.IntRange(-1, 4).Draw(r, "cores"), CPUQuota: number("quota"), Memory: 1 << 40, DeviceInfo: map[string]string{"cublas": "13"}},
		Ceilings: gpuprof.Ceilings{CopyBytesPerS: number("copy"), FlopsPerS: number("flops")},
		Step:     series("step"), ProbedStep: series("probed"), Calibration: map[string]float64{"null_launch_host": number("null")},
		Input: map[string]any{"workers": number("workers"), "make_sample_s": number("sample"), "make_collate_s": "much", "queue_depth_mean": number("queue"), "points_total": number("points")},
	}
	if s := series("rate"); s != nil {
		run.Throughput = &gpuprof.Throughput{Series: s}
	} else if rapid.Bool().Draw(r, "rate without series") {
		run.Throughput = &gpuprof.Throughput{}
	}
	run.Knobs = gpuprof.Settings{
		"sync": pick("sync", "never", "step", "every:3", "every:-1", "every:999999999999"), "pinned": pick("pinned", "on", "off", "batch", "?"), "async_copy": pick("async", "on", "off"),
		"streams": pick("streams", "1", "2"), "item_reads": pick("items", "packed", "7", "-3", "1e9"), "reset_stats": pick("reset", "off", "sync"),
		"pool_trim": pick("trim", "never", "every:2", "every:"), "graph": pick("graph", "on", "off"), "precision": pick("precision", "fp32", "tf32"),
		"deterministic": pick("det", "on", "off"), "fill": pick("fill", "on", "off"), "threads": pick("threads", "all", "1", "-1"), "batch": pick("batch", "0", "64", "-4", "x"),
		"impl": pick("impl", "unfused", "plain", "naive", "csr"), "workers": pick("workers knob", "0", "auto", "3"), "persistent": pick("persistent", "on", "off"),
		"library": pick("library", "off", "auto"), "epoch": pick("epoch", "8", "0", "-1"), "it's": "a knob; $(nobody) knows",
	}
	run.Counters = map[string]float64{}
	for _, name := range []string{"launches", "copies_h2d", "copies_d2h", "bytes_h2d", "bytes_h2d_pageable", "bytes_d2h_pageable", "sync_points"} {
		run.Counters[name] = number(name)
	}
	names := []string{"starved", "sample", "collate", "stage", "sync", "launch", "gap", "backpressure", "h2d", "d2h", "radial", "tensor_product", "scatter", "gru", "metrics", ""}
	for range rapid.IntRange(0, 12).Draw(r, "stages") {
		run.Stages = append(run.Stages, gpuprof.StageResult{
			Name: rapid.SampledFrom(append(names, "gru_fill", "gemm_fp32", "gru_sum_final")).Draw(r, "stage"), Parent: rapid.SampledFrom(append(names, "step", "step", "step", "step")).Draw(r, "parent"),
			Device: series("device"), Host: series("host"), Exposed: series("exposed"), BoundS: number("bound"),
			Counters: map[string]float64{"launches": number("stage launches"), "bytes_read": number("read"), "bytes_written": number("written"), "flops": number("stage flops")},
		})
	}
	for range rapid.IntRange(0, 40).Draw(r, "samples in order") {
		run.Order = append(run.Order, gpuprof.Order{Side: rapid.IntRange(-1, 2).Draw(r, "side")})
		run.Flags = append(run.Flags, []string{pick("flag", "throttled", "power-capped", "")})
	}
	if rapid.Bool().Draw(r, "fewer flags") {
		run.Flags = nil
	}
	run.Telemetry = map[string]gpuprof.Track{"gpu_pcie_gen": {Value: []gpuprof.Number{gpuprof.Number(number("gen"))}}, "gpu_pcie_width": {Value: []gpuprof.Number{gpuprof.Number(number("width"))}}}
	run.Warnings = []gpuprof.Warning{{Code: pick("warning", "clock-mismatch", "busy-machine", "")}}
	return run
}

// Whatever a run holds: no panic, no bound that is not a number or not of this
// step, and findings that run.json can hold.
func TestHostileRuns(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var runs []*gpuprof.Run
		for range rapid.IntRange(1, 3).Draw(r, "runs") {
			runs = append(runs, hostile(r))
		}
		if len(runs) > 1 && rapid.Bool().Draw(r, "a sweep") { // differing in one knob
			twin := *runs[0]
			twin.Knobs = settings(gpuprof.Settings{"threads": "2"}, runs[0].Knobs)
			twin.Throughput = runs[1].Throughput
			runs[1] = &twin
		}
		for i, found := range findings(runs, advise.Options{}) {
			sum, step := 0.0, 0.0
			if s := runs[i].Step; s != nil {
				step = s.Median
			}
			for _, f := range found {
				if math.IsNaN(f.ClaimS) || math.IsInf(f.ClaimS, 0) || f.ClaimS < 0 {
					r.Fatalf("claims %g s: %+v", f.ClaimS, f)
				}
				sum += f.ClaimS
			}
			if sum > 0 && !(sum <= step*(1+1e-9)) {
				r.Fatalf("claims add up to %g s of a step of %g s: %+v", sum, step, found)
			}
			if _, err := json.Marshal(found); err != nil {
				r.Fatalf("%v: %+v", err, found)
			}
		}
	})
}

// The same against a baseline: shares and changes of any size, sides that
// lack what the comparison speaks of.
func TestHostileComparisons(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		number := func(label string) float64 {
			return rapid.SampledFrom([]float64{0, 0.5, 1, -2, 1e-3, 1e300, math.NaN(), math.Inf(1), math.Inf(-1)}).Draw(r, label)
		}
		c := &compare.Comparison{}
		for range rapid.IntRange(0, 3).Draw(r, "causes") {
			c.Causes = append(c.Causes, compare.Cause{Stage: rapid.SampledFrom([]string{"scatter", "gap", ""}).Draw(r, "stage"), ShareOfChange: number("share"), Change: gpuprof.Number(number("change"))})
		}
		for range rapid.IntRange(0, 3).Draw(r, "differences") {
			c.Differences = append(c.Differences, compare.Difference{Field: rapid.SampledFrom([]string{"deterministic", "mul", "commit", "kernel", ""}).Draw(r, "field"),
				Old: rapid.SampledFrom([]string{"", "off", "it's"}).Draw(r, "old"), New: "on", Kind: rapid.SampledFrom([]string{"knob", "environment", "code", ""}).Draw(r, "kind")})
		}
		for _, side := range []*compare.Result{{}, {Knobs: map[string]compare.Knob{"mul": {Value: "8", Model: true}}, Facts: map[string]string{"seed": "-1"}}} {
			found := advise.AgainstBaseline(c, &compare.Result{}, side, advise.Options{Workload: e3nn.New()})
			for _, f := range found {
				if math.IsNaN(f.ClaimS) || math.IsInf(f.ClaimS, 0) || f.ClaimS < 0 {
					r.Fatalf("claims %g s: %+v", f.ClaimS, f)
				}
			}
			if _, err := json.Marshal(found); err != nil {
				r.Fatalf("%v: %+v", err, found)
			}
		}
	})
}
