package optim

import (
	"math/rand/v2"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// followed takes two steps with the same gradients on the device and in float64, spoils the
// device's parameters (before, after) behind each, and returns the errors that Follow finds.
func followed(t *testing.T, noise float32, spoil func(before, after []float32)) (moments, update float64) {
	t.Helper()
	const n, parts = 1000, 2
	set := Settings{Pass: Train, Optimizer: Fused, Rate: 0.5, Clip: 1}
	d := workloadtest.Host(t, host.Options{})
	mem := op.Arena{Dev: d}
	stream, err := d.NewStream("test")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	defer func() { _ = mem.Free() }() // what the test looks at is on the host
	rng := rand.New(rand.NewPCG(1, 2))
	p := make([]float32, n)
	for i := range p {
		p[i] = float32(rng.NormFloat64())
	}
	step := StepOf(set)
	if err := step.Open(&mem, stream, []Param{{Name: "p", Values: p, P: mem.Upload(stream, "p", p)}}); err != nil {
		t.Fatal(err)
	}
	bound, err := step.Bind()
	if err != nil || len(bound) != parts {
		t.Fatal(len(bound), err)
	}
	ref := NewReference([][]float64{op.As[float64](p)}, set)
	if err := ref.Begin(&step, stream); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		g := make([]float32, n)
		for i := range g {
			g[i] = float32(rng.NormFloat64())
		}
		g[0] = 0
		want := [][]float64{op.As[float64](g)}
		g[0] = noise
		if err := op.Send(d, stream, step.Grad(0), g); err != nil {
			t.Fatal(err)
		}
		for _, b := range bound {
			if err := b.Ops.Enqueue(stream); err != nil {
				t.Fatal(err)
			}
		}
		after, err := op.Receive(d, stream, step.Params()[0].P, 0, n)
		if err != nil {
			t.Fatal(err)
		}
		spoil(p, after)
		if err := op.Send(d, stream, step.Params()[0].P, after); err != nil {
			t.Fatal(err)
		}
		ref.Step(want)
		if err := ref.Follow(&step, stream, 1e-4, nil); err != nil {
			t.Fatal(err)
		}
		p = after
	}
	for _, b := range bound {
		if err := b.Ops.Close(); err != nil {
			t.Error(err)
		}
	}
	return ref.Errors()
}

// Follow passes a step of Adam, also where a gradient that is 0 has rounding errors, and none that
// decays parameters as AdamW does, leaves them, changes one without a gradient or steps twice.
func TestFollowCatches(t *testing.T) {
	const tolerance = 1e-4
	keep := func(_, _ []float32) {}
	for _, tt := range []struct {
		name  string
		noise float32
		spoil func(before, after []float32)
		pass  bool
	}{
		{"a step", 0, keep, true},
		{"rounding errors for a gradient of 0", 1e-6, keep, true},
		{"weight decay", 0, func(_, after []float32) {
			for i := range after {
				after[i] *= 1 - 0.01*checkRate
			}
		}, false},
		{"no step", 0, func(before, after []float32) { copy(after, before) }, false},
		{"two steps", 0, func(before, after []float32) {
			for i, v := range after {
				after[i] += v - before[i]
			}
		}, false},
		{"a change without a gradient", 0, func(_, after []float32) { after[0]++ }, false},
	} {
		moments, update := followed(t, tt.noise, tt.spoil)
		if pass := moments <= tolerance && update <= UpdateTolerance(tolerance); pass != tt.pass {
			t.Errorf("%s: passes %t, errors %g and %g", tt.name, pass, moments, update)
		}
	}
}

// Rounding errors of parts that cancel count relative to the parts, and an error in a gradient of one part to itself.
func TestCancellingGradients(t *testing.T) {
	for _, tt := range []struct {
		parts []float64
		least float64
		most  float64
	}{{[]float64{1, -0.9999}, 5e-8, 1e-7}, {[]float64{1e-4}, 9e-4, 2e-3}} {
		ref := NewReference([][]float64{{0}}, Settings{Rate: 0.001, Clip: 10})
		grads := ref.Gradients()
		for _, part := range tt.parts {
			ref.Term(0, grads[0], []float64{part}, 1)
		}
		ref.Step(grads)
		if e := ref.momentError(0, []float64{ref.m[0][0] + 1e-8}); e < tt.least || e > tt.most {
			t.Errorf("parts %g: error %.3g, want %g to %g", tt.parts, e, tt.least, tt.most)
		}
	}
}
