package optim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// onBoth runs a test on the host and on the simulated GPU.
func onBoth(t *testing.T, f func(t *testing.T, d device.Device)) {
	t.Run("host", func(t *testing.T) { f(t, workloadtest.Host(t, host.Options{})) })
	t.Run("cuda", func(t *testing.T) { f(t, workloadtest.Simulated(t, false)) })
}

// lab is an optimizer over tensors on a device.
type lab struct {
	t      *testing.T
	mem    *op.Arena
	stream device.Stream
	all    []Tensor
	adam   *Adam
}

func newLab(t *testing.T, d device.Device, a *Adam, params, grads [][]float32) *lab {
	t.Helper()
	l := &lab{t: t, mem: &op.Arena{Dev: d}, adam: a}
	var err error
	if l.stream, err = d.NewStream("test"); err != nil {
		t.Fatal(err)
	}
	for i, p := range params {
		l.all = append(l.all, Tensor{fmt.Sprint("tensor ", i), len(p), l.mem.Upload(l.stream, "p", p), l.mem.Upload(l.stream, "g", grads[i])})
	}
	if err := a.Open(l.mem, l.stream, l.all); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.mem.Free(); err != nil {
			t.Error(err)
		}
		if err := l.stream.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func (l *lab) run(b *op.Bound, err error) {
	l.t.Helper()
	if err == nil {
		err = b.Enqueue(l.stream)
	}
	if err == nil {
		err = l.stream.Sync()
	}
	if err == nil {
		err = b.Close()
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) read(b device.Buffer, at, n int) []float64 {
	l.t.Helper()
	v, err := op.Receive(l.mem.Dev, l.stream, b, at, n)
	if err != nil {
		l.t.Fatal(err)
	}
	return op.As[float64](v)
}

func TestKnownSteps(t *testing.T) {
	onBoth(t, func(t *testing.T, d device.Device) {
		for _, impl := range []string{Fused, Foreach, Loop} {
			l := newLab(t, d, &Adam{Impl: impl, Rate: .01}, [][]float32{{1}}, [][]float32{{.1}})
			for _, want := range []struct{ g, p float32 }{{.1, .990000001000}, {-.2, .993661036039}, {.3, .990228625395}} {
				if err := op.Send(d, l.stream, l.all[0].G, []float32{want.g}); err != nil {
					t.Fatal(err)
				}
				l.run(l.adam.BindStep())
				if got := l.read(l.all[0].P, 0, 1)[0]; math.Abs(got-float64(want.p)) > 1.2e-7 { // two units of a float32 near 1
					t.Errorf("%s: p is %.9f, want %.9f", impl, got, want.p)
				}
			}
		}
	})
	p, m, v := []float64{1}, []float64{0}, []float64{0}
	for i, want := range []struct{ g, p float64 }{{.1, .990000001000}, {-.2, .993661036039}, {.3, .990228625395}} {
		if RefAdam(.01, i+1, p, []float64{want.g}, m, v); math.Abs(p[0]-want.p) > 1e-12 {
			t.Errorf("the reference's p is %.12f, want %.12f", p[0], want.p)
		}
	}
}

func TestKnownClip(t *testing.T) {
	onBoth(t, func(t *testing.T, d device.Device) {
		l := newLab(t, d, &Adam{Impl: Fused, Limit: 1}, [][]float32{{0}, {0}}, [][]float32{{3}, {4}})
		l.run(l.adam.BindClip())
		for i, want := range []float64{.59999988, .79999984} {
			if got := l.read(l.all[i].G, 0, 1)[0]; math.Abs(got-want) > 6e-8 {
				t.Errorf("gradient %d is %.9f, want %.9f", i, got, want)
			}
		}
		l.run(l.adam.BindClip()) // short enough now, but for 1e-6
		if got := l.read(l.all[0].G, 0, 1)[0]; math.Abs(got-.6) > 1e-6 {
			t.Errorf("a short gradient became %.9f", got)
		}
	})
}

// Many tensors of many sizes, over more launches than one, against float64.
func TestAdam(t *testing.T) {
	onBoth(t, func(t *testing.T, d device.Device) {
		for _, impl := range []string{Fused, Foreach, Loop} {
			rnd := rand.New(rand.NewPCG(1, 2))
			normal := func(n int) []float32 {
				v := make([]float32, n)
				for i := range v {
					v[i] = float32(rnd.NormFloat64())
				}
				return v
			}
			var params, grads [][]float32
			for _, n := range []int{1, 5000, 7, 1024, 33, 2, 1500} {
				params, grads = append(params, normal(n)), append(grads, normal(n))
			}
			l := newLab(t, d, &Adam{Impl: impl, Rate: 1e-2, Limit: 3}, params, grads)
			var wide [4][][]float64
			for i, p := range params {
				wide[0], wide[1] = append(wide[0], op.As[float64](p)), append(wide[1], op.As[float64](grads[i]))
				wide[2], wide[3] = append(wide[2], make([]float64, len(p))), append(wide[3], make([]float64, len(p)))
			}
			for step := range 3 {
				l.run(l.adam.BindClip())
				l.run(l.adam.BindStep())
				f := RefClip(3, wide[1]...)
				for i := range params {
					for k := range wide[1][i] {
						wide[1][i][k] *= f
					}
					RefAdam(1e-2, step+1, wide[0][i], wide[1][i], wide[2][i], wide[3][i])
				}
			}
			var e op.ErrorNorm
			for i, tensor := range l.all {
				m, v, at, err := l.adam.Values(tensor.Name)
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range []struct {
					got, want []float64
				}{{l.read(tensor.P, 0, tensor.N), wide[0][i]}, {l.read(m, at, tensor.N), wide[2][i]}, {l.read(v, at, tensor.N), wide[3][i]}} {
					e.Add(op.As[float32](c.got), c.want)
				}
			}
			if r := e.Relative(); !(r < 1e-6) {
				t.Errorf("%s: off by %g", impl, r)
			}
			b, err := l.adam.BindStep()
			if err != nil {
				t.Fatal(err)
			}
			n, bytes := int64(0), int64(0)
			for _, p := range b.Parts() {
				n, bytes = n+p.Cost.Launches, bytes+p.Cost.Bytes()
			}
			want := map[string][2]int64{Fused: {1 + 2, 28}, Foreach: {1 + 7*2, 72}, Loop: {1 + 7*7, 72}}[impl]
			if all := int64(7567); n != want[0] || bytes != want[1]*all+24 {
				t.Errorf("%s: %d launches and %d bytes, want %d and %d a parameter and 24", impl, n, bytes, want[0], want[1])
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// BindClip binds clipping alone.
func (a *Adam) BindClip() (*op.Bound, error) {
	norm, err := a.normLaunches()
	if err != nil {
		return nil, err
	}
	return op.BindLaunches(a.mem.Dev, "clipping", op.Moved(3*a.countValues(), a.countValues(), a.countValues()), append(norm, a.clipLaunches()...)...)
}

func TestUnknownWay(t *testing.T) {
	if err := (&Adam{Impl: "fast"}).Check(); err == nil {
		t.Error("an unknown way was taken")
	}
}
