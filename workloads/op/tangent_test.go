package op

import (
	"fmt"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

func TestActivationTangents(t *testing.T) {
	onBoth(t, func(t *testing.T, l lab) {
		const n = 1500
		x, dx, b, d := l.normal(n), l.normal(n), l.normal(n), l.normal(n)
		for _, act := range activations {
			out, grad := l.floats(nans(n)), l.floats(d)
			k := newBinder(l.dev, "test", n)
			k.addLaunch(&actTangentKernel, items{perEdge: 1}, rate{}, actTangentArgs{
				x: l.floats(x), d: l.floats(dx), out: out, count: itemCount{}, act: act.id, c: float32(act.exact),
			})
			k.addLaunch(&actSecondKernel, items{perEdge: 1}, rate{}, actSecondArgs{
				x: l.floats(x), dx: l.floats(dx), back: l.floats(b), d: grad, count: itemCount{}, act: act.id,
				c: float32(act.exact),
			})
			l.run(l.must(k.finishBinding()))
			change, bend := make([]float64, n), make([]float64, n)
			for i, v := range x {
				slope := act.exact * activationSlope(act.id, float64(v))
				change[i] = slope * float64(dx[i])
				bend[i] = slope*float64(d[i]) + act.exact*activationCurvature(act.id, float64(v))*float64(dx[i])*float64(b[i])
			}
			near(t, act.name, l.read(out, n), change, 1e-6)
			near(t, act.name+" bent", l.read(grad, n), bend, 1e-6)
		}
	})
}

func TestGateTangentAndSecond(t *testing.T) {
	onBoth(t, func(t *testing.T, l lab) {
		for _, layout := range []Layout{MulIr, IrMul} {
			g := Gate{Scalars: irreps(t, "40x0e+3x0o+2x0e"), Gates: irreps(t, "9x0e+2x0e"), Gated: irreps(t, "3x1o+2x2e+6x3o"),
				ActScalars: []string{"silu", "tanh", "none"}, ActGates: []string{"sigmoid", "tanh"}, Normalisation: NormExact, Layout: layout}
			const rows = 5
			in, out := g.InDim(), g.OutDim()
			x, dx, dout, change, grad := l.normal(rows*in), l.normal(rows*in), l.normal(rows*out), l.floats(nans(rows*out)), l.floats(nans(rows*in))
			at, moved := l.floats(x), l.floats(dx)
			tangent := l.must(GateTangent{g}.Bind(l.dev, at, moved, change, rows))
			second := l.must(GateSecond{g}.Bind(l.dev, at, moved, l.floats(dout), grad, rows))
			l.run(tangent, second)
			l.scratchIs("tangent", tangent, GateTangent{g}.Scratch())
			l.scratchIs("second", second, GateSecond{g}.Scratch())
			wantChange, wantGrad := make([]float64, rows*out), make([]float64, rows*in)
			for r := range rows {
				x, dx := doubles(x[r*in:(r+1)*in]), doubles(dx[r*in:(r+1)*in])
				if err := RefGateTangent(g, x, dx, wantChange[r*out:(r+1)*out]); err != nil {
					t.Fatal(err)
				}
				if err := RefGateSecond(g, x, dx, doubles(dout[r*out:(r+1)*out]), wantGrad[r*in:(r+1)*in]); err != nil {
					t.Fatal(err)
				}
			}
			near(t, "tangent "+string(layout), l.read(change, rows*out), wantChange, 1e-6)
			near(t, "second "+string(layout), l.read(grad, rows*in), wantGrad, 1e-6)
		}
	})
}

// The MLP's change, and both ways back: the one that keeps dh, and the second.
func TestMLPTangentAndSecond(t *testing.T) {
	onBoth(t, func(t *testing.T, l lab) {
		for _, precision := range []string{FP32, BF16} {
			const edges = 70
			m := MLP{In: 10, Hidden: 33, Out: 90, Precision: precision, Library: map[string]string{FP32: "off"}[precision]}
			bound := map[string]float64{FP32: 2e-6, BF16: 2e-2}[precision]
			b, db, w1, w2, gw, gdw := l.normal(edges*m.In), l.normal(edges*m.In), l.normal(m.In*m.Hidden), l.normal(m.Hidden*m.Out), l.normal(edges*m.Out), l.normal(edges*m.Out)
			hidden := func() device.Buffer { return l.floats(nans(edges * m.Hidden)) }
			a, h, da, dh, gdh, gda, ga := hidden(), hidden(), hidden(), hidden(), hidden(), hidden(), hidden()
			w, dw, one, two := l.floats(nans(edges*m.Out)), l.floats(nans(edges*m.Out)), l.floats(w1), l.floats(w2)
			forward := l.must(m.BindKept(l.dev, l.floats(b), one, two, a, h, w, edges))
			back := l.must(MLPGrad{MLP: m}.Bind(l.dev, MLPGradBuffers{A: a, W1: one, W2: two, DW: l.floats(gdw), DH: gdh, DA: gda}, edges))
			tangent := l.must(MLPTangent{m}.Bind(l.dev, MLPTangentBuffers{A: a, DB: l.floats(db), W1: one, W2: two, DA: da, DH: dh, DW: dw}, edges))
			second := l.must(MLPSecond{m}.Bind(l.dev, MLPSecondBuffers{A: a, DA: da, W2: two, GW: l.floats(gw), GDH: gdh, GA: ga}, edges))
			l.run(forward, back, tangent, second)
			l.scratchIs("back", back, MLPGrad{MLP: m}.HiddenScratch(edges))
			l.scratchIs("tangent", tangent, MLPTangent{m}.Scratch(edges))
			l.scratchIs("second", second, MLPSecond{m}.Scratch(edges))
			wantW, wantGA, wantGDA := make([]float64, edges*m.Out), make([]float64, edges*m.Hidden), make([]float64, edges*m.Hidden)
			for e := range edges {
				row, move := doubles(b[e*m.In:(e+1)*m.In]), doubles(db[e*m.In:(e+1)*m.In])
				if err := RefMLPTangent(m, row, move, doubles(w1), doubles(w2), wantW[e*m.Out:(e+1)*m.Out]); err != nil {
					t.Fatal(err)
				}
				if err := RefHiddenSecond(m, row, move, doubles(w1), doubles(w2), doubles(gw[e*m.Out:(e+1)*m.Out]), doubles(gdw[e*m.Out:(e+1)*m.Out]),
					wantGA[e*m.Hidden:(e+1)*m.Hidden], wantGDA[e*m.Hidden:(e+1)*m.Hidden]); err != nil {
					t.Fatal(err)
				}
			}
			near(t, precision+" tangent", l.read(dw, edges*m.Out), wantW, bound)
			near(t, precision+" back", l.read(gda, edges*m.Hidden), wantGDA, bound)
			near(t, precision+" second", l.read(ga, edges*m.Hidden), wantGA, bound)
		}
	})
}

func TestBasisTangent(t *testing.T) {
	onBoth(t, func(t *testing.T, l lab) {
		for _, s := range []Basis{{Kind: "gaussian", N: 10, Cutoff: 4}, {Kind: "gaussian", N: 4, Cutoff: 2, Envelope: true}, {Kind: "bessel", N: 10, Cutoff: 4, Envelope: true}, {Kind: "bessel", N: 3, Cutoff: 6}} {
			vec := l.normal(3 * 150)
			copy(vec, []float32{0, 0, 0, 1e-6, 0, 0, 3e-4, 0, 0, 0, 2e-3, 0, 0, 0, 5})
			edges := len(vec) / 3
			u, out := l.normal(3*edges), l.floats(nans(edges*s.N))
			l.run(l.must(BasisTangent{s}.Bind(l.dev, l.floats(vec), l.floats(u), out, edges)))
			want := make([]float64, edges*s.N)
			for e := range edges {
				RefBasisTangent(s, doubles(vec[3*e:3*e+3]), doubles(u[3*e:3*e+3]), want[e*s.N:(e+1)*s.N])
			}
			near(t, fmt.Sprint(s), l.read(out, edges*s.N), want, 1e-6)
		}
	})
}

func TestSphTangent(t *testing.T) {
	onBoth(t, func(t *testing.T, l lab) {
		for lmax := range so3.MaxL + 1 {
			s := Sph{LMax: lmax}
			vec := l.normal(3 * 140)
			copy(vec, []float32{0, 0, 0, 0, 1, 0, 0, -2, 0, 1e-4, 1, 0, 0, 0, 3, 1, 0, 0})
			edges := len(vec) / 3
			u, out := l.normal(3*edges), l.floats(nans(edges*s.Dim()))
			l.run(l.must(SphTangent{s}.Bind(l.dev, l.floats(vec), l.floats(u), out, edges)))
			want := make([]float64, edges*s.Dim())
			for e := range edges {
				RefSphTangent(s, doubles(vec[3*e:3*e+3]), doubles(u[3*e:3*e+3]), want[e*s.Dim():(e+1)*s.Dim()])
			}
			near(t, fmt.Sprint("lmax ", lmax), l.read(out, edges*s.Dim()), want, 1e-6)
		}
	})
}

// Positions backwards is its transpose: v.out = u.f.
func TestPositionsGrad(t *testing.T) {
	onBoth(t, func(t *testing.T, l lab) {
		const atoms = 6
		src, dst := make([]int32, 160), make([]int32, 160)
		for i := range src {
			src[i], dst[i] = int32(l.rnd.IntN(atoms)), int32(i/40)
		}
		for _, c := range []struct{ points, first int }{{atoms, 1}, {atoms + 4, atoms}} { // rows are atoms, or probes
			colptr, _ := bySource(src, atoms, c.first)
			v, u := l.normal(3*c.points), l.floats(nans(3*len(src)))
			p := Positions{Points: c.points, Atoms: atoms, Rows: 4}
			l.run(l.must(p.BindGrad(l.dev, l.floats(v), l.ints(src), l.ints(dst), l.ints(colptr), u, len(src))))
			want := make([]float64, 3*len(src))
			for e, s := range src {
				for k := range 3 {
					want[3*e+k] = float64(v[3*(c.first+int(dst[e]))+k]) - float64(v[3*int(s)+k])
				}
			}
			near(t, fmt.Sprint(c), l.read(u, len(want)), want, 1e-6)
		}
	})
}
