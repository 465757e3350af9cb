package guides

import (
	"maps"
	"runtime"
	"slices"
	"strconv"
)

// Presets by kind of device: the small network would not occupy a GPU.
const (
	servedOnHost = "small"
	servedOnGPU  = "rxvision"
)

// servingPairs returns one comparison of the service for each kind of device, with that device's network.
func servingPairs(a, b set) []AB {
	return []AB{
		{Workload: "serving", Preset: servedOnHost, A: a, B: b, On: "host"},
		{Workload: "serving", Preset: servedOnGPU, A: a, B: b, On: "cuda"},
	}
}

// loadPairs compares the service under a load by latency. On the host device it leaves a CPU to the sender.
func loadPairs(load string, a, b set) []AB {
	out := servingPairs(a, b)
	for i := range out {
		ab := &out[i]
		ab.A, ab.B, ab.Latency = maps.Clone(a), maps.Clone(b), true
		for _, side := range []set{ab.A, ab.B} {
			side["load"] = load
			if ab.On == "host" {
				side["threads"] = strconv.Itoa(max(1, runtime.NumCPU()-1))
			}
		}
	}
	return out
}

func keepGPU(abs []AB) (out []AB) {
	for _, ab := range abs {
		if ab.On == "cuda" {
			out = append(out, ab)
		}
	}
	return out
}

func servingClaims() []Claim {
	wait, none := set{"max_delay": "0.1"}, set{"max_delay": "0"}
	return []Claim{
		{ID: "rx-batch", Guide: "RxVision", Claim: "dynamic batching: max 32, 0.1 s", Figure: "recommended", Host: true, GPU: true,
			AB: slices.Concat(servingPairs(set{"max_batch": "1"}, set{"max_batch": "32"}), loadPairs("0.1", wait, none), loadPairs("0.7", wait, none), loadPairs("0.7", set{"max_batch": "1"}, set{"max_batch": "32"}))},
		{ID: "rx-split", Guide: "RxVision", Claim: "split what waits into batches of the best size", Figure: "recommended", Host: true, GPU: true,
			AB: slices.Concat(servingPairs(set{"split": "off"}, set{"split": "best"}), loadPairs("0.7", set{"split": "off"}, set{"split": "best"}))},
		{ID: "rx-stream", Guide: "RxVision", Claim: "run each batch on a new side stream", Figure: "recommended", Host: true, GPU: true,
			AB:    slices.Concat(servingPairs(set{"streams": "shared"}, set{"streams": "new"}), servingPairs(set{"streams": "shared"}, set{"streams": "own"}), servingPairs(set{"streams": "own"}, set{"streams": "new"})),
			Notes: []string{"the guide's side stream waits for nothing and nothing waits for it, which is a race; here events order it with the copies"}},
		{ID: "rx-layout", Program: []string{"channels_last"}, Guide: "RxVision", Claim: "channels_last, batch-norm folding, int8", Figure: "faster", Host: true, GPU: true,
			AB: slices.Concat(servingPairs(set{"layout": "nchw"}, set{"layout": "nhwc"}), servingPairs(set{"bn": "apart"}, set{"bn": "fold"})),
			Notes: []string{
				"PyTorch 2.9.1's dynamic quantisation changes Linear and leaves Conv2d as it is: the guide's int8 is of the last layer alone, and is not compared here",
				"the guide's call that folds norms takes a pair of modules and fails on a model (TypeError)",
			}},
		{ID: "rx-drop", Guide: "RxVision", Claim: "remove dropout for inference", Figure: "faster", Not: BeyondTool,
			Why: "in evaluation mode dropout is the identity, equal bit for bit in PyTorch, so there is nothing to remove"},
		{ID: "rx-warm", Guide: "RxVision", Claim: "warm the GPU up before the first request", Figure: "recommended", Run: First, Host: true, GPU: true,
			AB: servingPairs(set{"warm": "off"}, set{"warm": "on"})},
	}
}
