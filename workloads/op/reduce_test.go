package op

import (
	"fmt"
	"math"
	"testing"

	"github.com/gpuprof/gpuprof"
)

func TestReduce(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {30000, 1}, {300, 3}, {77, 600}} {
		rows, cols := size[0], size[1]
		r := newRig(t, 3)
		x, out := r.normal(rows*cols), r.poisoned(cols)
		for _, op := range []string{"sum", "mean", "max"} {
			for _, det := range []bool{false, true} {
				s := Reduce{Op: op, C: cols, Deterministic: det}
				poison(out)
				before := r.dev.Memory().InUse
				b := r.must(s.Bind(r.dev, x, out, rows))
				if got := r.dev.Memory().InUse - before; got < s.Scratch(rows) || got > s.Scratch(rows)+4096 {
					t.Errorf("%+v: Bind took %d bytes, Scratch said %d", s, got, s.Scratch(rows))
				}
				r.run(b)
				want := make([]float64, cols)
				RefReduce(s, wide(x, 0, rows*cols), want)
				near(t, fmt.Sprintf("%+v of %d rows", s, rows), wide(out, 0, cols), want, 1e-5)
			}
		}
	}
}

func TestReduceKeepsNaN(t *testing.T) {
	r := newRig(t, 2)
	x, out := r.normal(3*20000), r.alloc(3)
	gpuprof.Floats(x)[3*5000+1] = float32(math.NaN())
	for _, op := range []string{"sum", "mean", "max"} {
		for _, det := range []bool{false, true} {
			r.run(r.must(Reduce{Op: op, C: 3, Deterministic: det}.Bind(r.dev, x, out, 20000)))
			if v := gpuprof.Floats(out); v[0] != v[0] || v[1] == v[1] || v[2] != v[2] {
				t.Errorf("%s deterministic=%t of a NaN in column 1: %v", op, det, v)
			}
		}
	}
	for _, bad := range []Reduce{{Op: "median", C: 3}, {Op: "sum"}} {
		if _, err := bad.Bind(r.dev, x, out, 1); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

// Every shape that is offered on the host computes the same.
func TestCandidates(t *testing.T) {
	r := newRig(t, 2)
	all := TensorProduct{TP: shared(t), Impl: ImplCSR, Layout: IrMul}.Candidates(r.dev)
	if len(all) != 5 {
		t.Errorf("%d shapes of a product, expected 5", len(all))
	}
	g := r.graph([]int{70, 0, 3}, 5)
	for _, tp := range all {
		c := r.convolution(tp, g)
		near(t, fmt.Sprintf("segment %d", tp.Segment), r.result(c), r.reference(c, len(g.src)), 1e-5)
	}
	if n := len(TensorProduct{TP: shared(t), Impl: ImplUnfused, Layout: IrMul}.Candidates(r.dev)); n != 1 {
		t.Errorf("%d shapes of the unfused product, expected 1", n)
	}
	const rows, kk, n = 50, 7, 9
	a, b, out := r.normal(rows*kk), r.normal(kk*n), r.poisoned(rows*n)
	want := make([]float64, rows*n)
	gemm := Gemm{K: kk, N: n, Scale: 1, Act: "none", Normalisation: NormExact}
	for row := range rows {
		if err := RefGemm(gemm, wide(a, row*kk, (row+1)*kk), wide(b, 0, kk*n), want[row*n:(row+1)*n]); err != nil {
			t.Fatal(err)
		}
	}
	shapes := gemm.Candidates(r.dev)
	if len(shapes) != 6 {
		t.Errorf("%d shapes of a matrix product, expected 6", len(shapes))
	}
	for _, one := range shapes {
		poison(out)
		r.run(r.must(one.Bind(r.dev, a, b, out, rows)))
		near(t, fmt.Sprintf("grain %d", one.Grain), wide(out, 0, rows*n), want, 1e-5)
	}
}

// The hidden layer alone and the product that fuses the second one in are the
// whole MLP and the plain product.
func TestHiddenLayerAndFusedProduct(t *testing.T) {
	r := newRig(t, 2)
	tp, g := uvu(t, "9x0e+5x1o", "0e+1o", "0e+1o"), r.graph([]int{7, 0, 40, 3}, 6)
	e, numel := len(g.src), tp.WeightNumel()
	m := MLP{In: 8, Hidden: 20, Out: numel}
	b, w1, w2, h, w := r.normal(e*m.In), r.normal(m.In*m.Hidden), r.normal(m.Hidden*numel), r.poisoned(e*m.Hidden), r.poisoned(e*numel)
	r.run(r.must(m.Bind(r.dev, b, w1, w2, w, e)), r.must(m.BindHidden(r.dev, b, w1, h, e)))
	plain := r.convolution(TensorProduct{TP: tp, Impl: ImplCSR, Layout: MulIr}, g)
	plain.b.W = w
	r.bind(plain)
	fused := *plain
	fused.tp.Impl, fused.tp.Hidden, fused.tp.WScale = ImplCSRMLP, m.Hidden, m.OutScale()
	fused.b.H, fused.b.W2, fused.b.Out = h, w2, r.poisoned(fused.b.Out.Len()/4)
	r.bind(&fused)
	near(t, "csr+mlp", r.result(&fused), r.result(plain), 1e-5)
}
