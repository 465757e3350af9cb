package op

import (
	"fmt"
	"slices"
	"testing"
)

// Every shape that is offered computes the same product.
func TestCUDACandidates(t *testing.T) {
	g := newGPU(t)
	tp := TensorProduct{TP: uvu(t, "9x0e+9x1o", "0e+1o", "9x0e+9x1o"), Impl: ImplCSR, Layout: IrMul}
	gr := (&rig{t: t, rnd: g.rnd}).graph([]int{40, 3, 0, 1}, 5)
	all := tp.Candidates(g.dev)
	if len(all) < 10 || all[0].Threads != 0 {
		t.Errorf("%d candidates, the first with %d threads; expected ten or more after the product itself", len(all), all[0].Threads)
	}
	for _, one := range all {
		c := g.convolution(one, gr)
		near(t, fmt.Sprintf("threads %d segment %d", one.Threads, one.Segment), c.result(len(gr.src)), c.reference(len(gr.src)), 1e-5)
	}
	generated := generatedCases(t)[0].product(t).Candidates(g.dev)
	if len(generated) != 6 || generated[0].General || !generated[1].General || generated[2].Segment != 32 {
		t.Errorf("%d candidates of a generated product; expected itself, the general kernel and four segments", len(generated))
	}
	for _, one := range generated {
		c := g.convolution(one, gr)
		near(t, one.KernelName(), c.result(len(gr.src)), c.reference(len(gr.src)), 1e-5)
	}
	if n := len(Gemm{K: 3, N: 4, Act: "none", Library: "off"}.Candidates(g.dev)); n != 3 {
		t.Errorf("%d shapes of a product, expected 3", n)
	}
}

// Every way of an MLP that is offered computes it, those by our own kernel to
// the same bits.
func TestCUDAMLPCandidates(t *testing.T) {
	g := newGPU(t)
	const edges = 150
	m := MLP{In: 10, Hidden: 20, Out: 70}
	basis := Basis{Kind: "gaussian", N: 10, Cutoff: 4}
	vec, w1, w2 := g.random(edges*3), g.random(m.In*m.Hidden), g.random(m.Hidden*m.Out)
	want := make([]float64, edges*m.Out)
	refRadial(t, Radial{basis, m}, doubles(vec), doubles(w1), doubles(w2), want)
	libraries := 0
	if loadLibraries(g.dev).Facts["cublas"] != "" {
		libraries = 1
	}
	for _, c := range []struct {
		mlp   MLP
		count int
	}{
		{m, libraries + 3}, {MLP{In: 10, Hidden: 20, Out: 70, Library: "off"}, 3}, {MLP{In: 10, Hidden: 20, Out: 70, Library: "off", Tile: 64}, 2},
		{MLP{In: 10, Hidden: 20, Out: 70, Precision: TF32}, 1}, // what rounds has no tiles
	} {
		all := c.mlp.Candidates(g.dev)
		if len(all) != c.count || all[0] != c.mlp {
			t.Errorf("%+v: candidates %+v, want %d, itself first", c.mlp, all, c.count)
		}
	}
	in, first, second, out := g.floats(vec), g.floats(w1), g.floats(w2), g.poisoned(edges*m.Out)
	var own []float64
	for _, way := range m.Candidates(g.dev) {
		g.poison(out)
		g.run(g.must(Radial{basis, way}.Bind(g.dev, in, first, second, out, edges)))
		got := g.read(out, len(want))
		near(t, fmt.Sprintf("%+v", way), got, want, 1e-5)
		if way.Library == "" && libraries == 1 {
			continue
		}
		if own == nil {
			own = got
		}
		if !slices.Equal(got, own) {
			t.Errorf("tile %d gives other bits", way.Tile)
		}
	}
}
