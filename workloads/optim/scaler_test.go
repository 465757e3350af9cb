package optim

import (
	"math"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// scaled is a lab whose optimizer has a scaler, bound as a workload binds it.
func scaled(t *testing.T, d device.Device, s Scaler, host bool) (*lab, *Step) {
	t.Helper()
	l := newLab(t, d, &Adam{Impl: Fused, Rate: .01, Limit: 1e6, scaler: s}, [][]float32{{1}, {2, 3}}, [][]float32{{1}, {1, 1}})
	k := Settings{Scaler: s.Mode}
	if host {
		k.FoundInf = OnHost
	}
	return l, &Step{k: k, adam: *l.adam, mem: l.mem}
}

// end makes the end of a step as a workload does, and says how many launches it left out.
func (l *lab) end(s *Step, parts []Part) (skipped int) {
	l.t.Helper()
	for i := range parts {
		p := &parts[i]
		if s.Skips(p) {
			skipped++
			continue
		}
		if err := p.Ops.Enqueue(l.stream); err != nil {
			l.t.Fatal(err)
		}
		if err := s.ReadState(p, func(from device.Buffer, at int) (float32, error) { return float32(l.read(from, at, 1)[0]), nil }); err != nil {
			l.t.Fatal(err)
		}
	}
	return skipped
}

// A dynamic scale is halved by a step that overflows and doubled after good ones; a step with
// an overflow leaves parameters, moments and the number of steps as they were.
func TestKnownScale(t *testing.T) {
	onBoth(t, func(t *testing.T, d device.Device) {
		for _, host := range []bool{false, true} {
			l, s := scaled(t, d, Scaler{Mode: ScalerDynamic, Growth: 3}, host)
			parts, err := s.Bind()
			if err != nil {
				t.Fatal(err)
			}
			var scales []float64
			for i := range 7 {
				scale := float32(l.read(s.State(), stateScale, 1)[0])
				g := []float32{scale, -scale}
				if i == 2 {
					g[1] = float32(math.Inf(-1))
				}
				if err := op.Send(d, l.stream, l.all[0].G, []float32{scale}); err != nil {
					t.Fatal(err)
				}
				if err := op.Send(d, l.stream, l.all[1].G, g); err != nil {
					t.Fatal(err)
				}
				before := append(l.read(l.all[1].P, 0, 2), l.read(s.State(), stateStep, 1)...)
				skipped := l.end(s, parts)
				after := append(l.read(l.all[1].P, 0, 2), l.read(s.State(), stateStep, 1)...)
				if same := slices.Equal(before, after); same != (i == 2) {
					t.Errorf("host %v, step %d: parameters and step go from %v to %v", host, i+1, before, after)
				}
				if host && i == 2 != (skipped > 0) || !host && skipped > 0 {
					t.Errorf("host %v, step %d: %d parts are left out", host, i+1, skipped)
				}
				if g := l.read(l.all[1].G, 0, 1)[0]; i != 2 && g != 1 {
					t.Errorf("step %d: a gradient of the scale became %g, not 1", i+1, g)
				}
				scales = append(scales, l.read(s.State(), stateScale, 1)[0])
			}
			if want := []float64{65536, 65536, 32768, 32768, 32768, 65536, 65536}; !slices.Equal(scales, want) {
				t.Errorf("host %v: scales %v, want %v", host, scales, want)
			}
			for _, p := range parts {
				if err := p.Ops.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// A static scale stays, and a step with an overflow is left out all the same.
func TestStaticScale(t *testing.T) {
	onBoth(t, func(t *testing.T, d device.Device) {
		l, s := scaled(t, d, Scaler{Mode: ScalerStatic, Growth: 1}, false)
		parts, err := s.Bind()
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range []float32{65536, float32(math.NaN())} {
			if err := op.Send(d, l.stream, l.all[0].G, []float32{g}); err != nil {
				t.Fatal(err)
			}
			if err := op.Send(d, l.stream, l.all[1].G, []float32{65536, 65536}); err != nil {
				t.Fatal(err)
			}
			l.end(s, parts)
		}
		if step, scale := l.read(s.State(), stateStep, 1)[0], l.read(s.State(), stateScale, 1)[0]; step != 1 || scale != 65536 {
			t.Errorf("after a good step and one that is not: step %g, scale %g; want 1 and 65536", step, scale)
		}
		for _, p := range parts {
			if err := p.Ops.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A gradient that fp16 cannot hold survives with a scale.
func TestScaleSavesSmallGradients(t *testing.T) {
	onBoth(t, func(t *testing.T, d device.Device) {
		l, _ := scaled(t, d, Scaler{}, false)
		for _, c := range []struct{ scale, most float64 }{{1, 1}, {65536, 2.8e-4}} {
			if err := op.Send(d, l.stream, l.all[0].G, []float32{float32(1e-8 * c.scale)}); err != nil {
				t.Fatal(err)
			}
			l.run(op.BindLaunches(d, "rounding", gpuprof.Cost{}, op.RoundInPlace(l.all[0].G, 1, op.FP16)))
			off := math.Abs(l.read(l.all[0].G, 0, 1)[0]/c.scale-1e-8) / 1e-8
			if off > c.most*1.02 || off < c.most*.9 { // the figure has two digits
				t.Errorf("1e-8 times %g and back is off by %.3g, want %g", c.scale, off, c.most)
			}
		}
	})
}
