package cuda

import (
	"fmt"
	"math"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/sim"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// convCase is a convolution with its operands on the device.
type convCase struct {
	convShape
	x, w, y device.Buffer
	want    []float64
	size    []float64 // sums of the products' magnitudes
	args    device.Args
	f       device.Func
}

// at is where value (n, c, i, j) of images of c channels and size pixels a side is.
func (s convShape) at(n, c, i, j, channels, size int) int {
	if s.last {
		return ((n*size+i)*size+j)*channels + c
	}
	return ((n*channels+c)*size+i)*size + j
}

// reference is the convolution's formula in float64, and the sums of the products' magnitudes.
func (s convShape) reference(x, w []float64) (y, size []float64) {
	y = make([]float64, s.n*s.out*s.outSiz*s.outSiz)
	size = make([]float64, len(y))
	for n := range s.n {
		for o := range s.out {
			for i := range s.outSiz {
				for j := range s.outSiz {
					at := s.at(n, o, i, j, s.out, s.outSiz)
					for c := range s.in {
						for r := range s.k {
							for q := range s.k {
								if h, v := i*s.stride+r-s.k/2, j*s.stride+q-s.k/2; h >= 0 && h < s.size && v >= 0 && v < s.size {
									p := x[s.at(n, c, h, v, s.in, s.size)] * w[s.at(o, c, r, q, s.in, s.k)]
									y[at] += p
									size[at] += math.Abs(p)
								}
							}
						}
					}
				}
			}
		}
	}
	return y, size
}

func newConvCase(t *testing.T, d *Device, s device.Stream, shape convShape) *convCase {
	t.Helper()
	c := &convCase{convShape: shape}
	x, xv := upload(t, d, s, random(shape.n*shape.in*shape.size*shape.size, 1, 1), shape.kind)
	w, wv := upload(t, d, s, random(shape.out*shape.in*shape.k*shape.k, 1, 2), shape.kind)
	c.x, c.w = x, w
	c.want, c.size = shape.reference(xv, wv)
	c.y = must(d.Alloc(len(c.want)*dnnTypes[shape.kind].bytes, device.OnDevice))(t)
	c.f = must(d.Load(&device.Kernel{Name: "conv", Sig: convSig, Lib: convPrefix + shape.kind}))(t)
	c.args.SetBuf(0, c.x)
	c.args.SetBuf(1, c.w)
	c.args.SetBuf(2, c.y)
	last := 0
	if shape.last {
		last = 1
	}
	for i, v := range []int{shape.in, shape.out, shape.k, shape.stride, shape.size, shape.outSiz, last} {
		c.args.SetInt(3+i, v)
	}
	return c
}

func (c *convCase) check(t *testing.T, d *Device, s device.Stream) {
	t.Helper()
	// In 16 bits the result is rounded once more.
	last := map[string]float64{"bf16": 1.0 / 256, "fp16": 1.0 / 2048}[c.kind]
	for i, got := range download(t, d, s, c.y, c.kind) {
		if !(math.Abs(got-c.want[i]) <= tolerance[c.kind]*c.size[i]+last*math.Abs(c.want[i])) {
			t.Fatalf("y[%d] is %g, want %g", i, got, c.want[i])
		}
	}
}

func TestConvolution(t *testing.T) {
	d := openVendors(t)
	s := stream(t, d, "main")
	for kind := range dnnTypes {
		for _, last := range []bool{false, true} {
			for _, shape := range []convShape{
				{kind, 1, 1, 1, 1, 1, 1, 1, last}, {kind, 3, 5, 4, 3, 1, 6, 6, last}, {kind, 2, 3, 6, 7, 2, 9, 5, last}, {kind, 2, 4, 3, 1, 2, 7, 4, last},
			} {
				t.Run(fmt.Sprint(shape), func(t *testing.T) {
					c := newConvCase(t, d, s, shape)
					before := d.Meter()
					ok(t, s.Launch(c.f, c.n, &c.args))
					if m := d.Meter().Sub(before); m != (device.Meter{Launches: 1}) {
						t.Errorf("counted %+v", m)
					}
					c.check(t, d, s)
					want := "winograd_nonfused"
					if shape.k == 1 { // listed first, and not supported when it runs; what cuDNN says cannot run is never tried
						want = "implicit_precomp_gemm"
					}
					f := c.f.(*kernelFunc)
					if got := f.Algorithm(c.n, &c.args); got != want {
						t.Errorf("computed by %q, want %s", got, want)
					}
					if got := f.Library(); got != "cudnn "+d.Info().Facts["cudnn"] {
						t.Errorf("by %q", got)
					}
				})
			}
		}
	}
}

// A convolution of 4x4 by 3x3, with both strides.
func TestConvolutionKnownAnswer(t *testing.T) {
	d := openVendors(t)
	s := stream(t, d, "main")
	for stride, want := range map[int][]float64{
		1: {83, 139, 178, 121, 198, 303, 348, 225, 330, 483, 528, 333, 181, 253, 274, 163},
		2: {83, 178, 330, 528},
	} {
		c := newConvCase(t, d, s, convShape{"fp32", 1, 1, 1, 3, stride, 4, 4 / stride, false})
		count := func(n, from int) []float32 {
			v := make([]float32, n)
			for i := range v {
				v[i] = float32(from + i)
			}
			return v
		}
		x, _ := upload(t, d, s, count(16, 0), "fp32")
		w, _ := upload(t, d, s, count(9, 1), "fp32")
		c.args.SetBuf(0, x)
		c.args.SetBuf(1, w)
		ok(t, s.Launch(c.f, 1, &c.args))
		c.want, c.size = want, want
		c.check(t, d, s)
	}
}

// A graph holds convolutions, works in the memory of its stream and is replayed on others call by call. Nothing is
// computed before the replay.
func TestConvolutionGraph(t *testing.T) {
	d := openVendors(t)
	s, other := stream(t, d, "main"), stream(t, d, "other")
	c := newConvCase(t, d, s, convShape{"tf32", 2, 3, 4, 3, 1, 5, 5, true})
	op := must(d.Capture(s, func() error { return s.Launch(c.f, c.n, &c.args) }))(t)
	if !op.(*captured).Graph() {
		t.Error("no graph holds the convolution")
	}
	for _, on := range []device.Stream{s, other} {
		ok(t, op.Enqueue(on))
		ok(t, on.Sync())
		c.check(t, d, s)
	}
	used := d.use.now
	ok(t, other.Close())
	if now := d.use.now; now >= used {
		t.Errorf("a closed stream keeps the memory of its convolutions: %d bytes, %d before", now, used)
	}
}

// Every failure names the call, the status and cuDNN's own text about it.
func TestConvolutionFailures(t *testing.T) {
	d := openVendors(t)
	s := stream(t, d, "main")
	c := newConvCase(t, d, s, convShape{"fp32", 2, 3, 4, 3, 1, 5, 5, false})
	sim.Set(t, d.drv.path, "fail=cudnnGetConvolutionForwardAlgorithm_v7@1:5000")
	says(t, s.Launch(c.f, c.n, &c.args), gpuprof.ErrDevice, "convolution in fp32, nchw, of 2 images of 3 channels and 5x5 pixels to 4 channels by 3x3 with stride 1: "+
		`cudnnGetConvolutionForwardAlgorithm_v7: cuDNN status 5000 (CUDNN_STATUS_EXECUTION_FAILED), which says "planted"`)
	sim.Set(t, d.drv.path, "fail=cudnnConvolutionForward@1:5000")
	says(t, s.Launch(c.f, c.n, &c.args), gpuprof.ErrDevice, `cudnnConvolutionForward by winograd_nonfused: cuDNN status 5000 (CUDNN_STATUS_EXECUTION_FAILED), which says "planted"`)
	sim.Set(t, d.drv.path, "fail=cudnnConvolutionForward@1:4004")
	says(t, s.Launch(c.f, c.n, &c.args), gpuprof.ErrMemory, "cuDNN status 4004", "reduce")
	ok(t, s.Launch(c.f, c.n, &c.args))
	c.check(t, d, s)

	c.args.SetInt(8, 4)
	says(t, s.Launch(c.f, c.n, &c.args), gpuprof.ErrDevice, "cuDNN status 2000 (CUDNN_STATUS_BAD_PARAM)")
	c.args.SetInt(8, 5)
	says(t, s.Launch(c.f, 3, &c.args), gpuprof.ErrDevice, "argument 0 has 600 bytes and needs 900")
	for _, k := range []device.Kernel{{Name: "conv", Sig: convSig, Lib: "conv_int8"}, {Name: "conv", Sig: "bbb", Lib: "conv_fp32"}} {
		_, err := d.Load(&k)
		says(t, err, gpuprof.ErrUsage, "library routine", k.Lib)
	}
	ok(t, s.Sync())
}
