package opcost

import (
	"cmp"
	"strconv"
	"strings"
)

// Cost is the arithmetic and the memory traffic of one call.
type Cost struct {
	FLOPs float64
	// Bytes counts each operand and result once: the least traffic to device memory.
	Bytes float64
	Type  string // element type of the operand that decides the arithmetic
	// Recomputed is the part of FLOPs that repeats earlier work: the scores in the backward pass of fused attention.
	Recomputed float64
	Product    []int64 // M, N and K of a matrix product
	// Assumed reports that no strides were recorded, so that operands count as dense.
	Assumed bool
}

// A Reason explains why an operator has no cost.
type Reason string

// The reasons.
const (
	NoModel   Reason = "no model"                     // for this operator
	NoShapes  Reason = "no shapes were recorded"      // record_shapes=True would record them
	NoValues  Reason = "an argument was not recorded" // a list of more than 30 tensors, a number, indices
	NoLengths Reason = "the lengths of its sequences were not recorded"
	NoMask    Reason = "its mask has no model"               // a window, or a causal mask with more queries than keys
	NoIrreps  Reason = "no range around it gives its irreps" // record_function(repr(module)) would
	BadShapes Reason = "the shapes do not fit the operator"
)

// Hints are facts about a call that its arguments do not contain.
type Hints struct {
	Element int64  // bytes per element of tensor lists, whose type is not recorded; 0 unknown
	Range   string // text of the innermost range around the call that IsProduct accepts
}

// Of returns the cost of one call.
func Of(name string, args Args, hints Hints) (Cost, Reason) {
	m, ok := models[name]
	if !ok {
		return Cost{}, NoModel
	}
	if len(args) == 0 {
		return Cost{}, NoShapes
	}
	c := call{args: args, hints: hints}
	flops, bytes := m.count(&c)
	switch {
	case c.uncounted != "":
		return Cost{}, c.uncounted
	case c.missing:
		return Cost{}, NoValues
	case c.bad || !(flops >= 0 && bytes >= 0):
		return Cost{}, BadShapes
	}
	out := Cost{FLOPs: flops, Bytes: bytes, Type: cmp.Or(c.scalar, c.typeOf(m.operand)), Product: c.sizes, Recomputed: c.recomputed, Assumed: c.assumed}
	return out, ""
}

// Known reports whether an operator has a model; only then are its arguments kept.
func Known(name string) bool {
	_, ok := models[name]
	return ok
}

// Source returns the source of an operator's formula, "" without a model.
func Source(name string) string { return models[name].source }

// call reads the arguments of one call. missing reports that an argument was not recorded, bad that the shapes do not
// fit the operator, and assumed that strides were not recorded.
type call struct {
	args                  Args
	hints                 Hints
	scalar                string // type of the arithmetic, if it is not the type of an operand
	recomputed            float64
	sizes                 []int64 // M, N and K of a matrix product
	missing, bad, assumed bool
	uncounted             Reason // why the call has no cost although its arguments were recorded, "" otherwise
}

func (c *call) argument(i int) *Arg {
	if i >= len(c.args) {
		c.missing = true
		return &Arg{}
	}
	return &c.args[i]
}

// tensorDims returns the shape of tensor i if it has rank dimensions (with a negative rank, at least -rank).
// Otherwise it returns zeros, and the call has bad shapes.
func (c *call) tensorDims(i, rank int) []int64 {
	d := c.argument(i).Dims
	if len(d) == rank || rank < 0 && len(d) >= -rank {
		return d
	}
	c.bad = true
	return make([]int64, max(rank, -rank))
}

func (c *call) hasTensor(i int) bool { return i < len(c.args) && sizes[c.args[i].Type] > 0 }

func (c *call) typeOf(i int) string {
	if i >= 0 && i < len(c.args) {
		return c.args[i].Type
	}
	return ""
}

func (c *call) elementSize(i int) float64 {
	z := sizes[c.argument(i).Type]
	if z == 0 {
		c.missing = true
	}
	return float64(z)
}

// denseBytes returns the bytes of a dense tensor with the shape and type of tensor i.
func (c *call) denseBytes(i int) float64 { return countElements(c.argument(i).Dims) * c.elementSize(i) }

// readBytes returns the bytes of tensor i in memory. A dimension with stride 0, which is broadcast, counts once.
func (c *call) readBytes(i int) float64 {
	a := c.argument(i)
	if len(a.Strides) != len(a.Dims) {
		c.assumed = c.assumed || len(a.Dims) > 0
		return c.denseBytes(i)
	}
	n := 1.0
	for k, d := range a.Dims {
		if a.Strides[k] != 0 {
			n *= float64(d)
		}
	}
	return n * c.elementSize(i)
}

// optionalBytes is readBytes for a tensor that may be missing.
func (c *call) optionalBytes(i int) float64 {
	if !c.hasTensor(i) {
		return 0
	}
	return c.readBytes(i)
}

func (c *call) integerList(i int) []int64 {
	v := strings.TrimSpace(c.argument(i).Value)
	inner, ok := strings.CutPrefix(v, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if !ok || !closed {
		c.missing = true
		return nil
	}
	var out []int64
	for f := range strings.SplitSeq(inner, ",") {
		if f = strings.TrimSpace(f); f == "" {
			continue
		}
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			c.missing = true
			return nil
		}
		out = append(out, n)
	}
	return out
}

func (c *call) flagList(i int) []bool {
	var out []bool
	for f := range strings.SplitSeq(strings.Trim(c.argument(i).Value, "[] "), ",") {
		switch strings.TrimSpace(f) {
		case "True", "true":
			out = append(out, true)
		case "False", "false":
			out = append(out, false)
		}
	}
	if len(out) == 0 {
		c.missing = true
	}
	return out
}

func (c *call) flagValue(i int) bool { f := c.flagList(i); return len(f) == 1 && f[0] }

// numberOr returns argument i as a number, or other if the argument was not recorded.
func (c *call) numberOr(i int, other float64) float64 {
	if i >= len(c.args) {
		return other
	}
	v, err := strconv.ParseFloat(c.args[i].Value, 64)
	if err != nil {
		return other
	}
	return v
}

// requireInteger returns argument i as an integer. If it was not recorded, the call has no cost.
func (c *call) requireInteger(i int) int64 {
	v, err := strconv.ParseInt(c.argument(i).Value, 10, 64)
	if err != nil {
		c.missing = true
	}
	return v
}

func (c *call) requireEqual(a, b int64) { c.bad = c.bad || a != b }

// listElements adds up the elements of a tensor list. PyTorch records no list of more than 30 tensors.
func (c *call) listElements(i int) float64 {
	a := c.argument(i)
	if a.Type != "TensorList" || len(a.List) == 0 {
		c.missing = true
		return 0
	}
	sum := 0.0
	for _, d := range a.List {
		sum += countElements(d)
	}
	return sum
}

// resolveAxis returns the index of dimension n; a negative n counts from the end.
func (c *call) resolveAxis(dims []int64, n int64) int64 {
	if n < 0 {
		n += int64(len(dims))
	}
	if n < 0 || n >= int64(len(dims)) {
		c.bad = true
		return 0
	}
	return n
}
