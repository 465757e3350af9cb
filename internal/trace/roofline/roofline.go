// Package roofline compares the operators of a recording with the peak rates of the device. For each operator it
// computes the bound (the least time at peak rates), the reached share of the bound, and the time above the bound. The
// input is an analyze.Index with recorded arguments, and the precision of kernels by name; the output is an
// analyze.Roofline. Costs come from opcost or from XLA's profiler, rates from data sheets. The package imports no
// reader and no rule.
package roofline

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/opcost"
)

const (
	// leastArgs: if operators with recorded arguments and replayed kernels together have less than this share of device
	// time, the recording was made without shapes, and there is no roofline.
	leastArgs = 0.01
	// HFU and MFU are omitted if less than leastCounted of the time of matrix products, convolutions and attention has
	// known FLOPs. The FLOPs of products that a CUDA graph replays are unknown.
	leastCounted = 0.95
	// mostOperators limits the list, because a program with new shapes in every step has new operators in every step.
	mostOperators = 1000
	// quickest is the quantile of kernel durations that is taken as the time of an empty kernel.
	quickest = 0.01
	// emptyKernel is the longest time of an empty kernel, ns.
	emptyKernel = 5000
)

type sums struct {
	ns, kernels int64
	products    int64 // time of products, ns
	calls       int64
	byKernel    map[model.NameID]int64
}

// Of computes the roofline of the steady part of a recording on its busiest device. It returns nil if neither
// arguments of operators nor costs of XLA's instructions were recorded. precision returns the precision of a product
// kernel by its name, "" for other kernels.
func Of(x *analyze.Index, precision func(kernel model.NameID) string) *analyze.Roofline {
	d := busiestDevice(x)
	withArgs := func(text string) bool { return strings.Contains(text, model.ArgsMark) }
	if d == nil || len(x.T.Instructions) == 0 && !slices.ContainsFunc(x.T.Stacks, withArgs) {
		return nil
	}
	c := counter{
		x: x, precisionOf: precision, ids: map[analyze.RooflineKey]int32{}, uncostedNS: map[uncosted]int64{},
		groups: make([]int32, len(x.T.GPU)), countedCalls: make([]bool, len(x.T.Host)),
	}
	for _, name := range x.T.Names {
		c.hasModel = append(c.hasModel, opcost.Known(name))
		c.attention = c.attention || name == analyze.AttentionName
	}
	for _, o := range x.Devices {
		c.addDevice(o, o == d)
	}
	if float64(c.withArgsNS) < leastArgs*float64(c.allNS) || c.allNS == 0 {
		return nil
	}
	out := c.buildRoofline(&x.T.Devices[d.Device])
	out.Order = c.orderOps(d, out.Rows)
	out.Collectives = c.countCollectives(d, float64(x.SteadySteps()))
	return out
}

// busiestDevice returns the device with most work. The devices of one process are assumed to do the same work.
func busiestDevice(x *analyze.Index) *analyze.DeviceTime {
	var best *analyze.DeviceTime
	for _, d := range x.Devices {
		if d.Device < len(x.T.Devices) && (best == nil || d.Busy.Total() > best.Busy.Total()) {
			best = d
		}
	}
	return best
}

type uncosted struct{ name, reason string }

type counter struct {
	x                 *analyze.Index
	precisionOf       func(model.NameID) string
	hasModel          []bool // by name: has a cost model
	attention         bool   // the recording has analyze.AttentionName
	ids               map[analyze.RooflineKey]int32
	keys              []analyze.RooflineKey // by id
	sums              []sums                // by id
	groups            []int32               // by index in Trace.GPU: id plus one
	countedCalls      []bool                // by index in Trace.Host: call already counted
	uncostedNS        map[uncosted]int64
	durations         []int64
	allNS, withArgsNS int64
	// products is the time of matrix products, convolutions and attention; counted is the part with known FLOPs.
	products, counted int64
}

// addDevice groups the operations of a device by operator. If counts is set, it also adds up the operations in the
// steady part of the recording.
func (c *counter) addDevice(d *analyze.DeviceTime, counts bool) {
	t := c.x.T
	for _, g := range d.Ops {
		op := &t.GPU[g]
		in := instructionOf(t, op)
		h := c.costedOp(c.x.EnclosingOp(g))
		id := int32(-1)
		switch {
		case in != nil && in.Costed:
			id = c.numberKey(analyze.RooflineKey{Instruction: op.Ext})
		case in == nil && h >= 0:
			e := &t.Host[h]
			id = c.numberKey(analyze.RooflineKey{Op: e.Name, Args: e.Stack, Range: c.productRange(h), Within: c.attentionAround(h)})
		}
		c.groups[g] = id + 1
		if !counts || !c.x.Steady.Contains(op.Start) {
			continue
		}
		c.allNS += op.Dur()
		product := isProduct(c.x.Class(g)) || in != nil && in.Product
		if product {
			c.products += op.Dur()
		}
		if op.Kind == model.Kernel {
			c.durations = append(c.durations, op.Dur())
		}
		if id < 0 || crossesLink(op) || c.x.Class(g) == model.Communication {
			reason := c.reasonFor(g, op)
			c.uncostedNS[reason] += op.Dur()
			if reason.reason == analyze.ReasonReplayed {
				c.withArgsNS += op.Dur()
			}
			continue
		}
		c.withArgsNS += op.Dur()
		s := &c.sums[id]
		s.ns += op.Dur()
		if product {
			s.products += op.Dur()
		}
		s.kernels++
		if in != nil { // each operation is one execution of its instruction
			s.calls++
		} else if !c.countedCalls[h] { // first kernel of the call
			c.countedCalls[h] = true
			s.calls++
		}
		s.byKernel[op.Name] += op.Dur()
	}
}

// instructionOf returns the XLA instruction of an operation, nil without one.
func instructionOf(t *model.Trace, op *model.GPU) *model.Instruction {
	if t.Format != model.XLA || op.Ext < 1 || op.Ext > int64(len(t.Instructions)) {
		return nil
	}
	return &t.Instructions[op.Ext-1]
}

// crossesLink reports whether a copy crosses the link to the host or to another device.
func crossesLink(op *model.GPU) bool { return op.Kind == model.Memcpy && op.Dir != model.D2D }

func isProduct(class model.Class) bool {
	switch class {
	case model.GEMM, model.Conv, model.MoEGEMM, model.Attention, model.AttentionPrefill, model.AttentionDecode:
		return true
	}
	return false
}

// costedOp returns the innermost operator with a cost model around or at a host event, -1 none.
func (c *counter) costedOp(h int32) int32 {
	for ; h >= 0; h = c.x.Parent(h) {
		if e := &c.x.T.Host[h]; e.Kind == model.Op && c.hasModel[e.Name] {
			return h
		}
	}
	return -1
}

func (c *counter) numberKey(k analyze.RooflineKey) int32 {
	id, ok := c.ids[k]
	if !ok {
		id = int32(len(c.keys))
		c.ids[k] = id
		c.keys = append(c.keys, k)
		c.sums = append(c.sums, sums{byKernel: map[model.NameID]int64{}})
	}
	return id
}

// operatorRows replaces the ids of operations by indexes in operators, -1 for operations outside the list.
func (c *counter) operatorRows(operators []analyze.RooflineOperator) []int32 {
	row := make([]int32, len(c.keys))
	for i := range row {
		row[i] = -1
	}
	for i := range operators {
		row[c.ids[operators[i].Key]] = int32(i)
	}
	for g, id := range c.groups {
		if c.groups[g] = -1; id > 0 {
			c.groups[g] = row[id-1]
		}
	}
	return c.groups
}

// reasonFor returns why a device operation has no cost, with the name under which its time is listed.
func (c *counter) reasonFor(g int32, op *model.GPU) uncosted {
	t := c.x.T
	switch h := c.x.EnclosingOp(g); {
	case c.x.Class(g) == model.Communication:
		return uncosted{"communication", "bound by the links between ranks"}
	case crossesLink(op):
		return uncosted{"copies", "between host and device, or between devices"}
	case len(t.Instructions) > 0:
		if in := instructionOf(t, op); in != nil && in.Computed {
			return uncosted{t.Name(op.Name), "the shapes in XLA's compiled program tell no cost"}
		}
		return uncosted{t.Name(op.Name), "XLA recorded no cost"}
	case op.Kind != model.Kernel:
		return uncosted{strings.ToLower(op.Kind.String()), "outside any operator"}
	case c.isReplayed(op):
		return uncosted{t.Name(op.Name), analyze.ReasonReplayed}
	case op.Launch < 0:
		return uncosted{t.Name(op.Name), "its launch is not in the recording"}
	case h < 0:
		return uncosted{t.Name(op.Name), "launched outside any operator"}
	default:
		return uncosted{t.Name(t.Host[h].Name), string(opcost.NoModel)}
	}
}

func (c *counter) buildRoofline(d *model.Device) *analyze.Roofline {
	steps := float64(c.x.SteadySteps())
	out := &analyze.Roofline{DeviceNS: int64(float64(c.allNS) / steps), Operators: []analyze.RooflineOperator{}, Unmodelled: []analyze.UnmodelledRuntime{}}
	p, known := findPeak(d)
	if known {
		out.Device, out.Document = p.name, p.document
		out.BytesPerS, out.CacheBytes, out.Reachable = p.gbPerS*1e9, p.cacheMB*1e6, p.reachable
		if half := p.flopRate("16-bit"); d.ProductFLOPsPerS > 0 && half > 0 {
			out.Reachable, out.ReachedBy = min(1, d.ProductFLOPsPerS/half), d.MeasuredBy
		}
		if d.CopyBytesPerS > 0 {
			out.CopyShare, out.CopyBy = min(1, d.CopyBytesPerS/out.BytesPerS), d.MeasuredBy
		}
		out.FLOPsPerS = map[string]float64{}
		for _, name := range precisions {
			if r := p.flopRate(name); r > 0 {
				out.FLOPsPerS[name] = r
			}
		}
	}
	launch := c.launchNS()
	var recomputed float64
	flops := map[string]float64{}
	for id, k := range c.keys {
		s := &c.sums[id]
		if s.kernels == 0 {
			continue // not in the steady part, or on another device
		}
		first, _ := c.longestKernel(s.byKernel, func(model.NameID) bool { return true })
		kernel := c.x.T.Name(first)
		u, reason := c.costOf(k, kernel)
		if reason != "" {
			c.uncostedNS[uncosted{u.name, string(reason)}] += s.ns
			continue
		}
		cost := u.cost
		o := c.newOperator(s, &u, kernel, steps)
		o.Key, o.Product, o.Source, o.Within = k, cost.Product, u.source, c.shapesOf(k.Within)
		out.Assumed = out.Assumed || cost.Assumed
		out.ModelledNS += o.NS
		setBound(&o, out, float64(launch*s.kernels)/steps)
		if cost.FLOPs > 0 && u.product {
			c.counted += s.products
			flops[o.Precision] += cost.FLOPs * o.Calls
			recomputed += cost.Recomputed * o.Calls
		}
		out.Operators = append(out.Operators, o)
	}
	c.addUtilisation(out, flops, recomputed)
	slices.SortStableFunc(out.Operators, func(a, b analyze.RooflineOperator) int {
		return cmp.Or(cmp.Compare(b.AboveNS, a.AboveNS), cmp.Compare(b.NS, a.NS), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Shapes, b.Shapes), cmp.Compare(a.Precision, b.Precision))
	})
	if n := len(out.Operators) - mostOperators; n > 0 {
		for _, o := range out.Operators[mostOperators:] {
			out.UnlistedNS += o.NS
		}
		out.Operators, out.Unlisted = out.Operators[:mostOperators], n
	}
	out.Rows = c.operatorRows(out.Operators)
	for o, ns := range c.uncostedNS {
		if per := int64(float64(ns) / steps); per > 0 {
			out.Unmodelled = append(out.Unmodelled, analyze.UnmodelledRuntime{Name: o.name, Reason: o.reason, NS: per})
		}
	}
	slices.SortFunc(out.Unmodelled, func(a, b analyze.UnmodelledRuntime) int {
		return cmp.Or(cmp.Compare(b.NS, a.NS), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}

var precisions = []string{"fp64", "fp32", "tf32", "16-bit", "fp8", "int8"}

func (c *counter) longestKernel(by map[model.NameID]int64, ok func(kernel model.NameID) bool) (kernel model.NameID, found bool) {
	most := int64(-1)
	for id, ns := range by {
		if ok(id) && (ns > most || ns == most && c.x.T.Name(id) < c.x.T.Name(kernel)) {
			kernel, most, found = id, ns, true
		}
	}
	return kernel, found
}

// launchNS returns the time of an empty kernel, ns: a low quantile of the kernel durations, or 0 if that is too long.
func (c *counter) launchNS() int64 {
	if len(c.durations) == 0 {
		return 0
	}
	slices.Sort(c.durations)
	if ns := c.durations[int(quickest*float64(len(c.durations)-1))]; ns <= emptyKernel {
		return ns
	}
	return 0
}

// setBound sets the bound per step: the longest of the times for arithmetic, memory traffic and launches. If the
// operands fit into the cache, memory traffic does not count.
func setBound(o *analyze.RooflineOperator, r *analyze.Roofline, launchNS float64) {
	if r.Device == "" {
		o.Bound = analyze.BoundUnknown
		return
	}
	inCache := o.Bytes <= r.CacheBytes && r.CacheBytes > 0
	best, by := 0.0, ""
	if rate := r.FLOPsPerS[o.Precision]; rate > 0 && o.FLOPs > 0 {
		best, by = o.FLOPs*o.Calls/rate*1e9, "compute"
	}
	if memory := o.Bytes * o.Calls / r.BytesPerS * 1e9; !inCache && memory > best {
		best, by = memory, "memory"
	}
	if launchNS > best {
		best, by = launchNS, "launch"
		if inCache && o.FLOPs == 0 {
			by = analyze.BoundInCache
		}
	}
	switch {
	case by == "" && !inCache:
		o.Bound = analyze.BoundOnChip
	case by == "" || by == analyze.BoundInCache:
		o.Bound = analyze.BoundInCache
	case best > float64(o.NS):
		o.Bound = analyze.BoundExceeded
	default:
		o.Bound, o.BoundNS = by, int64(math.Round(best))
		o.AboveNS = max(0, o.NS-o.BoundNS)
	}
}

// addUtilisation compares the FLOPs of the step with the peak rate of the precision that has most of them.
func (c *counter) addUtilisation(out *analyze.Roofline, flops map[string]float64, recomputed float64) {
	most := 0.0
	for _, p := range precisions {
		out.StepFLOPs += flops[p]
		if flops[p] > most {
			most, out.Precision = flops[p], p
		}
	}
	rate := out.FLOPsPerS[out.Precision]
	out.ProductsCounted = 1
	if c.products > 0 {
		out.ProductsCounted = float64(c.counted) / float64(c.products)
	}
	if rate <= 0 || out.ProductsCounted < leastCounted || !c.x.Stepped() || c.x.Steady.Total() <= 0 {
		return
	}
	whole := float64(c.x.Steady.Total()) / 1e9 * rate / float64(c.x.SteadySteps())
	out.HFU = out.StepFLOPs / whole
	for _, name := range c.x.T.Names {
		out.Recomputed = out.Recomputed || strings.Contains(name, "CheckpointFunctionBackward") || strings.Contains(name, "recompute_fn")
	}
	for i := range c.x.T.Instructions {
		out.Recomputed = out.Recomputed || strings.Contains(c.x.T.Instructions[i].Name, ".remat")
	}
	if !out.Recomputed {
		out.MFU = (out.StepFLOPs - recomputed) / whole
	}
}
