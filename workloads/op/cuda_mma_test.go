//go:build !race

// The simulated GPU is C++, in which the race detector sees nothing, and the float64 references beside it take ten times as long under it.
// TestCUDATensorProduct and its like launch and wait there.

package op

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/testkit/sim"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op/tpgen"
	"github.com/gpuprof/gpuprof/workloads/so3"
	"github.com/gpuprof/gpuprof/workloads/testkit/cudatest"
)

// tensorCoreErrors are what the two precisions are allowed: three products of TF32 keep what one of fp32 does.
var tensorCoreErrors = map[string]float64{TF32: 2e-3, TF32x3: 1e-5}

// tensorCoreCases are the layers of the kernels whose weights come from the tensor cores.
func tensorCoreCases(t testing.TB) []generatedCase {
	t.Helper()
	return casesOf(t, "tp_mma_", tpgen.MMAFamilies()...)
}

// onTensorCores returns csr+mlp of the case with a hidden layer of 100.
func (c generatedCase) onTensorCores(t testing.TB, precision string) TensorProduct {
	t.Helper()
	tp := TensorProduct{TP: c.tp, Impl: ImplCSRMLP, Layout: IrMul, Scale: float32(1 / math.Sqrt(20)), Hidden: 100, WScale: 0.1, Precision: precision}
	if tp.KernelName() != c.kernel {
		t.Fatalf("%s is computed by %s, expected %s", c.name, tp.KernelName(), c.kernel)
	}
	return tp
}

// Every product of the tensor cores against float64: rows of no edge, of a batch of 16 and of two, of one less and one
// more, of several segments.
func TestCUDATensorCores(t *testing.T) {
	degrees := []int{0, 1, 15, 17, 0, 16, 32, 2, 0}
	for _, c := range tensorCoreCases(t) {
		t.Run(c.name, func(t *testing.T) {
			g := newGPU(t)
			for i, precision := range []string{TF32x3, TF32} {
				tp := c.onTensorCores(t, precision)
				tp.Segment = 13 * i
				conv := g.convolution(tp, (&rig{t: t, rnd: g.rnd}).graph(degrees, 5))
				edges := []int{len(conv.gr.src), 33, 31, 17, 16, 15, 1, 0}
				if c.tp.WeightNumel() > 1000 { // the small one has every border; these have every line of their code in one batch
					edges = []int{[]int{33, 17}[i], 0}
				}
				for _, n := range edges {
					e := near(t, fmt.Sprintf("%s, %d edges", precision, n), conv.result(n), conv.reference(n), tensorCoreErrors[precision])
					t.Logf("%s, %d edges: relative error %.2g", precision, n, e)
				}
			}
		})
	}
}

// An atom of 1,000 neighbours, in several segments or one: batches follow each other and the fix-up puts segments together.
func TestCUDATensorCoresLongRow(t *testing.T) {
	c := tensorCoreCases(t)[0]
	g := newGPU(t)
	for _, segment := range []int{128, 4096} {
		tp := c.onTensorCores(t, TF32x3)
		tp.Segment = segment
		conv := g.convolution(tp, (&rig{t: t, rnd: g.rnd}).graph([]int{3, 1000, 0, 40}, 9))
		near(t, fmt.Sprintf("segment %d", segment), conv.result(1043), conv.reference(1043), 1e-5)
	}
}

// mul_ir, packed columns, hidden layers of other widths, blocks of fewer warps.
func TestCUDATensorCoresShapes(t *testing.T) {
	c := tensorCoreCases(t)[0]
	g := newGPU(t)
	for name, change := range map[string]func(*TensorProduct){
		"mul_ir":     func(tp *TensorProduct) { tp.Layout = MulIr },
		"packed":     func(tp *TensorProduct) { tp.Packed = true },
		"hidden 64":  func(tp *TensorProduct) { tp.Hidden = 64 },
		"hidden 2":   func(tp *TensorProduct) { tp.Hidden, tp.Precision = 2, TF32 },
		"hidden 104": func(tp *TensorProduct) { tp.Hidden, tp.Precision = 104, TF32 },
		"one warp":   func(tp *TensorProduct) { tp.Threads = 32 },
	} {
		tp := c.onTensorCores(t, TF32x3)
		tp.Segment = 7
		change(&tp)
		conv := g.convolution(tp, (&rig{t: t, rnd: g.rnd}).graph([]int{2, 0, 25, 1}, 3))
		near(t, name, conv.result(28), conv.reference(28), tensorCoreErrors[tp.Precision])
	}
}

// The same bits in 100 runs, whatever order blocks and threads run in.
func TestCUDATensorCoresAreBitIdentical(t *testing.T) {
	for _, precision := range []string{TF32, TF32x3} {
		t.Run(precision, func(t *testing.T) {
			g := newGPU(t)
			tp := tensorCoreCases(t)[0].onTensorCores(t, precision)
			tp.Segment = 16
			conv := g.convolution(tp, (&rig{t: t, rnd: g.rnd}).graph([]int{0, 20, 1}, 9))
			var first []float64
			for run := range repeats(t) {
				if run > 0 && !cudatest.Installed(t) {
					sim.Set(t, sim.Library(t), fmt.Sprintf("order=shuffle:%d", run))
				}
				got := conv.result(len(conv.gr.src))
				if first == nil {
					first = got
					near(t, precision, got, conv.reference(len(conv.gr.src)), tensorCoreErrors[precision])
				}
				if !slices.Equal(got, first) {
					t.Fatalf("runs 1 and %d differ", run+1)
				}
			}
		})
	}
}

// The sums of a row have csr's order: from weights that a product of TF32 makes exactly, both kernels make the same bits.
func TestCUDATensorCoresAddAsCSR(t *testing.T) {
	c := tensorCoreCases(t)[0]
	g := newGPU(t)
	gr := (&rig{t: t, rnd: g.rnd}).graph([]int{0, 20, 1, 300}, 9)
	tp := c.onTensorCores(t, TF32)
	tp.Hidden, tp.WScale = 2, 1
	conv := g.convolution(tp, gr)
	for i := range conv.h { // one of the two values is 1, and w2 has bits of TF32 only
		conv.h[i] = float32(i & 1)
	}
	RoundTo(TF32, conv.w2)
	conv.w = mixed(tp, conv.h, conv.w2, len(gr.src))
	g.fill(conv.b.H, bytesOf(conv.h))
	g.fill(conv.b.W2, bytesOf(conv.w2))
	plain := c
	plain.kernel = "tp_csr_" + strings.TrimPrefix(c.kernel, "tp_mma_")
	own := plain.product(t)
	product := g.convolution(own, gr)
	for to, from := range map[int][]float32{0: conv.x, 1: conv.y, 2: inColumns(own, conv.w)} {
		g.fill([]device.Buffer{product.b.X, product.b.Y, product.b.W}[to], bytesOf(from))
	}
	if got, want := conv.result(len(gr.src)), product.result(len(gr.src)); !slices.Equal(got, want) {
		t.Error("the bits are not those of csr")
	}
}

// A product of no preset gets its kernel where it runs: channels that fill no warp, both parities, rows of several segments.
func TestCUDATensorCoresCompiled(t *testing.T) {
	product, err := tpgen.Layer{In: "7x0e+5x0o+12x1o+6x2e", Target: "0e+0o+1o+1e+2e", LMax: 2}.Product()
	if err != nil {
		t.Fatal(err)
	}
	g := newGPU(t)
	tp, err := TensorProduct{TP: product, Impl: ImplCSRMLP, Layout: IrMul, Hidden: 20, Precision: TF32x3, Segment: 13}.Compile(g.dev)
	if err != nil {
		if cudatest.Installed(t) {
			t.Skipf("this machine's driver has no compiler that fits it: %v", err) //nolint:forbidigo // NVRTC comes with PyTorch, which a GPU machine may lack; the simulator has a stand-in
		}
		t.Fatal(err)
	}
	if tp.KernelName() != madeMMA {
		t.Fatalf("%s computes it", tp.KernelName())
	}
	conv := g.convolution(tp, (&rig{t: t, rnd: g.rnd}).graph([]int{0, 1, 31, 0, 33, 2, 0}, 5))
	near(t, "compiled", conv.result(len(conv.gr.src)), conv.reference(len(conv.gr.src)), 1e-5)
}

// What a GPU has no kernel or no room for is refused with the reason; the host device takes every product.
func TestTensorCoresRefuse(t *testing.T) {
	c := tensorCoreCases(t)
	small, large := c[0].onTensorCores(t, TF32x3), c[1].onTensorCores(t, TF32x3)
	wide, odd, other := large, large, large
	wide.Hidden, odd.Hidden = 106, 99
	other.TP = uvu(t, "7x0e+3x1o", "0e+1o", "0e+1o")
	for _, one := range []struct {
		tp         TensorProduct
		arch, want string
	}{
		{small, "sm_80", ""}, {large, "sm_80", ""}, {large, "sm_90", ""}, {large, "sm_100", ""}, {small, "sm_120", ""}, {other, "amd64", ""},
		{large, "sm_120", "bytes of shared memory per block, and a GPU of sm_120 has 101376"},
		{wide, "sm_90", "up to 104"}, {odd, "sm_90", "an even number"}, {other, "sm_90", "takes products of mace-large, small"},
	} {
		err := one.tp.TakesTF32(one.arch)
		if (err == nil) != (one.want == "") || err != nil && !strings.Contains(err.Error(), one.want) {
			t.Errorf("%s: %v, expected %q", one.arch, err, one.want)
		}
	}
	bf16 := large
	bf16.Precision = BF16
	if err := bf16.Check(); err == nil || !strings.Contains(err.Error(), `no product in precision "bf16"`) {
		t.Errorf("bf16: %v", err)
	}
	g := newGPU(t)
	if _, _, err := other.Bind(g.dev, TPBuffers{}, 0, 0, 0); err == nil {
		t.Error("a product of no preset was bound")
	}
}

// A block has as many warps as its shared memory has room for, and never asks for more than a GPU grants.
func TestTensorCoreBlocks(t *testing.T) {
	for _, c := range tensorCoreCases(t) {
		m, ok := c.onTensorCores(t, TF32).mmaProduct()
		if !ok {
			t.Fatal(c.name)
		}
		columns := 0
		for i := range m.warps {
			columns += 16 * m.warps[i].Paths * mmaPairs(&m.warps[i])
		}
		for _, arch := range []string{"sm_80", "sm_90", "sm_100", "sm_120"} {
			n := m.blockWarps(100, arch)
			t.Logf("%s, %s: %d parts, %d columns made for %d weights, %d warps and %d bytes a block", c.name, arch, len(m.warps), columns, c.tp.WeightNumel(), n, m.sharedBytes(100, n))
			if n > 0 && m.sharedBytes(100, n) > sharedOptin(arch) || n < mmaMostWarps && m.sharedBytes(100, n+1) <= sharedOptin(arch) {
				t.Errorf("%s, %s: %d warps", c.name, arch, n)
			}
			if least := map[string]int{"sm_90": 4, "sm_80": 2}[arch]; n < least {
				t.Errorf("%s, %s: %d warps, expected %d at the least", c.name, arch, n, least)
			}
		}
	}
}

// The host twin, for products that have no kernel of it too.
func TestHostTensorCores(t *testing.T) {
	r := newRig(t, 2)
	for precision, tol := range tensorCoreErrors {
		for _, product := range []so3.TensorProduct{uvu(t, "7x0e+3x1o", "0e+1o", "0e+1o"), tensorCoreCases(t)[0].tp} {
			c := r.convolution(TensorProduct{TP: product, Impl: ImplCSRMLP, Layout: IrMul, Hidden: 6, WScale: 0.4, Segment: 5, Precision: precision}, r.graph([]int{0, 3, 17, 1}, 4))
			e := near(t, precision, r.result(c), r.reference(c, 21), tol)
			if precision == TF32 && e < 1e-5 {
				t.Errorf("relative error %.2g: nothing was rounded", e)
			}
		}
	}
}
