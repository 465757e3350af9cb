package rules

import (
	"fmt"
	"math"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// slowPool is the duration, ns, from which an allocation from a pool is assumed to ask the driver for memory. A pool
// with enough memory returns in 1 to 5 us; mapping new memory took 1,060 us (Tesla T4).
const slowPool = 50_000

// asksDriver reports whether a call allocates device memory from the driver, or releases it.
func (c *ruleContext) asksDriver(h *model.Host) bool {
	return h.Kind == model.API && (c.nameHasMark(h.Name, markAlloc|markFree) || h.Dur() >= slowPool && c.nameHasMark(h.Name, markPool))
}

// leastLoopAllocations: a program without steps and without a framework is assumed to allocate in a loop if it makes
// at least this many allocations after its first kernel launch.
const leastLoopAllocations = 10

// findAllocatorChurn reports calls that allocate device memory from the driver, or release it, in at least two steps,
// although PyTorch's allocator should hold enough memory after warm-up. A native program without steps must make at
// least leastLoopAllocations allocations instead. The finding claims the device's idle time that would vanish without
// these calls (see starvedByBlocking): a release waits for all device work, so the device then idles until the host
// launches again.
func (c *ruleContext) findAllocatorChurn() []analyze.Found {
	var mallocs, pooled, frees int
	var host int64
	var when []model.Span
	byProcess := map[int32][]model.Span{}
	steps := map[int]bool{}
	s := c.newSites("call")
	noSteps := !c.hasSteps() && c.x.Recording.Program.IsNative()
	after := int64(math.MaxInt64) // calls outside of steps count from this time on
	if noSteps {
		after = c.firstKernelLaunch()
	}
	for i := range c.t.Host {
		h := &c.t.Host[i]
		if !c.asksDriver(h) {
			continue
		}
		p := c.t.ProcessOf(h.Lane)
		byProcess[p] = append(byProcess[p], model.Span{Start: h.Start, End: h.End})
		step := c.steadyStepAt(h.Start)
		if step < 0 && h.Start < after || !c.x.InSteady(h.Start) {
			continue
		}
		steps[step] = true
		switch {
		case c.nameHasMark(h.Name, markAlloc):
			mallocs++
		case c.nameHasMark(h.Name, markPool):
			pooled++
		default:
			frees++
		}
		host += h.Dur()
		when = append(when, model.Span{Start: h.Start, End: h.End})
		s.addHost(int32(i), h.Dur())
	}
	if !noSteps && len(steps) < 2 || noSteps && mallocs+pooled < leastLoopAllocations {
		return nil
	}
	claimOf := c.claimHost
	each := mallocs > 0 && 2*mallocs >= c.countSteadyLaunches()
	if each {
		c.addTransfers(byProcess)
		claimOf = c.claimLate // also claims the latency of the delayed launches
	}
	cl := claimOf(func(d *ruleDevice) model.Spans {
		return c.starvedByBlocking(d, d.spansOfProcesses(byProcess), nil, func(*stall) bool { return false })
	})
	where := "after the first launch"
	if !noSteps {
		where = fmt.Sprintf("in %d steps", len(steps))
	}
	f := c.newFinding(cl, fmt.Sprintf("%s %s (%s, %s, %s)", describeChurn(each, pooled > mallocs, noSteps), where,
		analyze.Plural(mallocs+pooled, "allocation", "allocations"), analyze.Plural(frees, "release", "releases"), c.formatPerStep(model.UnionOf(when))))
	f.First = each
	f.Suspect = pooled > mallocs // the call may be slow only because its thread was preempted
	f.Evidence["mallocs"] = mallocs + pooled
	f.Evidence["frees"] = frees
	f.Evidence["steps_with_calls"] = len(steps)
	f.Evidence["host_ns"] = host
	if peak := c.getPeakReserved(); peak > 0 {
		f.Evidence["peak_reserved_bytes"] = peak
	}
	f.Sites = s.topSites()
	f.PyTorch = "remove torch.cuda.empty_cache() from the loop; for varying shapes PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or pad to few sizes"
	if frees > 0 {
		f.Caveats = append(f.Caveats, "a release waits for all work on the device, and the host is slower after it: the claim is the idle time this causes, at most the time of the calls")
	}
	return []analyze.Found{f}
}

// describeChurn returns the start of the finding's title. each: memory is allocated for at least every second launch;
// pooled: most allocations are from a pool; noSteps: the trace has no steps.
func describeChurn(each, pooled, noSteps bool) string {
	switch {
	case each:
		return "memory is allocated for every second launch or more, and copied to and from"
	case pooled:
		return "the memory pool asks the driver for memory"
	case noSteps:
		return "the program allocates device memory"
	}
	return "the allocator calls the driver"
}

// firstKernelLaunch returns the start of the first call that launches a kernel; the largest time without one.
func (c *ruleContext) firstKernelLaunch() int64 {
	first := int64(math.MaxInt64)
	for i := range c.t.Host {
		if h := &c.t.Host[i]; h.Kind == model.API && h.Start < first && c.nameHasMark(h.Name, markKernel) {
			first = h.Start
		}
	}
	return first
}

// spansOfProcesses returns the union of the spans of the processes that use the device.
func (d *ruleDevice) spansOfProcesses(byProcess map[int32][]model.Span) model.Spans {
	var v []model.Span
	for p, spans := range byProcess {
		if len(d.procs) == 0 || d.procs[p] {
			v = append(v, spans...)
		}
	}
	return model.UnionOf(v)
}

// countSteadyLaunches returns the number of launches of kernels and graphs in the steps that are not dropped.
func (c *ruleContext) countSteadyLaunches() int { return c.quality.launches + c.quality.graphLaunches }

// addTransfers adds to byProcess the copies, fills and synchronizations of a program that allocates for each launch,
// and the time from each allocation to the next launch. Persistent buffers on the device would save all this time.
func (c *ruleContext) addTransfers(byProcess map[int32][]model.Span) {
	since, lane := int64(-1), uint32(0) // first allocation since the last launch
	for i := range c.t.Host {
		h := &c.t.Host[i]
		if h.Kind != model.API {
			continue
		}
		if h.Lane != lane {
			since, lane = -1, h.Lane
		}
		p := c.t.ProcessOf(h.Lane)
		switch c.x.Call(int32(i)) {
		case model.CallCopy, model.CallFill, model.CallSync:
			byProcess[p] = append(byProcess[p], model.Span{Start: h.Start, End: h.End})
		case model.CallAlloc:
			if since < 0 {
				since = h.Start
			}
		case model.CallLaunch, model.CallGraph:
			if since >= 0 {
				byProcess[p] = append(byProcess[p], model.Span{Start: since, End: h.Start})
			}
			since = -1
		}
	}
}

// steadyStepAt returns the index of the step that contains a host time and is not dropped, -1 none.
func (c *ruleContext) steadyStepAt(at int64) int {
	if !c.hasSteps() {
		return -1
	}
	for i := range c.x.Steps {
		st := &c.x.Steps[i]
		if !st.Dropped && at >= st.Host.Start && at < st.Host.End {
			return i
		}
	}
	return -1
}

// getPeakReserved returns the largest amount of device memory that the allocator held, bytes; 0 unknown.
func (c *ruleContext) getPeakReserved() int64 {
	var peak int64
	for i := range c.t.Memory {
		if m := &c.t.Memory[i]; m.Device >= 0 {
			peak = max(peak, m.Reserved)
		}
	}
	return peak
}
