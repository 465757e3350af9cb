package op

import (
	"fmt"
	"math"
	"testing"
)

func TestCUDAGate(t *testing.T) {
	g := newGPU(t)
	for _, gate := range []Gate{
		{Scalars: irreps(t, "4x0e+3x0o"), ActScalars: []string{"silu", "tanh"}, Gates: irreps(t, "35x0e"), ActGates: []string{"sigmoid"}, Gated: irreps(t, "32x1o+3x2e")},
		{Scalars: irreps(t, "2x0o+2x0e"), ActScalars: []string{"abs", "none"}, Gates: irreps(t, "2x0o+3x0e"), ActGates: []string{"tanh", "silu"}, Gated: irreps(t, "2x1e+3x1o")},
		// More columns than a block takes at a time.
		{Scalars: irreps(t, "101x0e"), ActScalars: []string{"silu"}, Gates: irreps(t, "333x0e"), ActGates: []string{"sigmoid"}, Gated: irreps(t, "333x1o")},
		{Scalars: irreps(t, "1x0e"), ActScalars: []string{"silu"}},
	} {
		for _, layout := range []Layout{MulIr, IrMul} {
			gate.Layout, gate.Normalisation = layout, NormExact
			const rows = 13
			x, out := g.random(rows*gate.InDim()), g.poisoned(rows*gate.OutDim())
			g.run(g.must(gate.Bind(g.dev, g.floats(x), out, rows)))
			want := make([]float64, rows*gate.OutDim())
			for i := range rows {
				if err := RefGate(gate, doubles(x[i*gate.InDim():(i+1)*gate.InDim()]), want[i*gate.OutDim():(i+1)*gate.OutDim()]); err != nil {
					t.Fatal(err)
				}
			}
			near(t, fmt.Sprint(gate), g.read(out, len(want)), want, 1e-6)
		}
	}
}

func TestCUDALinear(t *testing.T) {
	g := newGPU(t)
	for _, c := range [][2]string{{"9x0e+4x1o+3x0e+2x2e", "5x0e+7x1o+2x3o+6x0e"}, {"48x0e+20x1o", "40x0e+70x1o"}, {"3x0o+2x1e", "2x1e+3x0o+1x0e"}, {"1x0e", "1x0e"},
		{"33x1o+20x1o+14x1o+11x1o+7x0e+5x0e", "33x1o+1x1o+156x0e+260x0e+11x1o"}} {
		for _, layout := range []Layout{MulIr, IrMul} {
			for _, acc := range []bool{false, true} {
				const rows = 70
				l := Linear{In: irreps(t, c[0]), Out: irreps(t, c[1]), Layout: layout, Accumulate: acc}
				in, od := l.In.Dim(), l.Out.Dim()
				x, w, start := g.random(rows*in), g.random(l.WeightNumel()), nans(rows*od)
				want := make([]float64, rows*od)
				if acc {
					start = g.random(rows * od)
					want = doubles(start)
				}
				out := g.floats(start)
				g.run(g.must(l.Bind(g.dev, g.floats(x), g.floats(w), out, rows)))
				for i := range rows {
					RefLinear(l, doubles(x[i*in:(i+1)*in]), doubles(w), want[i*od:(i+1)*od])
				}
				near(t, fmt.Sprint(c, layout, acc), g.read(out, rows*od), want, 1e-5)
			}
		}
	}
}

// Tiles of every shape, with weights read one by one and by fours: multiplicities around the widths of the shapes, sources that
// end inside a slice, blocks without a source, and rows that end inside a tile. What a row gives depends on no other.
func TestCUDALinearShapes(t *testing.T) {
	g := newGPU(t)
	type use struct{ shape, fours int32 }
	used := map[use]bool{}
	for _, c := range [][2]string{
		{"33x0e+11x1o+1x0e+100x0e+20x1o+17x2e+14x2e", "1x0e+12x0e+13x1o+28x0e+11x2e+29x2e+33x1o+48x0e+49x1o+3x3o+65x0e+130x0e"},
		{"32x0e+20x1o+4x0e", "8x0e+28x1o+16x0e+20x0e+48x0e+32x1o+128x0e+64x1o"},
	} {
		l := Linear{In: irreps(t, c[0]), Out: irreps(t, c[1]), Layout: IrMul}
		in, od := l.In.Dim(), l.Out.Dim()
		x, w := g.random(33*in), g.random(l.WeightNumel())
		want := make([]float64, 33*od)
		for i := range 33 {
			RefLinear(l, doubles(x[i*in:(i+1)*in]), doubles(w), want[i*od:(i+1)*od])
		}
		var all []float64
		for _, rows := range []int{33, 31, 1, 0} {
			out := g.floats(nans(max(rows*od, 1)))
			g.run(g.must(l.Bind(g.dev, g.floats(x[:rows*in]), g.floats(w), out, rows)))
			got := g.read(out, rows*od)
			if all == nil {
				all = got
				t.Logf("%s: relative error %.2g", c[1], near(t, fmt.Sprint(c), got, want, 1e-5))
			}
			for i := range got {
				if math.Float64bits(got[i]) != math.Float64bits(all[i]) {
					t.Fatalf("%v, %d rows: value %d is %g, with 33 rows it is %g", c, rows, i, got[i], all[i])
				}
			}
		}
		pairs, coefficients := l.pairTable()
		p := mixing{in: l.In, out: l.Out, pairs: pairs, coefficients: coefficients}.makePlan(33)
		for i := range p.tiles {
			used[use{p.kind(i)[9], p.kind(i)[11]}] = true
		}
	}
	if want := 2 * len(linearShapes); len(used) != want {
		t.Errorf("the tiles are of %d shapes, with weights one by one and by fours, expected %d: %v", len(used), want, used)
	}
}

// What a tile needs fits what a block has: shared memory, threads, room for the rows, and the copies that a shape takes.
func TestLinearShapes(t *testing.T) {
	for mul := 1; mul <= 600; mul++ {
		width := ceilDiv(ceilDiv(mul, ceilDiv(mul, linearCopies)), 4) * 4
		shape := linearShapes[shapeOf(width/4)]
		for v := 0; v < mul; v += width {
			beside := ceilDiv(min(width, mul-v), 4)
			deep := shape.tileDepth(beside)
			if beside > shape.across || deep < 1 || deep*beside > linearThreads || deep*linearDeep > min(shape.sliceRows(), linearTall) || shape.sharedBytes() > sharedBytes {
				t.Errorf("%d copies: %d x %d threads of %+v, %d bytes", mul, deep, beside, shape, shape.sharedBytes())
			}
		}
	}
}
