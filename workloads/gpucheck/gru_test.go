package gpucheck

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

const noDNN = "not measured: cuDNN was not found; it comes with PyTorch"

// gruTraining is a GRU on the device with all that cuDNN's training of it reads and writes.
type gruTraining struct {
	r                                           *rig
	spec                                        device.GRUSpec
	x, h0, dy, dhn, y, hn, w, dw, kept, dx, dh0 device.Buffer
	bytes                                       map[device.Buffer]int
}

func (r *rig) newGRUTraining(spec device.GRUSpec) *gruTraining {
	r.t.Helper()
	weights, kept, err := r.dev.GRUSpace(spec)
	r.ok(err)
	g := &gruTraining{r: r, spec: spec}
	input, output, state := spec.Steps*spec.Batch*spec.Input, spec.Steps*spec.Batch*spec.Hidden, spec.Layers*spec.Batch*spec.Hidden
	g.x, g.h0, g.dy, g.dhn = upload(r, r.random(input)), upload(r, r.random(state)), upload(r, r.random(output)), upload(r, r.random(state))
	// All of the space is weights or nothing: values of their usual size anywhere are a GRU.
	v := r.random(int(weights / 4))
	for i := range v {
		v[i] /= float32(math.Sqrt(float64(spec.Hidden)))
	}
	g.w, g.dw = upload(r, v), upload(r, make([]float32, weights/4))
	alloc := func(bytes int) device.Buffer { return r.alloc(bytes, device.OnDevice) }
	g.y, g.hn, g.dx, g.dh0, g.kept = alloc(4*output), alloc(4*state), alloc(4*input), alloc(4*state), alloc(int(kept))
	g.bytes = map[device.Buffer]int{g.y: 4 * output, g.hn: 4 * state, g.dx: 4 * input, g.dh0: 4 * state, g.dw: int(weights)}
	return g
}

func (g *gruTraining) free() {
	g.r.t.Helper()
	g.r.free(g.x, g.h0, g.dy, g.dhn, g.w, g.dw, g.y, g.hn, g.dx, g.dh0, g.kept)
}

// routine is one of cuDNN's on its buffers.
func (g *gruTraining) routine(name string, bufs ...device.Buffer) func() error {
	g.r.t.Helper()
	sig := fmt.Sprintf("%.*siiiii", len(bufs), "bbbbbbbb")
	f, err := g.r.dev.Load(&device.Kernel{Name: "gru_" + name + "_fp32", Lib: "gru_" + name + "_fp32", Sig: sig})
	g.r.ok(err)
	args := new(device.Args)
	for i, b := range bufs {
		args.SetBuf(i, b)
	}
	for i, v := range []int{g.spec.Steps, g.spec.Batch, g.spec.Input, g.spec.Hidden, g.spec.Layers} {
		args.SetInt(len(bufs)+i, v)
	}
	return func() error { return g.r.s.Launch(f, g.spec.Batch, args) }
}

// parts are forward, backward and the gradients of weights.
func (g *gruTraining) parts() [3]func() error {
	return [3]func() error{
		g.routine("forward", g.x, g.h0, g.w, g.y, g.hn, g.kept),
		g.routine("backward", g.y, g.dy, g.h0, g.dhn, g.w, g.kept, g.dx, g.dh0),
		g.routine("gradients", g.x, g.h0, g.y, g.kept, g.dw),
	}
}

// results runs all parts from gradients of zero, into poisoned outputs, and reads what they made.
func (g *gruTraining) results() (all []byte) {
	g.r.t.Helper()
	for _, b := range []device.Buffer{g.y, g.hn, g.dx, g.dh0, g.kept} {
		g.r.poison(b)
	}
	zero := upload(g.r, make([]float32, g.bytes[g.dw]/4))
	g.r.ok(g.r.s.Copy(g.dw, 0, zero, 0, g.bytes[g.dw]))
	for _, run := range g.parts() {
		g.r.ok(run())
	}
	for _, b := range []device.Buffer{g.y, g.hn, g.dx, g.dh0, g.dw} {
		got := g.r.download(b, g.bytes[b])
		all = append(all, got.Bytes()[:g.bytes[b]]...)
		g.r.free(got)
	}
	g.r.free(zero)
	return all
}

// minimum is two products a layer forward, and two for each of them backward.
func (g *gruTraining) minimum() gpuprof.Cost {
	s := g.spec
	matrices := int64(0)
	for l := range s.Layers {
		in := s.Hidden
		if l == 0 {
			in = s.Input
		}
		matrices += 3 * int64(s.Hidden) * int64(in+s.Hidden)
	}
	rows := int64(s.Steps) * int64(s.Batch)
	return gpuprof.Cost{
		Flops: 3 * 2 * matrices * rows, BytesRead: 4 * (2*matrices + 2*rows*int64(s.Input+s.Hidden)), BytesWritten: 4 * (matrices + rows*int64(s.Input+s.Hidden)),
	}
}

// holds checks what no reference is needed for.
func (g *gruTraining) holds(name string) {
	g.r.t.Helper()
	once := g.results()
	again := g.results()
	double(g.r, g.dy, 4*g.spec.Steps*g.spec.Batch*g.spec.Hidden)
	double(g.r, g.dhn, 4*g.spec.Layers*g.spec.Batch*g.spec.Hidden)
	twice := g.results()
	forward := g.bytes[g.y] + g.bytes[g.hn]
	g.r.within(name+", again", apart(again, once, 1), 1e-6)
	g.r.within(name+", forward with other cotangents", apart(twice[:forward], once[:forward], 1), 1e-6)
	g.r.within(name+", twice the cotangents", apart(twice[forward:], once[forward:], 2), 1e-6)
}

// cuDNN's training of deepbench's GRU, without an optimizer: what the run gruflow-deepbench-train of our own kernels is
// compared with. Every result is finite, the same steps again give the same values to a millionth, and cotangents twice
// as large gradients twice as large; that they are right, check --vectors says.
func TestGRUTraining(t *testing.T) {
	r := newRig(t)
	ceilings, err := r.dev.Ceilings(context.Background())
	r.ok(err)
	for i, steps := range pick(r, []int{25, 1500}, []int{3}) {
		size := pick(r, 2816, 8)
		spec := device.GRUSpec{Input: size, Hidden: size, Layers: 1, Batch: pick(r, 32, 4), Steps: steps, Precision: "fp32"}
		name := fmt.Sprintf("gruflow/deepbench-train/cudnn-%d-steps", steps)
		if r.dev.Libraries()["cudnn"] == "" {
			r.keep(figure{Name: name, Unit: "s", Note: noDNN})
			continue
		}
		g := r.newGRUTraining(spec)
		if i == 0 { // of all the time steps they are gigabytes
			g.holds(name)
		}
		parts := g.parts()
		took := r.steady(0.5, func() error {
			for _, run := range parts {
				if err := run(); err != nil {
					return err
				}
			}
			return nil
		})
		f := figure{Name: name, Unit: "s", Value: &took, Note: "forward, backward and gradients, without an optimizer", Extra: map[string]float64{}}
		for k, part := range []string{"forward_s", "backward_s", "gradients_s"} {
			f.Extra[part] = r.steady(0.2, parts[k])
		}
		f.bound(ceilings.Bound(g.minimum(), r.dev.Info().CacheBytes))
		r.keep(f)
		g.free()
	}
}

// double multiplies a buffer's values by two.
func double(r *rig, b device.Buffer, n int) {
	r.t.Helper()
	down := r.download(b, n)
	v := device.Floats(down)
	for i := range v[:n/4] {
		v[i] *= 2
	}
	r.ok(r.s.Copy(b, 0, down, 0, n))
	r.ok(r.s.Sync())
	r.free(down)
}

// apart is how far float32 values are from factor times others; a NaN is far from all.
func apart(got, of []byte, factor float64) float64 {
	var sum [2]float64
	a, b := make([]float32, len(got)/4), make([]float32, len(of)/4)
	for i := range a {
		a[i], b[i] = math.Float32frombits(binary.LittleEndian.Uint32(got[4*i:])), math.Float32frombits(binary.LittleEndian.Uint32(of[4*i:]))
	}
	for i, v := range b {
		b[i] = float32(factor * float64(v))
	}
	distance(&sum, a, doubles(b))
	return relative(sum)
}
