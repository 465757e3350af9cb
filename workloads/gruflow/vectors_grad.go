package gruflow

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// gradTolerance32 is the tolerance of float32 gradients. Gradients need longer chains of products than a forward pass,
// and where a gate saturates, 1-z has few correct digits.
const gradTolerance32 = 1e-5

// gradients are the additional fields of a gru_grad case: the cotangents dout and dhn from which the backward pass
// starts, and the gradients of sum(out*dout) + sum(hn*dhn).
type gradients struct {
	DOut  tensor            `json:"dout"`
	DHn   tensor            `json:"dhn"`
	DX    tensor            `json:"dx"`
	DH0   tensor            `json:"dh0"`
	Grads map[string]tensor `json:"grads"`
}

type gradPair struct {
	name      string
	want, got []float64
}

func (c *vectorCase) runGrad(d device.Device, s shape, layers []layer64) ([]gpuprof.CaseResult, error) {
	orZero := func(t tensor, n int) []float64 {
		if len(t.data) == 0 {
			return make([]float64, n)
		}
		return t.data
	}
	states := s.L * s.B * s.H
	in := gradInput{x: c.timeMajor(s, c.X.data, s.I), h0: orZero(c.H0, states), dhn: orZero(c.DHn, states)}
	in.dout = c.timeMajor(s, orZero(c.DOut, s.T*s.B*s.H), s.H)
	wide, err := c.worstOf(s, refBackward(s, layers, in.x, in.h0, in.dout, in.dhn))
	if err != nil {
		return nil, err
	}
	wide.Precision, wide.Tolerance = "float64", loop.Tolerance64
	if c.isSingle() {
		wide.Tolerance = gradTolerance32
	}
	got, err := backwardOn(d, s, layers, in)
	if err != nil {
		return nil, err
	}
	narrow, err := c.worstOf(s, got)
	if err != nil {
		return nil, err
	}
	narrow.Precision, narrow.Tolerance = "float32", gradTolerance32
	return []gpuprof.CaseResult{wide, narrow}, nil
}

type gradInput struct{ x, h0, dout, dhn []float64 }

// checkGradShapes compares the shapes of the gradients with the arguments, the shapes of x, out and hn.
func (c *vectorCase) checkGradShapes(input, sequence, states []int) error {
	if len(c.DOut.data) == 0 && len(c.DHn.data) == 0 {
		return fmt.Errorf("neither dout nor dhn is given, so every gradient is zero")
	}
	if len(c.Grads) == 0 && len(c.DX.data) == 0 && len(c.DH0.data) == 0 {
		return fmt.Errorf("neither grads, dx nor dh0 is given, so there is nothing to compare")
	}
	for _, a := range []struct {
		name  string
		t     tensor
		shape []int
	}{{"dout", c.DOut, sequence}, {"dhn", c.DHn, states}, {"dx", c.DX, input}, {"dh0", c.DH0, states}} {
		if len(a.t.data) == 0 {
			continue
		}
		if err := a.t.checkShape(a.name, a.shape...); err != nil {
			return err
		}
	}
	return nil
}

// worstOf returns the largest error of the gradients that the case gives.
func (c *vectorCase) worstOf(s shape, g gruGrads) (gpuprof.CaseResult, error) {
	pairs := []gradPair{{"dx", c.timeMajor(s, c.DX.data, s.I), g.dx}, {"dh0", c.DH0.data, g.dh0}}
	byName := map[string][]float64{}
	shapes := map[string][]int{}
	for l, p := range g.layers {
		for kind, v := range map[string][]float64{"weight_ih": p.wi, "weight_hh": p.wh, "bias_ih": p.bi, "bias_hh": p.bh} {
			name := fmt.Sprintf("%s_l%d", kind, l)
			byName[name], shapes[name] = v, []int{s.gates()}
			if n := len(v) / s.gates(); kind == "weight_ih" || kind == "weight_hh" {
				shapes[name] = []int{s.gates(), n}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Grads)) {
		got, ok := byName[name]
		if !ok {
			return gpuprof.CaseResult{}, gpuprof.Errorf(nil, "grads has %s, and the GRU has no such parameter", name).WithFix("use PyTorch's names, such as weight_ih_l0")
		}
		if err := c.Grads[name].checkShape(name, shapes[name]...); err != nil {
			return gpuprof.CaseResult{}, err
		}
		pairs = append(pairs, gradPair{name, c.Grads[name].data, got})
	}
	var worst gpuprof.CaseResult
	for _, p := range pairs {
		if r := worseOf(p.got, nil, p.want, nil).RelativeError; op.Worse(worst.RelativeError, r) {
			worst.RelativeError = r
		}
	}
	return worst, nil
}

func backwardOn(d device.Device, s shape, layers []layer64, in gradInput) (out gruGrads, err error) {
	cfg := ForwardConfig{TimeSteps: s.T, Batch: s.B, Input: s.I, Hidden: s.H}
	for _, l := range layers {
		cfg.Layers = append(cfg.Layers, Layer{op.As[float32](l.wi), op.As[float32](l.wh), op.As[float32](l.bi), op.As[float32](l.bh)})
	}
	f, err := NewBackward(d, cfg)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Set(op.As[float32](in.x), op.As[float32](in.h0), op.As[float32](in.dout), op.As[float32](in.dhn)); err != nil {
		return out, err
	}
	if err := f.Run(); err != nil {
		return out, err
	}
	g, err := f.Gradients()
	if err != nil {
		return out, err
	}
	out.dx, out.dh0 = op.As[float64](g.DX), op.As[float64](g.DH0)
	for _, l := range g.Layers {
		out.layers = append(out.layers, grad64{op.As[float64](l.WeightIH), op.As[float64](l.WeightHH), op.As[float64](l.BiasIH), op.As[float64](l.BiasHH)})
	}
	return out, nil
}
