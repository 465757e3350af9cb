package tune

import "strings"

// pytorch maps knob=value to the line to change in a PyTorch program; a knob
// alone stands for every value, with %s in its place.
func pytorch() map[string]string {
	return map[string]string{
		"batch":               "loader = DataLoader(dataset, batch_size=%s)",
		"workers":             "loader = DataLoader(dataset, num_workers=%s)",
		"prefetch":            "loader = DataLoader(dataset, num_workers=N, prefetch_factor=%s)",
		"persistent=on":       "loader = DataLoader(dataset, num_workers=N, persistent_workers=True)",
		"persistent=off":      "loader = DataLoader(dataset, num_workers=N, persistent_workers=False)",
		"pinned=on":           "loader = DataLoader(dataset, pin_memory=True)",
		"pinned=off":          "loader = DataLoader(dataset, pin_memory=False)",
		"pinned=batch":        "batch = batch.pin_memory()",
		"async_copy=on":       "batch = batch.to(device, non_blocking=True)",
		"async_copy=off":      "batch = batch.to(device)",
		"streams=2":           "with torch.cuda.stream(copy_stream): batch = batch.to(device, non_blocking=True)",
		"streams=1":           "batch = batch.to(device, non_blocking=True)  # on the current stream",
		"precision=fp32":      "torch.set_float32_matmul_precision('highest')",
		"precision=tf32":      "torch.set_float32_matmul_precision('high')",
		"precision=bf16":      "with torch.autocast('cuda', dtype=torch.bfloat16): out = model(batch)",
		"precision=fp16":      "with torch.autocast('cuda', dtype=torch.float16): out = model(batch)",
		"deterministic=off":   "torch.use_deterministic_algorithms(False)",
		"deterministic=on":    "torch.use_deterministic_algorithms(True)",
		"fill=off":            "torch.utils.deterministic.fill_uninitialized_memory = False",
		"fill=on":             "torch.utils.deterministic.fill_uninitialized_memory = True",
		"graph=on":            "model = torch.compile(model, mode='reduce-overhead')",
		"graph=off":           "model = torch.compile(model)  # without mode='reduce-overhead'",
		"autotune=on":         "model = torch.compile(model, mode='max-autotune-no-cudagraphs')",
		"sync=never":          "# delete torch.cuda.synchronize() from the loop",
		"sync=step":           "torch.cuda.synchronize()  # every step",
		"sync":                "if step %% K == 0: torch.cuda.synchronize()  # %s",
		"item_reads=packed":   "values = torch.stack(metrics).tolist()  # one copy instead of an .item() each",
		"item_reads=0":        "total += loss.detach()  # instead of loss.item(); read it once an epoch",
		"reset_stats=off":     "# delete torch.cuda.reset_peak_memory_stats() from the loop",
		"pool_trim=never":     "# delete torch.cuda.empty_cache() from the loop",
		"threads":             "torch.set_num_threads(%s)",
		"impl=fused":          "model = torch.compile(model)  # fuses what eager launches one by one",
		"impl=cudnn":          "rnn = torch.nn.GRU(...)  # instead of a loop over torch.nn.GRUCell",
		"impl=bulk":           "batch = torch.cat(samples)  # instead of appending element by element",
		"impl=cached":         "graph = graphs[structure]  # build each structure's graph once, then torch.cat",
		"reuse=on":            "out = torch.cat(samples, out=buffer)  # a buffer kept from batch to batch",
		"worker_kind=process": "loader = DataLoader(dataset, num_workers=N)",
		"layout=ir_mul":       "cuequivariance_torch layout: cue.ir_mul",
		"layout=mul_ir":       "cuequivariance_torch layout: cue.mul_ir",
		"impl=csr":            "out = torch.segment_reduce(messages, 'sum', lengths=degrees)  # sorted edges instead of index_add_",
		"impl=persistent":     "out, h = rnn(sequence)  # all time steps in one call instead of a loop",
		"shortcut=on":         "collate_fn = lambda s: s[0] if len(s) == 1 else default_collate(s)",
	}
}

// PyTorchLine is the line to change in a PyTorch program for a knob's value;
// empty where there is none.
func PyTorchLine(knob, value string) string {
	table := pytorch()
	if line, ok := table[knob+"="+value]; ok {
		return line
	}
	line := table[knob]
	line = strings.ReplaceAll(line, "%s", value)
	return strings.ReplaceAll(line, "%%", "%")
}
