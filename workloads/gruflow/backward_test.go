package gruflow

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// The known answer: the cell of refCell's test backwards, and two steps of it on the
// same input.
func TestCellBackKnown(t *testing.T) {
	p := layer64{wi: []float64{.1, .2, .3}, wh: []float64{.4, .5, .6}, bi: []float64{.01, .02, .03}, bh: []float64{.04, .05, .06}}
	close12 := func(what string, got []float64, want ...float64) {
		t.Helper()
		for i, w := range want {
			if !(math.Abs(got[i]-w) <= 1e-12) { // the digits that are given
				t.Errorf("%s %d is %.12f, want %.12f", what, i, got[i], w)
			}
		}
	}
	one := shape{T: 1, B: 1, I: 1, H: 1, L: 1}
	g := refBackward(one, []layer64{p}, []float64{.5}, []float64{-.25}, []float64{1}, []float64{0})
	close12("dx", g.dx, .123705994127)
	close12("dh", g.dh0, .602915069744)
	close12("dW_i", g.layers[0].wi, -.005399454529, -.047998922686, .239975756845)
	close12("dW_h", g.layers[0].wh, .002699727265, .023999461343, -.059993939211)
	close12("db_i", g.layers[0].bi, -.010798909058, -.095997845372, .479951513689)
	close12("db_h", g.layers[0].bh, -.010798909058, -.095997845372, .239975756845)
	two := one
	two.T = 2
	out, _ := refForward(two, []layer64{p}, []float64{.5, .5}, []float64{-.25})
	close12("h2", out[1:], .054881745172)
	g = refBackward(two, []layer64{p}, []float64{.5, .5}, []float64{-.25}, []float64{0, 0}, []float64{1})
	close12("dx", []float64{g.dx[0] + g.dx[1]}, .201989853454)
	close12("dh", g.dh0, .388286983200)
	close12("db_h", g.layers[0].bh, -.004416409708, -.124438965645, .387285600134)
}

// lesson is a GRU with everything that a backward starts from.
type lesson struct {
	s      shape
	layers []layer64
	in     gradInput
}

func newLesson(s shape, seed uint64) lesson {
	rng := rand.New(rand.NewPCG(seed, 1))
	draw := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = .5 * rng.NormFloat64()
		}
		return v
	}
	l := lesson{s: s, in: gradInput{draw(s.T * s.B * s.I), draw(s.L * s.B * s.H), draw(s.T * s.B * s.H), draw(s.L * s.B * s.H)}}
	for i := range s.L {
		l.layers = append(l.layers, layer64{draw(s.gates() * s.inputWidth(i)), draw(s.gates() * s.H), draw(s.gates()), draw(s.gates())})
	}
	return l
}

func (l lesson) grads() gruGrads {
	return refBackward(l.s, l.layers, l.in.x, l.in.h0, l.in.dout, l.in.dhn)
}

// loss is the function that the gradients differentiate: the results times their cotangents.
func (l lesson) loss() float64 {
	out, hn := refForward(l.s, l.layers, l.in.x, l.in.h0)
	sum := 0.0
	for i, v := range out {
		sum += v * l.in.dout[i]
	}
	for i, v := range hn {
		sum += v * l.in.dhn[i]
	}
	return sum
}

// Every gradient is the loss's fourth-order difference.
func TestBackwardDifferences(t *testing.T) {
	l := newLesson(shape{T: 3, B: 2, I: 3, H: 4, L: 2}, 3)
	g := l.grads()
	compare := func(what string, at, grad []float64) {
		t.Helper()
		const h = 1e-3
		for i := range at {
			was := at[i]
			f := func(d float64) float64 { at[i] = was + d; defer func() { at[i] = was }(); return l.loss() }
			want := (8*(f(h)-f(-h)) - (f(2*h) - f(-2*h))) / (12 * h)
			// h^4 times a fifth derivative, and rounding of the loss over h.
			if d := math.Abs(grad[i] - want); !(d <= 1e-10) {
				t.Errorf("%s %d is %g from the difference", what, i, d)
			}
		}
	}
	compare("dx", l.in.x, g.dx)
	compare("dh0", l.in.h0, g.dh0)
	for i, p := range l.layers {
		compare("dW_i", p.wi, g.layers[i].wi)
		compare("dW_h", p.wh, g.layers[i].wh)
		compare("db_i", p.bi, g.layers[i].bi)
		compare("db_h", p.bh, g.layers[i].bh)
	}
}

// flat are all gradients, one after the other.
func (g gruGrads) flat() []float64 {
	all := slices.Concat(g.dx, g.dh0)
	for _, l := range g.layers {
		all = slices.Concat(all, l.wi, l.wh, l.bi, l.bh)
	}
	return all
}

func checkBackward(t *testing.T, d device.Device, shapes ...shape) {
	t.Helper()
	for _, s := range shapes {
		l := newLesson(s, 5)
		// The reference reads what the device is given, in float32.
		for _, v := range [][]float64{l.in.x, l.in.h0, l.in.dout, l.in.dhn} {
			copy(v, op.As[float64](op.As[float32](v)))
		}
		for _, p := range l.layers {
			for _, v := range [][]float64{p.wi, p.wh, p.bi, p.bh} {
				copy(v, op.As[float64](op.As[float32](v)))
			}
		}
		before := d.Memory().InUse
		got, err := backwardOn(d, s, l.layers, l.in)
		if err != nil {
			t.Fatal(err)
		}
		if left := d.Memory().InUse - before; left != 0 {
			t.Errorf("%+v: %d bytes are left", s, left)
		}
		var e op.ErrorNorm
		want := l.grads()
		e.Add(op.As[float32](got.flat()), want.flat())
		if r := e.Relative(); !(r <= 1e-6) { // PyTorch's float32 is off by 3e-7
			t.Errorf("%+v: the gradients are off by %.3g", s, r)
		}
		again, err := backwardOn(d, s, l.layers, l.in)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.flat(), again.flat()) {
			t.Errorf("%+v: a second run gave other bits", s)
		}
	}
}

func TestBackward(t *testing.T) {
	both(t, func(t *testing.T) {
		d := openHost(t, host.Options{})
		// More rows than a chunk, tiles that are cut, one unit.
		checkBackward(t, d, shape{T: 5, B: 7, I: 3, H: 9, L: 2}, shape{T: 1, B: 1, I: 1, H: 1, L: 1}, shape{T: 3, B: 1500, I: 5, H: 70, L: 1})
	})
}

func TestCUDABackward(t *testing.T) {
	checkBackward(t, openSimulated(t, false), shape{T: 3, B: 5, I: 3, H: 9, L: 2}, shape{T: 2, B: 70, I: 2, H: 23, L: 1}, shape{T: 2, B: 2100, I: 1, H: 2, L: 1})
}

// The gradients have the same bits for any number of threads.
func TestBackwardThreads(t *testing.T) {
	l := newLesson(shape{T: 4, B: 130, I: 5, H: 70, L: 2}, 9)
	var first []float64
	for _, threads := range []int{1, 2, 5} {
		g, err := backwardOn(openHost(t, host.Options{Threads: threads}), l.s, l.layers, l.in)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = g.flat()
		}
		if !slices.Equal(first, g.flat()) {
			t.Errorf("%d threads gave other bits", threads)
		}
	}
}

// Gradients are 0, bit for bit, where their loss depends on nothing.
func TestBackwardOfNothing(t *testing.T) {
	l := newLesson(shape{T: 3, B: 4, I: 2, H: 5, L: 2}, 2)
	clear(l.in.dout)
	clear(l.in.dhn)
	g, err := backwardOn(openHost(t, host.Options{}), l.s, l.layers, l.in)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range g.flat() {
		if v != 0 {
			t.Fatalf("gradient %d is %g", i, v)
		}
	}
}

// knownGrad is the known answer as a vectors file has it.
const knownGrad = `{"kind":"gru_grad","input_size":1,"hidden_size":1,
"weight_ih_l0":[[0.1],[0.2],[0.3]],"weight_hh_l0":[[0.4],[0.5],[0.6]],"bias_ih_l0":[0.01,0.02,0.03],"bias_hh_l0":[0.04,0.05,0.06],
"x":[[[0.5]]],"h0":[[[-0.25]]],"dhn":[[[1]]],"dh0":[[[0.6029150697444285]]]`

// knownGrads are its gradients, to all digits.
const knownGrads = `,"dx":[[[0.12370599412654132]]],"grads":{"weight_ih_l0":[[-0.005399454529001976],[-0.04799892268594406],[0.23997575684453226]],"weight_hh_l0":[[0.002699727264500988],[0.02399946134297203],[-0.059993939211133065]],"bias_ih_l0":[-0.010798909058003951,-0.09599784537188812,0.4799515136890645],"bias_hh_l0":[-0.010798909058003951,-0.09599784537188812,0.23997575684453226]}}`

func TestGradVectors(t *testing.T) {
	full := knownGrad + knownGrads
	wrong := `"grads":{"bias_hh_l0":[-0.010798909058,-0.095997845372,0.475683462706]}}`
	for _, tt := range []struct {
		name, text string
		fails      bool
		err        string
	}{
		{"right", full, false, ""},
		{"b_hn outside the reset gate", knownGrad + `,` + wrong, true, ""},
		{"nothing to start from", `{"kind":"gru_grad","input_size":1,"hidden_size":1,"x":[[[0.5]]]}`, false, "neither dout nor dhn"},
		{"nothing to compare", `{"kind":"gru_grad","input_size":1,"hidden_size":1,"x":[[[0.5]]],"dhn":[[[1]]]}`, false, "neither grads, dx nor dh0"},
		{"a wrong shape", knownGrad + `,"dx":[[[1,2]]]}`, false, "dx has shape [1 1 2], the case needs [1 1 1]"},
		{"no such parameter", knownGrad + `,"grads":{"weight_ih_l1":[1]}}`, false, "grads has weight_ih_l1"},
		{"a gradient of another shape", knownGrad + `,"grads":{"bias_ih_l0":[1]}}`, false, "bias_ih_l0 has shape [1], the case needs [3]"},
	} {
		t.Run(tt.name, func(t *testing.T) { expectVectors(t, `{"cases":[`+tt.text+`]}`, tt.fails, tt.err) })
	}
	res, err := Workload{}.CheckVectors(context.Background(), openSimulated(t, false), []byte(`{"cases":[`+full+`]}`), "file.json")
	if err != nil || slices.ContainsFunc(res, func(r gpuprof.CaseResult) bool { return !r.Pass }) {
		t.Errorf("on CUDA: %+v, %v", res, err)
	}
}
