package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const (
	// hostPercent is the least share of the step, %, that waits for the host must take for a finding, if no earlier rule
	// explains them.
	hostPercent = 5
	// idlePercent: if a device idles for at least this share of the step, %, the waits need only take analyze.LeastShare
	// of the step.
	idlePercent = 15

	// hostComputesNS is the least time from which an operator without runtime calls counts as computing on the host.
	// Operators that only describe a tensor (a view, a transpose) take a few us, under a profiler ten times as long.
	hostComputesNS = 200_000
)

// findHostBound reports that the device waits for launches and no earlier rule explains the waits. The finding claims
// all unclaimed idle time before launches and the latency of these launches. It names the activity of the host in the
// longest gaps.
func (c *ruleContext) findHostBound() []analyze.Found {
	if !c.hasWaitingKernels() {
		return nil
	}
	steady := func(*ruleDevice) model.Spans { return c.x.Steady }
	cl := c.claimLate(steady)
	d, gaps := c.findDevice(cl.device), cl.spans
	if c.quality.linksBroken {
		d, gaps = c.findMostStarved()
	}
	if c.quality.hidesDevice() {
		return nil // the rule trace-quality reports this
	}
	if unknown, when := c.findMostUnknown(); unknown != nil && when.Total() > gaps.Total() && when.Total()*100 >= c.span*idlePercent {
		return []analyze.Found{c.describeUnknownIdle(unknown, when)}
	}
	ns, least := gaps.Total(), int64(hostPercent)
	if c.getMostIdle()*100 >= c.span*idlePercent {
		least = 0
	}
	if d == nil || ns*100 < c.span*least || float64(ns) < analyze.LeastShare*float64(c.span) {
		return nil
	}
	starved := gaps.And(d.Starved)
	at := c.sumGapActivity(d, starved)
	paused := c.x.SteadySteps() > 1 || c.runsOnce()
	if paused && float64(at.longest) >= onePause*float64(max(ns, d.Starved.TotalAnd(c.x.Steady))) {
		return []analyze.Found{c.describePause(d, at)}
	}
	sites, place := at.topPlaces()
	what := "the device waits for the host"
	if starved.Total() == 0 {
		what = "the device waits for operations to begin after their launch, because the host does not launch ahead of it"
	}
	if len(sites) > 0 {
		what += ", " + describePart(sites[0].NS, at.totalNS(), starved.Total()) + " while it is " + place
		if seen := c.findHostPlace(); seen != "" && strings.HasPrefix(place, "in code ") {
			what += ", in samples of later steps at " + seen
		}
	}
	f := c.newFinding(cl, what)
	f.Evidence["starved_ns"] = starved.Total()
	f.Evidence["latency_ns"] = ns - starved.Total()
	f.Evidence["gaps"] = at.gaps
	f.Evidence["longest_gap_ns"] = at.longest
	f.Evidence["looked_at_ns"] = at.totalNS()
	f.Evidence["in_operators_ns"] = at.inOps
	f.Evidence["in_calls_ns"] = at.inCalls
	f.Evidence["outside_operators_ns"] = at.elsewhere
	f.Evidence["idle_percent"] = percent(c.sumIdle(d), c.span)
	f.Sites = sites
	f.PyTorch = c.adviseHost(at)
	if calls, n := c.listSyncNames(); starved.Total() == 0 && 2*n >= len(gaps) {
		f.PyTorch = "remove the waits between launches (" + strings.Join(calls, ", ") + "): launches ahead of the device hide their latency behind its work"
		f.AnyProgram = true
	}
	f.Caveats = append(f.Caveats, "the claim is all time in which the device waits for a launch and that no other finding claims: some of the host's work cannot be hidden")
	return []analyze.Found{f}
}

// hasWaitingKernels reports whether waits for the host can be judged: a device is not faulty, and kernels were recorded.
// Between copies alone a device has nothing to do, or its kernels are missing.
func (c *ruleContext) hasWaitingKernels() bool {
	return slices.ContainsFunc(c.devices, func(d *ruleDevice) bool { return !d.faulty }) &&
		slices.ContainsFunc(c.t.GPU, func(g model.GPU) bool { return g.Kind == model.Kernel })
}

// describePart describes how much of the waits one place of the host code takes. ns is the time of the place, seen the
// time of the waits that were evaluated, all the time of all waits, ns.
func describePart(ns, seen, all int64) string {
	switch {
	case 2*ns >= all:
		return "most of it"
	case 2*seen < all:
		return "longest, in the " + gpuprof.FormatNS(seen) + " that were looked at,"
	}
	return "longest"
}

// onePause: the device's waits count as a single pause if the longest wait takes at least this share of all waits.
const onePause = 0.75

// describePause makes the finding if the device waits for the host almost only in one long pause. The finding claims no
// time, because the pause occurs once and may not come again.
func (c *ruleContext) describePause(d *ruleDevice, at *gapSites) analyze.Found {
	where := fmt.Sprintf("one of %d steps", c.x.SteadySteps())
	if c.runsOnce() {
		where = "the recording window"
	}
	f := c.newFinding(claim{device: -1}, fmt.Sprintf("the device waits for the host once, for %s in %s", gpuprof.FormatNS(at.longest), where))
	sites, place := at.topPlaces()
	if f.Sites = sites; place != "" {
		f.Title += "; the host is longest " + place
	}
	f.Evidence["longest_gap_ns"] = at.longest
	f.Evidence["gaps"] = at.gaps
	f.Evidence["idle_percent"] = percent(c.sumIdle(d), c.span)
	f.PyTorch, f.AnyProgram = "record more steps, which show whether the pause comes again", true
	if c.runsOnce() {
		f.PyTorch = "look what the host does there: it may compute, read a file, or wait for input; ranges around its parts (NVTX) show it"
	}
	f.Caveats = append(f.Caveats, "no time claimed: the recording has this wait once, and how often it comes is unknown")
	return f
}

// runsOnce reports whether a native program, such as one in C++, has no steps. A long pause of the host is then a part
// of the program, such as reading a file.
func (c *ruleContext) runsOnce() bool { return !c.hasSteps() && c.x.Recording.Program.IsNative() }

// describeUnknownIdle makes the finding if the launches that end most waits of the device were not recorded. when is
// the time of these waits. The finding claims no time.
func (c *ruleContext) describeUnknownIdle(d *ruleDevice, when model.Spans) analyze.Found {
	at := c.sumGapActivity(d, when)
	what := fmt.Sprintf("the device is idle for %s before work of unknown launch", c.formatPerStep(when))
	f := c.newFinding(claim{device: -1}, what)
	sites, place := at.topPlaces()
	if f.Sites = sites; place != "" {
		f.Title += "; the host is longest " + place
	}
	f.Evidence["unknown_ns"] = when.Total()
	f.Evidence["idle_percent"] = percent(c.sumIdle(d), c.span)
	f.Evidence["gaps"] = at.gaps
	f.Evidence["longest_gap_ns"] = at.longest
	f.PyTorch = c.adviseHost(at)
	f.Caveats = append(f.Caveats, "no time claimed: the trace does not say which call launched the work after the waits, so the host may not have been late")
	return f
}

// findMostUnknown returns the device with the most idle time before work whose launch was not recorded, and this time.
func (c *ruleContext) findMostUnknown() (*ruleDevice, model.Spans) {
	return c.findMostOf(func(d *ruleDevice) model.Spans { return c.lackLaunch(d).And(c.x.Steady) })
}

// findMostStarved returns the device with the most unclaimed starved time, in which nothing was launched for it, and
// this time.
func (c *ruleContext) findMostStarved() (*ruleDevice, model.Spans) {
	return c.findMostOf(func(d *ruleDevice) model.Spans { return d.Starved.And(c.x.Steady).Minus(c.l.Claimed(d.Device)) })
}

// findMostOf calls of for each device with reliable records. It returns the device with the longest result, and the
// result.
func (c *ruleContext) findMostOf(of func(*ruleDevice) model.Spans) (best *ruleDevice, most model.Spans) {
	for _, d := range c.devices {
		if s := of(d); !d.faulty && s.Total() > most.Total() {
			best, most = d, s
		}
	}
	return best, most
}

func (c *ruleContext) adviseHost(at *gapSites) string {
	const graphs = `torch.compile(model, mode="reduce-overhead") or CUDA graphs, and fewer, larger operators (batched, torch._foreach_*)`
	compile := "; torch.compile(model)"
	if c.isCompiled() {
		compile = ""
	}
	op, ns := at.findComputing()
	switch {
	case 2*ns >= at.totalNS() && ns > 0:
		return fmt.Sprintf("%s computes on the host: make its tensors on the device (device=\"cuda\", or device=x.device), or compute them once before the loop or in the workers of a DataLoader", op)
	case at.inCalls > at.inOps && at.inCalls > at.elsewhere:
		return "avoid the calls named above in the loop: allocate, load modules and register memory once before it"
	case at.inOps >= at.elsewhere:
		return "less work on the host for each operator: " + graphs
	case c.t.Inflated:
		return "less Python at the places named above: logging, metrics and checks out of the loop, loops over tensors as one operator" + compile
	}
	return "less Python between operators: logging, metrics and checks out of the loop, loops over tensors as one operator" + compile + "; record once with with_stack=True to see the lines"
}

// listSyncNames returns the names and the number of the synchronization calls in the steps that are not dropped,
// without calls inside scalar reads and copies.
func (c *ruleContext) listSyncNames() (list []string, calls int) {
	names := map[string]bool{}
	for i := range c.stalls {
		if s := &c.stalls[i]; s.isSync() && s.owner < 0 && !s.ends && !c.isInCopy(s.host) {
			names[apiSuffix.ReplaceAllString(c.t.Name(c.t.Host[s.host].Name), "")] = true
			calls++
		}
	}
	return slices.Sorted(maps.Keys(names)), calls
}

// findHostComputing returns a function that reports whether an operator computes on the host: it takes hostComputesNS
// or more and makes no call of a device runtime.
func (c *ruleContext) findHostComputing() func(op int32) bool {
	calls := make([]bool, len(c.t.Host))
	for i := range c.t.Host {
		if c.t.Host[i].Kind != model.API {
			continue
		}
		for h := c.x.Parent(int32(i)); h >= 0 && !calls[h]; h = c.x.Parent(h) {
			calls[h] = true
		}
	}
	return func(op int32) bool { return !calls[op] && c.t.Host[op].Dur() >= hostComputesNS }
}

// findComputing returns the operator that computes on the host for the longest time during the gaps, and the time of
// all operators that compute on the host during the gaps, ns.
func (g *gapSites) findComputing() (name string, ns int64) {
	most := int64(0)
	for id, n := range g.computing {
		ns += n
		if s := g.c.t.Name(id); n > most || n == most && s < name {
			name, most = s, n
		}
	}
	return name, ns
}
