package gruflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// mostInCase is the largest value of each size of a case, so that products of sizes fit 64 bits. No file holds arrays
// of this width.
const mostInCase = 1 << 20

const kindGrad = "gru_grad"

// vectorCase is one case of a vectors file, in the format of docs/gruflow.md: a torch.nn.GRU, its inputs and results.
type vectorCase struct {
	Kind          string            `json:"kind"`
	InputSize     int               `json:"input_size"`
	HiddenSize    int               `json:"hidden_size"`
	NumLayers     *int              `json:"num_layers"`
	Bias          *bool             `json:"bias"`
	BatchFirst    bool              `json:"batch_first"`
	Bidirectional bool              `json:"bidirectional"`
	Weights       map[string]tensor `json:"weights"`

	X   tensor `json:"x"`
	H0  tensor `json:"h0"`
	Out tensor `json:"out"`
	Hn  tensor `json:"hn"`

	gradients
}

// UnmarshalJSON implements json.Unmarshaler. A case may have its weights as fields of its own instead of in an object.
func (c *vectorCase) UnmarshalJSON(b []byte) error {
	type fields vectorCase
	if err := json.Unmarshal(b, (*fields)(c)); err != nil {
		return err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	for name, raw := range all {
		if !strings.HasPrefix(name, "weight_") && !strings.HasPrefix(name, "bias_") {
			continue
		}
		var t tensor
		if err := json.Unmarshal(raw, &t); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if c.Weights == nil {
			c.Weights = map[string]tensor{}
		}
		c.Weights[name] = t
	}
	return nil
}

// CheckVectors implements workloads.VectorChecker.
func (Workload) CheckVectors(ctx context.Context, d device.Device, file []byte, name string) ([]gpuprof.CaseResult, error) {
	return loop.Vectors(ctx, file, name, "docs/gruflow.md", func(c *vectorCase) string { return c.Kind },
		func(c *vectorCase) ([]gpuprof.CaseResult, error) { return c.run(d) })
}

// run compares the case in float64, and in float32 on the device, where the result is the worst of all implementations.
func (c *vectorCase) run(d device.Device) ([]gpuprof.CaseResult, error) {
	switch c.Kind {
	case "gru", kindGrad:
	default:
		return nil, gpuprof.Errorf(nil, "unknown kind %q", c.Kind).WithFix("use gru or gru_grad%s", gpuprof.DidYouMean(c.Kind, []string{"gru", kindGrad}))
	}
	s, err := c.checkedShape()
	if err != nil {
		return nil, err
	}
	layers, err := c.layersOf(s)
	if err != nil {
		return nil, err
	}
	if c.Kind == kindGrad {
		return c.runGrad(d, s, layers)
	}
	x, h0 := c.timeMajor(s, c.X.data, s.I), c.H0.data
	if len(h0) == 0 {
		h0 = make([]float64, s.L*s.B*s.H)
	}
	want := c.timeMajor(s, c.Out.data, s.H)
	out, hn := refForward(s, layers, x, h0)
	wide := worseOf(out, hn, want, c.Hn.data)
	wide.Precision, wide.Tolerance = "float64", loop.Tolerance64
	if c.isSingle() { // torch's default: the vectors themselves have float32 rounding errors
		wide.Tolerance = loop.Tolerance32
	}

	worst := gpuprof.CaseResult{Precision: "float32", Tolerance: loop.Tolerance32}
	for _, impl := range []string{implPlain, implFused} {
		out, hn, err := c.runForward(d, s, impl, layers, x, h0)
		if err != nil {
			return nil, err
		}
		r := worseOf(op.As[float64](out), op.As[float64](hn), want, c.Hn.data)
		if op.Worse(worst.RelativeError, r.RelativeError) {
			worst.RelativeError = r.RelativeError
		}
	}
	return []gpuprof.CaseResult{wide, worst}, nil
}

// isSingle reports whether another program computed the case in float32: every number is then exactly a float32.
func (c *vectorCase) isSingle() bool {
	arrays := []tensor{c.X, c.H0, c.Out, c.Hn, c.DOut, c.DHn, c.DX, c.DH0}
	for _, named := range []map[string]tensor{c.Weights, c.Grads} {
		for _, t := range named {
			arrays = append(arrays, t)
		}
	}
	for _, t := range arrays {
		for _, v := range t.data {
			if float64(float32(v)) != v {
				return false
			}
		}
	}
	return true
}

type layer64 struct{ wi, wh, bi, bh []float64 }

// checkedShape derives the case's sizes and compares all arrays with them.
func (c *vectorCase) checkedShape() (shape, error) {
	s := shape{I: c.InputSize, H: c.HiddenSize, L: 1, D: 1}
	if c.NumLayers != nil {
		s.L = *c.NumLayers
	}
	switch {
	case s.I < 1 || s.H < 1 || s.L < 1:
		return s, gpuprof.Errorf(nil, "input_size is %d, hidden_size %d and num_layers %d", s.I, s.H, s.L).WithFix("give each, and at least 1")
	case s.I > mostInCase || s.H > mostInCase || s.L > mostInCase: // products of sizes fit 64 bits
		return s, gpuprof.Errorf(nil, "input_size is %d, hidden_size %d and num_layers %d", s.I, s.H, s.L).WithFix("give at most %d", mostInCase)
	case c.bidirectionalBy() != "":
		return s, gpuprof.Errorf(nil, "%s, and gpuprof runs GRUs of one direction only", c.bidirectionalBy())
	case len(c.Weights[fmt.Sprintf("weight_ih_l%d", s.L)].data) > 0:
		return s, gpuprof.Errorf(nil, "weight_ih_l%d is given, but num_layers is %d", s.L, s.L).WithFix("correct one of them")
	case len(c.X.data) == 0:
		return s, fmt.Errorf("x holds no values, so there is nothing to compute")
	}
	lead := []int{} // batch axis, absent in an unbatched case
	switch len(c.X.shape) {
	case 3:
		s.T, s.B = c.X.shape[0], c.X.shape[1]
		if c.BatchFirst {
			s.T, s.B = s.B, s.T
		}
		lead = []int{s.B}
	case 2:
		s.T, s.B = c.X.shape[0], 1
	case 1:
		per := len(c.H0.data) / (s.L * s.H)
		if per < 1 || len(c.X.data)%(per*s.I) != 0 {
			return s, gpuprof.Errorf(nil, "x is flat with %d values, from which T and B cannot be told", len(c.X.data)).WithFix("nest it as [T][B][%d], or give h0", s.I)
		}
		s.B, s.T = per, len(c.X.data)/(per*s.I)
		lead = []int{s.B}
	default:
		return s, gpuprof.Errorf(nil, "x has %d axes", len(c.X.shape)).WithFix("give [T][B][input_size]")
	}
	return s, c.checkShapes(s, lead)
}

// bidirectionalBy returns the reason why the case's GRU is bidirectional, or "".
func (c *vectorCase) bidirectionalBy() string {
	if c.Bidirectional {
		return "bidirectional is true"
	}
	for _, name := range slices.Sorted(maps.Keys(c.Weights)) {
		if strings.HasSuffix(name, "_reverse") {
			return name + " is given, so the GRU is bidirectional"
		}
	}
	return ""
}

func (c *vectorCase) checkShapes(s shape, lead []int) error {
	if c.Kind == "gru" && len(c.Out.data) == 0 && len(c.Hn.data) == 0 {
		return fmt.Errorf("neither out nor hn is given, so there is nothing to compare")
	}
	sequence := func(width int) []int {
		if len(lead) > 0 && c.BatchFirst {
			return []int{s.B, s.T, width}
		}
		return append(append([]int{s.T}, lead...), width)
	}
	states := append(append([]int{s.L}, lead...), s.H)
	for _, a := range []struct {
		name  string
		t     tensor
		shape []int
		given bool
	}{
		{"x", c.X, sequence(s.I), true}, {"h0", c.H0, states, len(c.H0.data) > 0},
		{"out", c.Out, sequence(s.H), len(c.Out.data) > 0}, {"hn", c.Hn, states, len(c.Hn.data) > 0},
	} {
		if !a.given {
			continue
		}
		if err := a.t.checkShape(a.name, a.shape...); err != nil {
			return err
		}
	}
	if c.Kind == kindGrad {
		return c.checkGradShapes(sequence(s.I), sequence(s.H), states)
	}
	return nil
}

// layersOf returns the parameters of the layers, found by PyTorch's names. A case that gives no bias was made with
// bias=False.
func (c *vectorCase) layersOf(s shape) ([]layer64, error) {
	biased := c.Bias == nil || *c.Bias
	if c.Bias == nil {
		biased = false
		for name := range c.Weights {
			biased = biased || strings.HasPrefix(name, "bias_")
		}
	}
	get := func(kind string, l int, want ...int) ([]float64, error) {
		name := fmt.Sprintf("%s_l%d", kind, l)
		t, ok := c.Weights[name]
		if !ok {
			return nil, gpuprof.Errorf(nil, "%s is missing", name).WithFix("give it with shape %v", want)
		}
		return t.data, t.checkShape(name, want...)
	}
	var out []layer64
	for l := range s.L {
		p := layer64{bi: make([]float64, s.gates()), bh: make([]float64, s.gates())}
		var err error
		if p.wi, err = get("weight_ih", l, s.gates(), s.inputWidth(l)); err != nil {
			return nil, err
		}
		if p.wh, err = get("weight_hh", l, s.gates(), s.H); err != nil {
			return nil, err
		}
		if biased {
			if p.bi, err = get("bias_ih", l, s.gates()); err != nil {
				return nil, err
			}
			if p.bh, err = get("bias_hh", l, s.gates()); err != nil {
				return nil, err
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// timeMajor returns a sequence in the order [T,B,width].
func (c *vectorCase) timeMajor(s shape, v []float64, width int) []float64 {
	if !c.BatchFirst || len(v) == 0 || len(c.X.shape) == 2 {
		return v
	}
	out := make([]float64, len(v))
	for b := range s.B {
		for t := range s.T {
			copy(out[(t*s.B+b)*width:][:width], v[(b*s.T+t)*width:])
		}
	}
	return out
}

func (c *vectorCase) runForward(d device.Device, s shape, impl string, layers []layer64, x, h0 []float64) (out, hn []float32, err error) {
	cfg := ForwardConfig{TimeSteps: s.T, Batch: s.B, Input: s.I, Hidden: s.H, Impl: impl, Precision: "fp32"}
	for _, l := range layers {
		cfg.Layers = append(cfg.Layers, Layer{op.As[float32](l.wi), op.As[float32](l.wh), op.As[float32](l.bi), op.As[float32](l.bh)})
	}
	f, err := NewForward(d, cfg)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Set(op.As[float32](x), op.As[float32](h0)); err != nil {
		return nil, nil, err
	}
	if err := f.Run(); err != nil {
		return nil, nil, err
	}
	return f.Result()
}

// refForward computes a whole GRU in float64: the top layer's output [T,B,H] and the last states hn [L,B,H].
func refForward(s shape, layers []layer64, x, h0 []float64) (out, hn []float64) {
	in, width := x, s.I
	hn = append(hn, h0...)
	for l, p := range layers {
		out = make([]float64, s.T*s.B*s.H)
		for row := range s.T * s.B {
			h := hn[(l*s.B+row%s.B)*s.H:][:s.H]
			next := out[row*s.H : (row+1)*s.H]
			refCell(in[row*width:(row+1)*width], h, p.wi, p.wh, p.bi, p.bh, next)
			copy(h, next)
		}
		in, width = out, s.H
	}
	return out, hn
}

// worseOf returns the larger relative error of the two results.
func worseOf(out, hn, wantOut, wantHn []float64) gpuprof.CaseResult {
	worst := gpuprof.Number(0)
	for _, p := range [][2][]float64{{out, wantOut}, {hn, wantHn}} {
		var e op.ErrorNorm
		e.AddWide(p[0], p[1])
		if r := gpuprof.Number(e.Relative()); op.Worse(worst, r) {
			worst = r
		}
	}
	return gpuprof.CaseResult{RelativeError: worst}
}
