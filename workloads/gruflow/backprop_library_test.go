package gruflow

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// cuDNN's training of a GRU is ours on the host: gradients, and the parameters after three steps
// of Adam, which reads them from where cuDNN left them and writes what cuDNN reads.
func TestBackwardByCuDNN(t *testing.T) {
	s := shape{T: 5, B: 4, I: 6, H: 9, L: 3}
	rng := rand.New(rand.NewPCG(3, 1))
	draw := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64()) / 2
		}
		return v
	}
	c := ForwardConfig{TimeSteps: s.T, Batch: s.B, Input: s.I, Hidden: s.H}
	for l := range s.L {
		c.Layers = append(c.Layers, Layer{draw(s.gates() * s.inputWidth(l)), draw(s.gates() * s.H), draw(s.gates()), draw(s.gates())})
	}
	state := s.L * s.B * s.H
	x, h0, dout, dhn := draw(s.T*s.B*s.I), draw(state), draw(s.T*s.B*s.H), draw(state)
	run := func(d device.Device, impl string) (all []float64) {
		c.Impl = impl
		f, err := NewBackward(d, c)
		if err == nil {
			err = f.Adam(1e-2)
		}
		for range 3 {
			if err == nil {
				err = errors.Join(f.Set(x, h0, dout, dhn), f.Run())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		g, err := f.Gradients()
		if err != nil {
			t.Fatal(err)
		}
		p, err := f.Parameters()
		if err != nil {
			t.Fatal(err)
		}
		all = append(op.As[float64](g.DX), op.As[float64](g.DH0)...)
		for _, l := range append(g.Layers, p...) {
			for _, v := range [][]float32{l.WeightIH, l.WeightHH, l.BiasIH, l.BiasHH} {
				all = append(all, op.As[float64](v)...)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		return all
	}
	var e op.ErrorNorm
	e.Add(op.As[float32](run(openSimulated(t, true), implCuDNN)), run(openHost(t, host.Options{}), implFused))
	if r := e.Relative(); !(r <= 1e-5) {
		t.Errorf("three steps by cuDNN are %.3g from the host's", r)
	}
	c.Impl = implCuDNN
	_, err := NewBackward(openHost(t, host.Options{}), c)
	if !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), "impl=cudnn") {
		t.Errorf("on the host: %v", err)
	}
}
