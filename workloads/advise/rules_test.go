package advise_test

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/advise"
)

// planted is a run with one thing wrong, and what must be said about it.
type planted struct {
	run         made
	change      func(*gpuprof.Run)
	rule, stage string
	knob, to    string
	atLeast     float64 // bound, microseconds
	atMost      float64
	evidence    []string
}

func pcie(gen, width float64) map[string]gpuprof.Track {
	return map[string]gpuprof.Track{
		"gpu_pcie_gen":   {Unit: "1", TimeS: []float64{0, 1}, Value: []gpuprof.Number{1, gpuprof.Number(gen)}},
		"gpu_pcie_width": {Unit: "1", TimeS: []float64{0, 1}, Value: []gpuprof.Number{gpuprof.Number(width), gpuprof.Number(width)}},
	}
}

func plantedProblems() map[string]planted {
	gpu := func(knobs gpuprof.Settings, parts []part, counters map[string]float64) made {
		return made{cuda: true, workload: "e3nn", knobs: e3nnKnobs(knobs), parts: parts, counters: counters}
	}
	short := with(e3nnParts(), part{name: "radial", exposed: 60, device: true, launches: 6, kernels: map[string]float64{"gemm": 20, "basis": 10}},
		part{name: "tensor_product", exposed: 40, device: true, launches: 4, kernels: map[string]float64{"tp_csr": 40}},
		part{name: "collate"}, part{name: "backpressure"}, part{name: "launch", exposed: 30}, part{name: "gap", exposed: 10})
	return map[string]planted{
		"sync every step": {gpu(gpuprof.Settings{"sync": "step"}, with(e3nnParts(), part{name: "collate", exposed: 600}, part{name: "sync", exposed: 40, host: 4400},
			part{name: "launch", exposed: 20}, part{name: "gap", exposed: 5}), map[string]float64{"sync_points": 1}),
			nil, "explicit-sync", "sync", "sync", "never", 650, 675, []string{"sync_exposed_s", "idle_after_s", "sync_points"}},
		// On the host device what a hand-over between threads costs is not known: found, and nothing claimed.
		"sync every step on the host": {made{workload: "gruflow", knobs: gruKnobs(gpuprof.Settings{"sync": "step"}),
			parts: []part{{name: "gru", exposed: 8, device: true, launches: 7}, {name: "sync", exposed: 1.7, host: 10}, {name: "launch", exposed: 0.8, host: 1.4}, {name: "gap", exposed: 0.3}}},
			nil, "explicit-sync", "sync", "sync", "never", 0, 0, []string{"idle_after_s", "exposed_s", "nothing_claimed"}},
		"item reads": {gpu(gpuprof.Settings{"item_reads": "64"}, with(e3nnParts(), part{name: "sync", exposed: 1000, host: 4000}, part{name: "launch", exposed: 20}), map[string]float64{"sync_points": 64}),
			nil, "item", "sync", "item_reads", "packed", 1000, 1030, []string{"sync_exposed_s", "waits_of_this_knob"}},
		"loss read every step": {gpu(gpuprof.Settings{"pass": "train", "loss_read": "step"}, with(e3nnParts(), part{name: "sync", exposed: 700, host: 4000}, part{name: "launch", exposed: 20}), map[string]float64{"sync_points": 1}),
			nil, "item", "sync", "loss_read", "never", 700, 730, []string{"sync_exposed_s", "waits_of_this_knob"}},
		"norm read every step": {gpu(gpuprof.Settings{"pass": "train", "clip_where": "host"}, with(e3nnParts(), part{name: "sync", exposed: 500, host: 4000}, part{name: "launch", exposed: 20}), map[string]float64{"sync_points": 1}),
			nil, "item", "sync", "clip_where", "device", 500, 530, []string{"waits_of_this_knob"}},
		"overflow read every step": {gpu(gpuprof.Settings{"pass": "train", "precision": "fp16", "scaler": "dynamic", "found_inf": "host"}, with(e3nnParts(), part{name: "sync", exposed: 400, host: 4000}, part{name: "launch", exposed: 20}), map[string]float64{"sync_points": 1}),
			nil, "item", "sync", "found_inf", "device", 400, 430, []string{"waits_of_this_knob"}},
		"optimizer a launch per operation": {gpu(gpuprof.Settings{"pass": "train", "optimizer": "loop"}, with(e3nnParts(), part{name: "optimizer", exposed: 3000, device: true, launches: 70, bytes: 8e9, bound: 900, kernels: map[string]float64{"adam_part": 2900}}), nil),
			nil, "far-from-roofline", "optimizer", "optimizer", "fused", 2100, 2140, []string{"pointwise_bytes"}},
		"gradients filled with zeros": {gpu(gpuprof.Settings{"pass": "train", "zero": "fill"}, with(e3nnParts(), part{name: "loss", exposed: 1000, device: true, launches: 14, bytes: 2e9, kernels: map[string]float64{"fill": 600, "readout": 380}}), nil),
			nil, "zero-grad", "loss", "zero", "overwrite", 590, 615, []string{"fill_launches", "fill_bytes"}},
		"gradients of a GRU filled with zeros": {made{cuda: true, workload: "gruflow", knobs: gruKnobs(gpuprof.Settings{"pass": "train", "zero": "fill", "precision": "tf32"}),
			parts: []part{{name: "gru", exposed: 500, device: true, launches: 12}, {name: "loss", exposed: 400, device: true, launches: 15, kernels: map[string]float64{"gru_fill": 100, "fill": 200, "gru_loss": 100}}}},
			nil, "zero-grad", "loss", "zero", "overwrite", 190, 210, []string{"fill_launches", "fill_bytes"}}, // gru_fill clears cotangents, with any setting
		"graphs of earlier windows": {made{cuda: true, workload: "gruflow", knobs: gruKnobs(gpuprof.Settings{"pass": "train", "windows_kept": "8", "precision": "tf32"}),
			parts: []part{{name: "gru", exposed: 500, device: true, launches: 12}}}, func(r *gpuprof.Run) {
			r.Input = map[string]any{gpuprof.InputRecorded: 8e9, gpuprof.InputRecordedWindow: 1e9}
		}, "leak", "", "windows_kept", "1", 0, 0, []string{gpuprof.InputRecorded, gpuprof.InputRecordedWindow, gpuprof.EvidenceSavedBytes, "nothing_claimed"}},
		"item reads of collate": {made{cuda: true, workload: "collate", knobs: collateKnobs(gpuprof.Settings{"item_reads": "9"}),
			parts: []part{{name: "consume", exposed: 900, device: true, launches: 2}, {name: "sync", exposed: 300, host: 1100}}, counters: map[string]float64{"sync_points": 9}},
			nil, "item", "sync", "item_reads", "0", 290, 310, nil},
		"reset after a wait": {gpu(gpuprof.Settings{"reset_stats": "sync"}, with(e3nnParts(), part{name: "sync", exposed: 500, host: 4000}), map[string]float64{"sync_points": 1}),
			nil, "reset-stats", "sync", "reset_stats", "off", 490, 510, nil},
		"pool trimmed": {gpu(gpuprof.Settings{"pool_trim": "every:1"}, with(e3nnParts(), part{name: "sync", exposed: 900, host: 4000}), nil),
			nil, "allocator-churn", "sync", "pool_trim", "never", 890, 930, nil},
		"pool trimmed on the host": {made{workload: "gruflow", knobs: gruKnobs(gpuprof.Settings{"pool_trim": "every:1"}),
			parts: []part{{name: "gru", exposed: 9, device: true, launches: 7, kernels: map[string]float64{"gru_gemm": 3, "gru_cell": 1.5}}, {name: "sync", exposed: 16, host: 25}, {name: "launch", exposed: 6, host: 7}, {name: "gap", exposed: 0.7}}},
			nil, "allocator-churn", "sync", "pool_trim", "never", 0, 0, []string{"exposed_s", "nothing_claimed"}},
		"launch bound on the host": {made{workload: "gruflow", knobs: gruKnobs(nil),
			parts: []part{{name: "gru", exposed: 24, device: true, launches: 190}, {name: "launch", exposed: 4, host: 5}, {name: "gap", exposed: 0.3}}},
			nil, "launch-bound", "launch", "graph", "on", 0, 0, []string{"exposed_s", "nothing_claimed"}},
		"no workers on the host": {made{workload: "collate", knobs: collateKnobs(gpuprof.Settings{"workers": "0"}),
			parts: []part{{name: "starved", exposed: 1000}, {name: "consume", exposed: 1000, device: true, launches: 2}}},
			func(r *gpuprof.Run) {
				r.Input = map[string]any{"workers": 0., "make_sample_s": 200 * us, "make_collate_s": 800 * us}
			}, "dataloader-stall", "starved", "workers", "auto", 0, 0, []string{"make_batch_s", "exposed_s", "nothing_claimed"}},
		"blocking copies": {gpu(gpuprof.Settings{"async_copy": "off"}, with(e3nnParts(), part{name: "sync", exposed: 400, host: 4000}), map[string]float64{"sync_points": 2, "copies_h2d": 4, "copies_d2h": 1}),
			nil, "blocking-copy", "sync", "async_copy", "on", 390, 410, nil},
		"pageable copies": {gpu(gpuprof.Settings{"pinned": "off"}, with(e3nnParts(), part{name: "h2d", exposed: 900, device: true}, part{name: "d2h", exposed: 300, device: true}),
			map[string]float64{"copies_h2d": 4, "bytes_h2d_pageable": 6e6, "bytes_d2h_pageable": 2e6}),
			func(r *gpuprof.Run) { r.Telemetry = pcie(4, 16) }, // 31.5 GB/s: 254 us stay
			"pageable-h2d", "h2d", "pinned", "on", 930, 960, []string{"link_bytes_per_s", "bytes_h2d_pageable"}},
		"pinned anew": {made{cuda: true, workload: "collate", knobs: collateKnobs(gpuprof.Settings{"pinned": "batch"}),
			parts: []part{{name: "consume", exposed: 900, device: true, launches: 2}, {name: "stage", exposed: 1700}}, counters: map[string]float64{"bytes_h2d": 2e6, "allocations": 1}},
			nil, "pin-every-batch", "stage", "pinned", "on", 1670, 1710, []string{"allocations"}},
		"copies in line": {gpu(gpuprof.Settings{"streams": "1"}, with(e3nnParts(), part{name: "h2d", exposed: 800, device: true}), map[string]float64{"copies_h2d": 4}),
			nil, "exposed-copy", "h2d", "streams", "2", 780, 820, []string{"bytes_h2d"}},
		"caller cannot keep up": {gpu(nil, with(e3nnParts(), part{name: "collate", exposed: 3000}, part{name: "backpressure"}), nil),
			nil, "collate-bound", "collate", "", "", 2950, 3050, []string{"collate_host_s"}},
		"naive collation by workers": {made{cuda: true, workload: "collate", knobs: collateKnobs(gpuprof.Settings{"impl": "naive"}),
			parts: []part{{name: "starved", exposed: 9000}, {name: "consume", exposed: 1000, device: true, launches: 2}}},
			func(r *gpuprof.Run) {
				r.Input = map[string]any{"workers": 1., "make_sample_s": 2000 * us, "make_collate_s": 8000 * us}
			},
			"collate-bound", "collate", "impl", "cached", 7900, 8100, []string{"collate_s"}},
		"starved by two workers": {made{cuda: true, workload: "collate", knobs: collateKnobs(gpuprof.Settings{"workers": "2"}),
			parts: []part{{name: "starved", exposed: 3000}, {name: "consume", exposed: 1000, device: true, launches: 2}}},
			func(r *gpuprof.Run) {
				r.Device.CPUCores = 16
				r.Input = map[string]any{"workers": 2, "make_sample_s": 7000 * us, "make_collate_s": 1000 * us}
			},
			"dataloader-stall", "starved", "workers", "4", 1950, 2050, []string{"make_batch_s"}},
		"workers respawned": {made{cuda: true, workload: "collate", knobs: collateKnobs(gpuprof.Settings{"persistent": "off"}), spiky: true,
			parts: []part{{name: "starved", exposed: 1}, {name: "consume", exposed: 100, device: true, launches: 2}}},
			nil, "dataloader-stall", "starved", "persistent", "on", 12, 14, []string{"epoch"}},
		"launch bound": {gpu(nil, short, nil), nil, "launch-bound", "launch", "graph", "on", 66, 76, []string{"kernel_mean_s", "between_kernels_s"}},
		"deterministic sums": {gpu(gpuprof.Settings{"deterministic": "on", "impl": "unfused"}, with(e3nnParts(), part{name: "scatter", exposed: 3000, device: true, launches: 2, bound: 100}), nil),
			nil, "deterministic", "scatter", "deterministic", "off", 2850, 2950, []string{"bound_s"}},
		"deterministic metrics": {made{cuda: true, workload: "gruflow", knobs: gruKnobs(gpuprof.Settings{"precision": "tf32"}),
			parts: []part{{name: "gru", exposed: 500, device: true, launches: 12}, {name: "metrics", exposed: 200, device: true, launches: 2, kernels: map[string]float64{"gru_sum": 120, "gru_sum_final": 80}}}},
			nil, "deterministic", "metrics", "deterministic", "off", 78, 82, []string{"ordering_exposed_s"}},
		"deterministic fill": {made{cuda: true, workload: "gruflow", knobs: gruKnobs(gpuprof.Settings{"fill": "on"}),
			parts: []part{{name: "gru", exposed: 500, device: true, launches: 12, kernels: map[string]float64{"gru_gemm": 300, "gru_fill": 100, "gru_cell": 100}}}},
			nil, "deterministic-fill", "gru", "fill", "off", 95, 105, []string{"fill_launches"}},
		"precision headroom": {gpu(nil, e3nnParts(), nil), func(r *gpuprof.Run) {
			r.Checks = []gpuprof.Check{{Stage: "radial", RelativeError: 1e-7, Tolerance: 1e-5, Pass: true}}
		}, "no-tf32", "radial", "precision", "tf32", 1450, 1700 * (1 - 1/7.4) * 1.01, []string{"input_rounding", "speedup_bound", "error_now"}},
		"precision on slow tensor cores": {gpu(nil, e3nnParts(), nil), func(r *gpuprof.Run) {
			r.Ceilings.TF32FlopsPerS = 2 * r.Ceilings.FlopsPerS // the ratio measured, not one of a data sheet
		}, "no-tf32", "radial", "precision", "tf32", 840, 860, []string{"speedup_bound"}},
		"precision of an unknown rate": {gpu(nil, e3nnParts(), nil), func(r *gpuprof.Run) { r.Ceilings.TF32FlopsPerS = 0 },
			"no-tf32", "radial", "precision", "tf32", 0, 0, []string{"exposed_s", "nothing_claimed"}},
		"precision bound by bytes": {gpu(nil, with(e3nnParts(), part{name: "radial", exposed: 2000, device: true, launches: 3, bytes: 8e9, kernels: map[string]float64{"gemm": 1700, "basis": 290}}), nil),
			nil, "no-tf32", "radial", "precision", "tf32", 690, 710, nil}, // half the bytes at 4 TB/s: 1,000 us
		"precision without tensor tf32": {gpu(nil, e3nnParts(), nil), func(r *gpuprof.Run) {
			r.Device.Arch = "sm_89"
			r.Ceilings.FlopsPerS, r.Ceilings.TF32FlopsPerS, r.Ceilings.BF16FlopsPerS = 40e12, 42e12, 80e12
		},
			"no-amp", "radial", "precision", "bf16", 840, 860, nil},
		"unfused product": {gpu(gpuprof.Settings{"impl": "unfused"}, with(e3nnParts(), part{name: "tensor_product", exposed: 20000, device: true, launches: 32, bound: 90},
			part{name: "scatter", exposed: 3000, device: true, launches: 1, bound: 10}), nil),
			nil, "far-from-roofline", "tensor_product", "impl", "csr", 22600, 23100, []string{"bytes_moved", "bound_s"}},
		"plain cell": {made{workload: "gruflow", knobs: gruKnobs(gpuprof.Settings{"impl": "plain"}),
			parts: []part{{name: "gru", exposed: 600, device: true, launches: 28, bound: 160, kernels: map[string]float64{"gru_gemm": 300, "gru_add": 130, "gru_mul": 30, "gru_sub": 40, "gru_tanh": 100}}}},
			nil, "far-from-roofline", "gru", "impl", "fused", 290, 305, []string{"pointwise_bytes"}},
		"own products": {gpu(gpuprof.Settings{"library": "off", "precision": "tf32"}, e3nnParts(), nil), nil,
			"far-from-roofline", "radial", "library", "auto", 1680, 1720, []string{"flops_per_s"}},
		"one thread of two": {made{workload: "e3nn", knobs: e3nnKnobs(gpuprof.Settings{"threads": "1"}), parts: e3nnParts()},
			func(r *gpuprof.Run) { r.Device.Cores = 1 }, "few-threads", "tensor_product", "threads", "all", 2150, 2250, []string{"cpus"}},
		"memory that a replay does not reserve": {gpu(gpuprof.Settings{"pool_trim": "every:100"}, e3nnParts(), nil), func(r *gpuprof.Run) {
			r.Input = map[string]any{"memory_reserved_peak": 210e6, "memory_in_use_peak": 160e6, gpuprof.InputReplayedPeak: 210e6, gpuprof.InputBestSetting: "pool_trim=never", gpuprof.InputBestPeak: 194e6}
		}, "fragmentation", "", "pool_trim", "never", 0, 0, []string{"reserved_peak_bytes", "in_use_peak_bytes", gpuprof.EvidenceSavedBytes, "nothing_claimed"}},
		"power capped half the time": {gpu(gpuprof.Settings{"precision": "tf32"}, e3nnParts(), nil), func(r *gpuprof.Run) {
			for i := range r.Flags[:20] {
				r.Flags[i] = []string{"power-capped"}
				r.Step.Runs[0][i] *= 1.5
			}
		}, "throttled", "step", "", "", 1000, 1200, []string{"power-capped_samples", "flagged_share"}},
	}
}

func TestPlantedProblems(t *testing.T) {
	seen := map[string]bool{}
	for name, p := range plantedProblems() {
		seen[p.rule] = true
		t.Run(name, func(t *testing.T) {
			r := p.run.run(t)
			if p.change != nil {
				p.change(r)
			}
			all := of(r, advise.Options{Base: p.run.knobs})
			found := only(all, p.rule)
			if len(found) != 1 {
				t.Fatalf("%d findings of %s in %+v", len(found), p.rule, all)
			}
			f := found[0]
			if f.Stage != p.stage || f.Knob != p.knob || f.To != p.to || f.From != r.Knobs[p.knob] {
				t.Errorf("stage %s knob %s from %s to %s", f.Stage, f.Knob, f.From, f.To)
			}
			if got := f.ClaimS / us; got < p.atLeast || got > p.atMost {
				t.Errorf("bound %.1f us, want %.1f to %.1f", got, p.atLeast, p.atMost)
			}
			if p.atMost > 0 {
				p.evidence = append(p.evidence, "share_of_step")
			}
			for _, e := range p.evidence {
				if _, ok := f.Evidence[e]; !ok {
					t.Errorf("no evidence %s in %v", e, f.Evidence)
				}
			}
			if f.Command == "" || f.PyTorch == "" || p.knob != "" && !strings.Contains(f.Command, "--set "+p.knob+"="+f.From+","+f.To) {
				t.Errorf("command %q, PyTorch %q", f.Command, f.PyTorch)
			}
		})
	}
	for _, rule := range advise.RuleIDs() {
		if !seen[rule] && !slices.Contains([]string{"measured", "small-batch", "noise"}, rule) { // below
			t.Errorf("no problem is planted for rule %s", rule)
		}
	}
}

// The same runs with nothing wrong, on either kind of device: not a word.
func TestCleanRunsAreSilent(t *testing.T) {
	for name, m := range map[string]made{
		"e3nn on the host":    {workload: "e3nn", knobs: e3nnKnobs(nil), parts: e3nnParts()},
		"e3nn in tf32":        {cuda: true, workload: "e3nn", knobs: e3nnKnobs(gpuprof.Settings{"precision": "tf32"}), parts: e3nnParts()},
		"pageable on a host":  {workload: "e3nn", knobs: e3nnKnobs(gpuprof.Settings{"pinned": "off"}), parts: with(e3nnParts(), part{name: "h2d", exposed: 900, device: true}), counters: map[string]float64{"bytes_h2d_pageable": 1e6}},
		"a wait that is free": {cuda: true, workload: "e3nn", knobs: e3nnKnobs(gpuprof.Settings{"sync": "step", "precision": "bf16"}), parts: with(e3nnParts(), part{name: "sync", exposed: 3, host: 4000}), counters: map[string]float64{"sync_points": 1}},
		"spikes now and then": {workload: "e3nn", knobs: e3nnKnobs(gpuprof.Settings{"sync": "step", "batch": "64"}), spiky: true,
			parts: []part{{name: "radial", exposed: 200, device: true, launches: 3}, {name: "sync", exposed: 1}, {name: "launch", exposed: 1}}},
		"gruflow": {workload: "gruflow", knobs: gruKnobs(nil), parts: []part{{name: "gru", exposed: 290, device: true, launches: 7, bound: 160}, {name: "metrics", exposed: 3, device: true, launches: 2}, {name: "launch", exposed: 0.1}}},
		"collate": {workload: "collate", knobs: collateKnobs(gpuprof.Settings{"sync": "step"}), parts: []part{{name: "starved", exposed: 1}, {name: "stage", exposed: 167},
			{name: "h2d", exposed: 138, device: true}, {name: "consume", exposed: 3200, device: true, launches: 2}, {name: "sync", exposed: 30}, {name: "launch", exposed: 2}}},
		"an overlapped loader": {cuda: true, workload: "collate", knobs: collateKnobs(gpuprof.Settings{"impl": "naive"}), parts: []part{{name: "starved", exposed: 2}, {name: "consume", exposed: 900, device: true, launches: 2}}},
	} {
		if found := of(m.run(t), advise.Options{}); len(found) > 0 {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// What cannot be advised on, because it was not measured.
func TestRunsWithoutFigures(t *testing.T) {
	nan := made{workload: "e3nn", knobs: e3nnKnobs(gpuprof.Settings{"sync": "step"}), parts: e3nnParts()}.run(t)
	for i := range nan.Stages {
		if e := nan.Stages[i].Exposed; e != nil {
			e.Runs = [][]float64{slices.Repeat([]float64{math.NaN()}, 40)}
		}
	}
	few := made{workload: "e3nn", knobs: e3nnKnobs(gpuprof.Settings{"impl": "unfused"}), parts: e3nnParts()}.run(t)
	few.Step.Runs[0] = few.Step.Runs[0][:5]
	invalid := made{workload: "e3nn", knobs: e3nnKnobs(gpuprof.Settings{"impl": "unfused"}), parts: e3nnParts()}.run(t)
	invalid.Status = gpuprof.Invalid
	all := findings([]*gpuprof.Run{nan, few, invalid, {}, nil}, advise.Options{})
	if len(all) != 5 {
		t.Fatalf("%d lists for 5 runs", len(all))
	}
	for i, found := range all {
		if found == nil || len(found) > 0 {
			t.Errorf("run %d: %+v", i, found)
		}
	}
}

func TestNoiseClaimsNothing(t *testing.T) {
	clean := func() *gpuprof.Run {
		return made{workload: "e3nn", knobs: e3nnKnobs(nil), parts: e3nnParts()}.run(t)
	}
	warned := func(codes ...string) func(*gpuprof.Run) {
		return func(r *gpuprof.Run) {
			for _, c := range codes {
				r.Warnings = append(r.Warnings, gpuprof.Warning{Code: c, Text: "as seen"})
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*gpuprof.Run)
		want   []string // keys of the evidence; none is silence
	}{
		"two clocks that differ":              {warned("clock-mismatch", "simulated"), []string{"clock-mismatch"}},
		"busy, and steady all the same":       {warned("busy-machine", "uneven-steps", "time-budget", "not-settled"), nil},
		"somebody else on the device":         {warned("foreign-process", "busy-machine"), []string{"foreign-process", "busy-machine"}},
		"telemetry that contradicts itself":   {warned("energy-invalid"), []string{"energy-invalid"}},
		"a wide interval on a busy machine":   {func(r *gpuprof.Run) { warned("busy-machine")(r); r.Step.CI95[1] = 1.06 * r.Step.Median }, []string{"step_interval_share", "busy-machine"}},
		"an interval as wide as is tolerated": {func(r *gpuprof.Run) { r.Step.CI95 = [2]float64{0.98 * r.Step.Median, 1.02 * r.Step.Median} }, nil},
		"a step that becomes slower": {func(r *gpuprof.Run) {
			for i := range r.Step.Runs[0] {
				r.Step.Runs[0][i] *= 1 + 0.003*float64(i)
			}
		}, []string{"step_drift_share"}},
	} {
		r := clean()
		c.change(r)
		found := of(r, advise.Options{Base: e3nnKnobs(nil)})
		if c.want == nil {
			if len(found) > 0 {
				t.Errorf("%s: %+v", name, found)
			}
			continue
		}
		if len(found) != 1 || found[0].Rule != "noise" || found[0].ClaimS != 0 || !slices.Equal(slices.Sorted(maps.Keys(found[0].Evidence)), slices.Sorted(slices.Values(c.want))) {
			t.Errorf("%s: %+v", name, found)
			continue
		}
		if found[0].Command != "gpuprof run e3nn --preset small --runs 6" {
			t.Error(found[0].Command)
		}
	}
}

// A caller that cannot keep up waits in one step and launches in the next: that
// every other step loses nothing does not hide what the others lose.
func TestStepsThatAlternate(t *testing.T) {
	r := made{cuda: true, workload: "gruflow", knobs: gruKnobs(nil), parts: []part{{name: "gru", exposed: 30, device: true, launches: 190}, {name: "launch", exposed: 40, host: 30}}}.run(t)
	launch := r.Stage("launch").Exposed
	for i := 0; i < len(launch.Runs[0]); i += 2 {
		r.Step.Runs[0][i] -= launch.Runs[0][i]
		launch.Runs[0][i] = 0
	}
	if f := only(of(r, advise.Options{}), "launch-bound"); len(f) != 1 || math.Abs(f[0].ClaimS/us-20) > 1 {
		t.Errorf("want 20 us, half of what every other step loses: %+v", f)
	}
}

// All samples throttled: nothing to compare with, so nothing is claimed.
func TestThrottledThroughout(t *testing.T) {
	r := made{workload: "e3nn", knobs: e3nnKnobs(nil), parts: e3nnParts()}.run(t)
	for i := range r.Flags {
		r.Flags[i] = []string{"throttled"}
	}
	if f := of(r, advise.Options{}); len(f) != 1 || f[0].Rule != "throttled" || f[0].ClaimS != 0 || f[0].Evidence["flagged_share"] != 1.0 {
		t.Errorf("%+v", f)
	}
}

// Several knobs that make the caller wait: no second is claimed twice, and only
// all together free what the device idles.
func TestWaitsTogether(t *testing.T) {
	r := made{cuda: true, workload: "e3nn", knobs: e3nnKnobs(gpuprof.Settings{"sync": "step", "item_reads": "4", "precision": "bf16"}),
		parts: with(e3nnParts(), part{name: "collate", exposed: 600}, part{name: "sync", exposed: 5000, host: 9000}), counters: map[string]float64{"sync_points": 5}}.run(t)
	found := of(r, advise.Options{})
	items, syncs := only(found, "item"), only(found, "explicit-sync")
	if len(items) != 1 || len(syncs) != 1 {
		t.Fatalf("%+v", found)
	}
	if a, b := items[0].ClaimS/us, syncs[0].ClaimS/us; math.Abs(a-4600) > 60 || math.Abs(b-1000) > 20 {
		t.Errorf("item reads %.0f us, want 4 of 5 waits and the idle time; sync %.0f us, want 1 of 5", a, b)
	}
	if !strings.Contains(items[0].Command, "--set item_reads=4,packed --set sync=step,never") {
		t.Error(items[0].Command)
	}
}

// A problem counts from 5 % of the step on. The same stages in a step that is
// longer by other work are one just above that, and none just below.
func TestJustBelowTheThreshold(t *testing.T) {
	for name, p := range plantedProblems() {
		// Bounds that grow with the step: a clock that is slow is so for all of it, and
		// workers keep up with a longer one. What claims nothing has no bound.
		if p.rule == "throttled" || name == "starved by two workers" || p.atMost == 0 {
			continue
		}
		at := func(ballast float64) (bound, step float64) {
			m := p.run
			if ballast > 0 {
				m.parts = append(slices.Clone(m.parts), part{name: "other", exposed: ballast, device: true})
			}
			r := m.run(t)
			if p.change != nil {
				p.change(r)
			}
			for _, f := range only(of(r, advise.Options{Base: p.run.knobs}), p.rule) {
				bound += f.ClaimS / us
			}
			return bound, r.Step.Median / us
		}
		bound, step := at(0)
		if above, _ := at(bound/0.056 - step); above == 0 {
			t.Errorf("%s: silent at 5.6 %% of the step", name)
		}
		if below, whole := at(bound/0.044 - step); below > 0 {
			t.Errorf("%s: claims %.1f us of %.1f us", name, below, whole)
		}
	}
}
