package gruflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/optim"
)

// trainCase is a case of kind gru_train_step, a whole step of training, in a file of this project's own tests: no other
// program has carriers. x is [window, T, B, input], of which column 0 is not read (it is the energy). All that the step
// starts from is float32. The format is that of scripts/record/export_gru_vectors.py.
type trainCase struct {
	vectorCase
	stepCase
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *trainCase) UnmarshalJSON(b []byte) error {
	return errors.Join(json.Unmarshal(b, &c.vectorCase), json.Unmarshal(b, &c.stepCase))
}

// checkSteps compares the cases of a file.
func checkSteps(d device.Device, file []byte) ([]gpuprof.CaseResult, error) {
	return loop.Vectors(context.Background(), file, "steps.json", "this file", func(c *trainCase) string { return c.Kind },
		func(c *trainCase) ([]gpuprof.CaseResult, error) { return c.runStep(d) })
}

// stepCase holds the fields of a step besides x, h0 and weights: the carriers' state, their targets, and the results.
type stepCase struct {
	Depth     int     `json:"depth"`
	Rate      float64 `json:"lr"`
	Clip      float64 `json:"clip"`
	Energy    tensor  `json:"energy"`
	Level     tensor  `json:"level"`
	Place     tensor  `json:"place"`
	Source    tensor  `json:"source"`
	Target    tensor  `json:"target"`
	Projected tensor  `json:"projection"`
	Shift     tensor  `json:"projection_bias"`

	Loss  *float64          `json:"loss"`
	After map[string]tensor `json:"parameters_after"`

	window int
}

// trainedStep holds the results of a step, by the names of the parameters.
type trainedStep struct {
	loss         float64
	grads, after map[string][]float64
}

// runStep compares the loss, the gradients of all parameters before clipping, and the parameters after a step of Adam.
func (c *trainCase) runStep(d device.Device) ([]gpuprof.CaseResult, error) {
	s, p, err := c.stepShape()
	if err != nil {
		return nil, err
	}
	wide, err := c.worstStep(s, c.refStep(s, p))
	if err != nil {
		return nil, err
	}
	wide.Precision, wide.Tolerance = "float64", loop.Tolerance64
	got, err := c.stepOn(d, s, p)
	if err != nil {
		return nil, err
	}
	narrow, err := c.worstStep(s, got)
	narrow.Precision, narrow.Tolerance = "float32", gradTolerance32
	return []gpuprof.CaseResult{wide, narrow}, err
}

// parameterSizes returns the parameters of a model and their shapes, in the order of the optimizer.
func parameterSizes(s shape) (names []string, shapes [][]int) {
	for l := range s.L {
		for _, m := range []struct {
			kind string
			dims []int
		}{{"weight_ih", []int{s.gates(), s.inputWidth(l)}}, {"weight_hh", []int{s.gates(), s.H}}, {"bias_ih", []int{s.gates()}}, {"bias_hh", []int{s.gates()}}} {
			names, shapes = append(names, fmt.Sprintf("%s_l%d", m.kind, l)), append(shapes, m.dims)
		}
	}
	return append(names, "projection", "projection_bias"), append(shapes, []int{outputs, s.H}, []int{outputs})
}

// stepShape checks a case and returns its shape and parameters.
func (c *trainCase) stepShape() (s shape, p params, err error) {
	dims := c.X.shape
	if len(dims) != 4 {
		return s, p, gpuprof.Errorf(nil, "x has %d axes", len(dims)).WithFix("give [window][steps][flows][input_size]")
	}
	layers := 1
	if c.NumLayers != nil {
		layers = *c.NumLayers
	}
	s = shape{T: dims[1], B: dims[2], I: dims[3], H: c.HiddenSize, L: layers, D: c.Depth}
	c.window = dims[0]
	for _, n := range []struct {
		what   string
		is, of int
	}{{"hidden_size", s.H, 1 << 14}, {"num_layers", s.L, 16}, {"depth", s.D, 4096}, {"window", c.window, maxWindow}, {"steps", s.T, 1 << 14}, {"flows", s.B, 1 << 16}, {"input_size", s.I, 1 << 14}} {
		if n.is < 1 || n.is > n.of {
			return s, p, gpuprof.Errorf(nil, "%s is %d", n.what, n.is).WithFix("give 1 to %d", n.of)
		}
	}
	if c.InputSize != s.I || c.Loss == nil || !(c.Rate > 0 && c.Rate <= 10) || !(c.Clip > 0 && c.Clip <= 1e6) {
		return s, p, gpuprof.Errorf(nil, "input_size is %d, lr %g and clip %g", c.InputSize, c.Rate, c.Clip).WithFix("give the input_size of x, loss, lr above 0 up to 10 and clip above 0 up to 1e6")
	}
	for _, a := range []struct {
		name  string
		t     tensor
		shape []int
	}{{"h0", c.H0, []int{s.L, s.B, s.H}}, {"energy", c.Energy, []int{s.B}}, {"level", c.Level, []int{s.B}}, {"place", c.Place, []int{s.B, 2}},
		{"source", c.Source, []int{s.B}}, {"target", c.Target, []int{s.D}}, {"projection", c.Projected, []int{outputs, s.H}}, {"projection_bias", c.Shift, []int{outputs}}} {
		if err := a.t.checkShape(a.name, a.shape...); err != nil {
			return s, p, err
		}
	}
	for k, v := range c.Level.data {
		if v != math.Trunc(v) || v < 0 || v >= float64(s.D) {
			return s, p, fmt.Errorf("level of carrier %d is %g, which is none of %d", k, v, s.D)
		}
	}
	if !c.inputsAreSingle() {
		return s, p, gpuprof.Errorf(nil, "an input is no float32").WithFix("round x, h0, the carriers, the targets and the parameters to float32 before the step, since gpuprof holds them so")
	}
	p, err = c.stepParams(s)
	return s, p, err
}

// inputsAreSingle reports whether all inputs of the step are float32.
func (c *trainCase) inputsAreSingle() bool {
	all := []tensor{c.X, c.H0, c.Energy, c.Place, c.Source, c.Target, c.Projected, c.Shift}
	for _, t := range c.Weights {
		all = append(all, t)
	}
	return !slices.ContainsFunc(all, func(t tensor) bool {
		return slices.ContainsFunc(t.data, func(v float64) bool { return float64(float32(v)) != v })
	})
}

// stepParams returns the parameters in the reference's form.
func (c *trainCase) stepParams(s shape) (p params, err error) {
	layers, err := c.layersOf(s)
	if err != nil {
		return p, err
	}
	for _, l := range layers {
		p.layers = append(p.layers, layerParams{op.As[float32](l.wi), op.As[float32](l.wh), op.As[float32](l.bi), op.As[float32](l.bh)})
	}
	p.proj, p.bias = op.As[float32](c.Projected.data), op.As[float32](c.Shift.data)
	return p, nil
}

// startState returns the initial state of a case's carriers.
func (c *trainCase) startState() state {
	st := state{h: op.As[float32](c.H0.data), energy: op.As[float32](c.Energy.data), place: op.As[float32](c.Place.data)}
	for _, v := range c.Level.data {
		st.level = append(st.level, int32(v))
	}
	return st
}

// refStep computes the whole step in float64.
func (c *trainCase) refStep(s shape, p params) (out trainedStep) {
	st, fields := c.startState(), op.As[float32](c.X.data)
	dose, place := make([]float64, s.D), make([]float64, 0, 2*s.B)
	var trips []trip
	for k := range s.B {
		r := tripOf(s, p, c.window, st, k, c.Source.data[k], fields)
		for _, lv := range r.levels {
			dose[lv.at.level] += lv.dose
		}
		place = append(place, r.end.x, r.end.y)
		trips = append(trips, r)
	}
	loss, ddose, dplace := refLoss(dose, c.Target.data, place)
	g := newTrainGrads(s)
	for k, r := range trips {
		r.propagate(ddose, carrierBack{x: dplace[2*k], y: dplace[2*k+1]}, g)
	}
	out = trainedStep{loss: loss, grads: map[string][]float64{}, after: map[string][]float64{}}
	names, _ := parameterSizes(s)
	var grads, values [][]float64
	for l, lg := range g.layers {
		grads = append(grads, lg.wi, lg.wh, lg.bi, lg.bh)
		q := p.layers[l]
		values = append(values, op.As[float64](q.wi), op.As[float64](q.wh), op.As[float64](q.bi), op.As[float64](q.bh))
	}
	grads, values = append(grads, g.proj, g.bias), append(values, op.As[float64](p.proj), op.As[float64](p.bias))
	factor := optim.RefClip(c.Clip, grads...)
	for i, name := range names {
		out.grads[name] = grads[i]
		cut := make([]float64, len(grads[i]))
		for k, v := range grads[i] {
			cut[k] = factor * v
		}
		optim.RefAdam(c.Rate, 1, values[i], cut, make([]float64, len(cut)), make([]float64, len(cut)))
		out.after[name] = values[i]
	}
	return out
}

// stepOn runs the step as the workload does, from the case's numbers in place of drawn ones.
func (c *trainCase) stepOn(d device.Device, s shape, p params) (out trainedStep, err error) {
	set := gpuprof.Settings{"pass": optim.Train, "window": strconv.Itoa(c.window), "lr": strconv.FormatFloat(c.Rate, 'g', -1, 64), "clip": strconv.FormatFloat(c.Clip, 'g', -1, 64)}
	for knob, n := range map[string]int{"flows": s.B, "input": s.I, "hidden": s.H, "layers": s.L, "depth": s.D, "steps": s.T} {
		set[knob] = strconv.Itoa(n)
	}
	knobs, err := workloads.Resolve(New(), "small", set)
	if err != nil {
		return out, err
	}
	t, err := open(context.Background(), d, workloads.Config{Preset: "small", Knobs: knobs, Mode: gpuprof.Hot})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	if err := t.startFrom(c, p); err != nil {
		return out, err
	}
	return t.oneStep()
}

// startFrom replaces the drawn values by the values of a case.
func (s *session) startFrom(c *trainCase, p params) error {
	for l, q := range p.layers { // the optimizer has the same arrays
		to := s.params.layers[l]
		copy(to.wi, q.wi)
		copy(to.wh, q.wh)
		copy(to.bi, q.bi)
		copy(to.bh, q.bh)
	}
	copy(s.params.proj, p.proj)
	copy(s.params.bias, p.bias)
	copy(device.Floats(s.inputs), op.As[float32](c.X.data))
	if err := s.restoreStart(); err != nil {
		return err
	}
	st := c.startState()
	for _, part := range []struct {
		to   device.Buffer
		from []float32
	}{{s.net.h, st.h}, {s.flow.energy, st.energy}, {s.flow.level, floatView(st.level)}, {s.flow.place, st.place},
		{s.flow.source, op.As[float32](c.Source.data)}, {s.train.target, op.As[float32](c.Target.data)}} {
		if err := op.Send(s.mem.Dev, s.stream, part.to, part.from); err != nil {
			return err
		}
	}
	return nil
}

// oneStep runs the first slot's step, and reads the gradients before clipping changes them.
func (s *session) oneStep() (out trainedStep, err error) {
	out = trainedStep{grads: map[string][]float64{}, after: map[string][]float64{}}
	sl := &s.slots[0]
	if err := s.send(sl, 0, loop.Silent{}); err != nil {
		return out, err
	}
	read := func(b device.Buffer) []float64 {
		v, failed := op.Receive(s.mem.Dev, s.stream, b, 0, b.Len()/4)
		err = errors.Join(err, failed)
		return op.As[float64](v)
	}
	names, _ := parameterSizes(s.shape)
	for i := range sl.groups {
		if g := &sl.groups[i]; g.stage == stClip && g.part.First {
			for k, name := range names {
				out.grads[name] = read(s.train.step.Grad(k))
			}
		}
		if err := s.run(&sl.groups[i]); err != nil {
			return out, err
		}
	}
	out.loss = read(s.train.loss)[0]
	for k, prm := range s.train.step.Params() {
		out.after[names[k]] = read(prm.P)
	}
	return out, err
}

// worstStep compares every array that the case gives, all of which it has to; the worst counts.
func (c *trainCase) worstStep(s shape, got trainedStep) (worst gpuprof.CaseResult, err error) {
	names, shapes := parameterSizes(s)
	pairs := []gradPair{{"loss", []float64{*c.Loss}, []float64{got.loss}}}
	for i, name := range names {
		for _, of := range []struct {
			what string
			want map[string]tensor
			got  []float64
		}{{"grads", c.Grads, got.grads[name]}, {"parameters_after", c.After, got.after[name]}} {
			t, ok := of.want[name]
			if !ok {
				return worst, gpuprof.Errorf(nil, "%s lacks %s", of.what, name).WithFix("give all of %v", names)
			}
			if err := t.checkShape(of.what+" "+name, shapes[i]...); err != nil {
				return worst, err
			}
			pairs = append(pairs, gradPair{name, t.data, of.got})
		}
	}
	for _, p := range pairs {
		if r := worseOf(p.got, nil, p.want, nil).RelativeError; op.Worse(worst.RelativeError, r) {
			worst.RelativeError = r
		}
	}
	return worst, nil
}
