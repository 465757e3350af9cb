//go:build !race

// The simulated GPU is C++, in which the race detector sees nothing, and the float64 references beside it take ten times as long under it.
// TestCUDATensorProduct and its like launch and wait there.

package op

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/testkit/sim"
	"github.com/gpuprof/gpuprof/workloads/op/tpgen"
	"github.com/gpuprof/gpuprof/workloads/testkit/cudatest"
)

// Every generated product against float64: rows of no edge, of one, of a batch and
// one less or more, of several segments. All lines of its code run with one edge; the
// rest is how the edges are cut.
func TestCUDAGenerated(t *testing.T) {
	degrees := []int{0, 1, 31, 0, 33, 32, 2, 0}
	for _, c := range generatedCases(t) {
		t.Run(c.name, func(t *testing.T) {
			g := newGPU(t)
			for _, segment := range []int{0, 13} {
				tp := c.product(t)
				tp.Segment = segment
				conv := g.convolution(tp, (&rig{t: t, rnd: g.rnd}).graph(degrees, 5))
				for _, edges := range []int{len(conv.gr.src), 33, 31, 1, 0} {
					e := near(t, fmt.Sprintf("segment %d, %d edges", segment, edges), conv.result(edges), conv.reference(edges), 1e-5)
					t.Logf("segment %d, %d edges: relative error %.2g", segment, edges, e)
				}
			}
		})
	}
}

// An atom of 1,000 neighbours: batches follow each other and segments are put together.
func TestCUDAGeneratedLongRow(t *testing.T) {
	c := generatedCases(t)[0]
	g := newGPU(t)
	for _, segment := range []int{0, 128, 4096} {
		tp := c.product(t)
		tp.Segment = segment
		conv := g.convolution(tp, (&rig{t: t, rnd: g.rnd}).graph([]int{3, 1000, 0, 40}, 9))
		near(t, fmt.Sprintf("segment %d", segment), conv.result(1043), conv.reference(1043), 1e-5)
	}
}

// mul_ir goes through the transpositions around the kernel, as with the general one.
func TestCUDAGeneratedLayout(t *testing.T) {
	g := newGPU(t)
	for _, c := range generatedCases(t)[:4] {
		tp := c.product(t)
		tp.Layout = MulIr
		conv := g.convolution(tp, (&rig{t: t, rnd: g.rnd}).graph([]int{2, 0, 5}, 3))
		near(t, c.name, conv.result(7), conv.reference(7), 1e-5)
	}
}

// The same bits in 100 runs, whatever order blocks and threads run in.
func TestCUDAGeneratedIsBitIdentical(t *testing.T) {
	for _, c := range generatedCases(t) {
		t.Run(c.name, func(t *testing.T) {
			g := newGPU(t)
			tp := c.product(t)
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
					near(t, c.name, got, conv.reference(len(conv.gr.src)), 1e-5)
				}
				if !slices.Equal(got, first) {
					t.Fatalf("runs 1 and %d differ", run+1)
				}
			}
		})
	}
}

// All implementations read weights in the generated kernel's columns.
func TestCUDAPackedColumns(t *testing.T) {
	c := generatedCases(t)[4] // deepaw's first layer
	g := newGPU(t)
	for _, impl := range []string{ImplUnfused, ImplFused} {
		tp := c.product(t)
		tp.Impl = impl
		conv := g.convolution(tp, (&rig{t: t, rnd: g.rnd}).graph([]int{2, 0, 3}, 3))
		near(t, impl, conv.result(5), conv.reference(5), 1e-5)
	}
	tp := c.product(t)
	tp.General = true
	if tp.KernelName() != "tp_csr" {
		t.Errorf("General chose %s", tp.KernelName())
	}
	conv := g.convolution(tp, (&rig{t: t, rnd: g.rnd}).graph([]int{2, 0, 3}, 3))
	near(t, "general", conv.result(5), conv.reference(5), 1e-5)
}

// A product of no preset gets its kernel where it runs, from a compiler that the device
// has, and is right there: channels that fill no warp, both parities, rows of several segments.
func TestCUDACompiled(t *testing.T) {
	for _, l := range []tpgen.Layer{
		{In: "7x0e+5x0o+12x1o+6x2e", Target: "0e+0o+1o+1e+2e", LMax: 2},
		{In: "40x0e+33x1o", Target: "0e+1o+2e+3o", LMax: 3},
	} {
		t.Run(l.In, func(t *testing.T) {
			g := newGPU(t)
			product, err := l.Product()
			if err != nil {
				t.Fatal(err)
			}
			general := TensorProduct{TP: product, Impl: ImplCSR, Layout: IrMul, Packed: true}
			tp, err := general.Compile(g.dev)
			if err != nil {
				if cudatest.Installed(t) {
					t.Skipf("this machine's driver has no compiler that fits it: %v", err) //nolint:forbidigo // NVRTC comes with PyTorch, which a GPU machine may lack; the simulator has a stand-in
				}
				t.Fatal(err)
			}
			if tp.KernelName() != madeKernel || general.KernelName() != "tp_csr" {
				t.Fatalf("%s computes it, and %s without a compiler", tp.KernelName(), general.KernelName())
			}
			for _, segment := range []int{0, 13} {
				tp.Segment = segment
				conv := g.convolution(tp, (&rig{t: t, rnd: g.rnd}).graph([]int{0, 1, 31, 0, 33, 32, 2, 0}, 5))
				near(t, fmt.Sprintf("segment %d", segment), conv.result(len(conv.gr.src)), conv.reference(len(conv.gr.src)), 1e-5)
			}
			tp.General = true
			conv := g.convolution(tp, (&rig{t: t, rnd: g.rnd}).graph([]int{2, 0, 3}, 3))
			near(t, "general kernel with its columns", conv.result(5), conv.reference(5), 1e-5)
		})
	}
}

// What the compiler refuses is told, and the product stays what the general kernel takes.
func TestCompilerRefuses(t *testing.T) {
	g := newGPU(t)
	product, err := tpgen.Layer{In: "9x0e+9x1o", Target: "0e+1o", LMax: 1}.Product()
	if err != nil {
		t.Fatal(err)
	}
	sim.Set(t, sim.Library(t), "fail=nvrtcCompileProgram@1:6")
	tp, err := TensorProduct{TP: product, Impl: ImplCSR, Layout: IrMul, Packed: true}.Compile(g.dev)
	if err == nil || !strings.Contains(err.Error(), "compiling a kernel at run time: NVRTC 12.8 for sm_90: NVRTC_ERROR_COMPILATION: gpuprof.cu(1): error: planted by a test") {
		t.Errorf("the error is %v", err)
	}
	if tp.KernelName() != "tp_csr" {
		t.Errorf("%s computes it", tp.KernelName())
	}
	conv := g.convolution(tp, (&rig{t: t, rnd: g.rnd}).graph([]int{2, 0, 3}, 3))
	near(t, "general kernel", conv.result(5), conv.reference(5), 1e-5)
}

// Rows of weights start on 16 bytes also as 16-bit values, in products that no kernel was generated for, too.
func TestCUDAColumnsAreAligned(t *testing.T) {
	for _, c := range generatedCases(t) {
		tp := c.product(t)
		if _, n := tp.Columns(); n%8 != 0 || n < c.tp.WeightNumel() || n > c.tp.WeightNumel()*105/100+8 {
			t.Errorf("%s: %d columns for %d weights", c.name, n, c.tp.WeightNumel())
		}
	}
	g := newGPU(t)
	for _, impl := range []string{ImplUnfused, ImplFused, ImplCSR} {
		tp := TensorProduct{TP: uvu(t, "7x0e+3x1o", "0e+1o", "0e+1o"), Impl: impl, Layout: IrMul, Packed: true}
		if _, n := tp.Columns(); tp.TP.WeightNumel() != 20 || n != 24 {
			t.Fatalf("%d columns for %d weights, expected 24 for 20", n, tp.TP.WeightNumel())
		}
		conv := g.convolution(tp, (&rig{t: t, rnd: g.rnd}).graph([]int{2, 0, 3}, 3))
		near(t, impl, conv.result(5), conv.reference(5), 1e-5)
	}
}
