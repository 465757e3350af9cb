package resnet

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// x = 0 … 15 in 4x4, w = 1 … 9 in 3x3, by hand.
var knownConv = map[int][]float64{
	1: {83, 139, 178, 121, 198, 303, 348, 225, 330, 483, 528, 333, 181, 253, 274, 163},
	2: {83, 178, 330, 528},
}

func count(n, from int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(from + i)
	}
	return out
}

func TestKnownConvolutionOfTheReference(t *testing.T) {
	for stride, want := range knownConv {
		c := newConv("known", 1, 1, 3, stride, 4, 0, 1)
		got := make([]float64, len(want))
		for p := range got {
			got[p] = refConvAt(c, count(16, 0), count(9, 1), 0, p/c.outSize, p%c.outSize)
		}
		plane := make([]float64, len(want))
		refPlane(c, op.As[float64](count(16, 0)), count(9, 1), plane)
		if !slices.Equal(got, want) || !slices.Equal(plane, want) {
			t.Errorf("stride %d: %v and %v, want %v", stride, got, plane, want)
		}
	}
}

// Every kernel of the host device on the known convolution, in both layouts.
func TestKnownConvolution(t *testing.T) {
	d := workloadtest.Host(t, host.Options{Threads: 2})
	for stride, want := range knownConv {
		for _, flags := range []int{0, flagNCHW} {
			c := newConv("known", 1, 1, 3, stride, 4, 0, 1)
			form := formPanels
			if flags != 0 {
				form = formRows
			}
			k := convBench{t: t, d: d, c: c, flags: flags}
			if got := k.float32(&convKernel, count(16, 0), arrangeWeights(count(9, 1), c, form, flags == 0)); !slices.Equal(op.As[float64](got), want) {
				t.Errorf("stride %d, flags %d: %v, want %v", stride, flags, got, want)
			}
			direct := formColumns
			if flags != 0 {
				direct = formRows
			}
			if got := k.float32(&directKernel, count(16, 0), arrangeWeights(count(9, 1), c, direct, flags == 0)); !slices.Equal(op.As[float64](got), want) {
				t.Errorf("direct, stride %d, flags %d: %v, want %v", stride, flags, got, want)
			}
		}
	}
}

// convBench runs one convolution's kernel by itself.
type convBench struct {
	t     *testing.T
	d     *host.Device
	c     conv
	flags int
}

func (k convBench) float32(kernel *device.Kernel, x, w []float32) []float32 {
	k.t.Helper()
	return k.run(kernel, func(n *Net, s device.Stream, out device.Buffer) any {
		ones, zeros := make([]float32, paddedChannels(k.c.out)), make([]float32, paddedChannels(k.c.out))
		for i := range ones {
			ones[i] = 1
		}
		b0 := n.mem.Upload(s, "zeros", zeros)
		c := k.c
		return resnetConvArgs{
			x: n.mem.Upload(s, "x", x), w: n.mem.Upload(s, "w", w), scale: n.mem.Upload(s, "ones", ones), shift: b0, res: b0, out: out,
			batch: batchCount, in: c.in, channels: c.out, k: c.k, stride: c.stride, size: c.size, outSize: c.outSize, flags: k.flags,
		}
	})
}

// run is a kernel's output; given makes its arguments.
func (k convBench) run(kernel *device.Kernel, given func(n *Net, s device.Stream, out device.Buffer) any) []float32 {
	k.t.Helper()
	s, err := k.d.NewStream("main")
	if err != nil {
		k.t.Fatal(err)
	}
	defer s.Close()
	n := &Net{dev: k.d, info: k.d.Info(), mem: op.Arena{Dev: k.d}}
	n.binder.Dev = k.d
	defer func() {
		if err := n.mem.Free(); err != nil {
			k.t.Error(err)
		}
	}()
	p := &planner{n: n}
	out := n.mem.Upload(s, "out", make([]float32, k.c.out*k.c.pixels()))
	l := p.add(kernel, items{image: k.c.outSize}, rate{}, given(n, s, out))
	if n.mem.Err != nil || n.binder.Err != nil {
		k.t.Fatal(n.mem.Err, n.binder.Err)
	}
	if err := l.enqueue(s, 1); err != nil {
		k.t.Fatal(err)
	}
	got, err := op.Receive(k.d, s, out, 0, k.c.out*k.c.pixels())
	if err != nil {
		k.t.Fatal(err)
	}
	return got
}

func TestKnownNorm(t *testing.T) {
	scale, shift := affine(1.5, 0.25, 0.1, 0.04)
	for _, v := range [][2]float64{{scale, 7.4990626757}, {shift, -0.4999062676}, {0.7*scale + shift, 4.7494376054}} {
		if math.Abs(v[0]-v[1]) > 5e-11 {
			t.Errorf("%.12f, want %.10f", v[0], v[1])
		}
	}
	if unfolded := (0.7-0.1)/math.Sqrt(0.04+normEps)*1.5 + 0.25; !(math.Abs(0.7*scale+shift-unfolded)/unfolded <= 4e-16) {
		t.Errorf("folded and unfolded differ by %.2g", 0.7*scale+shift-unfolded)
	}
}

// The places that sample gives, on whole rows of a picture.
func TestKnownResize(t *testing.T) {
	picture := [][]float64{{0, 10, 20, 30}, {40, 50, 60, 70}}
	at := func(y, x, rows, cols int) float64 {
		y0, y1, ny, dy := sampleAt(y, 2, rows)
		x0, x1, nx, dx := sampleAt(x, 4, cols)
		fy, fx := float64(ny)/float64(dy), float64(nx)/float64(dx)
		top := picture[y0][x0] + fx*(picture[y0][x1]-picture[y0][x0])
		low := picture[y1][x0] + fx*(picture[y1][x1]-picture[y1][x0])
		return top + fy*(low-top)
	}
	for i, want := range []float64{5, 25, 45, 65} {
		if got := at(i/2, i%2, 2, 2); math.Abs(got-want) > 1e-12 {
			t.Errorf("2x2: value %d is %v, want %v", i, got, want)
		}
	}
	for i, want := range []float64{0, 5, 35. / 3, 55. / 3, 25, 30} {
		if got := at(0, i, 3, 6); math.Abs(got-want) > 1e-12 {
			t.Errorf("3x6: value %d is %v, want %v", i, got, want)
		}
	}
}

func TestKnownPixel(t *testing.T) {
	s := Small()
	grey := make([]byte, 3*s.Source*s.Source)
	for i := range grey {
		grey[i] = 128
	}
	out := make([]float32, 3*s.Image*s.Image)
	s.Prepare(out, grey, NHWC)
	for i := 0; i < len(out); i += 3 {
		if math.Abs(float64(out[i])-0.0740645603) > 1e-7 {
			t.Fatalf("pixel %d is %.10f, want 0.0740645603", i/3, out[i])
		}
	}
	if want := refPrepare(s, grey)[0]; math.Abs(want-0.0740645603) > 1e-10 {
		t.Errorf("the reference has %.12f", want)
	}
}

// Both layouts hold the same values, both ways to prepare give the same bits on this device, and
// folded norms give the network of norms apart to rounding.
func TestVariantsAgree(t *testing.T) {
	logits := func(o Options) []float32 {
		o.Shape, o.MaxBatch, o.Slots, o.Seed = Small(), 4, 1, 9
		d := workloadtest.Host(t, host.Options{Threads: 2})
		n, s := opened(t, d, o)
		return run(t, n, s, 0, 5, 6, 7)
	}
	want := logits(Options{})
	for _, o := range []Options{{Layout: NCHW}, {BN: Apart}, {BN: Fused}, {Impl: Im2col}, {Impl: Direct}, {Preprocess: OnDevice}} {
		var e op.ErrorNorm
		e.Add(logits(o), op.As[float64](want))
		if r := e.Relative(); !(r <= 1e-5) || o.Preprocess == OnDevice && r != 0 {
			t.Errorf("%s %s differs by %.3g", o, o.Preprocess, r)
		}
	}
}

// run is the logits of images ids.
func run(t testing.TB, n *Net, s device.Stream, slot int, ids ...int) []float32 {
	t.Helper()
	size := n.InputBytes()
	pinned, err := n.dev.Alloc(len(ids)*size, device.Pinned)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := pinned.Free(); err != nil {
			t.Error(err)
		}
	}()
	for i, id := range ids {
		n.Fill(pinned.Bytes()[i*size:(i+1)*size], id)
	}
	if err := s.Copy(n.Input(slot), 0, pinned, 0, len(ids)*size); err != nil {
		t.Fatal(err)
	}
	if err := n.EnqueueAll(s, slot, len(ids)); err != nil {
		t.Fatal(err)
	}
	out, err := op.Receive(n.dev, s, n.Logits(slot), 0, len(ids)*n.o.Classes)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// An answer depends on its image alone, not on the batch or the slot that it came in.
func TestAnswersBelongToImages(t *testing.T) {
	n, s := opened(t, workloadtest.Host(t, host.Options{Threads: 2}), Options{Shape: Small(), MaxBatch: 7, Slots: 2})
	batch := run(t, n, s, 0, 0, 1, 2, 3, 4, 5, 6)
	for i := range 7 {
		alone := run(t, n, s, 1, i+Period)
		if !slices.Equal(alone, batch[i*10:(i+1)*10]) {
			t.Errorf("image %d alone: %v, in a batch: %v", i, alone, batch[i*10:(i+1)*10])
		}
		want, err := n.Reference(context.Background(), i)
		if err != nil {
			t.Fatal(err)
		}
		if r := want.Apart(alone); !(r <= n.Tolerance()) {
			t.Errorf("image %d is %.3g from the float64 network", i, r)
		}
	}
}
