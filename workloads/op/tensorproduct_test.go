package op

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

func uvu(t testing.TB, in, sh, target string) so3.TensorProduct {
	return so3.UVUProduct(irreps(t, in), irreps(t, sh), irreps(t, target))
}

// shared has two paths into one slot, a slot without path and a path weight.
func shared(t testing.TB) so3.TensorProduct {
	return so3.TensorProduct{In1: irreps(t, "5x0e+5x1o"), In2: irreps(t, "0e+1o"), Out: irreps(t, "5x1o+3x0e+5x0e"),
		Instructions: []so3.Instruction{
			{In1: 0, In2: 1, Out: 0, Mode: so3.UVU, HasWeight: true, PathWeight: 1},
			{In1: 1, In2: 0, Out: 0, Mode: so3.UVU, HasWeight: true, PathWeight: 2.5},
			{In1: 1, In2: 1, Out: 2, Mode: so3.UVU, HasWeight: true, PathWeight: 1},
			{In1: 0, In2: 0, Out: 2, Mode: so3.UVU, HasWeight: true, PathWeight: 0.5}}}
}

func TestTensorProductAgainstReference(t *testing.T) {
	products := map[string]so3.TensorProduct{
		"mace":   uvu(t, "9x0e+9x1o", "0e+1o+2e+3o", "9x0e+9x1o+9x2e"),
		"nequip": uvu(t, "4x0o+4x0e+3x1o+4x1e+2x2o+4x2e", "0e+1o+2e", "0o+0e+1o+1e+2o+2e"),
		"wide":   uvu(t, "150x0e+131x1o", "0e+1o", "0e+1o"),
		"l4":     uvu(t, "3x3o+2x4e", "3o+4e", "0e+2e+4e+1o+4o"),
		"shared": shared(t),
	}
	degrees := []int{0, 0, 3, 17, 1, 0, 9, 2, 0}
	for name, tp := range products {
		for _, impl := range []string{ImplUnfused, ImplFused, ImplCSR} {
			for _, layout := range []Layout{MulIr, IrMul} {
				for _, det := range []bool{false, true} {
					if impl != ImplUnfused && det != (impl != ImplFused) {
						continue
					}
					t.Run(fmt.Sprintf("%s/%s/%s/det=%t", name, impl, layout, det), func(t *testing.T) {
						r := newRig(t, 2)
						c := r.convolution(TensorProduct{TP: tp, Impl: impl, Layout: layout, Scale: float32(1 / math.Sqrt(20)), Deterministic: det, Segment: 4}, r.graph(degrees, 6))
						e := near(t, "all edges", r.result(c), r.reference(c, len(c.g.src)), 1e-5)
						t.Logf("relative error %.2g", e)
						for _, edges := range []int{11, 0, len(c.g.src)} {
							copy(device.Ints(c.b.RowPtr), c.g.prefix(edges))
							c.product.SetEdges(edges)
							if c.scatter != nil {
								c.scatter.SetEdges(edges)
							}
							near(t, fmt.Sprintf("%d edges", edges), r.result(c), r.reference(c, edges), 1e-5)
						}
					})
				}
			}
		}
	}
}

func TestTensorProductModes(t *testing.T) {
	in1, in2 := irreps(t, "3x1o+2x0e"), irreps(t, "3x1o+2x2e")
	cases := []struct {
		name, out string
		ins       so3.Instruction
	}{
		{"uvw", "4x2e", so3.Instruction{In1: 0, In2: 0, Mode: so3.UVW, HasWeight: true, PathWeight: 1}},
		{"uvu", "3x1e", so3.Instruction{In1: 0, In2: 0, Mode: so3.UVU, HasWeight: true, PathWeight: 1}},
		{"uvu-plain", "3x3o", so3.Instruction{In1: 0, In2: 1, Mode: so3.UVU, PathWeight: 1}},
		{"uvv", "2x1o", so3.Instruction{In1: 0, In2: 1, Mode: so3.UVV, HasWeight: true, PathWeight: 1}},
		{"uvv-plain", "3x1o", so3.Instruction{In1: 1, In2: 0, Mode: so3.UVV, PathWeight: 3}},
		{"uuw", "5x0e", so3.Instruction{In1: 0, In2: 0, Mode: so3.UUW, HasWeight: true, PathWeight: 1}},
		{"uuw-plain", "1x2e", so3.Instruction{In1: 0, In2: 0, Mode: so3.UUW, PathWeight: 1}},
		{"uuu", "3x1e", so3.Instruction{In1: 0, In2: 0, Mode: so3.UUU, HasWeight: true, PathWeight: 1}},
		{"uuu-plain", "2x2e", so3.Instruction{In1: 1, In2: 1, Mode: so3.UUU, PathWeight: 1}},
	}
	all := so3.TensorProduct{In1: in1, In2: in2}
	for _, c := range cases {
		c.ins.Out = len(all.Out)
		all.Out = append(all.Out, irreps(t, c.out)...)
		all.Instructions = append(all.Instructions, c.ins)
	}
	for _, norm := range []string{so3.PathNormElement, so3.PathNormPath} {
		for _, layout := range []Layout{MulIr, IrMul} {
			r := newRig(t, 2)
			all.PathNorm = norm
			c := r.convolution(TensorProduct{TP: all, Impl: ImplUnfused, Layout: layout, Deterministic: true}, r.graph([]int{2, 0, 5}, 3))
			near(t, "all modes "+string(layout), r.result(c), r.reference(c, 7), 1e-5)
			for i, one := range cases {
				one.ins.Out = 0
				tp := so3.TensorProduct{In1: in1, In2: in2, Out: irreps(t, one.out), Instructions: []so3.Instruction{one.ins}, IrrepNorm: so3.IrrepNormNorm, PathNorm: norm}
				c := r.convolution(TensorProduct{TP: tp, Impl: ImplUnfused, Layout: layout}, r.graph([]int{2, 0, 5}, 3))
				near(t, fmt.Sprintf("case %d %s %s", i, one.name, layout), r.result(c), r.reference(c, 7), 1e-5)
			}
		}
	}
}

// One row of 10,000 edges, many empty ones, rows of exactly a segment and one
// more: bit-identical over 100 runs on 1 to 4 threads.
func TestCSRIsBitIdentical(t *testing.T) {
	tp := uvu(t, "2x0e+3x1o", "0e+1o", "0e+1o")
	degrees := make([]int, 300)
	degrees[7], degrees[8], degrees[9], degrees[100], degrees[298] = 10000, 256, 257, 511, 700
	for i := 200; i < 250; i++ {
		degrees[i] = i % 7
	}
	for _, layout := range []Layout{IrMul, MulIr} {
		r := newRig(t, 4)
		c := r.convolution(TensorProduct{TP: tp, Impl: ImplCSR, Layout: layout, Scale: 0.25}, r.graph(degrees, 50))
		first := r.result(c)
		e := near(t, "long rows", first, r.reference(c, len(c.g.src)), 1e-5)
		t.Logf("%s: relative error %.2g", layout, e)
		for run := range 50 {
			if err := r.dev.SetThreads(run%4 + 1); err != nil {
				t.Fatal(err)
			}
			for i, v := range r.result(c) {
				if math.Float64bits(v) != math.Float64bits(first[i]) {
					t.Fatalf("run %d on %d threads: value %d is %g, before %g", run, run%4+1, i, v, first[i])
				}
			}
		}
	}
}

func TestCSRSegments(t *testing.T) {
	tp := uvu(t, "2x0e+1x1o", "0e+1o", "0e+1o")
	r := newRig(t, 3)
	for range 40 {
		degrees := make([]int, 1+r.rnd.IntN(12))
		for i := range degrees {
			degrees[i] = max(r.rnd.IntN(40)-15, 0)
		}
		segment := 1 + r.rnd.IntN(9)
		c := r.convolution(TensorProduct{TP: tp, Impl: ImplCSR, Layout: IrMul, Segment: segment}, r.graph(degrees, 4))
		near(t, fmt.Sprintf("degrees %v segment %d", degrees, segment), r.result(c), r.reference(c, len(c.g.src)), 1e-5)
	}
}

func TestTensorProductRefusals(t *testing.T) {
	good := uvu(t, "2x0e+2x1o", "0e+1o", "0e+1o")
	multi := uvu(t, "2x0e+2x1o", "3x0e+1o", "0e+1o")
	cases := []struct {
		name string
		tp   TensorProduct
		want string
	}{
		{"fused deterministic", TensorProduct{TP: good, Impl: ImplFused, Layout: MulIr, Deterministic: true}, "impl=csr"},
		{"csr multiplicity", TensorProduct{TP: multi, Impl: ImplCSR, Layout: MulIr}, "impl=unfused"},
		{"fused multiplicity", TensorProduct{TP: multi, Impl: ImplFused, Layout: MulIr}, "impl=unfused"},
		{"impl", TensorProduct{TP: good, Impl: "magic", Layout: MulIr}, "use unfused, fused or csr"},
		{"layout", TensorProduct{TP: good, Impl: ImplCSR, Layout: "x"}, "use mul_ir or ir_mul"},
		{"invalid", TensorProduct{TP: so3.TensorProduct{Instructions: []so3.Instruction{{}}}, Impl: ImplCSR, Layout: MulIr}, "instruction 0"},
		{"buffers", TensorProduct{TP: good, Impl: ImplCSR, Layout: MulIr}, "buffer x is missing"},
	}
	r := newRig(t, 1)
	for _, c := range cases {
		before := r.dev.Memory().InUse
		_, _, err := c.tp.Bind(r.dev, TPBuffers{}, 2, 2, 2)
		if !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, expected a usage error with %q", c.name, err, c.want)
		}
		if now := r.dev.Memory().InUse; now != before {
			t.Errorf("%s: %d bytes left allocated", c.name, now-before)
		}
	}
	c := r.convolution(TensorProduct{TP: good, Impl: ImplCSR, Layout: MulIr}, r.graph([]int{3}, 2))
	c.product.SetEdges(4)
	if err := c.product.Enqueue(r.s); !errors.Is(err, gpuprof.ErrUsage) {
		t.Errorf("4 edges in a capacity of 3: error %v, expected a usage error", err)
	}
}

// Known answers: 1o x 1o -> 0e = x.y/sqrt3, -> 1e = (x cross y)/sqrt2, 0e x l
// is the identity.
func TestKnownProducts(t *testing.T) {
	x, y := []float64{1, 2, 3}, []float64{-2, 0.5, 4}
	cases := []struct {
		in1, out string
		x, want  []float64
	}{
		{"1o", "0e", x, []float64{(-2 + 1 + 12) / math.Sqrt(3)}},
		{"1o", "1e", x, []float64{(2*4 - 3*0.5) / math.Sqrt2, (3*-2 - 1*4) / math.Sqrt2, (1*0.5 - 2*-2) / math.Sqrt2}},
		{"0e", "1o", []float64{1.5}, []float64{-3, 0.75, 6}},
	}
	for _, impl := range []string{ImplUnfused, ImplFused, ImplCSR} {
		for _, c := range cases {
			r := newRig(t, 1)
			tp := so3.TensorProduct{In1: irreps(t, c.in1), In2: irreps(t, "1o"), Out: irreps(t, c.out),
				Instructions: []so3.Instruction{{Mode: so3.UVU, HasWeight: true, PathWeight: 1}}}
			conv := r.convolution(TensorProduct{TP: tp, Impl: impl, Layout: MulIr}, r.graph([]int{1}, 1))
			for i, v := range c.x {
				device.Floats(conv.b.X)[i] = float32(v)
			}
			for i, v := range y {
				device.Floats(conv.b.Y)[i] = float32(v)
			}
			device.Floats(conv.b.W)[0] = 1
			near(t, impl+" "+c.in1+" x 1o -> "+c.out, r.result(conv), c.want, 1e-6)
		}
	}
}

func TestTensorProductCost(t *testing.T) {
	// 2x1o x 1x1o -> 2x0e: 3 terms, 3 cells. M 6 flops, w*x at the narrower side
	// (d3 = 1) 2, products 12: 20 an edge.
	tp := uvu(t, "2x1o", "1o", "0e")
	r := newRig(t, 1)
	c := r.convolution(TensorProduct{TP: tp, Impl: ImplCSR, Layout: IrMul, Segment: 2}, r.graph([]int{2, 1}, 4))
	// read: x 4*6, rowptr 3, y 3*3, w 3*2, src 3; written: 2*2.
	want := gpuprof.Cost{Flops: 60, BytesRead: 4 * (24 + 3 + 9 + 6 + 3), BytesWritten: 4 * 4, Launches: 1}
	if got := c.product.Minimum(); got != want {
		t.Errorf("minimum %+v, expected %+v", got, want)
	}
	parts := c.product.Parts()
	if len(parts) != 2 || parts[0].Kernel != "tp_csr" || parts[1].Kernel != "tp_csr_fixup" {
		t.Fatalf("parts %+v", parts)
	}
	// an edge reads x 6, y 3, w 2, src 1.
	if want := (gpuprof.Cost{Flops: 3 * (6 + 2 + 12), BytesRead: 4 * (3*12 + 3), BytesWritten: 16, Launches: 1}); parts[0].Cost != want {
		t.Errorf("csr cost %+v, expected %+v", parts[0].Cost, want)
	}
	c.product.SetEdges(1)
	if got := c.product.Parts()[0].Cost.Flops; got != 20 {
		t.Errorf("one edge: %d flops, expected 20", got)
	}

	u := r.convolution(TensorProduct{TP: tp, Impl: ImplUnfused, Layout: MulIr, Deterministic: true, Scale: 2}, r.graph([]int{2, 1}, 4))
	names := ""
	for _, p := range append(u.product.Parts(), u.scatter.Parts()...) {
		names += fmt.Sprintf("%s %d %d %d\n", p.Kernel, p.Cost.Flops, p.Cost.BytesRead/4, p.Cost.BytesWritten/4)
	}
	// gather 6+1 -> 6; outer 2*3*3=18 of 6+3; contract 2 copies x 3 terms x 2; weight 2*2; all x 3 edges.
	if want := "tp_gather 0 21 18\ntp_outer 54 27 54\ntp_contract 36 54 6\ntp_weight 12 12 6\nscatter_sorted 6 9 4\nscale 4 4 4\n"; names != want {
		t.Errorf("unfused parts:\n%sexpected:\n%s", names, want)
	}
}
