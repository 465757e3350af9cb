package guides

import (
	"maps"
	"runtime"
	"slices"
	"strconv"
)

// workerCounts compares loaders without workers, with some, and with workers that end with each epoch.
func workerCounts() []AB {
	out := []AB{collatePair(set{"workers": "0"}, set{"workers": "1"}), collatePair(set{"workers": "0"}, set{"workers": "2"})}
	if n := min(runtime.NumCPU(), 8); n > 2 {
		out = append(out, collatePair(set{"workers": "0"}, set{"workers": strconv.Itoa(n)}))
	}
	return append(out, collatePair(set{"workers": "1", "persistent": "off", "epoch": "8"}, set{"workers": "1", "persistent": "on"}),
		collatePair(set{"workers": "0"}, set{"workers": "1", "worker_kind": "process"}),
		collatePair(set{"workers": "1", "worker_kind": "process", "persistent": "off", "epoch": "8"}, set{"workers": "1", "worker_kind": "process", "persistent": "on"}))
}

func precisionPairs() []AB {
	var out []AB
	for _, p := range []string{"bf16", "fp16", "tf32"} {
		out = append(out, gruPair(set{"precision": "fp32"}, set{"precision": p}), e3nnPair(set{"precision": "fp32"}, set{"precision": p}))
	}
	return out
}

// asyncCopies compares asynchronous copies: a workload's own, then copies alone, pageable and pinned, with and
// without a wait, on one stream and on two, small to large.
func asyncCopies() []AB {
	out := []AB{e3nnPair(set{"async_copy": "off", "streams": "1"}, set{"async_copy": "on", "streams": "2"}), collatePair(set{"async_copy": "off"}, set{"async_copy": "on"})}
	for _, size := range []struct{ bytes, on string }{{"4096", ""}, {"1048576", ""}, {"67108864", "host"}, {"1073741824", "cuda"}} {
		for _, pinned := range []string{"off", "on"} {
			for _, streams := range []string{"1", "2"} {
				ab := transferPair(set{"bytes": size.bytes, "pinned": pinned, "streams": "1", "async_copy": "off"},
					set{"bytes": size.bytes, "pinned": pinned, "streams": streams, "async_copy": "on"})
				ab.On = size.on
				out = append(out, ab)
			}
		}
	}
	return out
}

// pipelineChanges compares the naive pipeline with the recommended one. It also compares the recommended pipeline with
// one that lacks a single change, for each change.
func pipelineChanges() []AB {
	naive := set{"impl": "naive", "reuse": "off", "shortcut": "off", "workers": "0", "pinned": "off", "async_copy": "off", "streams": "1"}
	out := []AB{naivePair(set{}, recommended())}
	for _, knob := range slices.Sorted(maps.Keys(naive)) {
		out = append(out, naivePair(recommendedExcept(knob, naive[knob]), recommended()))
	}
	return out
}

func energyFlowClaims() []Claim {
	return []Claim{
		{ID: "ef-sync", Program: []string{"torch.cuda.synchronize"}, Guide: "Energy Flow", Claim: "synchronize before reading memory metrics blocks every step", Figure: "blocks every step", Host: true, GPU: true,
			AB: []AB{gruPair(set{"sync": "step"}, set{"sync": "never"}), gruPair(set{"sync": "every:10"}, set{"sync": "never"})}},
		{ID: "ef-reset", Program: []string{"torch.cuda.reset_peak_memory_stats"}, Guide: "Energy Flow", Claim: "resetting peak statistics each step costs a sync", Figure: "one sync per step", Host: true, GPU: true,
			AB: []AB{gruPair(set{"reset_stats": "on"}, set{"reset_stats": "off"}), gruPair(set{"reset_stats": "sync"}, set{"reset_stats": "off"})}},
		{ID: "ef-loader", Program: []string{"num_workers", "persistent_workers", "prefetch_factor"}, Guide: "Energy Flow, pharmagen", Claim: "num_workers > 0 and persistent workers", Figure: "10-30 % CPU efficiency", Speedup: 1.1, Host: true, GPU: true,
			AB: workerCounts()},
		{ID: "ef-det", Program: []string{"deterministic", "cudnn.benchmark"}, Guide: "Energy Flow, Aetheria, RxVision", Claim: "deterministic mode slows; autotune helps", Figure: "5-10 %", Speedup: 1.05, Host: true, GPU: true,
			AB: []AB{gruPair(set{"deterministic": "on"}, set{"deterministic": "off"}), e3nnPair(set{"impl": "csr"}, set{"impl": "fused"}),
				e3nnPair(set{"impl": "unfused", "deterministic": "on"}, set{"impl": "unfused", "deterministic": "off"}),
				gruPair(set{"autotune": "off"}, set{"autotune": "on"}), e3nnPair(set{"autotune": "off"}, set{"autotune": "on"}), gridPair(set{"autotune": "off"}, set{"autotune": "on"}),
				trainPair(gruPair, set{"deterministic": "on"}, set{"deterministic": "off"}), trainPair(e3nnPair, set{"impl": "csr"}, set{"impl": "fused"})}},
		{ID: "det-fill", Guide: "large trainers, not the guides", Claim: "deterministic mode fills uninitialised memory", Figure: "about 15 %", Speedup: 1.1, Host: true, GPU: true,
			AB: []AB{gruPair(set{"fill": "on"}, set{"fill": "off"}), trainPair(gruPair, set{"fill": "on"}, set{"fill": "off"})}},
		{ID: "ef-item", Guide: "Energy Flow", Claim: ".item() in hot loops", Figure: "avoid it", Host: true, GPU: true,
			AB: []AB{gruPair(set{"item_reads": "8"}, set{"item_reads": "packed"}), e3nnPair(set{"item_reads": "64"}, set{"item_reads": "packed"}),
				trainPair(gruPair, set{"item_reads": "8"}, set{"item_reads": "packed"}), trainPair(e3nnPair, set{"item_reads": "64"}, set{"item_reads": "packed"})}},
		{ID: "compile", Program: []string{"compile"}, Guide: "Energy Flow, Aetheria, DeePAW", Claim: "torch.compile, reduce-overhead", Figure: "20-35 %, 2-3x, 20-50 %", Speedup: 1.2, Host: true, GPU: true,
			AB: append([]AB{gruPair(set{"impl": "plain"}, set{"impl": "fused"}), gruPair(set{"graph": "off"}, set{"graph": "on"}), e3nnPair(set{"graph": "off"}, set{"graph": "on"}), e3nnPair(set{"impl": "unfused"}, set{"impl": "csr"}),
				e3nnPair(set{"impl": "unfused", "graph": "off"}, set{"impl": "unfused", "graph": "on"}),
				gridPair(set{"impl": "split"}, set{"impl": "gemm"}), gridPair(set{"impl": "split"}, set{"impl": "fused"}), gridPair(set{"impl": "split", "graph": "off"}, set{"impl": "split", "graph": "on"})},
				slices.Concat(servingPairs(set{"bn": "apart"}, set{"bn": "fused"}), servingPairs(set{"pad": "on", "graph": "off"}, set{"pad": "on", "graph": "on"}), trainPairs(set{"graph": "off"}, set{"graph": "on"}))...)},
	}
}

func pharmagenClaims() []Claim {
	return []Claim{
		{ID: "ph-amp", Guide: "pharmagen, RxVision, DeePAW", Claim: "mixed precision", Figure: "1.5-3x, 40-50 % memory", Speedup: 1.5, Run: Exactly, Host: true, GPU: true,
			AB: precisionPairs()},
		gpuOnly(Claim{ID: "ph-tf32", Program: []string{"tf32"}, Guide: "pharmagen, RxVision", Claim: "TF32", Figure: "8x on Ampere", Speedup: 8,
			AB: append([]AB{gruPair(set{"precision": "fp32"}, set{"precision": "tf32"}), e3nnPair(set{"precision": "fp32"}, set{"precision": "tf32"})},
				append(keepGPU(servingPairs(set{"impl": "im2col", "precision": "fp32"}, set{"impl": "im2col", "precision": "tf32"})), trainPairs(set{"precision": "fp32"}, set{"precision": "tf32"})...)...)}),
		{ID: "ph-async", Guide: "pharmagen", Claim: "non_blocking copies", Figure: "20-30 % utilisation", Speedup: 1.2, Host: true, GPU: true,
			AB: asyncCopies()},
		gpuOnly(Claim{ID: "ph-pin", Program: []string{"pin_memory"}, Guide: "pharmagen, RxVision", Claim: "pin_memory", Figure: "15-20 %", Speedup: 1.15,
			AB: []AB{collatePair(set{"pinned": "off"}, set{"pinned": "on"}), collatePair(set{"pinned": "batch"}, set{"pinned": "on"}), collatePair(set{"pinned": "off"}, set{"pinned": "batch"}),
				transferPair(set{"bytes": "4096", "pinned": "off"}, set{"bytes": "4096", "pinned": "on"}), transferPair(set{"bytes": "1048576", "pinned": "off"}, set{"bytes": "1048576", "pinned": "on"}),
				transferPair(set{"bytes": "1073741824", "pinned": "off"}, set{"bytes": "1073741824", "pinned": "on"})}}),
		{ID: "ph-vec", Guide: "pharmagen, DeePAW", Claim: "vectorised preprocessing", Figure: "10-100x; 9.6 %", Speedup: 10, Host: true,
			AB: []AB{naivePair(set{"impl": "naive"}, set{"impl": "bulk"})}},
		{ID: "ph-all", Guide: "pharmagen", Claim: "everything on", Figure: "2-4x, 30-50 % memory", Speedup: 2, Host: true, GPU: true,
			AB: pipelineChanges()},
	}
}

func deepawClaims() []Claim {
	return []Claim{
		{ID: "dp-collate", Guide: "DeePAW", Claim: "four changes to the collator", Figure: "19.2 -> 3.9 s (46.5, 9.6, 16.7 and 7.8 %)", Speedup: 4.9, Host: true,
			AB: []AB{naivePair(set{}, set{"impl": "cached", "reuse": "on", "shortcut": "on"}), naivePair(set{}, set{"impl": "bulk"}),
				naivePair(set{}, set{"reuse": "on"}), naivePair(set{}, set{"shortcut": "on"})}},
		{ID: "dp-split", Guide: "DeePAW", Claim: "where a batch's time goes", Figure: "63, 16, 8, 8 and 5 %", Run: Share, Shares: []StageShare{{"tensor_product", 0.63}, {"scatter", 0.16}, {"radial", 0.08}, {"linear_gate", 0.08}}, Host: true, GPU: true,
			AB: []AB{e3nnPair(set{}, set{"impl": "unfused"})}},
		{ID: "dp-batch", Guide: "DeePAW", Claim: "a larger batch: 3,000 -> 10,000", Figure: "10-20 %, -70 % launches", Speedup: 1.1, Host: true, GPU: true,
			AB: []AB{e3nnPair(set{"batch": "300"}, set{"batch": "1000"}), e3nnPair(set{"batch": "300", "graph": "on"}, set{"batch": "1000", "graph": "on"}),
				e3nnPair(set{"batch": "300", "graph": "off"}, set{"batch": "300", "graph": "on"})}},
		{ID: "dp-size", Guide: "DeePAW", Claim: "a smaller model: mul 500 -> 256, lmax 4 -> 3", Figure: "about 2x; about 30 %", Speedup: 2, Host: true, GPU: true,
			AB: []AB{e3nnPair(set{"mul": "16"}, set{"mul": "8"}), e3nnPair(set{"lmax": "3"}, set{"lmax": "2"})}},
		{ID: "dp-load", Guide: "DeePAW", Claim: "weights straight to the device, skip keys", Figure: "5 -> 2 s", Speedup: 2.5, Host: true, GPU: true,
			AB: []AB{weightsPair(set{}, set{"load": "direct", "skip_keys": "on"}), weightsPair(set{}, set{"load": "direct"}), weightsPair(set{}, set{"skip_keys": "on"})}},
	}
}

func rxVisionClaims() []Claim {
	high := map[string]string{"CUDA_POWER_MODE": "high"}
	powered := servingPairs(set{}, set{})
	for i := range powered {
		powered[i].EnvB = high
	}
	return append(servingClaims(), []Claim{
		{ID: "rx-power", Guide: "RxVision", Claim: "CUDA_POWER_MODE=high", Figure: "faster", Host: true, GPU: true, Placebo: true,
			AB: append([]AB{{Workload: "gruflow", Preset: "small", A: set{}, B: set{}, EnvB: high}}, powered...)},
		{ID: "rx-prof", Guide: "RxVision", Claim: "profiler schedule wait 1, warmup 1, active 3, repeat 2", Figure: "what watching costs", Run: Overhead, Placebo: true, Host: true, GPU: true,
			AB: []AB{gruPair(set{}, set{})}},
		markMissing(Claim{ID: "rx-ddp", Guide: "RxVision", Claim: "DDP, SyncBatchNorm, TorchScript", Figure: "faster"}, BeyondTool),
	}...)
}
