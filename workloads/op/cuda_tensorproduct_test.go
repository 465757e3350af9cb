package op

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/so3"
)

// gpuConvolution is a bound tensor product with what it reads.
type gpuConvolution struct {
	g                *gpu
	tp               TensorProduct
	gr               graph
	x, y, w          []float32
	b                TPBuffers
	product, scatter *Bound
}

func (g *gpu) convolution(tp TensorProduct, gr graph) *gpuConvolution {
	g.t.Helper()
	e, rows, numel := len(gr.src), len(gr.rowPtr)-1, tp.TP.WeightNumel()
	c := &gpuConvolution{g: g, tp: tp, gr: gr, x: g.random(gr.nodes * tp.TP.In1.Dim()), y: g.random(e * tp.TP.In2.Dim()), w: g.random(e * numel)}
	c.b = TPBuffers{X: g.floats(c.x), Y: g.floats(c.y), W: g.floats(inColumns(tp, c.w)), Src: g.ints(gr.src), Dst: g.ints(gr.dst), RowPtr: g.ints(gr.rowPtr), Out: g.poisoned(rows * tp.TP.Out.Dim())}
	p, s, err := tp.Bind(g.dev, c.b, gr.nodes, rows, e)
	c.product = g.must(p, err)
	if s != nil {
		c.scatter = g.must(s, nil)
	}
	return c
}

// inColumns is rows of weights in the columns that the product reads; what belongs to
// no weight is a number that would be noticed.
func inColumns(tp TensorProduct, w []float32) []float32 {
	ones := make([]float32, len(w))
	for i := range ones {
		ones[i] = 1
	}
	out := Arrange(tp, w)
	for i, used := range Arrange(tp, ones) {
		if used == 0 {
			out[i] = 1e6
		}
	}
	return out
}

func (c *gpuConvolution) result(edges int) []float64 {
	c.g.t.Helper()
	c.g.fill(c.b.RowPtr, bytesOf(c.gr.prefix(edges)))
	c.g.poison(c.b.Out)
	c.product.SetEdges(edges)
	if c.scatter != nil {
		c.scatter.SetEdges(edges)
	}
	c.g.run(c.product, c.scatter)
	return c.g.read(c.b.Out, (len(c.gr.rowPtr)-1)*c.tp.TP.Out.Dim())
}

func (c *gpuConvolution) reference(edges int) []float64 {
	c.g.t.Helper()
	in, sh, numel, od := c.tp.TP.In1.Dim(), c.tp.TP.In2.Dim(), c.tp.TP.WeightNumel(), c.tp.TP.Out.Dim()
	out, ptr := make([]float64, (len(c.gr.rowPtr)-1)*od), c.gr.prefix(edges)
	for row := range len(ptr) - 1 {
		from, to := int(ptr[row]), int(ptr[row+1])
		var x []float64
		for _, s := range c.gr.src[from:to] {
			x = append(x, doubles(c.x[int(s)*in:int(s+1)*in])...)
		}
		if err := RefTensorProduct(c.tp, x, doubles(c.y[from*sh:to*sh]), doubles(c.w[from*numel:to*numel]), out[row*od:(row+1)*od]); err != nil {
			c.g.t.Fatal(err)
		}
	}
	return out
}

func cudaProducts(t testing.TB) map[string]so3.TensorProduct {
	return map[string]so3.TensorProduct{
		"scalars": uvu(t, "5x0e", "0e", "0e"),
		"mace":    uvu(t, "9x0e+9x1o", "0e+1o+2e+3o", "9x0e+9x1o+9x2e"),
		"nequip":  uvu(t, "4x0o+4x0e+3x1o+4x1e+2x2o+4x2e", "0e+1o+2e", "0o+0e+1o+1e+2o+2e"),
		"wide":    uvu(t, "150x0e+131x1o", "0e+1o", "0e+1o"),
		"l4":      uvu(t, "3x3o+2x4e", "3o+4e", "0e+2e+4e+1o+4o"),
		"l6":      uvu(t, "1x6e+2x5o", "6e+5o", "0e+5o+6e"),
		"l8":      uvu(t, "1x8e+1x7o", "8e+1o", "7o+8e+1o"),
		"shared":  shared(t),
	}
}

// The tilings of the presets, on a few edges: hundreds of lanes in several
// tiles, multiplicities that no number of copies divides.
func TestCUDAPresetShapes(t *testing.T) {
	for name, irs := range map[string][3]string{
		"mace-large": {"128x0e+128x1o+128x2e", "0e+1o+2e+3o", "128x0e+128x1o+128x2e+128x3o"},
		"deepaw":     {"100x0o+100x0e+33x1o+33x1e+20x2o+20x2e+14x3o+14x3e+11x4o+11x4e", "0e+1o+2e+3o+4e", "100x0e+33x1o+33x1e+20x2o+14x3o+11x4o+11x4e"},
	} {
		for _, impl := range []string{ImplFused, ImplCSR} {
			t.Run(name+"/"+impl, func(t *testing.T) {
				g := newGPU(t)
				c := g.convolution(TensorProduct{TP: uvu(t, irs[0], irs[1], irs[2]), Impl: impl, Layout: IrMul}, (&rig{t: t, rnd: g.rnd}).graph([]int{2, 0, 9}, 4))
				t.Logf("relative error %.2g", near(t, impl, c.result(11), c.reference(11), 1e-5))
			})
		}
	}
}

func TestCUDATensorProduct(t *testing.T) {
	degrees := []int{0, 0, 3, 17, 1, 0, 9, 2, 0}
	for name, tp := range cudaProducts(t) {
		for _, impl := range []string{ImplUnfused, ImplFused, ImplCSR} {
			t.Run(name+"/"+impl, func(t *testing.T) {
				g := newGPU(t)
				for i, layout := range []Layout{MulIr, IrMul} {
					c := g.convolution(TensorProduct{TP: tp, Impl: impl, Layout: layout, Scale: float32(1 / math.Sqrt(20)),
						Segment: 4 + 60*i, Threads: []int{0, 64}[i]}, (&rig{t: t, rnd: g.rnd}).graph(degrees, 6))
					for _, edges := range []int{len(c.gr.src), 11, 1, 0} {
						e := near(t, fmt.Sprintf("%s %d edges", layout, edges), c.result(edges), c.reference(edges), 1e-5)
						t.Logf("%s %d edges: relative error %.2g", layout, edges, e)
					}
				}
			})
		}
	}
}

// Random graphs and segments: every way a row can be cut.
func TestCUDASegments(t *testing.T) {
	tp := uvu(t, "2x0e+1x1o", "0e+1o", "0e+1o")
	g := newGPU(t)
	for range 30 {
		degrees := make([]int, 1+g.rnd.IntN(12))
		for i := range degrees {
			degrees[i] = max(g.rnd.IntN(40)-15, 0)
		}
		c := g.convolution(TensorProduct{TP: tp, Impl: ImplCSR, Layout: IrMul, Segment: 1 + g.rnd.IntN(9), Threads: 32}, (&rig{t: t, rnd: g.rnd}).graph(degrees, 4))
		near(t, fmt.Sprintf("degrees %v segment %d", degrees, c.tp.Segment), c.result(len(c.gr.src)), c.reference(len(c.gr.src)), 1e-5)
	}
}

func TestCUDACSRIsBitIdentical(t *testing.T) {
	tp := uvu(t, "2x0e+3x1o", "0e+1o", "0e+1o")
	degrees := make([]int, 40)
	degrees[7], degrees[8], degrees[9], degrees[30], degrees[38] = 500, 64, 65, 127, 70
	g := newGPU(t)
	c := g.convolution(TensorProduct{TP: tp, Impl: ImplCSR, Layout: IrMul, Scale: 0.25, Segment: 64}, (&rig{t: t, rnd: g.rnd}).graph(degrees, 50))
	first := c.result(len(c.gr.src))
	near(t, "csr", first, c.reference(len(c.gr.src)), 1e-5)
	for range 99 {
		if !slices.Equal(c.result(len(c.gr.src)), first) {
			t.Fatal("two runs differ")
		}
	}
}

func TestCUDAModes(t *testing.T) {
	g := newGPU(t)
	in1, in2 := irreps(t, "3x1o+2x0e"), irreps(t, "3x1o+2x2e")
	tp := so3.TensorProduct{In1: in1, In2: in2, Out: irreps(t, "4x2e+3x1e+3x3o+2x1o+3x1o+5x0e+1x2e+3x1e+2x2e+2x0e"), Instructions: []so3.Instruction{
		{In1: 0, In2: 0, Out: 0, Mode: so3.UVW, HasWeight: true, PathWeight: 1},
		{In1: 0, In2: 0, Out: 1, Mode: so3.UVU, HasWeight: true, PathWeight: 1},
		{In1: 0, In2: 1, Out: 2, Mode: so3.UVU, PathWeight: 1},
		{In1: 0, In2: 1, Out: 3, Mode: so3.UVV, HasWeight: true, PathWeight: 1},
		{In1: 1, In2: 0, Out: 4, Mode: so3.UVV, PathWeight: 3},
		{In1: 0, In2: 0, Out: 5, Mode: so3.UUW, HasWeight: true, PathWeight: 1},
		{In1: 0, In2: 0, Out: 6, Mode: so3.UUW, PathWeight: 1},
		{In1: 0, In2: 0, Out: 7, Mode: so3.UUU, HasWeight: true, PathWeight: 1},
		{In1: 1, In2: 1, Out: 8, Mode: so3.UUU, PathWeight: 1},
	}}
	for _, layout := range []Layout{MulIr, IrMul} {
		c := g.convolution(TensorProduct{TP: tp, Impl: ImplUnfused, Layout: layout, Deterministic: layout == IrMul}, (&rig{t: t, rnd: g.rnd}).graph([]int{2, 0, 5}, 3))
		near(t, "all modes "+string(layout), c.result(7), c.reference(7), 1e-5)
	}
}
