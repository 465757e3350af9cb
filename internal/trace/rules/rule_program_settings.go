package rules

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const (
	// optimizerPercent is the least share of the step, %, that the optimizer must take for findings about its settings.
	optimizerPercent = 5
	// recomputePercent is the least share of the sampled time, %, that recomputation must take for a finding.
	recomputePercent = 5
	// float64Factor is the time of a float64 product relative to float32 on a CPU: twice the bytes, half the SIMD lanes.
	float64Factor = 2
)

// getFacts returns the settings of the program that gpuprof's hook read, nil unknown.
func (c *ruleContext) getFacts() *model.HostFacts {
	if c.host == nil {
		return nil
	}
	return &c.t.Sampled.Facts
}

// findTooManyThreads reports that PyTorch's thread pool has more threads than the process has CPUs.
func (c *ruleContext) findTooManyThreads() []analyze.Found {
	s := c.getFacts()
	if s == nil || s.CPUs == 0 || s.Threads <= s.CPUs || len(c.devices) > 0 {
		return nil
	}
	f := c.newFinding(claim{device: -1}, fmt.Sprintf("PyTorch computes with %d threads on %s", s.Threads, analyze.Plural(s.CPUs, "CPU", "CPUs")))
	f.Evidence["threads"] = s.Threads
	f.Evidence["cpus"] = s.CPUs
	f.PyTorch = fmt.Sprintf("torch.set_num_threads(%d), or OMP_NUM_THREADS=%d", s.CPUs, s.CPUs)
	f.Caveats = append(f.Caveats, "no time claimed: what the threads cost each other is not yet measured; run it with the change")
	return []analyze.Found{f}
}

// findAnomalyMode reports that anomaly detection is on: autograd keeps a traceback for every operator and checks every
// gradient for NaN.
func (c *ruleContext) findAnomalyMode() []analyze.Found {
	s := c.getFacts()
	if s == nil || !s.Anomaly {
		return nil
	}
	f := c.newFinding(claim{device: -1}, "anomaly detection is on: a traceback is kept for every operator, and every gradient is searched for NaN")
	share, n := c.sumSamples(func(_ *model.HostStack, frames []model.HostFrame) bool { return analyze.KeepsTraceback(frames) })
	f.Evidence["sampled_share"] = share
	f.Evidence["samples"] = n
	f.PyTorch = "torch.autograd.set_detect_anomaly(False), and on only while an error is looked for"
	f.Caveats = append(f.Caveats, "no time claimed: most of its cost is inside operators and not yet measured; run it with the change")
	return []analyze.Found{f}
}

// findOptimizerLoop reports that the optimizer updates parameters one at a time (foreach=False).
func (c *ruleContext) findOptimizerLoop() []analyze.Found {
	s := c.getFacts()
	if s == nil || s.Optimizer == nil || s.Optimizer.Foreach == nil || *s.Optimizer.Foreach || s.Optimizer.Fused != nil && *s.Optimizer.Fused {
		return nil
	}
	ns := c.host.Part(analyze.HostOptimizer)
	if ns*100 < optimizerPercent*c.host.NS || s.Optimizer.Parameters < 2 {
		return nil
	}
	f := c.newFinding(claim{device: -1}, fmt.Sprintf("%s updates its %d parameters one at a time (foreach=False), which takes %.0f %% of the host's step", s.Optimizer.Class, s.Optimizer.Parameters, percent(ns, c.host.NS)))
	f.Evidence["optimizer_step_ns"] = ns
	f.Evidence["parameters"] = s.Optimizer.Parameters
	f.PyTorch = "leave foreach=False out, or give fused=True where the optimizer has it"
	f.Caveats = append(f.Caveats, "no time claimed: what the other way takes is not yet measured; run it with the change")
	return []analyze.Found{f}
}

// findFloat64Parameters reports that most parameters are float64, which PyTorch uses only on request.
func (c *ruleContext) findFloat64Parameters() []analyze.Found {
	s := c.getFacts()
	if s == nil || s.Optimizer == nil || s.Optimizer.Float64*2 <= s.Optimizer.Parameters || len(c.devices) > 0 {
		return nil
	}
	var busy model.Spans
	for _, part := range []string{analyze.HostOperators, analyze.HostOptimizer} {
		busy = busy.Or(c.x.HostPart(part))
	}
	busy = busy.Minus(c.claimedHost)
	cl := claim{spans: busy.First(c.scaleToUnrecorded(busy.Total() * (float64Factor - 1) / float64Factor)), device: -1}
	cl.ns = cl.spans.Total()
	f := c.newFinding(cl, fmt.Sprintf("%d of %d parameters are float64", s.Optimizer.Float64, s.Optimizer.Parameters))
	f.Evidence["float64_parameters"] = s.Optimizer.Float64
	f.PyTorch = "model.float(), and inputs in float32 (NumPy arrays are float64: torch.from_numpy(x).float())"
	f.Caveats = append(f.Caveats, "the claim is half of the operators' time: float64 moves twice the bytes and computes half as fast; keep it where the result needs its digits")
	return []analyze.Found{f}
}

// findRecomputation reports that the backward pass recomputes activations although memory is free.
func (c *ruleContext) findRecomputation() []analyze.Found {
	s := c.getFacts()
	if s == nil || len(c.devices) > 0 || s.Memory.Available <= s.Memory.Resident {
		return nil
	}
	share, n := c.sumSamples(func(_ *model.HostStack, frames []model.HostFrame) bool {
		backward, again := false, false
		for _, f := range frames {
			backward = backward || strings.HasSuffix(f.Function, "_engine_run_backward")
			again = again || backward && f.File == "torch/utils/checkpoint.py"
		}
		return again
	})
	if 100*share < recomputePercent || n < outsideSamples {
		return nil
	}
	free := c.x.Called.Minus(c.claimedHost)
	cl := claim{spans: free.First(int64(share * float64(c.host.Step()) * float64(c.steps))), device: -1}
	cl.ns = cl.spans.Total()
	f := c.newFinding(cl, fmt.Sprintf("activations are computed again in the backward pass (%.0f %% of the samples), while memory is free", 100*share))
	f.Evidence["samples"] = n
	f.Evidence["resident_bytes"] = s.Memory.Resident
	f.Evidence["available_bytes"] = s.Memory.Available
	f.PyTorch = "call the module without torch.utils.checkpoint.checkpoint; keep it where the activations do not fit"
	f.Caveats = append(f.Caveats, "the activations then stay in memory until the backward pass")
	return []analyze.Found{f}
}
