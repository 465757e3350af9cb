package cuda

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/sim"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// trained is a GRU with everything that its training reads and writes.
type trained struct {
	t    *testing.T
	d    *Device
	s    device.Stream
	spec device.GRUSpec
	// x, h0, dy and dhn on the device and their values, the layers' parameters one after another as GRUMaker has them.
	x, h0, dy, dhn, y, hn, w, dw, kept, dx, dh0 device.Buffer
	xv, hv, dyv, dhv, wv                        []float64
	layers                                      [][4]device.Buffer
}

func newTrained(t *testing.T, d *Device, spec device.GRUSpec) *trained {
	t.Helper()
	g := &trained{t: t, d: d, s: stream(t, d, "main"), spec: spec}
	n := gruSizes(spec)
	g.x, g.xv = upload(t, d, g.s, random(n[0], 1, 3), "fp32")
	g.h0, g.hv = upload(t, d, g.s, random(n[1], 1, 4), "fp32")
	g.dy, g.dyv = upload(t, d, g.s, random(n[3], 1, 6), "fp32")
	g.dhn, g.dhv = upload(t, d, g.s, random(n[1], 1, 7), "fp32")
	values := random(n[2], 0.5, 5)
	for l := range spec.Layers {
		in, h := spec.Hidden, spec.Hidden
		if l == 0 {
			in = spec.Input
		}
		var parts [4]device.Buffer
		for i, size := range [4]int{3 * h * in, 3 * h * h, 3 * h, 3 * h} {
			var v []float64
			parts[i], v = upload(t, d, g.s, values[:size], "fp32")
			values, g.wv = values[size:], append(g.wv, v...)
		}
		g.layers = append(g.layers, parts)
	}
	weights, kept, err := d.GRUSpace(spec)
	ok(t, err)
	buf := func(bytes int) device.Buffer { return must(d.Alloc(bytes, device.OnDevice))(t) }
	g.y, g.hn, g.dx, g.dh0, g.kept, g.w = buf(4*n[3]), buf(4*n[1]), buf(4*n[0]), buf(4*n[1]), buf(int(kept)), buf(int(weights))
	g.dw, _ = upload(t, d, g.s, make([]float32, weights/4), "fp32")
	return g
}

// launch enqueues a routine with the integers behind the buffers and more ones.
func (g *trained) launch(routine string, more []int, bufs ...device.Buffer) error {
	g.t.Helper()
	lib := "gru_" + routine + "_" + g.spec.Precision
	f := must(g.d.Load(&device.Kernel{Name: lib, Lib: lib, Sig: gruSigs[routine]}))(g.t)
	var a device.Args
	for i, b := range bufs {
		a.SetBuf(i, b)
	}
	s := g.spec
	for i, v := range append([]int{s.Steps, s.Batch, s.Input, s.Hidden, s.Layers}, more...) {
		a.SetInt(len(bufs)+i, v)
	}
	return g.s.Launch(f, s.Batch, &a)
}

// place copies every layer's weights into a space, or from it to other buffers.
func (g *trained) place(space device.Buffer, back int, to [][4]device.Buffer) {
	g.t.Helper()
	for l, p := range to {
		ok(g.t, g.launch("weights", []int{l, back}, p[0], p[1], p[2], p[3], space))
	}
}

// step is forward and backward.
func (g *trained) step() {
	g.t.Helper()
	g.place(g.w, 0, g.layers)
	ok(g.t, g.launch("forward", nil, g.x, g.h0, g.w, g.y, g.hn, g.kept))
	ok(g.t, g.launch("backward", nil, g.y, g.dy, g.h0, g.dhn, g.w, g.kept, g.dx, g.dh0))
	ok(g.t, g.launch("gradients", nil, g.x, g.h0, g.y, g.kept, g.dw))
}

// gradients reads those of all parameters, in the order of wv.
func (g *trained) gradients() (all []float64) {
	g.t.Helper()
	var to [][4]device.Buffer
	for _, p := range g.layers {
		var parts [4]device.Buffer
		for i, b := range p {
			parts[i] = must(g.d.Alloc(b.Len(), device.OnDevice))(g.t)
		}
		to = append(to, parts)
	}
	g.place(g.dw, 1, to)
	for _, p := range to {
		for _, b := range p {
			all = append(all, download(g.t, g.d, g.s, b, "fp32")...)
		}
	}
	return all
}

// loss is the sum of y dy and hn dhn, of which the routines make the gradients.
func (g *trained) loss(x, h, w []float64) (sum float64) {
	y, hn := gruReference(g.spec, x, h, w)
	for i, v := range y {
		sum += v * g.dyv[i]
	}
	for i, v := range hn {
		sum += v * g.dhv[i]
	}
	return sum
}

// slopes are the loss's by all of v, by fourth-order differences.
func slopes(v []float64, loss func() float64) (all []float64) {
	const h = 1e-3
	for i, was := range v {
		at := func(k float64) float64 {
			v[i] = was + k*h
			return loss()
		}
		all = append(all, (8*(at(1)-at(-1))-(at(2)-at(-2)))/(12*h))
		v[i] = was
	}
	return all
}

func apart(got, want []float64) float64 {
	var off, all float64
	for i, v := range want {
		off, all = off+(got[i]-v)*(got[i]-v), all+v*v
	}
	return math.Sqrt(off / all)
}

// The gradients of a GRU that cuDNN makes are the loss's slopes; a second way back adds the same
// to those of weights, and a graph makes the same bits.
func TestGRUTraining(t *testing.T) {
	d := openVendors(t)
	for _, spec := range []device.GRUSpec{gruSpec(3, 4, 2, 2, 3, "fp32"), gruSpec(1, 1, 1, 1, 1, "fp32"), gruSpec(5, 3, 3, 4, 2, "tf32")} {
		t.Run(spec.Precision, func(t *testing.T) {
			g := newTrained(t, d, spec)
			before := d.Meter()
			g.step()
			if m := d.Meter().Sub(before); m.Launches != int64(spec.Layers)+3 || m.SyncPoints != 0 {
				t.Errorf("counted %+v", m)
			}
			tol := map[string]float64{"fp32": 2e-6, "tf32": 3e-3}[spec.Precision]
			loss := func() float64 { return g.loss(g.xv, g.hv, g.wv) }
			wantY, wantH := gruReference(spec, g.xv, g.hv, g.wv)
			grads := g.gradients()
			for name, pair := range map[string][2][]float64{
				"y": {download(t, d, g.s, g.y, "fp32"), wantY}, "hn": {download(t, d, g.s, g.hn, "fp32"), wantH}, "dx": {download(t, d, g.s, g.dx, "fp32"), slopes(g.xv, loss)},
				"dh0": {download(t, d, g.s, g.dh0, "fp32"), slopes(g.hv, loss)}, "dw": {grads, slopes(g.wv, loss)},
			} {
				if e := apart(pair[0], pair[1]); !(e <= tol) {
					t.Errorf("%s is off by %.2g", name, e)
				}
			}
			op := must(d.Capture(g.s, func() error { g.step(); return nil }))(t)
			ok(t, op.Enqueue(g.s))
			for i, v := range g.gradients() {
				if v != 2*grads[i] {
					t.Fatalf("twice is %g, once %g", v, grads[i])
				}
			}
			if n := slices.IndexFunc(download(t, d, g.s, g.dx, "fp32"), math.IsNaN); n >= 0 {
				t.Errorf("dx[%d] is not a number", n)
			}
		})
	}
}

// TestGRUTrainingMisuse: what does not fit is refused, a failure of the library is told, and
// without its functions there is no such routine.
func TestGRUTrainingMisuse(t *testing.T) {
	d := openVendors(t)
	g := newTrained(t, d, gruSpec(2, 3, 2, 2, 2, "fp32"))
	says(t, g.launch("forward", nil, g.x, g.h0, g.w, g.y, g.hn, g.x), gpuprof.ErrDevice, "gru_forward_fp32: argument 5 has", "needs")
	says(t, g.launch("weights", []int{2, 0}, g.layers[1][0], g.layers[1][1], g.layers[1][2], g.layers[1][3], g.w), gpuprof.ErrDevice, "there is no layer 2 among 2")
	for _, k := range []device.Kernel{{Lib: "gru_forward_fp16"}, {Lib: "gru_turn_fp32"}, {Lib: "gru_forward_fp32", Sig: "b"}} {
		k.Name = "gru"
		_, err := d.Load(&k)
		says(t, err, gpuprof.ErrUsage, "library routine", k.Lib)
	}
	_, _, err := d.GRUSpace(gruSpec(2, 3, 0, 2, 2, "fp32"))
	says(t, err, gpuprof.ErrUsage, "0 layers")
	g.place(g.w, 0, g.layers)
	for call, run := range map[string]func() error{
		"cudnnRNNForward":            func() error { return g.launch("forward", nil, g.x, g.h0, g.w, g.y, g.hn, g.kept) },
		"cudnnRNNBackwardData_v8":    func() error { return g.launch("backward", nil, g.y, g.dy, g.h0, g.dhn, g.w, g.kept, g.dx, g.dh0) },
		"cudnnRNNBackwardWeights_v8": func() error { return g.launch("gradients", nil, g.x, g.h0, g.y, g.kept, g.dw) },
	} {
		sim.Set(t, d.drv.path, "fail="+call+"@1:5000")
		err := run()
		if !errors.Is(err, gpuprof.ErrDevice) || !strings.Contains(err.Error(), call) || !strings.Contains(err.Error(), "5000") {
			t.Errorf("%s: %v", call, err)
		}
	}
	ok(t, g.s.Sync())
}
