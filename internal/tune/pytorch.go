package tune

import (
	"slices"
	"strings"
)

// anyValue stands in pytorch for every value that has no line of its own; its
// line has %s in the value's place.
const anyValue = "*"

// pytorch maps knob and value to the line to change in a PyTorch program. What
// means something else in one workload stands in pytorchOf.
func pytorch() map[string]map[string]string {
	const elsewhere = "# nothing to change: torch.matmul calls cuBLAS if it is found"
	return map[string]map[string]string{
		"async_copy":    {"on": "batch = batch.to(device, non_blocking=True)", "off": "batch = batch.to(device)"},
		"autotune":      {"on": "model = torch.compile(model, mode='max-autotune-no-cudagraphs')", "off": "model = torch.compile(model)  # without mode='max-autotune'"},
		"batch":         {anyValue: "loader = DataLoader(dataset, batch_size=%s)"},
		"deterministic": {"on": "torch.use_deterministic_algorithms(True)", "off": "torch.use_deterministic_algorithms(False)"},
		"epoch":         {anyValue: "# %s batches per epoch, after which a loader without persistent_workers ends its workers"},
		"fill":          {"on": "torch.utils.deterministic.fill_uninitialized_memory = True", "off": "torch.utils.deterministic.fill_uninitialized_memory = False"},
		"graph":         {"on": "model = torch.compile(model, mode='reduce-overhead')", "off": "model = torch.compile(model)  # without mode='reduce-overhead'"},
		"item_reads": {
			"packed": "values = torch.stack(metrics).tolist()  # one copy instead of an .item() each",
			"0":      "total += loss.detach()  # instead of loss.item(); read it once per epoch",
			anyValue: "values = [m.item() for m in metrics]  # %s of them per step",
		},
		"layout": {"ir_mul": "cuequivariance_torch layout: cue.ir_mul", "mul_ir": "cuequivariance_torch layout: cue.mul_ir"},
		"library": {
			"auto": elsewhere, "on": elsewhere,
			"off": "torch._inductor.config.max_autotune_gemm_backends = 'TRITON'  # with torch.compile(model, mode='max-autotune')",
		},
		"persistent": {
			"on":  "loader = DataLoader(dataset, num_workers=N, persistent_workers=True)",
			"off": "loader = DataLoader(dataset, num_workers=N, persistent_workers=False)",
		},
		"pinned": {
			"on": "loader = DataLoader(dataset, pin_memory=True)", "off": "loader = DataLoader(dataset, pin_memory=False)",
			"batch": "batch = batch.pin_memory()",
		},
		"pool_trim": {"never": "# delete torch.cuda.empty_cache() from the loop", anyValue: "if step % %s == 0: torch.cuda.empty_cache()"},
		"precision": {
			"fp32": "torch.set_float32_matmul_precision('highest')", "tf32": "torch.set_float32_matmul_precision('high')",
			"bf16": "with torch.autocast('cuda', dtype=torch.bfloat16): out = model(batch)",
			"fp16": "with torch.autocast('cuda', dtype=torch.float16): out = model(batch)",
		},
		"prefetch": {anyValue: "loader = DataLoader(dataset, num_workers=N, prefetch_factor=%s)"},
		"reset_stats": {
			"off": "# delete torch.cuda.reset_peak_memory_stats() from the loop", "on": "torch.cuda.reset_peak_memory_stats()  # every step, without a synchronization",
			"sync": "torch.cuda.synchronize(); torch.cuda.reset_peak_memory_stats()  # every step",
		},
		"reuse":    {"on": "out = torch.cat(samples, out=buffer)  # a buffer kept from batch to batch", "off": "out = torch.cat(samples)  # into new memory each time"},
		"shortcut": {"on": "collate_fn = lambda s: s[0] if len(s) == 1 else default_collate(s)", "off": "collate_fn = default_collate  # also of a single sample"},
		"streams": {
			"2": "with torch.cuda.stream(copy_stream): batch = batch.to(device, non_blocking=True)",
			"1": "batch = batch.to(device, non_blocking=True)  # on the current stream",
		},
		"sync": {
			"never": "# delete torch.cuda.synchronize() from the loop", "step": "torch.cuda.synchronize()  # every step",
			anyValue: "if step % %s == 0: torch.cuda.synchronize()",
		},
		"threads":     {"all": "torch.set_num_threads(os.cpu_count())", anyValue: "torch.set_num_threads(%s)"},
		"workers":     {"auto": "loader = DataLoader(dataset, num_workers=max(1, min(os.cpu_count() - 1, 4)))", anyValue: "loader = DataLoader(dataset, num_workers=%s)"},
		"worker_kind": {"process": "loader = DataLoader(dataset, num_workers=N)", "goroutine": "# threads instead of processes: a loader of your own with concurrent.futures.ThreadPoolExecutor"},
	}
}

// pytorchOf is what the knob impl means in each workload.
func pytorchOf() map[string]map[string]string {
	const gru = "rnn = torch.nn.GRU(...)  # instead of a loop over torch.nn.GRUCell"
	return map[string]map[string]string{
		"e3nn": {
			"unfused": "out.index_add_(0, dst, tp(x[src], sh, weights))  # e3nn as it is, one operation at a time",
			"fused":   "tp = openequivariance.TensorProductConv(problem, deterministic=False)  # gather, product and sum in one kernel",
			"csr":     "tp = openequivariance.TensorProductConv(problem, deterministic=True)  # edges sorted by destination",
			"csr+mlp": "# the product's kernel computes its weights too: no library offers that, it takes a kernel of your own (Triton)",
		},
		"gruflow": {
			"auto": gru, "cudnn": gru,
			"fused":      "cell = torch.compile(cell)  # fuses what eager launches one by one",
			"plain":      "cell = torch.nn.GRUCell(...)  # written out in operations, not compiled",
			"persistent": "out, h = rnn(sequence)  # all time steps in one call instead of a loop",
		},
		"collate": {
			"naive": "# lists that grow element by element, then torch.tensor(list)", "bulk": "batch = torch.cat(samples)  # instead of appending element by element",
			"cached": "graph = graphs[structure]  # build each structure's graph once, then torch.cat",
		},
	}
}

// PyTorchLine is the line to change in a PyTorch program for a value of a
// workload's knob; empty where there is none.
func PyTorchLine(workload, knob, value string) string {
	lines := pytorch()[knob]
	if knob == "impl" {
		lines = pytorchOf()[workload]
	}
	if line, ok := lines[value]; ok {
		return line
	}
	return strings.ReplaceAll(lines[anyValue], "%s", strings.TrimPrefix(value, "every:"))
}

// Lines of one call: a program that held one of them a knob would make the
// loader, or compile, again and keep the last alone.
const (
	loaderCall  = "loader = DataLoader(dataset, "
	compileCall = "model = torch.compile(model"
)

// pytorchLines are the lines to change for several knobs at once, one a call.
func pytorchLines(workload string, changes []Change) []string {
	out := []string{}
	var loader, compiled []string
	for _, c := range changes {
		line := PyTorchLine(workload, c.Knob, c.To)
		args, loads := strings.CutPrefix(line, loaderCall)
		switch {
		case line == "":
		case loads:
			loader = append(loader, strings.TrimSuffix(args, ")"))
		case strings.HasPrefix(line, compileCall):
			compiled = append(compiled, line)
		default:
			out = append(out, line)
		}
	}
	// A copy on a stream of its own is the copy that another knob asks for.
	out = slices.DeleteFunc(out, func(line string) bool {
		return slices.ContainsFunc(out, func(o string) bool { return o != line && strings.HasSuffix(o, ": "+line) })
	})
	if len(loader) > 0 {
		out = append(out, loaderCall+strings.Join(loaderArgs(loader), ", ")+")")
	}
	return append(out, compileLine(compiled)...)
}

// loaderArgs are the arguments of one loader, the number of its workers once.
// Without workers PyTorch refuses what is about them.
func loaderArgs(args []string) []string {
	const anyNumber = "num_workers=N"
	number := ""
	var out []string
	for _, a := range args {
		if strings.HasPrefix(a, "num_workers=") && !strings.HasPrefix(a, anyNumber) {
			number = a
			continue
		}
		rest, about := strings.CutPrefix(a, anyNumber)
		if rest = strings.TrimPrefix(rest, ", "); about && number == "" {
			number = anyNumber
		}
		if rest != "" {
			out = append(out, rest)
		}
	}
	if number == "num_workers=0" {
		out = slices.DeleteFunc(out, func(a string) bool {
			return strings.HasPrefix(a, "persistent_workers=") || strings.HasPrefix(a, "prefetch_factor=")
		})
	}
	if number != "" {
		out = append([]string{number}, out...)
	}
	return out
}

// compileLine is the one way to compile a model that several knobs ask for:
// max-autotune is the mode that has CUDA graphs too.
func compileLine(lines []string) []string {
	if len(lines) < 2 {
		return lines
	}
	modes := slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return !strings.HasPrefix(l, compileCall+", mode=") })
	switch len(modes) {
	case 0:
		return []string{compileCall + ")  # without a mode"}
	case 1:
		return modes
	}
	return []string{compileCall + ", mode='max-autotune')"}
}
