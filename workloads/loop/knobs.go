package loop

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

type (
	set   = gpuprof.Settings
	lines = map[string]string
)

const (
	never     = "never"
	resetSync = "sync"
	packed    = "packed"
)

// SyncKnob is the knob sync: in which steps the caller waits for the device. def is its default.
func SyncKnob(doc, def string) workloads.Knob {
	k := workloads.EveryKnob("sync", doc, def, never, "step")
	k.Try, k.Acts = []string{never, "step", "every:10"}, callerStages()
	k.Answers = []workloads.Answer{{Remedy: workloads.SkipSync, To: never, Waits: workloads.CountWaits(func(p Pace) float64 { return workloads.CountPerStep(p.Every) })}}
	k.Advice = lines{never: "remove torch.cuda.synchronize() from the loop; synchronize only around a measurement"}
	k.PyTorch = lines{never: "# delete torch.cuda.synchronize() from the loop", "step": "torch.cuda.synchronize()  # every step",
		workloads.AnyValue: "if step % %s == 0: torch.cuda.synchronize()"}
	return k
}

// ItemReads completes the knob item_reads: the number of results that a step reads one by one, as .item() does. off is
// the value with which a step reads none this way.
func ItemReads(k workloads.Knob, off string) workloads.Knob {
	k.Name, k.Try, k.Acts = "item_reads", []string{packed, "0", "4"}, callerStages()
	k.Answers = []workloads.Answer{{Remedy: workloads.ReadTogether, To: off, Waits: workloads.CountWaits(func(p Pace) float64 { return float64(p.Items) })}}
	advice := "keep losses on the device (running += loss.detach()) and read them with one .item() every N steps, not one per metric and step"
	k.Advice = lines{packed: advice, "0": advice}
	k.PyTorch = lines{
		packed:             "values = torch.stack(metrics).tolist()  # one copy instead of an .item() each",
		"0":                "total += loss.detach()  # instead of loss.item(); read it once per epoch",
		workloads.AnyValue: "values = [m.item() for m in metrics]  # %s of them per step",
	}
	return k
}

// PackedReads returns the knob item_reads (see ItemReads) for a workload that by default reads all results in one
// packed copy.
func PackedReads(doc string, least, most int) workloads.Knob {
	return ItemReads(workloads.Knob{Doc: doc, Default: packed, Values: []string{packed}, Accept: fmt.Sprintf("integer from %d to %d", least, most),
		Parse: func(s string) (string, error) {
			n, err := strconv.Atoi(s)
			if err != nil || n < least || n > most {
				return "", fmt.Errorf("is not a whole number from %d to %d", least, most)
			}
			if n == 0 {
				return packed, nil
			}
			return strconv.Itoa(n), nil
		}}, packed)
}

type resets struct {
	Reset      string `knob:"reset_stats"`
	Accumulate int    `knob:"accumulate"`
}

// ResetKnob is the knob reset_stats: whether each step restarts the peak of memory use.
func ResetKnob(doc string) workloads.Knob {
	k := workloads.Choice("reset_stats", doc, "off", "on", resetSync)
	k.Acts = callerStages()
	k.Answers = []workloads.Answer{{Remedy: workloads.LeavePeak, To: "off", Waits: workloads.CountWaits(func(p resets) float64 {
		if p.Reset == resetSync {
			return float64(max(1, p.Accumulate)) // once per micro-batch
		}
		return 0
	})}}
	k.Advice = lines{"off": "drop torch.cuda.synchronize() before torch.cuda.reset_peak_memory_stats(): the counter is the host's"}
	k.PyTorch = lines{
		"off": "# delete torch.cuda.reset_peak_memory_stats() from the loop", "on": "torch.cuda.reset_peak_memory_stats()  # every step, without a synchronization",
		resetSync: "torch.cuda.synchronize(); torch.cuda.reset_peak_memory_stats()  # every step",
	}
	return k
}

// TrimKnob is the knob pool_trim: in which steps cached memory returns to the device.
func TrimKnob(doc string) workloads.Knob {
	k := workloads.EveryKnob("pool_trim", doc, never, never)
	k.Try, k.Acts = []string{"every:50"}, callerStages()
	k.Answers = []workloads.Answer{{Remedy: workloads.KeepPool, To: never, Waits: workloads.CountWaits(func(p Pace) float64 { return workloads.CountPerStep(p.Trims) })}}
	k.Advice = lines{never: "remove torch.cuda.empty_cache() from the loop"}
	k.PyTorch = lines{never: "# delete torch.cuda.empty_cache() from the loop", workloads.AnyValue: "if step % %s == 0: torch.cuda.empty_cache()"}
	return k
}

// AsyncKnob is the knob async_copy: whether the caller continues without waiting for its copies.
func AsyncKnob(doc string) workloads.Knob {
	k := workloads.Choice("async_copy", doc, "on", "off")
	k.Acts = slices.Concat(copyStages(), callerStages())
	k.Answers = []workloads.Answer{{Remedy: workloads.CopyUnwaited, To: "on", Waits: func(s set, counters map[string]float64) float64 {
		switch {
		case !workloads.Read[Pace](s).Blocking:
			return 0
		case counters["copies_d2h"] > 0:
			return 2 // the caller also waits for the result
		}
		return 1
	}}}
	k.Advice = lines{"on": "batch = batch.to(device, non_blocking=True), from pinned memory; no .cpu() in the loop"}
	k.PyTorch = lines{"on": "batch = batch.to(device, non_blocking=True)", "off": "batch = batch.to(device)"}
	return k
}

// PinnedKnob is the knob pinned: host memory of copies is pageable (off), pinned (on) or pinned anew (batch).
func PinnedKnob(doc string, values ...string) workloads.Knob {
	k := workloads.Choice("pinned", doc, values...)
	k.Acts = copyStages()
	k.Answers = []workloads.Answer{{Remedy: workloads.PinMemory, To: "on", When: set{"pinned": "off"}}}
	if slices.Contains(values, "batch") {
		k.Answers = append(k.Answers, workloads.Answer{Remedy: workloads.PinOnce, To: "on", When: set{"pinned": "batch"}})
	}
	k.Advice = lines{"on": "DataLoader(..., pin_memory=True), and batch.to(device, non_blocking=True)"}
	k.PyTorch = lines{
		"on": "loader = DataLoader(dataset, pin_memory=True)", "off": "loader = DataLoader(dataset, pin_memory=False)",
		"batch": "batch = batch.pin_memory()",
	}
	return k
}

// StreamsKnob is the knob streams: copies on their own stream, or on the stream of the computation.
func StreamsKnob(doc string) workloads.Knob {
	k := workloads.Choice("streams", doc, "2", "1")
	k.Acts = copyStages()
	k.Answers = []workloads.Answer{{Remedy: workloads.CopyBeside, To: "2", When: set{"streams": "1"}}}
	k.Advice = lines{"2": "copy the next batch in a torch.cuda.Stream of its own, and main.wait_stream(copies) before it is used"}
	k.PyTorch = lines{
		"2": "with torch.cuda.stream(copy_stream): batch = batch.to(device, non_blocking=True)",
		"1": "batch = batch.to(device, non_blocking=True)  # on the current stream",
	}
	return k
}

// ThreadsKnob is the knob threads: the CPUs that kernels of the host device may use.
func ThreadsKnob(doc string) workloads.Knob {
	cores := runtime.NumCPU()
	k := workloads.CountKnob("threads", doc)
	k.Try, k.Acts = []string{"1", strconv.Itoa(max(1, cores/2)), strconv.Itoa(cores)}, []string{workloads.AllStages}
	k.Answers = []workloads.Answer{{Remedy: workloads.UseThreads, To: "all"}}
	k.Advice = lines{"all": "torch.set_num_threads(os.cpu_count())", workloads.AnyValue: "torch.set_num_threads(%s)"}
	k.PyTorch = k.Advice
	return k
}

// BatchKnob is the knob batch: the work per step. limit is the key in Session.Input of its maximum.
func BatchKnob(doc string, def, most int, limit string) workloads.Knob {
	k := workloads.IntKnob("batch", doc, def, 1, most)
	k.Scales, k.Acts = true, []string{workloads.AllStages}
	k.Answers = []workloads.Answer{{Remedy: workloads.GrowBatch, Limit: limit}}
	k.Advice = lines{workloads.AnyValue: "DataLoader(..., batch_size=...), and the learning rate that goes with it"}
	k.PyTorch = lines{workloads.AnyValue: "loader = DataLoader(dataset, batch_size=%s)"}
	return k
}

// GraphKnob is the knob graph: one launch graph per step. A graph keeps pooled memory, which excludes pool_trim.
func GraphKnob(doc string) workloads.Knob {
	k := workloads.Choice("graph", doc, "off", "on")
	k.Acts = []string{workloads.AllStages}
	k.Answers = []workloads.Answer{{Remedy: workloads.CaptureGraph, To: "on", When: set{"graph": "off", "pool_trim": never}}}
	k.Advice = lines{"on": `torch.compile(model, mode="reduce-overhead"), or torch.cuda.make_graphed_callables`}
	k.PyTorch = lines{"on": "model = torch.compile(model, mode='reduce-overhead')", "off": "model = torch.compile(model)  # without mode='reduce-overhead'"}
	return k
}

// LibraryKnob is the knob library: the implementation of matrix products. acts are the stages with products.
func LibraryKnob(doc string, acts ...string) workloads.Knob {
	const nothing = "# nothing to change: torch.matmul calls cuBLAS if it is found"
	k := workloads.Choice("library", doc, "auto", "on", "off")
	k.Acts = acts
	k.Answers = []workloads.Answer{{Remedy: workloads.UseLibrary, To: "auto", When: set{"library": "off"}}}
	k.Advice = lines{"auto": "nothing to change: torch.matmul calls cuBLAS already"}
	k.PyTorch = lines{
		"auto": nothing, "on": nothing,
		"off": "torch._inductor.config.max_autotune_gemm_backends = 'TRITON'  # with torch.compile(model, mode='max-autotune')",
	}
	return k
}

// PrecisionKnob is the knob precision: the rounding of the products' inputs. The parameter unless holds settings
// under which no library product can become faster by a lower precision.
func PrecisionKnob(doc string, unless gpuprof.Settings, acts ...string) workloads.Knob {
	k := workloads.Choice("precision", doc, "fp32", "tf32", "bf16", "fp16")
	k.Acts = acts
	k.Answers = []workloads.Answer{{Remedy: workloads.LowerPrecision, When: set{"precision": "fp32"}, Unless: unless}}
	k.Advice = lines{"fp32": "", workloads.AnyValue: `torch.set_float32_matmul_precision("high"), or torch.autocast("cuda", dtype=torch.bfloat16)`}
	k.PyTorch = lines{
		"fp32": "torch.set_float32_matmul_precision('highest')", "tf32": "torch.set_float32_matmul_precision('high')",
		"bf16": "with torch.autocast('cuda', dtype=torch.bfloat16): out = model(batch)",
		"fp16": "with torch.autocast('cuda', dtype=torch.float16): out = model(batch)",
	}
	return k
}

// OrderKnob is the knob deterministic: sums in a fixed order. def is the default. The parameter a is the answer that
// names the settings in which the order costs time, and the affected part of the step.
func OrderKnob(doc, def string, a workloads.Answer, acts ...string) workloads.Knob {
	k := workloads.Choice("deterministic", doc, "on", "off")
	if def == "off" {
		k = workloads.Choice("deterministic", doc, "off", "on")
	}
	a.Remedy, a.To, a.When = workloads.AllowAnyOrder, "off", maps.Clone(a.When)
	if a.When == nil {
		a.When = set{}
	}
	a.When["deterministic"] = "on"
	k.Acts, k.Answers = acts, []workloads.Answer{a}
	k.Advice = lines{"off": "torch.use_deterministic_algorithms(False), if the result need not repeat bit by bit"}
	k.PyTorch = lines{"on": "torch.use_deterministic_algorithms(True)", "off": "torch.use_deterministic_algorithms(False)"}
	return k
}

// AutotuneKnob is the knob autotune: a search for the fastest launch shapes.
func AutotuneKnob(doc string) workloads.Knob {
	k := workloads.Choice("autotune", doc, "off", "on")
	k.Acts = []string{workloads.AllStages}
	k.Advice = lines{"on": "torch.backends.cudnn.benchmark = True"}
	k.PyTorch = lines{"on": "model = torch.compile(model, mode='max-autotune-no-cudagraphs')", "off": "model = torch.compile(model)  # without mode='max-autotune'"}
	return k
}

// FuseAdvice is the Advice of a knob with fused implementations; slow is the unfused value.
func FuseAdvice(slow string) map[string]string {
	return lines{slow: "", workloads.AnyValue: "use a fused operator: a CUDA extension or torch.compile(model) in place of one kernel per operation"}
}
