package roofline

import (
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/opcost"
)

// productRange returns the text of the innermost range that describes a tensor product, around an operator or around
// the forward operator whose gradients it computes; "" if the operator's cost needs none.
func (c *counter) productRange(op int32) string {
	t := c.x.T
	if !opcost.NeedsRange(t.Name(t.Host[op].Name)) {
		return ""
	}
	for _, inner := range []int32{op, c.x.ForwardOf(op)} {
		for h := inner; h >= 0; h = c.x.Parent(h) {
			if text := t.Name(t.Host[h].Name); opcost.IsProduct(text) {
				return text
			}
		}
	}
	return ""
}

// attentionAround returns the recorded arguments (Host.Stack) of the outermost attention at or around an operator, 0
// without one.
func (c *counter) attentionAround(h int32) uint32 {
	args := uint32(0)
	for ; c.attention && h >= 0; h = c.x.Parent(h) {
		if e := &c.x.T.Host[h]; e.Stack > 0 && c.x.T.Name(e.Name) == analyze.AttentionName {
			args = e.Stack
		}
	}
	return args
}

// opaqueType matches the element type of kernels that only move data: OpaqueType<4u>.
var opaqueType = lazyregexp.New(`OpaqueType<(\d+)u?>`)

// elementOf returns the bytes per element of the tensor lists of a kernel, from its template arguments; 0 unknown.
// Only kernels over tensor lists and concatenations have such arguments.
func elementOf(kernel string) int64 {
	if !strings.Contains(kernel, "TensorList") && !strings.Contains(kernel, "CatArrayBatchedCopy") {
		return 0
	}
	if m := opaqueType.FindStringSubmatch(kernel); m != nil {
		n, _ := strconv.ParseInt(m[1], 10, 64) // 0, unknown, if the number is too large
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

// isVectorOp reports whether an operator's FLOPs are not of matrix products. The utilisation leaves them out.
func isVectorOp(name string) bool {
	return strings.Contains(name, "scatter") || strings.Contains(name, "index_add") || strings.Contains(name, "_fft_")
}

// unit is an operator of PyTorch or an instruction of XLA, with the cost of one call.
type unit struct {
	name, shapes, source, precision string
	product                         bool // its arithmetic is matrix products
	cost                            opcost.Cost
}

// costOf returns an operator's cost, or the reason why it has none. kernel is the kernel with most of the operator's
// time.
func (c *counter) costOf(k analyze.RooflineKey, kernel string) (unit, opcost.Reason) {
	t := c.x.T
	if k.Instruction > 0 {
		in := &t.Instructions[k.Instruction-1]
		cost := opcost.Cost{FLOPs: in.FLOPs, Bytes: in.Bytes}
		source := "XLA's cost analysis"
		if in.Computed {
			source = "the shapes in XLA's compiled program"
		}
		return unit{in.Name, in.Type, source, in.Precision, in.Product, cost}, ""
	}
	name := t.Name(k.Op)
	args, ok := opcost.Parse(t.ArgsOf(&model.Host{Stack: k.Args}))
	cost, reason := opcost.Of(name, args, opcost.Hints{Element: elementOf(kernel), Range: k.Range})
	if !ok {
		reason = opcost.NoShapes
	}
	return unit{name, args.Shapes(), opcost.Source(name), precisionOfType(cost.Type), !isVectorOp(name), cost}, reason
}

// shapesOf returns the shapes of recorded arguments, "" without them.
func (c *counter) shapesOf(stack uint32) string {
	args, _ := opcost.Parse(c.x.T.ArgsOf(&model.Host{Stack: stack}))
	return args.Shapes()
}

func (c *counter) newOperator(s *sums, u *unit, kernel string, steps float64) analyze.RooflineOperator {
	o := analyze.RooflineOperator{
		Name: u.name, Shapes: u.shapes, Kernel: kernel, Calls: float64(s.calls) / steps, NS: int64(float64(s.ns) / steps),
		FLOPs: u.cost.FLOPs, Bytes: u.cost.Bytes,
	}
	if o.NS > 0 {
		o.FLOPsPerS, o.BytesPerS = o.FLOPs*o.Calls/float64(o.NS)*1e9, o.Bytes*o.Calls/float64(o.NS)*1e9
	}
	if o.FLOPs > 0 {
		o.Precision = u.precision
		if product, ok := c.longestKernel(s.byKernel, func(kernel model.NameID) bool { return c.precisionOf(kernel) != "" }); ok {
			o.Precision = c.precisionOf(product)
		}
	}
	return o
}

// precisionOfType returns the precision of the arithmetic by the type of the operands. It is TF32 for float32,
// because the higher rate gives the bound.
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

// isReplayed reports whether a graph launched an operation.
func (c *counter) isReplayed(op *model.GPU) bool {
	return op.Graph || op.Launch >= 0 && c.x.Call(op.Launch) == model.CallGraph
}

// orderOps lists the operations of the device in the middle one of the steady steps. rows are those of Roofline.Rows.
func (c *counter) orderOps(d *analyze.DeviceTime, rows []int32) (order []analyze.OrderedOp) {
	var steady []model.Span
	for i := range c.x.Steps {
		if s := &c.x.Steps[i]; !s.Dropped {
			steady = append(steady, s.Window)
		}
	}
	if len(steady) == 0 {
		return nil
	}
	t, step := c.x.T, steady[len(steady)/2]
	for _, g := range d.Ops {
		op := &t.GPU[g]
		if op.Start < step.Start || op.Start >= step.End {
			continue
		}
		o := analyze.OrderedOp{Kernel: t.Name(op.Name), Blocks: op.Blocks, NS: op.Dur(), Row: rows[g], Graph: c.isReplayed(op)}
		if h := c.x.EnclosingOp(g); o.Row < 0 && h >= 0 {
			if costed := c.costedOp(h); costed >= 0 {
				h = costed
			}
			o.Op = t.Name(t.Host[h].Name)
		}
		order = append(order, o)
	}
	return order
}
