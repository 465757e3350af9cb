package rules

import (
	"fmt"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// allocatorChurn: the program takes device memory from the driver, or gives it
// back, in at least two steady steps; PyTorch's allocator should long have
// what it needs. It claims the starved time those calls cause (see lead): a
// release waits for all work on the device, so what the host does after it
// finds the device idle too.
func (c *ruleContext) allocatorChurn() []analyze.Found {
	var mallocs, frees int
	var host int64
	var when []model.Span
	byProcess := map[int32][]model.Span{}
	steps := map[int]bool{}
	s := c.newSites("call")
	for i := range c.t.Host {
		h := &c.t.Host[i]
		if h.Kind != model.API || !c.is(h.Name, markAlloc|markFree) {
			continue
		}
		p := c.t.ProcessOf(h.Lane)
		byProcess[p] = append(byProcess[p], model.Span{Start: h.Start, End: h.End})
		step := c.stepOf(h.Start)
		if step < 0 || !c.x.InSteady(h.Start) {
			continue
		}
		steps[step] = true
		if c.is(h.Name, markAlloc) {
			mallocs++
		} else {
			frees++
		}
		host += h.Dur()
		when = append(when, model.Span{Start: h.Start, End: h.End})
		s.host(int32(i), h.Dur())
	}
	if len(steps) < 2 {
		return nil
	}
	each := mallocs > 0 && 2*mallocs >= c.launchesIn()
	if each {
		c.addTransfers(byProcess)
	}
	claimOf := c.claimHost
	if each { // what is launched late because of them begins late as well
		claimOf = c.claimLate
	}
	cl := claimOf(func(d *ruleDevice) model.Spans {
		var v []model.Span
		for p, spans := range byProcess {
			if len(d.procs) == 0 || d.procs[p] {
				v = append(v, spans...)
			}
		}
		return c.lead(d, model.UnionOf(v), nil, func(*stall) bool { return false })
	})
	what := "the allocator calls the driver"
	if each {
		what = "memory is allocated for every second launch or more, and copied to and from"
	}
	f := c.finding(cl, fmt.Sprintf("%s in %d steps (%s, %s, %s)", what, len(steps),
		analyze.Plural(mallocs, "allocation", "allocations"), analyze.Plural(frees, "release", "releases"), c.perStep(model.UnionOf(when))))
	f.First = each
	f.Evidence["mallocs"] = mallocs
	f.Evidence["frees"] = frees
	f.Evidence["steps_with_calls"] = len(steps)
	f.Evidence["host_ns"] = host
	if peak := c.peakReserved(); peak > 0 {
		f.Evidence["peak_reserved_bytes"] = peak
	}
	f.Sites = s.top()
	f.PyTorch = "remove torch.cuda.empty_cache() from the loop; for varying shapes PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or pad to few sizes"
	f.Caveats = append(f.Caveats, "a release waits for all work on the device, and the host is slower after it: the claim is the idle time this causes, at most the time of the calls")
	return []analyze.Found{f}
}

// launchesIn counts the launches of kernels in the steps that count.
func (c *ruleContext) launchesIn() int { return c.quality.launches + c.quality.graphLaunches }

// addTransfers adds the copies and waits of a program that allocates for each launch, and what
// it does from an allocation to the launch behind it: with buffers that stay on the device
// they go with the allocations.
func (c *ruleContext) addTransfers(byProcess map[int32][]model.Span) {
	since, lane := int64(-1), uint32(0) // the first allocation that no launch followed
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

// stepOf is the steady step an instant of the host lies in, -1 none.
func (c *ruleContext) stepOf(at int64) int {
	if !c.stepped() {
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

// peakReserved is the most device memory the allocator held, 0 unknown.
func (c *ruleContext) peakReserved() int64 {
	var peak int64
	for i := range c.t.Memory {
		if m := &c.t.Memory[i]; m.Device >= 0 {
			peak = max(peak, m.Reserved)
		}
	}
	return peak
}
