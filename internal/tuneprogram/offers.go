package tuneprogram

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof/internal/tune"
)

// offer is a known setting, with the reason in without if this program does not need it.
type offer struct {
	Setting
	without string // why the setting is left out; "" if it is offered
}

// fewTensors is the least number of parameter tensors for which another implementation of the optimizer is tried.
const fewTensors = 4

// leastSubnormal is the least share of subnormal values at which flushing them to zero is tried.
const leastSubnormal = 1e-4

// listOffers returns every known setting, the most likely gains first, and whether it applies to this program, whose
// steps the hook must have seen.
func listOffers(h *tune.HookReport, cpus int) []offer {
	gpu := h.Device == "cuda"
	return slices.Concat(offerRemovals(&h.Seen), offerFlags(&h.Seen, gpu), offerLoaders(&h.Seen, gpu, cpus),
		offerThreads(&h.Seen, gpu, cpus), offerOptimizers(&h.Seen), offerModels(&h.Seen, gpu))
}

// offerUnless returns the setting s as an offer. If holds is false, the offer has the reason why s is left out.
func offerUnless(holds bool, reason string, s Setting) offer {
	if holds {
		reason = ""
	}
	return offer{s, reason}
}

// offerRemovals offers to remove calls that cost time and do not change the training.
func offerRemovals(seen *tune.Observed) (out []offer) {
	for _, call := range []string{"gc.collect", "torch.cuda.synchronize", "torch.cuda.empty_cache",
		"torch.cuda.reset_peak_memory_stats"} {
		sites := slices.Sorted(maps.Keys(seen.Calls[call]))
		out = append(out, offerUnless(len(sites) > 0, "the steps do not call it", Setting{
			Knob: call, From: "called", Value: "removed", Hook: map[string]any{"remove": []string{call}},
			Line: "remove " + call + "() in " + strings.Join(sites, ", "),
		}))
	}
	return out
}

func offerFlags(seen *tune.Observed, gpu bool) []offer {
	return []offer{
		offerUnless(seen.Anomaly > 0, "it is off", Setting{Knob: "anomaly_detection", From: "on", Value: "off",
			Hook: map[string]any{"anomaly_off": true}, Line: "torch.autograd.set_detect_anomaly(False)"}),
		offerUnless(seen.KeepGrads > 0, "gradients are set to None already", Setting{Knob: "set_to_none", From: "False",
			Value: "True",
			Hook:  map[string]any{"set_to_none": true}, Line: "zero_grad(set_to_none=True)"}),
		offerUnless(seen.Deterministic, "it is off", Setting{Knob: "deterministic", From: "on", Value: "off", Change: Rounding,
			Hook: map[string]any{"deterministic_off": true}, Line: "torch.use_deterministic_algorithms(False)"}),
		offerUnless(!seen.MKLDNN && !gpu, "it is on, or a GPU computes", Setting{Knob: "mkldnn", From: "off", Value: "on",
			Change: Rounding,
			Hook:   map[string]any{"mkldnn_on": true}, Line: "torch.backends.mkldnn.enabled = True"}),
		offerUnless(!gpu && seen.Subnormal >= leastSubnormal, "few values are subnormal, or a GPU computes",
			Setting{Knob: "flush_denormal", From: "off", Value: "on",
				Change: Rounding, Hook: map[string]any{"flush_denormal": true}, Line: "torch.set_flush_denormal(True)"}),
		offerUnless(gpu && !seen.CUDNNBenchmark && seen.Images, "no convolution runs on a GPU, or it is on",
			Setting{Knob: "cudnn.benchmark", From: "off", Value: "on",
				Change: Rounding, Hook: map[string]any{"cudnn_benchmark": true}, Line: "torch.backends.cudnn.benchmark = True"}),
		offerUnless(gpu && !seen.TF32, "no GPU computes, or it is on", Setting{Knob: "tf32", From: "off", Value: "on",
			Change: Rounding,
			Hook:   map[string]any{"tf32": true}, Line: `torch.set_float32_matmul_precision("high")`}),
	}
}

// offerLoaders offers DataLoader settings. Settings of num_workers count as Exact: the results are bit-identical unless
// a sample or the sampler draws random numbers, which the loss check detects.
func offerLoaders(seen *tune.Observed, gpu bool, cpus int) (out []offer) {
	var workers int
	var persistent, pinned bool
	why := "the program makes no DataLoader"
	for _, l := range seen.Loaders {
		why = ""
		if l.Workers != nil {
			workers = max(workers, *l.Workers)
		}
		persistent = persistent || l.Persistent != nil && *l.Persistent
		pinned = pinned || l.Pinned != nil && *l.Pinned
	}
	if slices.ContainsFunc(seen.Loaders, func(l tune.Loader) bool { return l.Stream }) {
		why = "a DataLoader reads an IterableDataset, which each worker would yield as a whole"
	}
	from := strconv.Itoa(workers)
	for n := 1; n <= max(cpus, 1) && n <= 16; n *= 2 {
		if n == 1 && cpus > 1 || n == workers {
			continue
		}
		out = append(out, offerUnless(why == "", why, Setting{Knob: "num_workers", From: from, Value: strconv.Itoa(n),
			Hook: map[string]any{"num_workers": n}, Line: fmt.Sprintf("DataLoader(..., num_workers=%d)", n)}))
	}
	epochs := why == "" && workers > 0 && !persistent && countRestarts(seen) > 0
	out = append(out, offerUnless(epochs, "no loader with workers begins a second epoch",
		Setting{Knob: "persistent_workers", From: "False", Value: "True",
			Hook: map[string]any{"persistent_workers": true}, Line: "DataLoader(..., persistent_workers=True)  # later epochs are shuffled in another order"}))
	out = append(out, offerUnless(why == "" && workers > 0, "no DataLoader has workers",
		Setting{Knob: "prefetch_factor", From: "2", Value: "8",
			Hook: map[string]any{"prefetch_factor": 8}, Line: "DataLoader(..., prefetch_factor=8)"}))
	return append(out, offerUnless(why == "" && gpu && !pinned, "no DataLoader feeds a GPU, or its memory is pinned",
		Setting{Knob: "pin_memory", From: "False", Value: "True",
			Hook: map[string]any{"pin_memory": true}, Line: "DataLoader(..., pin_memory=True)"}))
}

// countRestarts counts the epochs that a loader began again: every epoch after the loader's first one.
func countRestarts(seen *tune.Observed) (n int) {
	had := map[int]bool{}
	for _, e := range seen.Epochs {
		if had[e[0]] {
			n++
		}
		had[e[0]] = true
	}
	return n
}

// offerThreads offers fewer CPU threads than the program has: threads beyond the processors wait for each other, and
// small operators are fastest on one thread. It never offers more threads than the user chose.
func offerThreads(seen *tune.Observed, gpu bool, cpus int) (out []offer) {
	for _, n := range slices.Compact([]int{1, cpus}) {
		out = append(out, offerUnless(!gpu && n < seen.Threads, "PyTorch has no more threads than that, or a GPU computes",
			Setting{
				Knob: "threads", From: strconv.Itoa(seen.Threads), Value: strconv.Itoa(n), Change: Rounding, Hook: map[string]any{"threads": n},
				Env: []string{"OMP_NUM_THREADS=" + strconv.Itoa(n)}, Line: fmt.Sprintf("torch.set_num_threads(%d)", n),
			}))
	}
	return out
}

func offerOptimizers(seen *tune.Observed) (out []offer) {
	for _, impl := range []string{"fused", "foreach"} {
		from, why := "None", "no optimizer with many tensors has it, or it is on"
		for _, o := range seen.Optimizers {
			state := o.Fused
			if impl == "foreach" {
				state = o.Foreach
			}
			switch {
			case o.Sparse && impl == "fused":
				why = "gradients are sparse"
			case state != any("absent") && state != any(true) && o.Tensors >= fewTensors:
				why = ""
				if state == any(false) {
					from = "False"
				}
			}
		}
		out = append(out, offer{Setting{Knob: impl, From: from, Value: "True", Change: Rounding,
			Hook: map[string]any{impl: true},
			Line: "optimizer: " + impl + "=True"}, why})
	}
	return out
}

func offerModels(seen *tune.Observed, gpu bool) []offer {
	names := slices.Compact(slices.Sorted(slices.Values(seen.Modules)))
	of := strings.Join(names[:min(len(names), 4)], ", ")
	module := len(names) > 0 && !slices.Contains(names, "OptimizedModule")
	return []offer{
		offerUnless(module && gpu && seen.Images, "no images are computed on a GPU", Setting{Knob: "channels_last",
			From: "off", Value: "on", Change: Rounding,
			Hook: map[string]any{"channels_last": true}, Line: "model.to(memory_format=torch.channels_last)  # " + of}),
		offerUnless(module && gpu, "no GPU computes", Setting{Knob: "autocast", From: "off", Value: "bfloat16", Change: Rounding,
			Hook: map[string]any{"autocast": true}, Line: "with torch.autocast(\"cuda\", dtype=torch.bfloat16):  # around " + of}),
		offerUnless(module, "no module with parameters is called, or the program compiles it", Setting{Knob: "compile",
			From: "off", Value: "default", Change: Rounding, Slow: true,
			Hook: map[string]any{"compile": "default"}, Line: "model.compile()  # " + of}),
	}
}
