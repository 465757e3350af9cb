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
	"github.com/gpuprof/gpuprof/workloads/testkit/cudatest"
)

// gradCase is a layer of a generated gradient, with the kernels of dw and dy and of dx.
type gradCase struct {
	generatedCase
	xKernel string
}

func gradCases(t testing.TB) []gradCase {
	t.Helper()
	var all []gradCase
	for _, f := range tpgen.Families() {
		if f.GradRoom == 0 {
			continue
		}
		x := "tp_grad_x"
		if f.XRoom > 0 {
			x = "tp_gradx_" + f.Name
		}
		for _, c := range casesOf(t, "tp_grad_", f) {
			all = append(all, gradCase{c, x})
		}
	}
	return all
}

func (c gradCase) product(t testing.TB) TensorProduct {
	t.Helper()
	tp := TensorProduct{TP: c.tp, Layout: IrMul, Scale: float32(1 / math.Sqrt(20))}
	g := TensorProductGrad{Product: tp}
	if name, x := g.KernelName(), g.XKernelName(); name != c.kernel || x != c.xKernel {
		t.Fatalf("%s is computed by %s and %s, expected %s and %s", c.name, name, x, c.kernel, c.xKernel)
	}
	return tp
}

func (g *gpu) lab(t *testing.T) lab {
	return lab{t: t, dev: g.dev, rnd: g.rnd, floats: g.floats, ints: g.ints, read: g.read, run: g.run, must: g.must}
}

// launches fails unless these kernels are what the gradient launches.
func (c *gradient) launches(t testing.TB, want ...string) {
	t.Helper()
	var got []string
	for _, l := range c.b.launches {
		got = append(got, l.Kernel)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the launches are %v, expected %v", got, want)
	}
}

// gradientsAreRight runs the first edges of c and compares all three gradients with
// float64, on every edge w.dw and y.dy, which are the same sum, and over all edges that with x.dx.
func (l lab) gradientsAreRight(what string, c *gradient, edges int) {
	l.t.Helper()
	c.b.SetEdges(edges)
	l.run(c.b)
	g := c.graph
	c.graph.src, c.graph.dst = g.src[:edges], g.dst[:edges]
	dx, dy, dw := c.reference(l.t)
	c.graph = g
	tp := c.g.Product.TP
	sh, numel := tp.In2.Dim(), tp.WeightNumel()
	gotY, gotW := l.read(c.dy, len(dy)), l.read(c.dw, len(dw))
	near(l.t, what+" dy", gotY[:edges*sh], dy[:edges*sh], 1e-5)
	near(l.t, what+" dw", gotW[:edges*numel], dw[:edges*numel], 1e-5)
	all, allSize := 0.0, 0.0
	if edges == len(g.src) { // perm has them all
		gotX := l.read(c.dx, len(dx))
		near(l.t, what+" dx", gotX, dx, 1e-5)
		all = -dot(gotX, doubles(c.x))
	}
	for e := range edges {
		byW, byY, size := 0.0, 0.0, 0.0
		for i, v := range gotW[e*numel : (e+1)*numel] {
			byW += v * float64(c.w[e*numel+i])
			size += math.Abs(v * float64(c.w[e*numel+i]))
		}
		for i, v := range gotY[e*sh : (e+1)*sh] {
			byY += v * float64(c.y[e*sh+i])
			size += math.Abs(v * float64(c.y[e*sh+i]))
		}
		// Every product is off by some roundings of float32, 6e-8 each.
		if math.Abs(byW-byY) > 2e-6*size {
			l.t.Fatalf("%s: on edge %d w.dw is %g and y.dy %g, of terms that add up to %g", what, e, byW, byY, size)
		}
		all, allSize = all+byW, allSize+size
	}
	if edges == len(g.src) && math.Abs(all) > 2e-6*allSize {
		l.t.Errorf("%s: w.dw over all edges is %g more than x.dx, of terms that add up to %g", what, all, allSize)
	}
}

// Every generated gradient against float64: batches of harmonics that are full, one
// short and one over, rows that end inside them, and segments that cut both.
func TestCUDAGeneratedGradient(t *testing.T) {
	degrees := []int{0, 1, 31, 0, 33, 2, 0}
	for _, c := range gradCases(t) {
		t.Run(c.name, func(t *testing.T) {
			g := newGPU(t)
			l := g.lab(t)
			for _, segment := range []int{0, 13} {
				tp := c.product(t)
				tp.Segment = segment
				gradient := l.gradient(tp, (&rig{t: t, rnd: g.rnd}).graph(degrees, 5), false)
				gradient.launches(t, c.kernel, "tp_grad_dy", c.xKernel, "tp_grad_sum")
				for _, edges := range []int{67, 33, 31, 1, 0} {
					l.gradientsAreRight(fmt.Sprintf("segment %d, %d edges", segment, edges), gradient, edges)
				}
			}
		})
	}
}

// An atom of 1,000 neighbours, one that is the neighbour of 1,000, edges whose destinations are in no order,
// and gradients that are added.
func TestCUDAGeneratedGradientRows(t *testing.T) {
	g := newGPU(t)
	l := g.lab(t)
	tp := gradCases(t)[0].product(t)
	graph := (&rig{t: t, rnd: g.rnd}).graph([]int{3, 1000, 0, 40}, 9)
	l.gradientsAreRight("long row", l.gradient(tp, graph, false), len(graph.src))
	source := graph
	source.src = slices.Repeat([]int32{4}, len(graph.src))
	source.src[0], source.src[777] = 2, 8
	l.gradientsAreRight("long source", l.gradient(tp, source, false), len(graph.src))
	g.rnd.Shuffle(len(graph.dst), func(i, j int) { graph.dst[i], graph.dst[j] = graph.dst[j], graph.dst[i] })
	l.gradientsAreRight("no order", l.gradient(tp, graph, false), len(graph.src))
	c := l.gradient(tp, graph, true)
	l.run(c.b)
	dx, dy, dw := c.reference(t)
	for i, sum := range []struct {
		what string
		got  device.Buffer
		want []float64
	}{{"dx", c.dx, dx}, {"dy", c.dy, dy}, {"dw", c.dw, dw}} {
		for j := range sum.want {
			if i < 2 { // dw is overwritten
				sum.want[j] += float64(c.before[i][j])
			}
		}
		near(t, "added "+sum.what, l.read(sum.got, len(sum.want)), sum.want, 1e-5)
	}
}

// One of dw and dy alone leaves the other's buffer alone.
func TestCUDAGeneratedGradientAlone(t *testing.T) {
	g := newGPU(t)
	l := g.lab(t)
	tp := gradCases(t)[0].product(t)
	graph := (&rig{t: t, rnd: g.rnd}).graph([]int{3, 0, 40}, 9)
	whole := l.gradient(tp, graph, false)
	_, dy, dw := whole.reference(t)
	buffers := TPGradBuffers{X: l.floats(whole.x), Y: l.floats(whole.y), W: l.floats(whole.w), DOut: l.floats(whole.d), Src: l.ints(graph.src), Dst: l.ints(graph.dst)}
	for _, which := range []string{"dw", "dy"} {
		b := buffers
		if which == "dw" {
			b.DW = l.floats(nans(len(dw)))
			alone := l.must(whole.g.Bind(l.dev, b, 9, 3, 43))
			l.run(alone)
			near(t, which, l.read(b.DW, len(dw)), dw, 1e-5)
		} else {
			b.DY = l.floats(nans(len(dy)))
			l.run(l.must(whole.g.Bind(l.dev, b, 9, 3, 43)))
			near(t, which, l.read(b.DY, len(dy)), dy, 1e-5)
		}
		near(t, "w beside "+which, l.read(b.W, len(whole.w)), doubles(whole.w), 1e-30)
		near(t, "y beside "+which, l.read(b.Y, len(whole.y)), doubles(whole.y), 1e-30)
	}
}

// mul_ir goes through the transpositions around the kernel, as with the general one, which
// a product takes whose weights lie elsewhere or that asks for it.
func TestCUDAGeneratedGradientChoice(t *testing.T) {
	g := newGPU(t)
	l := g.lab(t)
	for _, c := range gradCases(t)[:3] {
		tp := c.product(t)
		tp.Layout = MulIr
		graph := (&rig{t: t, rnd: g.rnd}).graph([]int{2, 0, 5}, 3)
		l.gradientsAreRight(c.name, l.gradient(tp, graph, false), 7)
	}
	last := gradCases(t)[len(gradCases(t))-1].product(t) // nequip-lips' weights are packed elsewhere
	last.Packed = true
	if name := (TensorProductGrad{Product: last}).KernelName(); name != "tp_grad" {
		t.Errorf("packed weights go to %s", name)
	}
	last.Packed, last.General = false, true
	if name := (TensorProductGrad{Product: last}).KernelName(); name != "tp_grad" {
		t.Errorf("General chose %s", name)
	}
}

// The same bits in 100 runs, whatever order blocks and threads run in.
func TestCUDAGeneratedGradientIsBitIdentical(t *testing.T) {
	for _, c := range gradCases(t) {
		t.Run(c.name, func(t *testing.T) {
			g := newGPU(t)
			l := g.lab(t)
			tp := c.product(t)
			tp.Segment = 16
			gradient := l.gradient(tp, (&rig{t: t, rnd: g.rnd}).graph([]int{0, 20, 1}, 9), false)
			gradient.launches(t, c.kernel, "tp_grad_dy", c.xKernel, "tp_grad_sum")
			var first []float64
			for run := range repeats(t) {
				if run > 0 && !cudatest.Installed(t) {
					sim.Set(t, sim.Library(t), fmt.Sprintf("order=shuffle:%d", run))
				}
				l.run(gradient.b)
				var got []float64
				for _, b := range []device.Buffer{gradient.dx, gradient.dy, gradient.dw} {
					got = append(got, l.read(b, b.Len()/floatBytes)...)
				}
				if first == nil {
					first = got
				}
				if !slices.Equal(got, first) {
					t.Fatalf("runs 1 and %d differ", run+1)
				}
			}
		})
	}
}

// A product of no preset gets its gradients' kernels where it runs: channels that fill no warp, blocks of
// two parities, of which dx is the general kernel's, and degrees of one channel.
func TestCUDACompiledGradient(t *testing.T) {
	for _, c := range []struct {
		in, out string
		lmax    int
		x       string
	}{
		{"7x0e+5x0o+12x1o+6x2e", "0e+0o+1o+1e+2e", 2, madeGradXKernel},
		{"7x0e+7x0o+33x1o+33x1e", "0e+0o+1o+1e+2e", 2, "tp_grad_x"},
		{"40x0e+33x1o+1x3o", "0e+1o+2e+3o", 3, madeGradXKernel},
	} {
		t.Run(c.in, func(t *testing.T) {
			g := newGPU(t)
			l := g.lab(t)
			product, err := tpgen.Layer{In: c.in, Target: c.out, LMax: c.lmax}.Product()
			if err != nil {
				t.Fatal(err)
			}
			general := TensorProduct{TP: product, Layout: IrMul}
			tp, err := general.CompileGrad(g.dev, true)
			if err != nil {
				if cudatest.Installed(t) {
					t.Skipf("this machine's driver has no compiler that fits it: %v", err) //nolint:forbidigo // NVRTC comes with PyTorch, which a GPU machine may lack; the simulator has a stand-in
				}
				t.Fatal(err)
			}
			if name := (TensorProductGrad{Product: general}).KernelName(); name != "tp_grad" {
				t.Errorf("without a compiler %s computes it", name)
			}
			for _, segment := range []int{0, 13} {
				tp.Segment = segment
				gradient := l.gradient(tp, (&rig{t: t, rnd: g.rnd}).graph([]int{0, 1, 31, 0, 33, 2, 0}, 5), false)
				gradient.launches(t, madeGradKernel, "tp_grad_dy", c.x, "tp_grad_sum")
				for _, edges := range []int{67, 33, 1, 0} {
					l.gradientsAreRight(fmt.Sprintf("segment %d, %d edges", segment, edges), gradient, edges)
				}
			}
		})
	}
}

// What the compiler refuses is told, and the gradients stay the general kernels'.
func TestGradientCompilerRefuses(t *testing.T) {
	g := newGPU(t)
	product, err := tpgen.Layer{In: "9x0e+9x1o", Target: "0e+1o", LMax: 1}.Product()
	if err != nil {
		t.Fatal(err)
	}
	sim.Set(t, sim.Library(t), "fail=nvrtcCompileProgram@1:6")
	tp, err := TensorProduct{TP: product, Layout: IrMul}.CompileGrad(g.dev, true)
	if err == nil || !strings.Contains(err.Error(), "compiling a kernel at run time: NVRTC 12.8 for sm_90: NVRTC_ERROR_COMPILATION: gpuprof.cu(1): error: planted by a test") {
		t.Errorf("the error is %v", err)
	}
	l := g.lab(t)
	gradient := l.gradient(tp, (&rig{t: t, rnd: g.rnd}).graph([]int{2, 0, 3}, 3), false)
	gradient.launches(t, "tp_grad", "tp_grad_x", "tp_grad_sum")
	l.gradientsAreRight("general kernels", gradient, 5)
}
