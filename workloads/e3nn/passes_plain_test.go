//go:build !race

// Under the race detector these take ten times as long. They start no other goroutines than TestTrainingPasses,
// TestForcesOnCUDA and TestForcesDoNotDependOnTuning do.

package e3nn

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// Forces pass their checks whatever the settings of the forward pass.
func TestForcesPass(t *testing.T) {
	for _, set := range [][]string{
		{"small", "batch=96"},
		{"small", "impl=fused", "batch=24"},
		{"small", "impl=unfused", "deterministic=on", "layout=mul_ir", "batch=24"},
		{"small", "impl=csr", "layout=mul_ir", "basis=bessel", "lmax=3", "mul=3", "batch=24", "recompute=weights"},
		{"small", "layout=mul_ir", "batch=24", "graph=on"},
		{"small", "graph=on", "batch=24", "recompute=all"},
		{"small", "precision=bf16", "batch=24", "graph=on"},
		{"small", "precision=fp16", "batch=24", "impl=fused"},
		{"small", "precision=tf32x3", "batch=24"},
		{"small", "precision=tf32", "batch=24", "recompute=all", "impl=unfused"},
		{"deepaw", "batch=3", "mul=50", "edges=40"},
		{"deepaw", "batch=3", "mul=50", "edges=40", "recompute=all"},
		{"deepaw", "batch=3", "mul=50", "edges=40", "recompute=weights"},
		{"nequip-lips", "edges=48", "layout=mul_ir", "batch=12"},
		{"mace-medium", "edges=300", "batch=10", "mul=16"},
	} {
		t.Run(strings.Join(set, ","), func(t *testing.T) {
			s := openSession(t, set[0], append(set[1:], "pass=forces")...)
			checks := workloadtest.PassesWhole(t, s)
			for _, c := range checks {
				t.Logf("%s %.2g", c.Stage, float64(c.RelativeError))
			}
		})
	}
}

// A check that cannot fail checks nothing: one thing at a time is broken behind the
// way back, and the stage that computes with it fails.
func TestForcesCheckCatches(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(s *session)
		stage string
	}{
		{"wrong readout", func(s *session) { device.Floats(s.layers[0].readout)[2]++ }, "loss"},
		{"a readout that the way back alone has", func(s *session) { device.Floats(s.layers[0].readout)[2]++ }, "linear_gate_bwd"},
		{"wrong feature", func(s *session) { device.Floats(s.layers[0].x)[3]++ }, "tensor_product_bwd"},
		{"wrong MLP weight", func(s *session) { device.Floats(s.layers[0].w2)[7]++ }, "radial_bwd"},
		{"a gradient that is not 1", func(s *session) { device.Floats(s.back.drho)[0] = 2 }, "gradient of the whole step"},
		{"a way back that leaves out what comes before", func(s *session) {
			s.plan = slices.DeleteFunc(s.plan, func(o stageOps) bool { return o.stage == stSphBack })
		}, "forces"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := openSession(t, "small", "batch=24", "pass=forces")
			tt.spoil(s)
			workloadtest.Fails(t, s, tt.stage)
		})
	}
}

// Forces are the derivative of the energy that the forward pass computes: moving one
// atom by a little changes the energy by what its force says.
func TestForcesAreTheSlopeOfTheEnergy(t *testing.T) {
	s := openSession(t, "small", "points=atoms", "batch=12", "pass=forces", "mul=3")
	run(t, s, 1)
	force := device.Floats(s.slots[0].out)
	p := widen(s.params)
	sl := &s.slots[0]
	rowptr, vec, src := device.Ints(sl.host.rowptr), device.Floats(sl.host.vec), device.Ints(sl.host.src)
	start := slices.Clone(vec)
	// An atom is moved by moving the vectors of its edges: none comes into reach.
	energy := func(atom, axis int, by float64) float64 {
		copy(vec, start)
		for r := range s.rows {
			for e := rowptr[r]; e < rowptr[r+1]; e++ {
				if int(src[e]) == atom {
					vec[3*int(e)+axis] += float32(by)
				}
				if r == atom {
					vec[3*int(e)+axis] -= float32(by)
				}
			}
		}
		sum := 0.0
		for r := range s.rows {
			ref, err := s.referenceRow(context.Background(), sl, r, p)
			if err != nil {
				t.Fatal(err)
			}
			sum += ref.rho
		}
		return sum
	}
	const h = 1.0 / 128 // float32 holds the moved vectors to some 1e-7: the slope to 1e-5
	for _, atom := range []int{0, 5, 11} {
		for axis := range 3 {
			slope := (8*(energy(atom, axis, h)-energy(atom, axis, -h)) - (energy(atom, axis, 2*h) - energy(atom, axis, -2*h))) / (12 * h)
			if got := float64(force[3*atom+axis]); math.Abs(got+slope) > 3e-4*max(1, math.Abs(slope)) {
				t.Errorf("atom %d, axis %d: force %g, the energy's slope is %g", atom, axis, got, slope)
			}
		}
	}
}

// A hundred steps leave the same bits for any number of threads, launched or
// replayed, kept or made again.
func TestHundredStepsAreBitIdentical(t *testing.T) {
	base := []string{"batch=20", "mul=3", "deterministic=on"}
	want := trained(t, 100, append(base, "threads=1")...)
	for _, set := range []string{"threads=2", "threads=all", "graph=on", "recompute=all", "streams=1"} {
		if got := trained(t, 100, append(base, set)...); !slices.Equal(got, want) {
			t.Errorf("%s changes bits of the parameters after 100 steps", set)
		}
	}
}

// A check that cannot fail checks nothing: one value of the reference is not what the device has, which begins from the
// values that were drawn.
func TestTrainingCheckCatches(t *testing.T) {
	for _, tt := range []struct {
		name   string
		of     func(s *session) *[]float32
		stages []string
	}{
		{"target", func(s *session) *[]float32 { return &s.params.target }, []string{"loss", "gradient of the whole step"}},
		{"readout", func(s *session) *[]float32 { return &s.params.readout[0] }, []string{"loss", "linear_gate_bwd", "gradient of the whole step"}},
		{"feature", func(s *session) *[]float32 { return &s.params.x[0] }, []string{"tensor_product_bwd", "gradient of the whole step"}},
		{"MLP weight", func(s *session) *[]float32 { return &s.params.w2[0] }, []string{"radial_bwd", "gradient of the whole step"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := openSession(t, "small", "batch=24", "pass=train")
			v := tt.of(s)
			*v = slices.Clone(*v) // the device's own stay
			(*v)[2]++
			workloadtest.Fails(t, s, tt.stages...)
		})
	}
}

// The gradients are the slopes of the loss that the reference computes.
func TestGradientsAreTheSlopeOfTheLoss(t *testing.T) {
	s := openSession(t, "small", "points=atoms", "batch=12", "pass=train", "mul=3", "clip=1000000")
	run(t, s, 1)
	sl := &s.slots[0]
	p := widen(s.params)
	loss := func() float64 {
		sum := 0.0
		for r := range s.rows {
			ref, err := s.referenceRow(context.Background(), sl, r, p)
			if err != nil {
				t.Fatal(err)
			}
			off := ref.rho - float64(s.params.target[r])
			sum += off * off / 2 / float64(s.rows)
		}
		return sum
	}
	g := s.train.grads[0]
	for _, c := range []struct {
		name string
		b    device.Buffer
		v    []float64
	}{{"features", g.x, p.x[0]}, {"w1", g.w1, p.w1[0]}, {"w2", g.w2, p.w2[0]}, {"mix", g.mix, p.mix[0]}, {"readout", g.readout, p.readout[0]}} {
		got := read(t, s, c.b, len(c.v))
		for _, at := range []int{0, len(c.v) / 3, len(c.v) - 1} {
			if c.name == "features" { // the session's order is another
				at -= at % s.model.Layers[0].In.Dim() // the first scalar of an atom is first in both
			}
			was := c.v[at]
			value := func(d float64) float64 {
				c.v[at] = was + d
				return loss()
			}
			const h = 1e-3
			slope := (8*(value(h)-value(-h)) - (value(2*h) - value(-2*h))) / (12 * h)
			c.v[at] = was
			if math.Abs(float64(got[at])-slope) > 1e-5*max(1, math.Abs(slope)) {
				t.Errorf("%s %d: %g, the loss's slope is %g", c.name, at, got[at], slope)
			}
		}
	}
}
