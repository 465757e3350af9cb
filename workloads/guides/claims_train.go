package guides

import "maps"

// training is a comparison of steps that train.
func training(of func(a, b set) AB, a, b set) AB {
	with := func(s set) set {
		out := set{"pass": "train"}
		maps.Copy(out, s)
		return out
	}
	return of(with(a), with(b))
}

// trainings is the same of both workloads that train.
func trainings(a, b set) []AB { return []AB{training(gru, a, b), training(eq, a, b)} }

// deep is a pair of e3nn's networks of three layers, with few channels. What a single layer does not
// keep it makes again while nothing else has been freed, so its peak is the same.
func deep(a, b set) AB {
	ab := training(eq, a, b)
	ab.Preset = "deepaw"
	for _, s := range []set{ab.A, ab.B} {
		s["mul"], s["batch"] = "32", "32"
	}
	return ab
}

// trainClaims are of training alone; rows of other guides have their pass=train as details.
func trainClaims() []Claim {
	kept := training(gru, set{"checkpoint": "off"}, set{"checkpoint": "3"})
	scaled := set{"precision": "fp16", "scaler": "dynamic"}
	onHost := set{"precision": "fp16", "scaler": "dynamic", "found_inf": "host"}
	leaking := func(windows string) set { return set{"windows_kept": windows} }
	taped := func(windows string) set { return set{"tape": "saved", "windows_kept": windows} }
	accumulating := func(reset string) set { return set{"accumulate": "4", "reset_stats": reset} }
	return []Claim{
		{ID: "rx-ckpt", Guide: "RxVision, pharmagen", Claim: "recomputing activations saves memory", Figure: "saves memory", Run: Memory, Host: true, GPU: true,
			AB: []AB{kept, deep(set{"recompute": "off"}, set{"recompute": "weights"}), deep(set{"recompute": "off"}, set{"recompute": "all"})}},
		{ID: "ph-amp-train", Guide: "pharmagen, RxVision", Claim: "mixed precision in training", Figure: "1.5-3x, 40-50 % memory", Speedup: 1.5, Run: Exactly, Host: true, GPU: true,
			AB: all(trainings(set{"precision": "fp32"}, set{"precision": "bf16"}), trainings(set{"precision": "fp32"}, scaled))},
		{ID: "rx-scaler", Guide: "RxVision", Claim: "scale, unscale, clip, step, update", Figure: "no figure", Host: true, GPU: true,
			AB: all(trainings(onHost, scaled), trainings(set{"precision": "fp16"}, scaled), trainings(set{"clip_where": "host"}, set{"clip_where": "device"}))},
		{ID: "ef-loss", Guide: "Energy Flow", Claim: ".item() on the loss of every step", Figure: "avoid it", Host: true, GPU: true,
			AB: all(trainings(set{"loss_read": "step"}, set{"loss_read": "never"}), trainings(set{"loss_read": "every:10"}, set{"loss_read": "never"}))},
		{ID: "ef-accum", Guide: "Energy Flow", Claim: "reset the peak at every accumulation step", Figure: "no cost", Placebo: true, Host: true, GPU: true,
			AB: []AB{training(gru, accumulating("on"), accumulating("off")), training(gru, accumulating("sync"), accumulating("off"))}},
		{ID: "ph-detach", Guide: "pharmagen", Claim: "validation tensors that are not detached keep their graphs", Figure: "leaks", Run: Memory, Host: true, GPU: true,
			AB:    []AB{training(gru, leaking("8"), leaking("1")), training(gru, leaking("2"), leaking("1")), gru(taped("64"), taped("1")), gru(taped("64"), set{"tape": "off"})},
			Notes: []string{"autograd frees what a graph saved when backward() has gone through it: a loss or state leaks where no backward follows, as in validation, or with retain_graph=True"}},
		{ID: "opt-fused", Guide: "PyTorch, not the guides", Claim: "foreach and fused optimizers", Figure: "faster", Host: true, GPU: true,
			AB: all(trainings(set{"optimizer": "loop"}, set{"optimizer": "fused"}), trainings(set{"optimizer": "foreach"}, set{"optimizer": "fused"}), trainings(set{"optimizer": "loop"}, set{"optimizer": "foreach"}))},
	}
}
