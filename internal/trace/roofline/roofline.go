// Package roofline compares the operators of a recording with the peak rates of the device: which bound holds,
// how much of it is reached, and how much time lies above it. In come an analyze.Index, whose operators have
// their recorded arguments, and the precision of a kernel by its name; out goes an analyze.Roofline. The costs are
// those of opcost, the rates those of the vendors' data sheets. It imports no reader and no rule.
package roofline

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/opcost"
)

const (
	// leastArgs is the share of the device's time under operators with recorded arguments below which
	// nothing is told: the recording was made without shapes.
	leastArgs = 0.01
	// leastCounted is the share of the time in matrix products, convolutions and attention that has to have FLOPs: a graph's
	// replayed products have none, and a utilisation without them would be false.
	leastCounted = 0.95
	// mostOperators are listed: a program whose shapes differ from step to step has one for each.
	mostOperators = 1000
	// quickest is the quantile of kernel durations that stands for a kernel without work.
	quickest = 0.01
	// emptyKernel is the longest that a kernel without work takes, ns.
	emptyKernel = 5000
)

type sums struct {
	ns, kernels int64
	products    int64 // of ns, in kernels that are products
	calls       map[int32]struct{}
	by          map[model.NameID]int64
}

// Of counts the steady part of a recording on its first device with operators; nil without recorded arguments.
// precision is the arithmetic of a matrix product's kernel by its name, "" for other kernels.
func Of(x *analyze.Index, precision func(kernel model.NameID) string) *analyze.Roofline {
	d := busiest(x)
	withArgs := func(text string) bool { return strings.Contains(text, model.ArgsMark) }
	if d == nil || !slices.ContainsFunc(x.T.Stacks, withArgs) {
		return nil
	}
	c := counter{x: x, precisionOf: precision, ids: map[analyze.RooflineKey]int32{}, others: map[other]int64{}, groups: make([]int32, len(x.T.GPU))}
	for _, name := range x.T.Names {
		c.known = append(c.known, opcost.Known(name))
	}
	for _, o := range x.Devices {
		c.addDevice(o, o == d)
	}
	if float64(c.withArgs) < leastArgs*float64(c.all) || c.all == 0 {
		return nil
	}
	out := c.result(&x.T.Devices[d.Device])
	out.Collectives = c.countCollectives(d, float64(x.SteadySteps()))
	return out
}

// busiest is the device that works most: ranks of one process do the same.
func busiest(x *analyze.Index) *analyze.DeviceTime {
	var best *analyze.DeviceTime
	for _, d := range x.Devices {
		if d.Device < len(x.T.Devices) && (best == nil || d.Busy.Total() > best.Busy.Total()) {
			best = d
		}
	}
	return best
}

type other struct{ name, reason string }

type counter struct {
	x             *analyze.Index
	precisionOf   func(model.NameID) string
	known         []bool // by name: an operator with a cost model
	ids           map[analyze.RooflineKey]int32
	keys          []analyze.RooflineKey // by id
	sums          []sums                // by id
	groups        []int32               // by place in Trace.GPU: id plus one
	others        map[other]int64
	durations     []int64
	all, withArgs int64
	// products is the time of kernels that are matrix products, convolutions or attention; counted is that of those with FLOPs.
	products, counted int64
}

// addDevice groups the operations of a device by operator, and adds them up if it is the one that counts.
func (c *counter) addDevice(d *analyze.DeviceTime, counts bool) {
	t := c.x.T
	for _, g := range d.Ops {
		op := &t.GPU[g]
		h := c.costed(c.x.EnclosingOp(g))
		id := int32(-1)
		if h >= 0 {
			id = c.id(analyze.RooflineKey{Op: t.Host[h].Name, Args: t.Host[h].Stack})
			c.groups[g] = id + 1
		}
		if !counts || !c.x.Steady.Contains(op.Start) {
			continue
		}
		c.all += op.Dur()
		product := isProduct(c.x.Class(g))
		if product {
			c.products += op.Dur()
		}
		if op.Kind == model.Kernel {
			c.durations = append(c.durations, op.Dur())
		}
		if h < 0 || crossesLink(op) || c.x.Class(g) == model.Communication {
			c.others[c.unmodelled(g, op)] += op.Dur()
			continue
		}
		c.withArgs += op.Dur()
		s := &c.sums[id]
		s.ns += op.Dur()
		if product {
			s.products += op.Dur()
		}
		s.kernels++
		s.calls[h] = struct{}{}
		s.by[op.Name] += op.Dur()
	}
}

// crossesLink reports copies whose rate is that of the link to the host or to another device.
func crossesLink(op *model.GPU) bool { return op.Kind == model.Memcpy && op.Dir != model.D2D }

func isProduct(class model.Class) bool {
	switch class {
	case model.GEMM, model.Conv, model.MoEGEMM, model.Attention, model.AttentionPrefill, model.AttentionDecode:
		return true
	}
	return false
}

// costed is the innermost operator with a cost model that is the host event or encloses it, -1 none.
func (c *counter) costed(h int32) int32 {
	for ; h >= 0; h = c.x.Parent(h) {
		if e := &c.x.T.Host[h]; e.Kind == model.Op && c.known[e.Name] {
			return h
		}
	}
	return -1
}

// id numbers an operator with its arguments.
func (c *counter) id(k analyze.RooflineKey) int32 {
	id, ok := c.ids[k]
	if !ok {
		id = int32(len(c.keys))
		c.ids[k] = id
		c.keys = append(c.keys, k)
		c.sums = append(c.sums, sums{calls: map[int32]struct{}{}, by: map[model.NameID]int64{}})
	}
	return id
}

// rows turns the ids of operations into places in the list of operators, -1 for those that are in none.
func (c *counter) rows(operators []analyze.RooflineOperator) []int32 {
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

// unmodelled tells why an operation of the device has no cost.
func (c *counter) unmodelled(g int32, op *model.GPU) other {
	t := c.x.T
	switch h := c.x.EnclosingOp(g); {
	case c.x.Class(g) == model.Communication:
		return other{"communication", "bound by the links between ranks"}
	case crossesLink(op):
		return other{"copies", "between host and device, or between devices"}
	case op.Kind != model.Kernel:
		return other{strings.ToLower(op.Kind.String()), "outside any operator"}
	case op.Graph || op.Launch >= 0 && c.x.Call(op.Launch) == model.CallGraph:
		return other{t.Name(op.Name), "replayed by a graph, without an operator"}
	case op.Launch < 0:
		return other{t.Name(op.Name), "its launch is not in the recording"}
	case h < 0:
		return other{t.Name(op.Name), "launched outside any operator"}
	default:
		return other{t.Name(t.Host[h].Name), string(opcost.NoModel)}
	}
}

// opaque is the type of an element in kernels that only move it: OpaqueType<4u>.
var opaque = regexp.MustCompile(`OpaqueType<(\d+)u?>`)

// elementOf is the bytes of an element of the lists that a kernel works on, by the types in its name; 0 unknown.
// PyTorch's kernels over lists of tensors, and those that join them, are templates of the element type.
func elementOf(kernel string) int64 {
	if !strings.Contains(kernel, "TensorList") && !strings.Contains(kernel, "CatArrayBatchedCopy") {
		return 0
	}
	if m := opaque.FindStringSubmatch(kernel); m != nil {
		n, _ := strconv.ParseInt(m[1], 10, 64) // 0 where it is no number of this size: unknown
		return n
	}
	switch {
	case strings.Contains(kernel, "BFloat16"), strings.Contains(kernel, "Half"):
		return 2
	case strings.Contains(kernel, "double"):
		return 8
	case strings.Contains(kernel, "float"):
		return 4
	}
	return 0
}

// result turns the sums into operators per step.
func (c *counter) result(d *model.Device) *analyze.Roofline {
	steps := float64(c.x.SteadySteps())
	out := &analyze.Roofline{DeviceNS: int64(float64(c.all) / steps), Operators: []analyze.RooflineOperator{}, Unmodelled: []analyze.UnmodelledRuntime{}}
	p, known := findPeak(d)
	if known {
		out.Device, out.Document = p.name, p.document
		out.BytesPerS, out.CacheBytes, out.Reachable = p.gbPerS*1e9, p.cacheMB*1e6, p.reachable
		out.FLOPsPerS = map[string]float64{}
		for _, name := range precisions {
			if r := p.rate(name); r > 0 {
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
			continue // outside the steady part, or on another device
		}
		first, _ := c.most(s.by, func(model.NameID) bool { return true })
		name, kernel := c.x.T.Name(k.Op), c.x.T.Name(first)
		args, ok := opcost.Parse(c.x.T.ArgsOf(&model.Host{Stack: k.Args}))
		cost, reason := opcost.Of(name, args, elementOf(kernel))
		if !ok {
			reason = opcost.NoShapes
		}
		if reason != "" {
			c.others[other{name, string(reason)}] += s.ns
			continue
		}
		o := c.operator(s, name, kernel, args, cost, steps)
		o.Key, o.Product, o.Source = k, cost.Product, opcost.Source(name)
		out.Assumed = out.Assumed || cost.Assumed
		out.ModelledNS += o.NS
		bound(&o, out, float64(launch*s.kernels)/steps)
		if cost.FLOPs > 0 && !vector(name) {
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
	out.Rows = c.rows(out.Operators)
	for o, ns := range c.others {
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

// vector reports operators whose arithmetic is not that of matrix products: it counts for no utilisation.
func vector(name string) bool {
	return strings.Contains(name, "scatter") || strings.Contains(name, "index_add") || strings.Contains(name, "_fft_")
}

// most is the kernel among those that ok takes with most time.
func (c *counter) most(by map[model.NameID]int64, ok func(kernel model.NameID) bool) (kernel model.NameID, found bool) {
	most := int64(-1)
	for id, ns := range by {
		if ok(id) && (ns > most || ns == most && c.x.T.Name(id) < c.x.T.Name(kernel)) {
			kernel, most, found = id, ns, true
		}
	}
	return kernel, found
}

func (c *counter) operator(s *sums, name, kernel string, args opcost.Args, cost opcost.Cost, steps float64) analyze.RooflineOperator {
	o := analyze.RooflineOperator{
		Name: name, Shapes: args.Shapes(), Kernel: kernel, Calls: float64(len(s.calls)) / steps, NS: int64(float64(s.ns) / steps),
		FLOPs: cost.FLOPs, Bytes: cost.Bytes,
	}
	if o.NS > 0 {
		o.FLOPsPerS, o.BytesPerS = o.FLOPs*o.Calls/float64(o.NS)*1e9, o.Bytes*o.Calls/float64(o.NS)*1e9
	}
	if cost.FLOPs > 0 {
		o.Precision = precisionOfType(cost.Type)
		if product, ok := c.most(s.by, func(kernel model.NameID) bool { return c.precisionOf(kernel) != "" }); ok {
			o.Precision = c.precisionOf(product)
		}
	}
	return o
}

// precisionOfType is the arithmetic of operands where the kernel's name does not tell it. float32 may run as TF32: the
// higher rate bounds it.
func precisionOfType(t string) string {
	switch t {
	case "double", "Double":
		return "fp64"
	case "float", "Float":
		return "tf32"
	case "c10::BFloat16", "c10::Half", "BFloat16", "Half":
		return "16-bit"
	}
	if strings.HasPrefix(t, "c10::Float8") {
		return "fp8"
	}
	return ""
}

// launchNS is the time of a kernel without work: the recording's own quickest, 0 where all of its kernels work.
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

// bound finds the longest of the times that the arithmetic, the traffic and the launches of an operator need per step.
func bound(o *analyze.RooflineOperator, r *analyze.Roofline, launchNS float64) {
	if r.Device == "" {
		o.Bound = analyze.BoundUnknown
		return
	}
	inCache := o.Bytes <= r.CacheBytes
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
	case by == "" || by == analyze.BoundInCache:
		o.Bound = analyze.BoundInCache
	case best > float64(o.NS):
		o.Bound = analyze.BoundExceeded
	default:
		o.Bound, o.BoundNS = by, int64(math.Round(best))
		o.AboveNS = max(0, o.NS-o.BoundNS)
	}
}

// addUtilisation sets FLOPs of the step against the peak of the precision that has most of them.
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
	if !out.Recomputed {
		out.MFU = (out.StepFLOPs - recomputed) / whole
	}
}
