package guides

import (
	"maps"
	"slices"
)

func trainPair(of func(a, b set) AB, a, b set) AB {
	with := func(s set) set {
		out := set{"pass": "train"}
		maps.Copy(out, s)
		return out
	}
	return of(with(a), with(b))
}

// trainPairs returns a comparison for each workload that trains.
func trainPairs(a, b set) []AB { return []AB{trainPair(gruPair, a, b), trainPair(e3nnPair, a, b)} }

// deepPair compares training steps of e3nn's preset deepaw, three layers, with few channels, for claims that
// recomputation saves memory. In a single layer it saves none: the layer recomputes its discarded values before other
// memory has been freed, so its peak stays the same.
func deepPair(a, b set) AB {
	ab := trainPair(e3nnPair, a, b)
	ab.Preset = "deepaw"
	for _, s := range []set{ab.A, ab.B} {
		s["mul"], s["batch"] = "32", "32"
	}
	return ab
}

// trainClaims returns the claims about training alone. Other claims have comparisons with pass=train as details.
func trainClaims() []Claim {
	kept := trainPair(gruPair, set{"checkpoint": "off"}, set{"checkpoint": "3"})
	scaled := set{"precision": "fp16", "scaler": "dynamic"}
	onHost := set{"precision": "fp16", "scaler": "dynamic", "found_inf": "host"}
	leaking := func(windows string) set { return set{"windows_kept": windows} }
	taped := func(windows string) set { return set{"tape": "saved", "windows_kept": windows} }
	accumulating := func(reset string) set { return set{"accumulate": "4", "reset_stats": reset} }
	return []Claim{
		{ID: "rx-ckpt", Guide: "RxVision, pharmagen", Claim: "recomputing activations saves memory", Figure: "saves memory", Run: Memory, Host: true, GPU: true,
			AB: []AB{kept, deepPair(set{"recompute": "off"}, set{"recompute": "weights"}), deepPair(set{"recompute": "off"}, set{"recompute": "all"})}},
		{ID: "ph-amp-train", Program: []string{"autocast"}, Guide: "pharmagen, RxVision", Claim: "mixed precision in training", Figure: "1.5-3x, 40-50 % memory", Speedup: 1.5, Run: Exactly, Host: true, GPU: true,
			AB: slices.Concat(trainPairs(set{"precision": "fp32"}, set{"precision": "bf16"}), trainPairs(set{"precision": "fp32"}, scaled))},
		{ID: "rx-scaler", Guide: "RxVision", Claim: "scale, unscale, clip, step, update", Figure: "no figure", Host: true, GPU: true,
			AB: slices.Concat(trainPairs(onHost, scaled), trainPairs(set{"precision": "fp16"}, scaled), trainPairs(set{"clip_where": "host"}, set{"clip_where": "device"}))},
		{ID: "ef-loss", Guide: "Energy Flow", Claim: ".item() on the loss of every step", Figure: "avoid it", Host: true, GPU: true,
			AB: slices.Concat(trainPairs(set{"loss_read": "step"}, set{"loss_read": "never"}), trainPairs(set{"loss_read": "every:10"}, set{"loss_read": "never"}))},
		{ID: "ef-accum", Guide: "Energy Flow", Claim: "reset the peak at every accumulation step", Figure: "no cost", Placebo: true, Host: true, GPU: true,
			AB: []AB{trainPair(gruPair, accumulating("on"), accumulating("off")), trainPair(gruPair, accumulating("sync"), accumulating("off"))}},
		{ID: "ph-detach", Guide: "pharmagen", Claim: "validation tensors that are not detached keep their graphs", Figure: "leaks", Run: Memory, Host: true, GPU: true,
			AB:    []AB{trainPair(gruPair, leaking("8"), leaking("1")), trainPair(gruPair, leaking("2"), leaking("1")), gruPair(taped("64"), taped("1")), gruPair(taped("64"), set{"tape": "off"})},
			Notes: []string{"autograd frees what a graph saved when backward() has gone through it: a loss or state leaks where no backward follows, as in validation, or with retain_graph=True"}},
		{ID: "opt-fused", Program: []string{"fused", "foreach"}, Guide: "PyTorch, not the guides", Claim: "foreach and fused optimizers", Figure: "faster", Host: true, GPU: true,
			AB: slices.Concat(trainPairs(set{"optimizer": "loop"}, set{"optimizer": "fused"}), trainPairs(set{"optimizer": "foreach"}, set{"optimizer": "fused"}), trainPairs(set{"optimizer": "loop"}, set{"optimizer": "foreach"}))},
	}
}
