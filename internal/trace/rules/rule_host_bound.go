package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const (
	// A wait for the host that no other rule explains is a finding from this share
	// of the step on, in percent,
	hostPercent = 5
	// and where the device is idle for this share of it from half a percent on.
	idlePercent = 15
)

// hostBound: the device waits for launches, and no rule before says why. It
// claims all starved time that is left, with the latency of the launches that
// come late, and names what the host did in the longest of these gaps.
func (c *ruleContext) hostBound() []analyze.Found {
	if !slices.ContainsFunc(c.devices, func(d *ruleDevice) bool { return !d.faulty }) {
		return nil
	}
	steady := func(*ruleDevice) model.Spans { return c.x.Steady }
	cl := c.claimLate(steady)
	d, gaps := c.deviceOf(cl.device), cl.spans
	if c.quality.linksBroken {
		d, gaps = c.mostStarved()
	}
	if unknown, when := c.mostUnknown(); unknown != nil && when.Total() > gaps.Total() && when.Total()*100 >= c.span*idlePercent {
		return []analyze.Found{c.hostMaybe(unknown, when)}
	}
	ns, least := gaps.Total(), int64(hostPercent)
	if c.mostIdle()*100 >= c.span*idlePercent {
		least = 0
	}
	if d == nil || ns*100 < c.span*least || float64(ns) < analyze.LeastShare*float64(c.span) {
		return nil
	}
	starved := gaps.And(d.Starved)
	at := c.hostIn(d, starved)
	sites := at.places()
	what := "the device waits for the host"
	if len(sites) > 0 {
		word := "longest"
		if 2*sites[0].NS >= at.looked() {
			word = "most of it"
		}
		what += ", " + word + " while it is " + inPlace(sites[0].Where)
		if place := c.hostPlace(); place != "" && strings.HasPrefix(sites[0].Where, "code ") {
			what += ", in samples of later steps at " + place
		}
	}
	f := c.finding(cl, what)
	f.Evidence["starved_ns"] = starved.Total()
	f.Evidence["latency_ns"] = ns - starved.Total()
	f.Evidence["gaps"] = at.gaps
	f.Evidence["longest_gap_ns"] = at.longest
	f.Evidence["looked_at_ns"] = at.looked()
	f.Evidence["in_operators_ns"] = at.inOps
	f.Evidence["in_calls_ns"] = at.inCalls
	f.Evidence["outside_operators_ns"] = at.elsewhere
	f.Evidence["idle_percent"] = percent(c.idle(d), c.span)
	f.Sites = sites
	f.PyTorch = c.hostKnob(at)
	f.Caveats = append(f.Caveats, "the claim is all time in which the device waits for a launch and that no other finding claims: some of the host's work cannot be hidden")
	return []analyze.Found{f}
}

// hostMaybe is the finding where the trace lacks the launches that end most of
// the waits: it says where the host was, and claims nothing.
func (c *ruleContext) hostMaybe(d *ruleDevice, when model.Spans) analyze.Found {
	at := c.hostIn(d, when)
	what := fmt.Sprintf("the device is idle for %s before work of unknown launch", c.perStep(when))
	f := c.finding(claim{device: -1}, what)
	if f.Sites = at.places(); len(f.Sites) > 0 {
		f.Title += "; the host is longest " + inPlace(f.Sites[0].Where)
	}
	f.Evidence["unknown_ns"] = when.Total()
	f.Evidence["idle_percent"] = percent(c.idle(d), c.span)
	f.Evidence["gaps"] = at.gaps
	f.Evidence["longest_gap_ns"] = at.longest
	f.PyTorch = c.hostKnob(at)
	f.Caveats = append(f.Caveats, "no time claimed: the trace does not say which call launched the work after the waits, so the host may not have been late")
	return f
}

// mostUnknown is the device that is idle longest before work whose launch is not
// in the trace, and when.
func (c *ruleContext) mostUnknown() (*ruleDevice, model.Spans) {
	return c.mostOf(func(d *ruleDevice) model.Spans { return d.Unknown.And(c.x.Steady) })
}

// mostStarved is the device that starves most, and when, less what is claimed.
func (c *ruleContext) mostStarved() (*ruleDevice, model.Spans) {
	return c.mostOf(func(d *ruleDevice) model.Spans { return d.Starved.And(c.x.Steady).Minus(c.l.Claimed(d.Device)) })
}

// mostOf is the device with the most time in a set that of gives, and the set.
func (c *ruleContext) mostOf(of func(*ruleDevice) model.Spans) (best *ruleDevice, most model.Spans) {
	for _, d := range c.devices {
		if s := of(d); !d.faulty && s.Total() > most.Total() {
			best, most = d, s
		}
	}
	return best, most
}

// hostKnob is what to change, by what the host does meanwhile.
func (c *ruleContext) hostKnob(at *gapSites) string {
	const graphs = `torch.compile(model, mode="reduce-overhead") or CUDA graphs, and fewer, larger operators (batched, torch._foreach_*)`
	switch {
	case at.inCalls > at.inOps && at.inCalls > at.elsewhere:
		return "avoid the calls named above in the loop: allocate, load modules and register memory once before it"
	case at.inOps >= at.elsewhere:
		return "less work on the host for each operator: " + graphs
	case c.t.Inflated:
		return "less Python at the places named above: logging, metrics and checks out of the loop, loops over tensors as one operator; torch.compile(model)"
	}
	return "less Python between operators: logging, metrics and checks out of the loop, loops over tensors as one operator; torch.compile(model); record once with with_stack=True to see the lines"
}
