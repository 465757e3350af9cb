package advise

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// sweep is the command that measures the run's setting and the other values
// named (knob=value), everything else as it was. Values of several knobs make
// the whole grid, from which interactions can be read.
func (s *scene) sweep(change ...string) string {
	both := gpuprof.Settings{}
	for _, c := range change {
		knob, to, _ := strings.Cut(c, "=")
		both[knob] = to
	}
	return commandOf(s.run, s.o, both)
}

// commandOf spells the run's own command, with the value of change beside the
// run's for each knob in it.
func commandOf(r *gpuprof.Run, o Options, change gpuprof.Settings) string {
	args := []string{"gpuprof", "run", r.Workload}
	if r.Preset != "" {
		args = append(args, "--preset", r.Preset)
	}
	if r.Mode != "" && r.Mode != gpuprof.Steady {
		args = append(args, "--mode", string(r.Mode))
	}
	if r.Seed != 1 {
		args = append(args, "--seed", strconv.FormatUint(r.Seed, 10))
	}
	args = append(args, o.Flags...)
	for _, knob := range slices.Sorted(maps.Keys(r.Knobs)) {
		if _, swept := change[knob]; !swept && (o.Base == nil || o.Base[knob] != r.Knobs[knob]) {
			args = append(args, "--set", knob+"="+r.Knobs[knob])
		}
	}
	for _, knob := range slices.Sorted(maps.Keys(change)) {
		args = append(args, "--set", knob+"="+r.Knobs[knob]+","+change[knob])
	}
	for i := range args {
		args[i] = quoted(args[i])
	}
	return strings.Join(args, " ")
}

// quoted makes a word safe for a POSIX shell.
func quoted(w string) string {
	plain := w != "" && strings.IndexFunc(w, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%", r)
	}) < 0
	if plain {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

// pytorchOf is what turning a knob means in a PyTorch program.
func pytorchOf(knob string) string {
	return map[string]string{
		"sync":          "remove torch.cuda.synchronize() from the loop; synchronise only around a measurement",
		"item_reads":    "keep losses on the device (running += loss.detach()) and read them with one .item() every N steps, not one a metric and step",
		"reset_stats":   "drop torch.cuda.synchronize() before torch.cuda.reset_peak_memory_stats(): the counter is the host's",
		"pool_trim":     "remove torch.cuda.empty_cache() from the loop",
		"async_copy":    "batch = batch.to(device, non_blocking=True), from pinned memory; no .cpu() in the loop",
		"pinned":        "DataLoader(..., pin_memory=True), and batch.to(device, non_blocking=True)",
		"streams":       "copy the next batch in a torch.cuda.Stream of its own, and main.wait_stream(copies) before it is used",
		"impl":          "use a fused operator: a CUDA extension or torch.compile(model) in place of one kernel an operation",
		"workers":       "DataLoader(..., num_workers=max(1, min(os.cpu_count() - 1, 4)), persistent_workers=True, prefetch_factor=4)",
		"persistent":    "DataLoader(..., persistent_workers=True)",
		"worker_kind":   "DataLoader(..., num_workers=...): in one process only where the dataset releases the GIL",
		"prefetch":      "DataLoader(..., prefetch_factor=4)",
		"graph":         `torch.compile(model, mode="reduce-overhead"), or torch.cuda.make_graphed_callables`,
		"deterministic": "torch.use_deterministic_algorithms(False), where the result need not repeat bit by bit",
		"fill":          "torch.utils.deterministic.fill_uninitialized_memory = False",
		"precision":     `torch.set_float32_matmul_precision("high"), or torch.autocast("cuda", dtype=torch.bfloat16)`,
		"library":       "nothing to change: torch.matmul calls cuBLAS already",
		"threads":       "torch.set_num_threads(os.cpu_count())",
		"batch":         "DataLoader(..., batch_size=...), and the learning rate that goes with it",
		"autotune":      "torch.backends.cudnn.benchmark = True",
		"layout":        "store features in the order the kernel reads them (for convolutions memory_format=torch.channels_last)",
		"reuse":         "collate into tensors allocated once instead of torch.stack into new ones",
		"shortcut":      "return the only sample of a batch as it is instead of stacking it",
	}[knob]
}

// pytorchTowards is the line for PyTorch where it asks for this very value.
func pytorchTowards(knob, value string) string {
	good := map[string]string{
		"sync": "never", "item_reads": "packed", "reset_stats": "off", "pool_trim": "never", "async_copy": "on", "pinned": "on", "streams": "2",
		"persistent": "on", "worker_kind": "goroutine", "graph": "on", "deterministic": "off", "fill": "off", "library": "auto", "threads": "all",
		"reuse": "on", "shortcut": "on", "autotune": "on",
	}
	switch want, listed := good[knob]; {
	case knob == "threads" && value != "all":
	case knob == "item_reads" && value == "0":
	case listed && value != want,
		knob == "precision" && value == "fp32", knob == "workers" && value == "0",
		knob == "impl" && slices.Contains([]string{"plain", "naive", "unfused"}, value):
		return ""
	}
	if n, err := strconv.Atoi(value); err == nil && n > 0 {
		switch knob {
		case "threads":
			return "torch.set_num_threads(" + value + ")"
		case "workers":
			return "DataLoader(..., num_workers=" + value + ", persistent_workers=True)"
		case "prefetch":
			return "DataLoader(..., prefetch_factor=" + value + ")"
		}
	}
	return pytorchOf(knob)
}
