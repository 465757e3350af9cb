//go:build linux

package sim_test

import (
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ebitengine/purego"

	"github.com/gpuprof/gpuprof/internal/testkit/sim"
)

// Every PTX of the repository is taken as a driver takes it, its entries agree
// with the C++ twins, and none lacks one.
func TestEveryKernelHasItsTwin(t *testing.T) {
	c := start(t, "")
	entry := regexp.MustCompile(`\.visible \.entry (\w+)\(`)
	root, files, entries := filepath.Join("..", "..", ".."), 0, 0
	for _, top := range []string{"workloads", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".ptx.zst") {
				return err
			}
			source, err := sim.PTX(path)
			if err != nil {
				return err
			}
			files++
			m, code, log := c.load(source)
			if code != 0 {
				t.Errorf("%s: %d: %s", path, code, log)
				return nil
			}
			for _, e := range entry.FindAllStringSubmatch(source, -1) {
				entries++
				name := text(e[1])
				if code := c.call("cuModuleGetFunction", at(out()), m, addr(name)); code != 0 {
					t.Errorf("%s: entry %s: %d", path, e[1], code)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d entries in %d files", entries, files)
	if entries == 0 {
		t.Error("no PTX found")
	}
	c.clean()
}

// library is the bare functions of cuBLAS or cuDNN beside the driver.
func (c *cu) library(name string) *cu {
	c.t.Helper()
	h, err := purego.Dlopen(filepath.Join(sim.Libraries(c.lib), name), purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		c.t.Fatal(err)
	}
	return &cu{t: c.t, lib: c.lib, h: h, fn: make(map[string]uintptr)}
}

// narrow rounds as the type does, by the definition of the format.
func narrow(kind string, v float32) float32 {
	drop := map[string]int{"tf32": 13, "bf16": 16, "fp16": 13}[kind]
	if drop == 0 {
		return v
	}
	unit := math.Ldexp(1, drop-23)
	frac, e := math.Frexp(float64(v))
	half := math.RoundToEven
	if kind == "tf32" {
		half = math.Round
	}
	return float32(math.Ldexp(half(frac*2/unit)*unit/2, e))
}

func bits16(kind string, v float32) uint16 {
	if kind == "bf16" {
		return uint16(math.Float32bits(v) >> 16)
	}
	// Exact already, and in the normal range.
	u := math.Float32bits(v)
	if v == 0 {
		return uint16(u >> 16)
	}
	return uint16(u>>16&0x8000 | (u&0x7fffffff-0x38000000)>>13)
}

// store puts values on the device in a type, and returns what they became.
func (c *cu) store(kind string, v []float32) (uintptr, []float32) {
	c.t.Helper()
	rounded := make([]float32, len(v))
	small := make([]uint16, len(v))
	for i := range v {
		rounded[i] = narrow(kind, v[i])
		small[i] = bits16(kind, rounded[i])
	}
	switch kind {
	case "bf16", "fp16":
		return put(c, small), rounded
	case "tf32":
		return put(c, v), rounded // the product rounds
	default:
		return put(c, v), v
	}
}

func random(n int, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 2))
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

func TestBlas(t *testing.T) {
	c := start(t, "")
	b := c.library("libcublas.so")
	h, s := out(), c.stream()
	b.ok("cublasCreate_v2", at(h))
	b.ok("cublasSetStream_v2", uintptr(*h), s)
	b.ok("cublasSetMathMode", uintptr(*h), 0)
	const m, n, k, lda, ldb, ldc = 17, 9, 33, 40, 35, 20
	for _, kind := range []struct {
		name         string
		data, output int
		compute      int
	}{{"fp32", 0, 0, 68}, {"tf32", 0, 0, 77}, {"bf16", 14, 0, 68}, {"fp16", 2, 0, 68}} {
		for _, op := range [][2]int{{0, 0}, {1, 0}, {0, 1}, {1, 1}} {
			pa, va := c.store(kind.name, random(lda*40, 1))
			pb, vb := c.store(kind.name, random(ldb*40, 2))
			before := random(ldc*n, 3)
			pc := put(c, before)
			alpha, beta := []float32{1.5}, []float32{-0.5}
			b.ok("cublasGemmEx", uintptr(*h), uintptr(op[0]), uintptr(op[1]), m, n, k, addr(alpha), pa, uintptr(kind.data), lda,
				pb, uintptr(kind.data), ldb, addr(beta), pc, uintptr(kind.output), ldc, uintptr(kind.compute), ^uintptr(0))
			c.sync(s)
			got := get[float32](c, pc, ldc*n)
			at := func(v []float32, ld, transposed, i, j int) float64 {
				if transposed == 1 {
					i, j = j, i
				}
				return float64(v[i+j*ld])
			}
			for j := range n {
				for i := range ldc {
					want := float64(before[i+j*ldc])
					if i < m {
						sum := 0.0
						for l := range k {
							sum += at(va, lda, op[0], i, l) * at(vb, ldb, op[1], l, j)
						}
						want = 1.5*sum - 0.5*want
					}
					if math.Abs(float64(got[i+j*ldc])-want) > 2e-5 {
						t.Fatalf("%s %v: c[%d,%d] = %g, want %g", kind.name, op, i, j, got[i+j*ldc], want)
					}
				}
			}
			c.free(pa, pb, pc)
		}
	}
	p := c.alloc(4)
	one := []float32{1}
	gemm := func(mm, ld, compute int) int {
		return b.call("cublasGemmEx", uintptr(*h), 0, 0, uintptr(mm), 1, 1, addr(one), p, 0, uintptr(ld), p, 0, 1, addr(one), p, 0, uintptr(ld), uintptr(compute), 0)
	}
	if code := gemm(4, 2, 68); code != 7 {
		t.Errorf("a leading dimension that is too small returns %d, want 7", code)
	}
	if code := gemm(1, 1, 64); code != 15 {
		t.Errorf("half sums of floats return %d, want 15", code)
	}
	c.clean()
	if code := gemm(2, 2, 68); code != 13 {
		t.Errorf("operands beyond their buffers return %d, want 13", code)
	}
	c.found(c.report().Violations, "cublasGemmEx: an operand is bytes 0 to 8 of device buffer")
	for _, want := range []int{3, 13, 14} { // a planted code is the library's own status
		sim.Set(t, c.lib, fmt.Sprintf("fail=cublasGemmEx@1:%d", want))
		if code := gemm(1, 1, 68); code != want {
			t.Errorf("a product that is to fail with %d returns %d", want, code)
		}
	}
	b.ok("cublasDestroy_v2", uintptr(*h))
	if code := gemm(1, 1, 68); code != 1 {
		t.Errorf("a destroyed handle returns %d, want 1", code)
	}
}

type gruCase struct {
	name             string
	data, math, size int
	tolerance        float64
}

// The reference is the recurrence of cuDNN's manual in float64, with the
// weights, x and h0 as stored. The tolerances are a few units of what is rounded
// on the way: the states, and with TF32 the factors x and h, to 11 bits.
func TestGRU(t *testing.T) {
	for _, k := range []gruCase{
		{"fp32", 0, 3, 4, 1e-6}, {"tf32", 0, 0, 4, 2e-3}, {"bf16", 9, 0, 2, 2e-2}, {"fp16", 2, 1, 2, 3e-3},
	} {
		c := start(t, "")
		testGRU(c, k)
		c.clean()
	}
}

func testGRU(c *cu, k gruCase) {
	const in, hidden, layers, batch, steps = 5, 7, 2, 3, 4
	d := c.library("libcudnn.so")
	made := func(create string) uintptr {
		p := out()
		d.ok(create, at(p))
		return uintptr(*p)
	}
	h, rnn, drop := made("cudnnCreate"), made("cudnnCreateRNNDescriptor"), made("cudnnCreateDropoutDescriptor")
	xd, yd, hd := made("cudnnCreateRNNDataDescriptor"), made("cudnnCreateRNNDataDescriptor"), made("cudnnCreateTensorDescriptor")
	md, bd := made("cudnnCreateTensorDescriptor"), made("cudnnCreateTensorDescriptor")
	s, data := c.stream(), uintptr(k.data)
	d.ok("cudnnSetStream", h, s)
	var setDropout func(d, h uintptr, rate float32, states, size uintptr, seed uint64) int32
	purego.RegisterLibFunc(&setDropout, d.h, "cudnnSetDropoutDescriptor")
	if code := setDropout(drop, h, 0, 0, 0, 0); code != 0 {
		c.t.Fatal(code)
	}
	d.ok("cudnnSetRNNDescriptor_v8", rnn, 0, 3, 2, 0, 0, data, 0, uintptr(k.math), in, hidden, hidden, layers, drop, 0)
	lengths, dims, strides := []int32{4, 4, 2}, []int32{layers, batch, hidden}, []int32{batch * hidden, hidden, 1}
	d.ok("cudnnSetRNNDataDescriptor", xd, data, 1, steps, batch, in, addr(lengths), 0)
	d.ok("cudnnSetRNNDataDescriptor", yd, data, 1, steps, batch, hidden, addr(lengths), 0)
	d.ok("cudnnSetTensorNdDescriptor", hd, data, 3, addr(dims), addr(strides))
	weightBytes, workBytes, reserve := out(), out(), out()
	d.ok("cudnnGetRNNWeightSpaceSize", h, rnn, at(weightBytes))
	d.ok("cudnnGetRNNTempSpaceSizes", h, rnn, 0, xd, at(workBytes), at(reserve))
	space, work := c.alloc(int(*weightBytes)), c.alloc(int(*workBytes))
	kind := k.name
	weights, bias := make([][6][]float32, layers), make([][6][]float32, layers)
	for l := range layers {
		for g := range 6 {
			cols := hidden
			if g < 3 && l == 0 {
				cols = in
			}
			m, b := out(), out()
			d.ok("cudnnGetRNNWeightParams", h, rnn, uintptr(l), uintptr(*weightBytes), space, uintptr(g), md, at(m), bd, at(b))
			shape, got, types, count := make([]int32, 3), make([]int32, 3), make([]int32, 1), make([]int32, 1)
			d.ok("cudnnGetTensorNdDescriptor", md, 3, addr(types), addr(count), addr(shape), addr(got))
			if int(shape[1]) != hidden || int(shape[2]) != cols {
				c.t.Fatalf("layer %d gate %d is %v", l, g, shape)
			}
			pm, vm := c.store(kind, random(hidden*cols, uint64(10*l+g)))
			pb, vb := c.store(storedAs(kind), random(hidden, uint64(100+10*l+g)))
			c.ok("cuMemcpyDtoDAsync_v2", uintptr(*m), pm, uintptr(len(vm)*k.size), s)
			c.ok("cuMemcpyDtoDAsync_v2", uintptr(*b), pb, uintptr(len(vb)*k.size), s)
			c.sync(s)
			c.free(pm, pb)
			weights[l][g], bias[l][g] = vm, vb
		}
	}
	px, x := c.store(storedAs(kind), random((4+4+2)*in, 5))
	ph, h0 := c.store(storedAs(kind), random(layers*batch*hidden, 6))
	py, pn := c.alloc(10*hidden*k.size), c.alloc(layers*batch*hidden*k.size)
	d.ok("cudnnRNNForward", h, rnn, 0, 0, xd, px, yd, py, hd, ph, pn, 0, 0, 0, uintptr(*weightBytes), space, uintptr(*workBytes), work, 0, 0)
	c.sync(s)
	y, hn := c.values(py, kind, 10*hidden), c.values(pn, kind, layers*batch*hidden)
	wantY, wantN := gruReference(x, h0, weights, bias, lengths, in, hidden)
	compare(c.t, k.name+" y", y, wantY, k.tolerance)
	compare(c.t, k.name+" hn", hn, wantN, k.tolerance)
	for name, p := range map[string][]uintptr{"cudnnDestroyRNNDescriptor": {rnn}, "cudnnDestroyDropoutDescriptor": {drop},
		"cudnnDestroyRNNDataDescriptor": {xd, yd}, "cudnnDestroyTensorDescriptor": {hd, md, bd}, "cudnnDestroy": {h}} {
		for _, q := range p {
			d.ok(name, q)
		}
	}
	if n := d.call("gpuprof_sim_cudnn_objects"); n != 0 {
		c.t.Errorf("%d descriptors left", n)
	}
}

// storedAs: TF32 is a way to multiply, not to store.
func storedAs(kind string) string { return strings.Replace(kind, "tf32", "fp32", 1) }

func (c *cu) values(p uintptr, kind string, n int) []float64 {
	c.t.Helper()
	v := make([]float64, n)
	switch kind {
	case "bf16", "fp16":
		f := formats[0]
		if kind == "fp16" {
			f = formats[1]
		}
		for i, h := range get[uint16](c, p, n) {
			v[i] = f.value(h)
		}
	default:
		for i, x := range get[float32](c, p, n) {
			v[i] = float64(x)
		}
	}
	return v
}

func compare(t *testing.T, what string, got, want []float64, tolerance float64) {
	t.Helper()
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= tolerance) {
			t.Errorf("%s[%d] = %g, want %g", what, i, got[i], want[i])
			return
		}
	}
}

// gruReference takes packed sequences: step t holds the entries still running.
func gruReference(x, h0 []float32, w, b [][6][]float32, lengths []int32, in, hidden int) (y, hn []float64) {
	batch, layers := len(lengths), len(w)
	row := make([][]int, lengths[0])
	rows := 0
	for t := range row {
		for e := range batch {
			if t < int(lengths[e]) {
				row[t] = append(row[t], rows)
				rows++
			}
		}
	}
	seq := make([][]float64, rows)
	for r := range seq {
		for _, v := range x[r*in : (r+1)*in] {
			seq[r] = append(seq[r], float64(v))
		}
	}
	sigmoid := func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }
	for l := range layers {
		for e := range batch {
			h := make([]float64, hidden)
			for i := range h {
				h[i] = float64(h0[(l*batch+e)*hidden+i])
			}
			for t := range int(lengths[e]) {
				from, next := seq[row[t][e]], make([]float64, hidden)
				for i := range next {
					var g [6]float64
					for k := range g {
						v := from
						if k >= 3 {
							v = h
						}
						g[k] = float64(b[l][k][i])
						for j := range v {
							g[k] += float64(w[l][k][i*len(v)+j]) * v[j]
						}
					}
					r, z := sigmoid(g[0]+g[3]), sigmoid(g[1]+g[4])
					next[i] = (1-z)*math.Tanh(g[2]+r*g[5]) + z*h[i]
				}
				h = next
				seq[row[t][e]] = h
			}
			hn = append(hn, h...)
		}
	}
	for _, v := range seq {
		y = append(y, v...)
	}
	return y, hn
}
