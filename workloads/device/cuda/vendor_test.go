package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/sim"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// openVendors is openSim with the simulated cuBLAS and cuDNN in reach.
func openVendors(t testing.TB) *Device {
	t.Helper()
	t.Setenv(libraryPathVariable, sim.Libraries(sim.Library(t)))
	return openSim(t, Options{})
}

// encode16 rounds to the nearest bf16 or fp16; the values of these tests are
// in fp16's normal range.
func encode16(v float32, kind string) uint16 {
	bits := math.Float32bits(v)
	if kind == "bf16" {
		return uint16((bits + 0x7fff + bits>>16&1) >> 16)
	}
	if v == 0 {
		return 0
	}
	exp, man := int(bits>>23&0xff)-127+15, bits&0x7fffff
	half := uint32(exp)<<10 | man>>13
	half += (man&0x1fff + 0xfff + man>>13&1) >> 13
	return uint16(bits>>31<<15 | half)
}

func decode16(v uint16, kind string) float64 {
	if kind == "bf16" {
		return float64(math.Float32frombits(uint32(v) << 16))
	}
	if v&0x7fff == 0 {
		return 0
	}
	return float64(math.Float32frombits(uint32(v)>>15<<31 | (uint32(v)>>10&31+112)<<23 | uint32(v)&1023<<13))
}

// upload puts values on the device in a precision and returns what they became.
func upload(t testing.TB, d *Device, s device.Stream, v []float32, kind string) (device.Buffer, []float64) {
	t.Helper()
	size := 4
	if kind == "bf16" || kind == "fp16" {
		size = 2
	}
	up, b := must(d.Alloc(size*len(v), device.Pinned))(t), must(d.Alloc(size*len(v), device.OnDevice))(t)
	kept := make([]float64, len(v))
	for i, x := range v {
		if size == 2 {
			h := encode16(x, kind)
			up.Bytes()[2*i], up.Bytes()[2*i+1] = byte(h), byte(h>>8)
			kept[i] = decode16(h, kind)
			continue
		}
		device.Floats(up)[i] = x
		kept[i] = float64(x)
	}
	ok(t, s.Copy(b, 0, up, 0, b.Len()))
	ok(t, s.Sync())
	ok(t, up.Free())
	return b, kept
}

// download is the inverse of upload.
func download(t testing.TB, d *Device, s device.Stream, b device.Buffer, kind string) []float64 {
	t.Helper()
	down := must(d.Alloc(b.Len(), device.Pinned))(t)
	ok(t, s.Copy(down, 0, b, 0, b.Len()))
	ok(t, s.Sync())
	var out []float64
	if kind == "bf16" || kind == "fp16" {
		for i := 0; i < b.Len(); i += 2 {
			out = append(out, decode16(uint16(down.Bytes()[i])|uint16(down.Bytes()[i+1])<<8, kind))
		}
	} else {
		for _, v := range device.Floats(down) {
			out = append(out, float64(v))
		}
	}
	ok(t, down.Free())
	return out
}

func random(n int, scale float32, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	v := make([]float32, n)
	for i := range v {
		v[i] = scale * (2*r.Float32() - 1)
	}
	return v
}

// tolerance is a precision's unit in the last place, for sums in float32 of
// products of what was stored; TF32 rounds the stored values once more.
var tolerance = map[string]float64{"fp32": 1e-6, "tf32": 1.0 / 1024, "bf16": 1e-6, "fp16": 1e-6}

func TestGemm(t *testing.T) {
	d := openVendors(t)
	s := stream(t, d, "main")
	for kind, tol := range tolerance {
		for _, c := range []struct{ n, inner, width int }{{1, 1, 1}, {5, 3, 7}, {33, 64, 17}} {
			k := &device.Kernel{Name: "gemm", Sig: gemmSig, Lib: "gemm_" + kind}
			f := must(d.Load(k))(t)
			if got := f.(*kernelFunc).Library(); got != "cublas "+d.Info().Facts["cublas"] || len(got) < len("cublas 1.2.3") {
				t.Errorf("by %q", got)
			}
			a, av := upload(t, d, s, random(c.n*c.inner, 1, 1), kind)
			b, bv := upload(t, d, s, random(c.inner*c.width, 1, 2), kind)
			out := must(d.Alloc(4*c.n*c.width, device.OnDevice))(t)
			const scale = -1.5
			var args device.Args
			args.SetBuf(0, a)
			args.SetBuf(1, b)
			args.SetBuf(2, out)
			args.SetInt(3, c.inner)
			args.SetInt(4, c.width)
			args.SetF32(5, scale)
			before := d.Meter()
			ok(t, s.Launch(f, c.n, &args))
			if m := d.Meter().Sub(before); m != (device.Meter{Launches: 1}) {
				t.Errorf("counted %+v", m)
			}
			for i, got := range download(t, d, s, out, "fp32") {
				want, size := 0.0, 0.0
				for k := range c.inner {
					p := scale * av[i/c.width*c.inner+k] * bv[k*c.width+i%c.width]
					want += p
					size += math.Abs(p)
				}
				if math.Abs(got-want) > 2*tol*size {
					t.Errorf("%s %v: element %d is %g, want %g", kind, c, i, got, want)
				}
			}
		}
	}
}

func TestGemmMisuse(t *testing.T) {
	d := openVendors(t)
	s := stream(t, d, "main")
	f := must(d.Load(&device.Kernel{Name: "gemm", Sig: gemmSig, Lib: "gemm_fp32"}))(t)
	small, big := must(d.Alloc(16, device.OnDevice))(t), must(d.Alloc(64, device.OnDevice))(t)
	before := d.Meter()
	for name, c := range map[string]struct {
		bufs         [3]device.Buffer
		inner, width int
		says         string
	}{
		"a":     {[3]device.Buffer{small, big, big}, 4, 4, "argument 0 has 16 bytes and needs 64"},
		"b":     {[3]device.Buffer{big, small, big}, 4, 4, "argument 1 has 16 bytes and needs 64"},
		"out":   {[3]device.Buffer{big, big, small}, 4, 4, "argument 2 has 16 bytes and needs 64"},
		"inner": {[3]device.Buffer{big, big, big}, 0, 4, "sides of 1 or more"},
		"width": {[3]device.Buffer{big, big, big}, 4, -1, "sides of 1 or more"},
	} {
		var a device.Args
		for i, b := range c.bufs {
			a.SetBuf(i, b)
		}
		a.SetInt(3, c.inner)
		a.SetInt(4, c.width)
		a.SetF32(5, 1)
		t.Run(name, func(t *testing.T) {
			says(t, s.Launch(f, 4, &a), gpuprof.ErrDevice, "launching kernel gemm on stream main", c.says)
		})
	}
	if m := d.Meter(); m != before {
		t.Errorf("refused products were counted: %+v", m.Sub(before))
	}
	sim.Set(t, d.drv.path, "fail=cublasGemmEx@1:13")
	var a device.Args
	for i := range 3 {
		a.SetBuf(i, big)
	}
	a.SetInt(3, 2)
	a.SetInt(4, 2)
	says(t, s.Launch(f, 2, &a), gpuprof.ErrDevice, "kernel gemm on stream main", "cuBLAS status 13 (CUBLAS_STATUS_EXECUTION_FAILED)")
	ok(t, s.Launch(f, 2, &a))
	ok(t, s.Sync())
}

// Memory that runs out inside cuBLAS is of the same kind as memory that runs out
// anywhere else, and the next product has all it needs.
func TestGemmOutOfMemory(t *testing.T) {
	d := openVendors(t)
	f := must(d.Load(&device.Kernel{Name: "gemm", Sig: gemmSig, Lib: "gemm_fp32"}))(t)
	s := stream(t, d, "side") // without a handle until its first product
	buf := must(d.Alloc(64, device.OnDevice))(t)
	var a device.Args
	for i := range 3 {
		a.SetBuf(i, buf)
	}
	a.SetInt(3, 2)
	a.SetInt(4, 2)
	use := d.Memory().InUse
	for fault, what := range map[string]string{
		"fail=cublasCreate_v2@1:3": "making a handle", "oom_at=1": "workspace",
	} {
		sim.Set(t, d.drv.path, fault)
		says(t, s.Launch(f, 2, &a), gpuprof.ErrMemory, "kernel gemm on stream side", what)
		if now := d.Memory().InUse; now != use {
			t.Errorf("%s: %d bytes are left", fault, now-use)
		}
	}
	ok(t, s.Launch(f, 2, &a))
	sim.Set(t, d.drv.path, "fail=cublasGemmEx@1:3")
	says(t, s.Launch(f, 2, &a), gpuprof.ErrMemory, "kernel gemm on stream side", "cuBLAS status 3 (CUBLAS_STATUS_ALLOC_FAILED)")
	ok(t, s.Launch(f, 2, &a))
	ok(t, s.Sync())
}

// TestGemmInGraph replays a product, and runs it on two streams.
func TestGemmInGraph(t *testing.T) {
	d := openVendors(t)
	s, side := stream(t, d, "main"), stream(t, d, "side")
	f := must(d.Load(&device.Kernel{Name: "gemm", Sig: gemmSig, Lib: "gemm_fp32"}))(t)
	b, _ := upload(t, d, s, []float32{2}, "fp32")
	y, _ := upload(t, d, s, []float32{1}, "fp32")
	z, _ := upload(t, d, s, []float32{0}, "fp32")
	var there, back device.Args
	for i, p := range []device.Buffer{y, b, z} {
		there.SetBuf(i, p)
		back.SetBuf([]int{2, 1, 0}[i], p)
	}
	for _, a := range []*device.Args{&there, &back} {
		a.SetInt(3, 1)
		a.SetInt(4, 1)
		a.SetF32(5, 1)
	}
	op := must(d.Capture(s, func() error {
		ok(t, s.Launch(f, 1, &there))
		return s.Launch(f, 1, &back)
	}))(t)
	if !op.(*captured).Graph() {
		t.Error("no graph")
	}
	ok(t, op.Enqueue(s))
	ok(t, op.Enqueue(s))
	ok(t, s.Sync())
	ok(t, side.Close())
	if got := download(t, d, s, y, "fp32"); got[0] != 16 {
		t.Errorf("%v, want 1 doubled four times", got)
	}
}

// TestGraphsShareAWorkspace: graphs captured on one stream work in the memory of
// its handle, which Memory counts; on another stream they work in that one's.
func TestGraphsShareAWorkspace(t *testing.T) {
	d := openVendors(t)
	s, side := stream(t, d, "main"), stream(t, d, "side")
	f := must(d.Load(&device.Kernel{Name: "gemm", Sig: gemmSig, Lib: "gemm_fp32"}))(t)
	b, _ := upload(t, d, s, []float32{2}, "fp32")
	y, _ := upload(t, d, s, []float32{1}, "fp32")
	z, _ := upload(t, d, s, []float32{0}, "fp32")
	var a device.Args
	for i, p := range []device.Buffer{y, b, z} {
		a.SetBuf(i, p)
	}
	a.SetInt(3, 1)
	a.SetInt(4, 1)
	a.SetF32(5, 1)
	work := int64(d.workspaceBytes())
	buffers := d.Memory().InUse
	capture := func(s device.Stream) device.Op {
		return must(d.Capture(s, func() error { return s.Launch(f, 1, &a) }))(t)
	}
	var op device.Op
	for range 12 {
		op = capture(s)
		if !op.(*captured).Graph() {
			t.Fatal("no graph")
		}
	}
	if got := d.Memory(); got.InUse != buffers+work || got.Peak < got.InUse {
		t.Errorf("12 graphs of one stream: %d bytes in use, peak %d, want one workspace of %d beside %d", got.InUse, got.Peak, work, buffers)
	}
	ok(t, op.Enqueue(side))
	ok(t, side.Sync())
	if got := download(t, d, s, z, "fp32"); got[0] != 2 {
		t.Errorf("on another stream: %v, want 2", got)
	}
	ok(t, side.Close())
	if got := d.Memory().InUse; got != buffers+work {
		t.Errorf("after the other stream: %d bytes in use, want one workspace of %d beside %d", got, work, buffers)
	}
}

// TestLibraryMissing: without cuBLAS a kernel falls back to its PTX, or says
// where the library was looked for.
func TestLibraryMissing(t *testing.T) {
	empty := t.TempDir()
	t.Setenv(libraryPathVariable, empty)
	d := openWith(t, fmt.Sprintf("attr.%d=65536", attrL2), Options{})
	none := func(uintptr, string) error { panic("opened") }
	d.blas = &blas{dev: d, err: useVendor("cuBLAS", []string{"libnosuchblas.so.12", "libnosuchblas.so.11"}, none)}
	d.dnn = &dnn{dev: d, err: useVendor("cuDNN", []string{"libnosuchdnn.so.9"}, none)}
	_, err := d.Load(&device.Kernel{Name: "product", Sig: gemmSig, Lib: "gemm_fp32"})
	says(t, err, gpuprof.ErrDevice, "kernel product", "cuBLAS was not found as libnosuchblas.so.12, libnosuchblas.so.11", empty, libraryPathVariable, "pip install")
	b := must(d.Alloc(64, device.OnDevice))(t)
	_, err = d.BindGRU(gruSpec(1, 1, 1, 1, 1, "fp32"), b, b, b, b, must(d.Alloc(4, device.OnDevice))(t))
	says(t, err, gpuprof.ErrDevice, "binding a GRU layer", "cuDNN was not found as libnosuchdnn.so.9")
	if got := d.Libraries(); len(got) != 0 {
		t.Errorf("found %v", got)
	}
	c := must(d.Ceilings(t.Context()))(t) // by a kernel of our own
	if c.FlopsPerS <= 0 {
		t.Errorf("%+v", c)
	}
	k := &device.Kernel{
		Name: "product", Sig: gemmSig, Lib: "gemm_fp32", Entry: "product", Threads: 1, PerBlock: 1,
		PTX: ".version 6.3\n.target sm_75\n.entry product(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 k, .param .u32 m, .param .f32 s) { ret; }",
	}
	_, err = d.Load(k) // it is the PTX that is looked at
	says(t, err, gpuprof.ErrDevice, "kernel product", "6 parameters")
}

func TestBrokenLibrary(t *testing.T) {
	dir := t.TempDir()
	ok(t, os.WriteFile(filepath.Join(dir, "libnosuchblas.so.12"), []byte("no library"), 0o644))
	t.Setenv(libraryPathVariable, dir)
	accept := func(uintptr, string) error { return nil }
	err := useVendor("cuBLAS", []string{"libnosuchblas.so.12"}, accept)
	says(t, err, gpuprof.ErrDevice, "cuBLAS", filepath.Join(dir, "libnosuchblas.so.12")+" cannot be loaded", libraryPathVariable)
	// One that is there and does not do is passed over for the next.
	err = useVendor("cuBLAS", []string{"libnosuchblas.so.12", "libc.so.6"}, accept)
	ok(t, err)
	d := openSim(t, Options{})
	err = useVendor("cuBLAS", []string{"libc.so.6"}, (&blas{dev: d, handles: make(map[streamHandle]blasHandle)}).startLibrary)
	says(t, err, gpuprof.ErrDevice, "libc.so.6 has no function cublasCreate_v2")
	err = useVendor("cuDNN", []string{"libc.so.6"}, (&dnn{dev: d}).startLibrary)
	says(t, err, gpuprof.ErrDevice, "libc.so.6 has no function cudnn", "older than cuDNN 8")
}

// TestRefusingLibrary: one that does not start is asked once, though its name
// and its path both lead to it, and is not called missing.
func TestRefusingLibrary(t *testing.T) {
	d := openVendors(t)
	sim.Set(t, d.drv.path, "fail=cublasCreate_v2@1:1;fail=cudnnCreate@1:1008")
	lacks := d.MissingLibraries()
	for name, reason := range map[string]string{"cublas": "usually the GPU's memory is full", "cudnn": "a part of cuDNN is missing or of another version"} {
		says(t, lacks[name], gpuprof.ErrDevice, "does not start: making a handle", reason, libraryPathVariable)
		if n := strings.Count(lacks[name].Error(), reason); n != 1 {
			t.Errorf("%d times the same reason: %v", n, lacks[name])
		}
	}
	if d.Info().Facts["cudnn"] != "" {
		t.Error("a library that does not start is a fact of the device")
	}
}

func TestLibraries(t *testing.T) {
	d := openVendors(t)
	got := d.Libraries()
	dir := sim.Libraries(d.drv.path)
	for _, name := range []string{"cublas", "cudnn"} {
		if strings.Count(got[name], ".") != 2 || !strings.HasPrefix(got[name+"_path"], dir) {
			t.Errorf("%v", got)
		}
		if d.Info().Facts[name] != got[name] {
			t.Errorf("facts do not name %s", name)
		}
	}
}

func TestVendorFolders(t *testing.T) {
	dir := t.TempDir()
	for _, p := range []string{
		"venv/lib/python3.12/site-packages/nvidia/cublas/lib",
		"venv/lib/python3.12/site-packages/nvidia/cudnn/lib",
		"venv/lib/python3.12/site-packages/torch/lib",
		"conda/lib",
	} {
		ok(t, os.MkdirAll(filepath.Join(dir, p), 0o755))
	}
	t.Setenv("VIRTUAL_ENV", filepath.Join(dir, "venv"))
	t.Setenv("CONDA_PREFIX", filepath.Join(dir, "conda"))
	got := vendorFolders()
	for _, want := range []string{"venv/lib/python3.12/site-packages/nvidia/cublas/lib", "venv/lib/python3.12/site-packages/torch/lib", "conda/lib"} {
		if !slices.Contains(got, filepath.Join(dir, want)) {
			t.Errorf("%s is not searched: %v", want, got)
		}
	}
}

func TestDNNVersion(t *testing.T) {
	for v, want := range map[uintptr]string{8907: "8.9.7", 8100: "8.1.0", 90200: "9.2.0", 92800: "9.28.0"} {
		if got := dnnVersion(v); got != want {
			t.Errorf("%d is %s, want %s", v, got, want)
		}
	}
}

func gruSpec(in, hidden, layers, batch, steps int, precision string) device.GRUSpec {
	return device.GRUSpec{Input: in, Hidden: hidden, Layers: layers, Batch: batch, Steps: steps, Precision: precision}
}

// gruReference is the formula in float64: r and z sigmoids, n with b_hn inside r.
func gruReference(s device.GRUSpec, x, h0, w []float64) (y, hn []float64) {
	sigmoid := func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }
	h := slices.Clone(h0)
	in := s.Input
	for l := range s.Layers {
		wi, wh := w[:3*s.Hidden*in], w[3*s.Hidden*in:3*s.Hidden*(in+s.Hidden)]
		bi := w[3*s.Hidden*(in+s.Hidden):]
		bh := bi[3*s.Hidden:]
		y = make([]float64, s.Steps*s.Batch*s.Hidden)
		for t := range s.Steps {
			for b := range s.Batch {
				row := x[(t*s.Batch+b)*in:][:in]
				state := h[(l*s.Batch+b)*s.Hidden:][:s.Hidden]
				next := make([]float64, s.Hidden)
				for j := range s.Hidden {
					var gi, gh [3]float64
					for g := range 3 {
						r := g*s.Hidden + j
						gi[g], gh[g] = bi[r], bh[r]
						for k := range in {
							gi[g] += wi[r*in+k] * row[k]
						}
						for k := range s.Hidden {
							gh[g] += wh[r*s.Hidden+k] * state[k]
						}
					}
					r, z := sigmoid(gi[0]+gh[0]), sigmoid(gi[1]+gh[1])
					next[j] = (1-z)*math.Tanh(gi[2]+r*gh[2]) + z*state[j]
				}
				copy(state, next)
				copy(y[(t*s.Batch+b)*s.Hidden:], next)
			}
		}
		w = bh[3*s.Hidden:]
		x, in = y, s.Hidden
	}
	return y, h
}

func TestGRU(t *testing.T) {
	d := openVendors(t)
	s := stream(t, d, "main")
	for _, spec := range []device.GRUSpec{
		gruSpec(1, 1, 1, 1, 1, "fp32"), gruSpec(5, 7, 3, 4, 6, "fp32"), gruSpec(8, 4, 2, 3, 5, "tf32"),
		gruSpec(3, 8, 2, 5, 2, "fp16"), gruSpec(9, 8, 2, 1, 4, "bf16"),
	} {
		t.Run(fmt.Sprintf("%+v", spec), func(t *testing.T) {
			n := gruSizes(spec)
			x, xv := upload(t, d, s, random(n[0], 1, 3), spec.Precision)
			h0, hv := upload(t, d, s, random(n[1], 1, 4), spec.Precision)
			w, wv := upload(t, d, s, random(n[2], 0.5, 5), spec.Precision)
			y, hn := must(d.Alloc(n[3]*x.Len()/n[0], device.OnDevice))(t), must(d.Alloc(h0.Len(), device.OnDevice))(t)
			op := must(d.BindGRU(spec, x, h0, w, y, hn))(t)
			ok(t, w.Free()) // what is needed of it is elsewhere
			before := d.Meter()
			ok(t, op.Enqueue(s))
			if m := d.Meter().Sub(before); m != (device.Meter{Launches: 1}) {
				t.Errorf("counted %+v", m)
			}
			wantY, wantH := gruReference(spec, xv, hv, wv)
			// States are below 1: the tolerance is the precision's own step, times the
			// layers and steps through which it is carried.
			tol := map[string]float64{"fp32": 1e-6, "tf32": 1e-3, "fp16": 1e-3, "bf16": 8e-3}[spec.Precision] * float64(1+spec.Layers*spec.Steps)
			for name, pair := range map[string][2][]float64{
				"y": {download(t, d, s, y, spec.Precision), wantY}, "hn": {download(t, d, s, hn, spec.Precision), wantH},
			} {
				for i, got := range pair[0] {
					if math.Abs(got-pair[1][i]) > tol || math.IsNaN(got) {
						t.Fatalf("%s[%d] is %g, want %g", name, i, got, pair[1][i])
					}
				}
			}
			parts := op.Parts()
			if len(parts) != 1 || parts[0].Kernel != "gru_cudnn_"+spec.Precision || parts[0].Cost.Flops < 1 {
				t.Errorf("parts %+v", parts)
			}
		})
	}
}

// TestGRUKnownAnswer: with b_hn outside r it would be -0.047891924.
func TestGRUKnownAnswer(t *testing.T) {
	d := openVendors(t)
	s := stream(t, d, "main")
	x, _ := upload(t, d, s, []float32{.5}, "fp32")
	h0, _ := upload(t, d, s, []float32{-.25}, "fp32")
	w, _ := upload(t, d, s, []float32{.1, .2, .3, .4, .5, .6, .01, .02, .03, .04, .05, .06}, "fp32")
	y, hn := must(d.Alloc(4, device.OnDevice))(t), must(d.Alloc(4, device.OnDevice))(t)
	layer := must(d.BindGRU(gruSpec(1, 1, 1, 1, 1, "fp32"), x, h0, w, y, hn))(t)
	op := must(d.Capture(s, func() error { return layer.Enqueue(s) }))(t)
	before := d.Meter()
	ok(t, op.Enqueue(s))
	if m := d.Meter().Sub(before); m != (device.Meter{Launches: 1}) {
		t.Errorf("counted %+v", m)
	}
	if got := download(t, d, s, y, "fp32")[0]; math.Abs(got+0.062228456) > 1e-7 {
		t.Errorf("got %.9f", got)
	}
	if n := op.Parts(); len(n) != 1 || n[0].Cost.Flops != 2*6 {
		t.Errorf("parts %+v", n)
	}
	ok(t, x.Free())
	says(t, layer.Enqueue(s), gpuprof.ErrUsage, "its x", "freed")
	says(t, op.Enqueue(s), gpuprof.ErrUsage, "its x", "freed")
}

func TestGRUMisuse(t *testing.T) {
	d := openVendors(t)
	s := stream(t, d, "main")
	buf := func(n int) device.Buffer { return must(d.Alloc(4*n, device.OnDevice))(t) }
	spec := gruSpec(2, 3, 1, 2, 2, "fp32")
	n := gruSizes(spec)
	var b [5]device.Buffer
	for i := range b {
		b[i] = buf(n[i])
	}
	for name, c := range map[string]struct {
		spec device.GRUSpec
		at   int
		with device.Buffer
		says string
	}{
		"precision": {gruSpec(2, 3, 1, 2, 2, "int8"), 0, b[0], `unknown precision "int8"`},
		"no layers": {gruSpec(2, 3, 0, 2, 2, "fp32"), 0, b[0], "0 layers"},
		"x":         {spec, 0, buf(n[0] - 1), "buffer x"},
		"weights":   {spec, 2, buf(n[2] - 1), "buffer weights"},
		"hn":        {spec, 4, b[1], "h0 and hn are one buffer"},
		"host":      {spec, 3, must(d.Alloc(4*n[3], device.Pinned))(t), "has to be device memory"},
	} {
		t.Run(name, func(t *testing.T) {
			with := b
			with[c.at] = c.with
			_, err := d.BindGRU(c.spec, with[0], with[1], with[2], with[3], with[4])
			says(t, err, gpuprof.ErrUsage, "binding a GRU layer", c.says)
		})
	}
	op := must(d.BindGRU(spec, b[0], b[1], b[2], b[3], b[4]))(t)
	says(t, op.Enqueue(nil), gpuprof.ErrUsage, "stream")
	sim.Set(t, d.drv.path, "fail=cudnnRNNForward@1:5000")
	says(t, op.Enqueue(s), gpuprof.ErrDevice, "running a GRU layer on stream main: cudnnRNNForward: cuDNN status 5000 (CUDNN_STATUS_EXECUTION_FAILED)", "look for Xid")
	sim.Set(t, d.drv.path, "fail=cudnnRNNForward@1:4004")
	says(t, op.Enqueue(s), gpuprof.ErrMemory, "GRU layer", "cuDNN status 4004", "reduce batch")
	ok(t, op.Enqueue(s))
	ok(t, s.Sync())
}
