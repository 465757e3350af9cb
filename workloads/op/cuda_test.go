package op

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/cuda"
	"github.com/gpuprof/gpuprof/workloads/so3"
	"github.com/gpuprof/gpuprof/workloads/testkit/cudatest"
)

// gpu is the simulated CUDA device with one stream: the kernels' own sources on
// the CPU, reached through the loader and driver calls of a real one. Where
// GPUPROF_DEVICE=cuda is set, it is the real one.
type gpu struct {
	t   testing.TB
	dev device.Device
	s   device.Stream
	rnd *rand.Rand
}

// repeats is how often a kernel must give the same bits: a hundred times on a GPU and by night, by day twenty times on
// the simulator.
func repeats(t testing.TB) int {
	if nightly || cudatest.Installed(t) {
		return 100
	}
	return 20
}

func newGPU(t testing.TB) *gpu {
	t.Helper()
	lib, simulated := cudatest.Driver(t, "") // with its cuBLAS
	dev, err := cuda.Open(cuda.Options{Library: lib, AllowSimulated: simulated})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := dev.NewStream("test")
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return &gpu{t: t, dev: dev, s: s, rnd: rand.New(rand.NewPCG(seed, 2))}
}

func (g *gpu) alloc(bytes int, p device.Place) device.Buffer {
	g.t.Helper()
	b, err := g.dev.Alloc(max(bytes, 4), p)
	if err != nil {
		g.t.Fatal(err)
	}
	return b
}

func bytesOf[T float32 | int32](v []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v))
}

// put copies values to a device buffer of their size.
func (g *gpu) put(v []byte) device.Buffer {
	g.t.Helper()
	b := g.alloc(len(v), device.OnDevice)
	g.fill(b, v)
	return b
}

func (g *gpu) fill(b device.Buffer, v []byte) {
	g.t.Helper()
	if len(v) > 0 {
		if err := copyTo(g.dev, b, v); err != nil {
			g.t.Fatal(err)
		}
	}
}

func (g *gpu) floats(v []float32) device.Buffer { return g.put(bytesOf(v)) }
func (g *gpu) ints(v []int32) device.Buffer     { return g.put(bytesOf(v)) }

func (g *gpu) random(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(g.rnd.NormFloat64())
	}
	return v
}

func nans(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(math.NaN())
	}
	return v
}

func (g *gpu) poisoned(n int) device.Buffer { return g.floats(nans(n)) }

func (g *gpu) poison(b device.Buffer) { g.fill(b, bytesOf(nans(b.Len()/4))) }

// read waits for the stream and returns the first n values of b.
func (g *gpu) read(b device.Buffer, n int) []float64 {
	g.t.Helper()
	host := g.alloc(4*n, device.Pinned)
	if n > 0 {
		if err := g.s.Copy(host, 0, b, 0, 4*n); err != nil {
			g.t.Fatal(err)
		}
	}
	if err := g.s.Sync(); err != nil {
		g.t.Fatal(err)
	}
	v := doubles(device.Floats(host)[:n])
	if err := host.Free(); err != nil {
		g.t.Fatal(err)
	}
	return v
}

func doubles(v []float32) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = float64(v[i])
	}
	return out
}

func (g *gpu) must(b *Bound, err error) *Bound {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
	// Before the device closes: cleanups run last in, first out.
	g.t.Cleanup(func() {
		if err := b.Close(); err != nil {
			g.t.Error(err)
		}
	})
	return b
}

func (g *gpu) run(ops ...*Bound) {
	g.t.Helper()
	for _, o := range ops {
		if o != nil {
			if err := o.Enqueue(g.s); err != nil {
				g.t.Fatal(err)
			}
		}
	}
	if err := g.s.Sync(); err != nil {
		g.t.Fatal(err)
	}
}

func TestCUDASph(t *testing.T) {
	g := newGPU(t)
	for lmax := range so3.MaxL + 1 {
		for _, edges := range []int{1, 257} {
			s := Sph{LMax: lmax}
			vec := g.random(3 * edges)
			copy(vec, []float32{0, 0, 0, 0, 1, 0, 0, -1e-30, 0, 3e30, 1e30, -2e30, 1e-4, 1, 1e-4}[:min(15, 3*edges)])
			y := g.poisoned(edges * s.Dim())
			g.run(g.must(s.Bind(g.dev, g.floats(vec), y, edges)))
			got, want := g.read(y, edges*s.Dim()), make([]float64, edges*s.Dim())
			for e := range edges {
				row := want[e*s.Dim() : (e+1)*s.Dim()]
				RefSph(s, doubles(vec[3*e:3*e+3]), row)
				near(t, fmt.Sprintf("lmax %d edge %d", lmax, e), got[e*s.Dim():(e+1)*s.Dim()], row, 1e-6)
			}
		}
	}
}

func TestCUDABasis(t *testing.T) {
	g := newGPU(t)
	for _, s := range []Basis{
		{Kind: "gaussian", N: 10, Cutoff: 4}, {Kind: "gaussian", N: 2, Cutoff: 6, Envelope: true},
		{Kind: "bessel", N: 8, Cutoff: 5}, {Kind: "bessel", N: 12, Cutoff: 6, Envelope: true}} {
		const edges = 301
		vec := g.random(3 * edges)
		copy(vec, []float32{0, 0, 0, 1e-12, 0, 0, 1e-3, 0, 0, 7, 0, 0})
		out := g.poisoned(edges * s.N)
		b := g.must(s.Bind(g.dev, g.floats(vec), out, edges))
		g.run(b)
		want := make([]float64, edges*s.N)
		for e := range edges {
			RefBasis(s, doubles(vec[3*e:3*e+3]), want[e*s.N:(e+1)*s.N])
		}
		got := g.read(out, len(want))
		for e := range edges {
			near(t, fmt.Sprintf("%+v edge %d", s, e), got[e*s.N:(e+1)*s.N], want[e*s.N:(e+1)*s.N], 1e-6)
		}
		g.poison(out)
		b.SetEdges(5)
		g.run(b)
		if v := g.read(out, 6*s.N); near(t, "5 edges", v[:5*s.N], want[:5*s.N], 1e-6) >= 0 && v[5*s.N] == v[5*s.N] {
			t.Error("the sixth row was written")
		}
	}
}

func TestCUDAScatter(t *testing.T) {
	g := newGPU(t)
	gr := (&rig{t: t, rnd: g.rnd}).graph([]int{0, 5, 1, 0, 40, 0, 8, 9, 17}, 3)
	rows, edges := len(gr.rowPtr)-1, len(gr.src)
	for _, c := range []int{1, 3, 37, 64, 130, 700, 2052} {
		for _, det := range []bool{false, true} {
			for _, scale := range []float32{0, 0.25} {
				s := ScatterAdd{C: c, Deterministic: det, Scale: scale}
				src, out := g.random(edges*c), g.poisoned(rows*c)
				g.run(g.must(s.Bind(g.dev, ScatterBuffers{Src: g.floats(src), Dst: g.ints(gr.dst), RowPtr: g.ints(gr.rowPtr), Out: out}, rows, edges)))
				want := make([]float64, rows*c)
				for r := range rows {
					RefScatter(s, doubles(src[int(gr.rowPtr[r])*c:int(gr.rowPtr[r+1])*c]), want[r*c:(r+1)*c])
				}
				near(t, fmt.Sprintf("%+v", s), g.read(out, len(want)), want, 1e-5)
			}
		}
	}
}

func TestCUDATransposeAndFill(t *testing.T) {
	g := newGPU(t)
	irs := irreps(t, "5x0e+7x1o+2x2e+1x3o+3x4e+40x1e")
	const rows = 9
	dim := irs.Dim()
	x := g.random(rows * dim)
	in, mid, back := g.floats(x), g.poisoned(rows*dim), g.poisoned(rows*dim)
	g.run(g.must(Transpose{Irreps: irs}.Bind(g.dev, in, mid, rows)), g.must(Fill{Value: 1}.Bind(g.dev, back, rows*dim-1, 0, 0)))
	want := make([]float64, dim)
	ToLayout(IrMul, irs, want, doubles(x[:dim]))
	near(t, "to ir_mul", g.read(mid, dim), want, 1e-12)
	if v := g.read(back, rows*dim); v[rows*dim-2] != 1 || v[rows*dim-1] == v[rows*dim-1] {
		t.Errorf("fill wrote %g and %g at its end", v[rows*dim-2], v[rows*dim-1])
	}
	g.run(g.must(Fill{Value: 1}.Bind(g.dev, back, rows*dim, 0, 0)),
		g.must(Transpose{Irreps: irs, ToMulIr: true, Accumulate: true}.Bind(g.dev, mid, back, rows)))
	sum := doubles(x)
	for i := range sum {
		sum[i]++
	}
	near(t, "back, added", g.read(back, len(sum)), sum, 1e-6)
}

func TestCUDAGemm(t *testing.T) {
	g := newGPU(t)
	for _, size := range [][3]int{{1, 1, 1}, {130, 10, 100}, {257, 100, 33}, {64, 8, 128}, {5, 129, 260}, {200, 12, 64}} {
		rows, kk, n := size[0], size[1], size[2]
		a, b := g.random(rows*kk), g.random(kk*n)
		left, right, out := g.floats(a), g.floats(b), g.poisoned(rows*n)
		for i, act := range activations {
			gemm := Gemm{K: kk, N: n, Scale: 0.3, Act: act.name, Normalisation: NormExact, Library: "off", Tile: []int{0, 64, 128}[i%3]}
			g.poison(out)
			g.run(g.must(gemm.Bind(g.dev, left, right, out, rows)))
			want := make([]float64, rows*n)
			for r := range rows {
				if err := RefGemm(gemm, doubles(a[r*kk:(r+1)*kk]), doubles(b), want[r*n:(r+1)*n]); err != nil {
					t.Fatal(err)
				}
			}
			near(t, fmt.Sprintf("%v %s tile %d", size, act.name, gemm.Tile), g.read(out, rows*n), want, 1e-5)
		}
	}
}

// roundOne is a precision's rounding of one value.
var roundOne = map[string]func(float32) float32{
	FP32: func(x float32) float32 { return x },
	TF32: roundTF32,
	BF16: func(x float32) float32 { return decodeBF16(encodeBF16(x)) },
	FP16: func(x float32) float32 { return decodeFP16(encodeFP16(x)) },
}

// The kernels that stand in for the vendor's round as the host's do, so that
// only the order of additions is left; and every precision is as near the exact
// product as it should be.
func TestCUDAPrecisions(t *testing.T) {
	g := newGPU(t)
	const rows, kk, n = 70, 37, 130
	a, b := g.random(rows*kk), g.random(kk*n)
	left, right := g.floats(a), g.floats(b)
	for name, tolerance := range map[string]float64{FP32: 1e-5, TF32: 2e-3, BF16: 2e-2, FP16: 5e-3} {
		gemm := Gemm{K: kk, N: n, Scale: 0.5, Act: "silu", Normalisation: NormExact, Precision: name}
		exact, rounded := make([]float64, rows*n), make([]float64, rows*n)
		ra, rb := make([]float64, len(a)), make([]float64, len(b))
		for i, v := range a {
			ra[i] = float64(roundOne[name](v))
		}
		for i, v := range b {
			rb[i] = float64(roundOne[name](v))
		}
		for r := range rows {
			if RefGemm(gemm, doubles(a[r*kk:(r+1)*kk]), doubles(b), exact[r*n:(r+1)*n]) != nil || RefGemm(gemm, ra[r*kk:(r+1)*kk], rb, rounded[r*n:(r+1)*n]) != nil {
				t.Fatal("the reference failed")
			}
		}
		act, c, err := findActivation(gemm.Act, gemm.Normalisation)
		if err != nil {
			t.Fatal(err)
		}
		out := g.poisoned(rows * n)
		k := newBinder(g.dev, "stand-in", rows)
		vendor := *gemmLibKernels[name]
		vendor.Lib = ""
		k.gemmVendor(gemm, left, right, out, act, float32(c), &vendor)
		g.run(g.must(k.finishBinding()))
		got := g.read(out, rows*n)
		near(t, name+" as rounded", got, rounded, 1e-5)
		t.Logf("%s: relative error %.2g", name, near(t, name, got, exact, tolerance))
	}
}

// With the vendor's library there, it is what runs, in every precision.
func TestCUDAVendorGemm(t *testing.T) {
	g := newGPU(t)
	if loadLibraries(g.dev).Facts["cublas"] == "" {
		// A GPU with nothing but its driver; the simulator's library is always there.
		err := Gemm{K: 1, N: 1, Act: "none", Normalisation: NormExact, Library: "on"}.Check(g.dev)
		if !cudatest.Installed(t) || err == nil || !strings.Contains(err.Error(), "was not found") {
			t.Errorf("without cuBLAS: %v", err)
		}
		return
	}
	const rows, kk, n = 33, 20, 50
	a, b := g.random(rows*kk), g.random(kk*n)
	left, right, out := g.floats(a), g.floats(b), g.poisoned(rows*n)
	for _, c := range []struct {
		precision, library, launches string
		tolerance                    float64
	}{
		{"", "off", "gemm", 1e-5},
		{"", "", "gemm_fp32 act_inplace", 1e-5},
		{TF32, "on", "gemm_tf32 act_inplace", 2e-3},
		{BF16, "auto", "pack_left pack_right gemm_bf16 act_inplace", 2e-2},
		{FP16, "", "pack_left pack_right gemm_fp16 act_inplace", 5e-3},
		{TF32x3, "", "pack_left pack_right gemm_tf32 act_inplace", 1e-5},
	} {
		gemm := Gemm{K: kk, N: n, Scale: 0.5, Act: "silu", Normalisation: NormExact, Precision: c.precision, Library: c.library}
		if got := gemm.UsesVendor(g.dev); got != (c.library != "off") || gemm.Check(g.dev) != nil {
			t.Errorf("%+v: vendor %t, %v", c, got, gemm.Check(g.dev))
		}
		g.poison(out)
		bound := g.must(gemm.Bind(g.dev, left, right, out, rows))
		var names []string
		for _, p := range bound.Parts() {
			names = append(names, p.Kernel)
		}
		if got := strings.Join(names, " "); got != c.launches {
			t.Errorf("%+v: launches %s", c, got)
		}
		g.run(bound)
		want := make([]float64, rows*n)
		for r := range rows {
			if err := RefGemm(gemm, doubles(a[r*kk:(r+1)*kk]), doubles(b), want[r*n:(r+1)*n]); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%+v: relative error %.2g", c, near(t, fmt.Sprintf("%+v", c), g.read(out, rows*n), want, c.tolerance))
	}
}

func TestCUDARefusals(t *testing.T) {
	g := newGPU(t)
	tp := TensorProduct{TP: uvu(t, "2x0e", "0e", "0e"), Impl: ImplCSR, Layout: IrMul}
	for want, change := range map[string]func(*TensorProduct){
		"use a multiple of 32":      func(t *TensorProduct) { t.Threads = 33 },
		"use unfused, fused or csr": func(t *TensorProduct) { t.Impl = "csr+mlp" },
	} {
		bad := tp
		change(&bad)
		if err := bad.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected one with %q", err, want)
		}
	}
	_, err := Gemm{K: 1, N: 1, Act: "none", Normalisation: NormExact, Precision: "fp8"}.Bind(g.dev, g.poisoned(1), g.poisoned(1), g.poisoned(1), 1)
	if err == nil || !strings.Contains(err.Error(), "use fp32, tf32, tf32x3, bf16 or fp16") {
		t.Errorf("fp8: error %v", err)
	}
}
