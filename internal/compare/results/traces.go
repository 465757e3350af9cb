package results

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// traceCount counts events of one trace by steady step.
type traceCount struct {
	x     *analyze.Index
	begin []int64              // start times of the steady steps, ns
	steps map[string][]float64 // counts per step, by counter
	sites map[string]map[string]*gpuprof.Site
	blind map[string]int // by direction: copies whose host memory kind is not recorded
}

func countTrace(x *analyze.Index) *traceCount {
	c := &traceCount{x: x, steps: map[string][]float64{}, sites: map[string]map[string]*gpuprof.Site{}, blind: map[string]int{}}
	for i := range x.Steps {
		if !x.Steps[i].Dropped {
			c.begin = append(c.begin, x.Steps[i].Host.Start)
		}
	}
	slices.Sort(c.begin)
	for _, name := range compare.TraceCounters() {
		c.steps[name] = make([]float64, max(len(c.begin), 1))
	}
	c.countCalls()
	for _, d := range x.Devices {
		for _, g := range d.Ops {
			c.countDevice(g)
		}
	}
	return c
}

// add adds n to a counter in the step that contains the time at. host is the event whose call site is counted, -1 if
// unknown.
func (c *traceCount) add(name string, at int64, n float64, host int32, dur int64) {
	step := 0
	if len(c.begin) > 0 {
		if !c.x.InSteady(at) {
			return
		}
		i, exact := slices.BinarySearch(c.begin, at)
		if step = i; !exact {
			step--
		}
		if step < 0 {
			return
		}
	}
	c.steps[name][step] += n
	if host < 0 {
		return
	}
	where := c.x.Site(host)
	if where == "" {
		return
	}
	if c.sites[name] == nil {
		c.sites[name] = map[string]*gpuprof.Site{}
	}
	s := c.sites[name][where]
	if s == nil {
		s = &gpuprof.Site{Where: where}
		c.sites[name][where] = s
	}
	s.Count++
	s.NS += dur
}

func (c *traceCount) countCalls() {
	x := c.x
	for i := range x.T.Host {
		h, at := &x.T.Host[i], int32(i)
		switch x.Call(at) {
		case model.CallSync:
			if at != x.Trailing {
				c.add("sync_points", h.Start, 1, at, h.Dur())
			}
		case model.CallLaunch, model.CallGraph:
			c.add("launches", h.Start, 1, at, h.Dur())
		case model.CallAlloc:
			c.add("allocations", h.Start, 1, at, h.Dur())
		}
		if h.Kind == model.Op && x.T.Name(h.Name) == "aten::_local_scalar_dense" && c.isBlocking(at) {
			c.add("item_reads", h.Start, 1, at, h.Dur())
		}
	}
}

// isBlocking reports whether an operator waits for a device. Reading a tensor in host memory does not wait.
func (c *traceCount) isBlocking(op int32) bool {
	for _, g := range c.x.Launched(op) {
		if e := &c.x.T.GPU[g]; e.Kind == model.Memcpy && e.Dir == model.D2H {
			return true
		}
	}
	lo, hi := c.x.Inside(op)
	for h := lo; h < hi; h++ {
		if c.x.Call(h) == model.CallSync {
			return true
		}
	}
	return false
}

// countDevice counts a device operation in the step of its launch, or of its start if the launch is unknown.
func (c *traceCount) countDevice(g int32) {
	e := &c.x.T.GPU[g]
	at, host := e.Start, e.Launch
	if host >= 0 {
		at = c.x.T.Host[host].Start
	}
	if e.Kind == model.Kernel {
		c.add("kernels", at, 1, host, e.Dur())
		return
	}
	if e.Kind != model.Memcpy {
		return
	}
	var dir string
	switch e.Dir {
	case model.H2D:
		dir = "h2d"
	case model.D2H:
		dir = "d2h"
	case model.D2D, model.P2P:
		dir = "d2d"
	default:
		return
	}
	c.add("copies_"+dir, at, 1, host, e.Dur())
	c.add("bytes_"+dir, at, float64(e.Bytes), host, e.Dur())
	if dir == "d2d" {
		return
	}
	switch e.Memory {
	case model.Pageable:
		c.add("copies_"+dir+"_pageable", at, 1, host, e.Dur())
		c.add("bytes_"+dir+"_pageable", at, float64(e.Bytes), host, e.Dur())
	case model.UnknownMemory:
		c.blind[dir]++
	}
}

const maxSites = 10

// topSites returns a counter's call sites over several traces, the largest counts first.
func topSites(counts []*traceCount, name string) []gpuprof.Site {
	sum := map[string]gpuprof.Site{}
	for _, c := range counts {
		for where, s := range c.sites[name] {
			t := sum[where]
			sum[where] = gpuprof.Site{Where: where, Count: t.Count + s.Count, NS: t.NS + s.NS}
		}
	}
	out := slices.SortedFunc(maps.Values(sum), func(a, b gpuprof.Site) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.NS, a.NS), cmp.Compare(a.Where, b.Where))
	})
	return out[:min(len(out), maxSites)]
}

// FromIndexes counts synchronizations, launches, copies, their bytes by kind of host memory, and reads of single
// values in each steady step of a job's traces, and measures the step times. For counters a trace (a rank) is a run
// and a step a sample; a trace without steps is one sample. The step times of all ranks form one run, because ranks
// wait for each other. a is the analysis of the same traces.
func FromIndexes(xs []*analyze.Index, a *analyze.Analysis) (*compare.Result, error) {
	if len(xs) == 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "counting what a trace did: there is no trace").WithFix("give one to gate --max")
	}
	r := traceResult(a, "trace")
	var counts []*traceCount
	blind := map[string]int{}
	for _, x := range xs {
		c := countTrace(x)
		counts = append(counts, c)
		for dir, n := range c.blind {
			blind[dir] += n
		}
	}
	for _, name := range compare.TraceCounters() {
		if dir := pageableOf(name); blind[dir] > 0 {
			continue // traceBlind warns of it
		}
		m := compare.MetricData{Metric: compare.Metric{Name: name, Unit: compare.CounterUnit(name), Exact: true}, Sites: topSites(counts, name)}
		for _, c := range counts {
			m.Runs = append(m.Runs, c.steps[name])
		}
		r.Metrics = append(r.Metrics, m)
	}
	traceBlind(r, blind)
	return r, nil
}

// pageableOf returns "h2d" for "bytes_h2d_pageable" and "" for other counters.
func pageableOf(counter string) string {
	dir, ok := strings.CutSuffix(counter, "_pageable")
	if !ok {
		return ""
	}
	return dir[strings.LastIndexByte(dir, '_')+1:]
}

// traceBlind warns of copies whose host memory kind is unknown: a count of the known copies alone could be within a
// budget that all copies exceed.
func traceBlind(r *compare.Result, blind map[string]int) {
	for _, dir := range slices.Sorted(maps.Keys(blind)) {
		if blind[dir] > 0 {
			r.Warnings = append(r.Warnings, gpuprof.Warning{
				Code: "memory-unknown",
				Text: fmt.Sprintf("the trace does not say of %d %s copies whether their host memory is pageable, so those are not counted by kind", blind[dir], dir),
				Fix:  "record with a newer PyTorch, or set a budget on copies_" + dir + " and bytes_" + dir,
			})
		}
	}
}

// traceResult returns the traces' environment and step times for a comparison. format is trace (counts per step) or
// analysis (means); results of different formats do not compare.
func traceResult(a *analyze.Analysis, format string) *compare.Result {
	r := &compare.Result{
		Tool: "trace", Status: gpuprof.Complete, Env: map[string]string{"format": format}, Facts: map[string]string{},
		Code: map[string]string{}, Knobs: map[string]compare.Knob{},
	}
	var paths []string
	for _, in := range a.Inputs {
		paths = append(paths, in.Path)
		if in.Truncated {
			r.Status = gpuprof.Partial
			r.Reason = "the trace " + in.Path + " ends early, so some of what it did is not counted"
		}
	}
	r.Source = strings.Join(paths, ", ")
	for _, d := range a.Devices {
		join(r.Env, "device", d.Name)
	}
	join(r.Facts, "steps", a.StepSource)
	for _, w := range a.Warnings {
		if w.Code == "no-steps" || w.Code == "one-step" {
			r.Warnings = append(r.Warnings, gpuprof.Warning{Code: w.Code, Text: w.Text, Fix: "counters are of the whole trace: set budgets for that"})
		}
	}
	// One recording is one process, whatever its number of steps or ranks. Without steps the metric stays, empty,
	// and gets no verdict: without the metric, comparing two such traces would pass without judging time.
	var steps []float64
	for _, s := range a.Steps {
		if !s.Dropped {
			steps = append(steps, gpuprof.Seconds(s.DurNS))
		}
	}
	if len(steps) == 0 {
		// The counters then cover the whole recording, so they grow with its length.
		var span int64
		for _, d := range a.Devices {
			span = max(span, d.SpanNS)
		}
		r.Env["recording"] = strconv.FormatInt(span, 10) + " ns without steps"
	}
	r.Metrics = append(r.Metrics, compare.MetricData{Metric: compare.Metric{Name: "step", Unit: "s"}, Runs: [][]float64{steps}})
	return r
}

// FromAnalysis returns the step times and counters of an analysis without its trace. A counter is the total of all
// steps divided by the number of steps, so it need not be a whole number; FromIndexes instead counts each step. The
// call sites come from the findings.
func FromAnalysis(a *analyze.Analysis) *compare.Result {
	r := traceResult(a, "analysis")
	steps := float64(max(len(a.Steps), 1))
	add := func(name string, total float64) {
		r.Metrics = append(r.Metrics, compare.MetricData{
			Metric: compare.Metric{Name: name, Unit: compare.CounterUnit(name), Exact: true},
			Runs:   [][]float64{{total / steps}}, Sites: findingSites(a, name),
		})
	}
	syncs, kernels := 0, 0
	for _, c := range a.Syncs {
		syncs += c.Count
	}
	for _, d := range a.Devices {
		kernels += d.Kernels
	}
	add("sync_points", float64(syncs))
	add("kernels", float64(kernels))
	add("item_reads", itemReads(a)*steps)
	blind := map[string]int{}
	for _, dir := range []string{"h2d", "d2h"} {
		pageable, pinned, unknown := a.Copies[dir+"_pageable"], a.Copies[dir+"_pinned"], a.Copies[dir+"_unknown"]
		add("copies_"+dir, float64(pageable.Count+pinned.Count+unknown.Count))
		add("bytes_"+dir, float64(pageable.Bytes+pinned.Bytes+unknown.Bytes))
		if blind[dir] = unknown.Count; unknown.Count == 0 {
			add("copies_"+dir+"_pageable", float64(pageable.Count))
			add("bytes_"+dir+"_pageable", float64(pageable.Bytes))
		}
	}
	add("copies_d2d", float64(a.Copies["d2d"].Count+a.Copies["p2p"].Count))
	add("bytes_d2d", float64(a.Copies["d2d"].Bytes+a.Copies["p2p"].Bytes))
	traceBlind(r, blind)
	return r
}

// itemReads returns the number of single values read per step, as the finding of the rule about item() states it.
func itemReads(a *analyze.Analysis) float64 {
	most := 0.0
	for _, f := range a.Findings {
		if v, ok := f.Evidence["reads_step"].(float64); ok && f.Rule == gpuprof.RuleItem {
			most = max(most, v)
		}
	}
	return most
}

func findingSites(a *analyze.Analysis, counter string) []gpuprof.Site {
	rules := map[string][]string{
		"sync_points": {gpuprof.RuleExplicitSync, gpuprof.RuleItem, gpuprof.RuleHiddenSync}, "item_reads": {gpuprof.RuleItem}, "kernels": {gpuprof.RuleLaunchBound},
		"copies_h2d": {gpuprof.RulePageableH2D, gpuprof.RuleExposedCopy}, "bytes_h2d": {gpuprof.RulePageableH2D, gpuprof.RuleExposedCopy},
		"copies_h2d_pageable": {gpuprof.RulePageableH2D}, "bytes_h2d_pageable": {gpuprof.RulePageableH2D},
		"copies_d2h": {gpuprof.RuleHiddenSync}, "bytes_d2h": {gpuprof.RuleHiddenSync}, "copies_d2h_pageable": {gpuprof.RuleHiddenSync}, "bytes_d2h_pageable": {gpuprof.RuleHiddenSync},
	}[counter]
	var out []gpuprof.Site
	for _, rule := range rules {
		for _, f := range a.Findings {
			if f.Rule != rule {
				continue
			}
			for _, s := range f.Sites {
				if !slices.ContainsFunc(out, func(o gpuprof.Site) bool { return o.Where == s.Where }) {
					out = append(out, s)
				}
			}
		}
	}
	return out[:min(len(out), maxSites)]
}
