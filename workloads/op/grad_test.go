package op

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

// lab runs operations on one of the two devices.
type lab struct {
	t      *testing.T
	dev    device.Device
	rnd    *rand.Rand
	floats func([]float32) device.Buffer
	ints   func([]int32) device.Buffer
	read   func(device.Buffer, int) []float64
	run    func(...*Bound)
	must   func(*Bound, error) *Bound
}

// onBoth runs a test on the host and on the simulated GPU.
func onBoth(t *testing.T, f func(t *testing.T, l lab)) {
	t.Run("host", func(t *testing.T) {
		r := newRig(t, 2)
		f(t, lab{t: t, dev: r.dev, rnd: r.rnd, ints: r.ints, run: r.run, must: r.must,
			floats: func(v []float32) device.Buffer {
				b := r.alloc(len(v))
				copy(device.Floats(b), v)
				return b
			},
			read: func(b device.Buffer, n int) []float64 { return wide(b, 0, n) }})
	})
	t.Run("cuda", func(t *testing.T) {
		g := newGPU(t)
		f(t, lab{t: t, dev: g.dev, rnd: g.rnd, floats: g.floats, ints: g.ints, read: g.read, run: g.run, must: g.must})
	})
}

func (l lab) normal(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(l.rnd.NormFloat64())
	}
	return v
}

func TestPointwise(t *testing.T) {
	onBoth(t, func(t *testing.T, l lab) {
		const n = 1500
		x := l.normal(n)
		for _, act := range activations {
			out, d := l.floats(nans(n)), l.normal(n)
			g := l.floats(d)
			k := newBinder(l.dev, "test", n)
			k.addLaunch(&actApplyKernel, items{perEdge: 1}, rate{}, actApplyArgs{
				x: l.floats(x), out: out, count: itemCount, act: act.id, c: float32(act.exact),
			})
			k.addLaunch(&actGradKernel, items{perEdge: 1}, rate{}, actGradArgs{
				x: l.floats(x), d: g, count: itemCount, act: act.id, c: float32(act.exact),
			})
			k.addLaunch(&addKernel, items{perEdge: 1}, rate{}, addArgs{
				x: l.floats(x), out: out, count: itemCount,
			})
			l.run(l.must(k.finishBinding()))
			value, slope := make([]float64, n), make([]float64, n)
			for i, v := range x {
				value[i] = act.exact*activate(act.id, float64(v)) + float64(v)
				slope[i] = act.exact * activationSlope(act.id, float64(v)) * float64(d[i])
			}
			near(t, act.name, l.read(out, n), value, 1e-6)
			near(t, act.name+"'", l.read(g, n), slope, 1e-6)
		}
	})
}

func TestGateGrad(t *testing.T) {
	onBoth(t, func(t *testing.T, l lab) {
		for _, layout := range []Layout{MulIr, IrMul} {
			g := Gate{Scalars: irreps(t, "40x0e+3x0o+2x0e"), Gates: irreps(t, "9x0e+2x0e"), Gated: irreps(t, "3x1o+2x2e+6x3o"),
				ActScalars: []string{"silu", "tanh", "none"}, ActGates: []string{"sigmoid", "tanh"}, Normalisation: NormExact, Layout: layout}
			const rows = 5
			in, out := g.InDim(), g.OutDim()
			x, dout, dx := l.normal(rows*in), l.normal(rows*out), l.floats(nans(rows*in))
			b := l.must(GateGrad{g}.Bind(l.dev, l.floats(x), l.floats(dout), dx, rows))
			l.run(b)
			want := make([]float64, rows*in)
			for r := range rows {
				if err := RefGateGrad(g, doubles(x[r*in:(r+1)*in]), doubles(dout[r*out:(r+1)*out]), want[r*in:(r+1)*in]); err != nil {
					t.Fatal(err)
				}
			}
			near(t, "gate "+string(layout), l.read(dx, rows*in), want, 1e-6)
		}
	})
}

func TestLinearGrad(t *testing.T) {
	onBoth(t, func(t *testing.T, l lab) {
		for _, c := range [][2]string{{"4x0e+3x1o+2x0e", "5x0e+2x1o+3x0e+2x2e"}, {"40x0e+70x1o", "33x0e+64x1o"}} {
			for _, layout := range []Layout{MulIr, IrMul} {
				m := Linear{In: irreps(t, c[0]), Out: irreps(t, c[1]), Layout: layout}
				const rows = 70
				in, out := m.In.Dim(), m.Out.Dim()
				dout, w, dx := l.normal(rows*out), l.normal(m.WeightNumel()), l.floats(nans(rows*in))
				b := l.must(LinearGrad{m}.Bind(l.dev, l.floats(dout), l.floats(w), dx, rows))
				l.run(b)
				want := make([]float64, rows*in)
				for r := range rows {
					RefLinearGrad(m, nil, doubles(w), doubles(dout[r*out:(r+1)*out]), want[r*in:(r+1)*in], nil)
				}
				near(t, fmt.Sprint(c, layout), l.read(dx, rows*in), want, 2e-6)
			}
		}
	})
}

// One MLP forwards, its hidden layer kept, and back; then added to what is there.
func TestMLPGrad(t *testing.T) {
	onBoth(t, func(t *testing.T, l lab) {
		for _, precision := range []string{FP32, BF16} {
			const edges = 70
			m := MLP{In: 10, Hidden: 33, Out: 90, Precision: precision, Library: map[string]string{FP32: "off"}[precision]}
			bound := map[string]float64{FP32: 2e-6, BF16: 2e-2}[precision]
			b, w1, w2, dw, db := l.normal(edges*m.In), l.normal(m.In*m.Hidden), l.normal(m.Hidden*m.Out), l.normal(edges*m.Out), l.normal(edges*m.In)
			a, h, w, da, out := l.floats(nans(edges*m.Hidden)), l.floats(nans(edges*m.Hidden)), l.floats(nans(edges*m.Out)), l.floats(nans(edges*m.Hidden)), l.floats(db)
			one, two := l.floats(w1), l.floats(w2)
			forward := l.must(m.BindKept(l.dev, l.floats(b), one, two, a, h, w, edges))
			again := l.floats(nans(edges * m.Out))
			weights := l.must(m.BindWeights(l.dev, h, two, again, edges))
			g := MLPGrad{MLP: m, Add: true}
			backward := l.must(g.Bind(l.dev, MLPGradBuffers{A: a, W1: one, W2: two, DW: l.floats(dw), DA: da, DB: out}, edges))
			l.run(forward, weights, backward)
			near(t, "weights made again", l.read(again, edges*m.Out), l.read(w, edges*m.Out), 1e-30)
			want, back := make([]float64, edges*m.Out), make([]float64, edges*m.In)
			for e := range edges {
				row, res := doubles(b[e*m.In:(e+1)*m.In]), back[e*m.In:(e+1)*m.In]
				if err := RefMLP(m, row, doubles(w1), doubles(w2), want[e*m.Out:(e+1)*m.Out]); err != nil {
					t.Fatal(err)
				}
				if err := RefMLPGrad(m, row, doubles(w1), doubles(w2), doubles(dw[e*m.Out:(e+1)*m.Out]), res, nil, nil); err != nil {
					t.Fatal(err)
				}
				for i := range res {
					res[i] += float64(db[e*m.In+i])
				}
			}
			near(t, precision+" forward", l.read(w, edges*m.Out), want, bound)
			near(t, precision+" backward", l.read(out, edges*m.In), back, bound)
		}
	})
}

func TestBasisGrad(t *testing.T) {
	onBoth(t, func(t *testing.T, l lab) {
		for _, s := range []Basis{{Kind: "gaussian", N: 10, Cutoff: 4}, {Kind: "gaussian", N: 4, Cutoff: 2, Envelope: true}, {Kind: "bessel", N: 10, Cutoff: 4, Envelope: true}, {Kind: "bessel", N: 3, Cutoff: 6}} {
			vec := l.normal(3 * 150)
			copy(vec, []float32{0, 0, 0, 1e-6, 0, 0, 3e-4, 0, 0, 0, 2e-3, 0, 0, 0, 5})
			edges := len(vec) / 3
			db, g := l.normal(edges*s.N), l.floats(nans(edges))
			l.run(l.must(BasisGrad{s}.Bind(l.dev, l.floats(vec), l.floats(db), g, edges)))
			want := make([]float64, edges)
			for e := range edges {
				want[e] = RefBasisGrad(s, doubles(vec[3*e:3*e+3]), doubles(db[e*s.N:(e+1)*s.N]))
			}
			near(t, fmt.Sprint(s), l.read(g, edges), want, 1e-6)
		}
	})
}

func TestSphGrad(t *testing.T) {
	onBoth(t, func(t *testing.T, l lab) {
		for lmax := range so3.MaxL + 1 {
			s := Sph{LMax: lmax}
			vec := l.normal(3 * 140)
			copy(vec, []float32{0, 0, 0, 0, 1, 0, 0, -2, 0, 1e-4, 1, 0, 0, 0, 3, 1, 0, 0})
			edges := len(vec) / 3
			dy, g, f := l.normal(edges*s.Dim()), l.normal(edges), l.floats(nans(3*edges))
			l.run(l.must(SphGrad{s}.Bind(l.dev, l.floats(vec), l.floats(dy), l.floats(g), f, edges)))
			want := make([]float64, 3*edges)
			for e := range edges {
				v, out := doubles(vec[3*e:3*e+3]), want[3*e:3*e+3]
				RefSphGrad(s, v, doubles(dy[e*s.Dim():(e+1)*s.Dim()]), out)
				r := math.Sqrt(dot(v, v))
				for k := 0; k < 3 && r > 0; k++ {
					out[k] += float64(g[e]) * v[k] / r
				}
			}
			near(t, fmt.Sprint("lmax ", lmax), l.read(f, 3*edges), want, 1e-6)
		}
	})
}

// Edges by source: where each source's start, their numbers, and the first row's point.
func bySource(src []int32, nodes, first int) (colptr, perm []int32) {
	colptr, perm = make([]int32, nodes+2), make([]int32, 0, len(src))
	for a := range nodes {
		for e, s := range src {
			if int(s) == a {
				perm = append(perm, int32(e))
			}
		}
		colptr[a+1] = int32(len(perm))
	}
	colptr[nodes+1] = int32(first)
	return colptr, perm
}

func TestBySource(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for edges := range 40 {
		src := make([]int32, edges)
		for e := range src {
			src[e] = rnd.Int32N(7)
		}
		colptr, perm := BySource(src, 7)
		want, order := bySource(src, 7, 0)
		if !slices.Equal(colptr, want[:8]) || !slices.Equal(perm, order) {
			t.Errorf("%v: %v and %v, want %v and %v", src, colptr, perm, want[:8], order)
		}
	}
}

func TestPositions(t *testing.T) {
	onBoth(t, func(t *testing.T, l lab) {
		const atoms = 6
		rowptr := []int32{0, 150, 150, 153, 160}
		src := make([]int32, 160)
		for i := range src {
			src[i] = int32(l.rnd.IntN(atoms - 1)) // the last atom is no source
		}
		f := l.normal(3 * len(src))
		for _, c := range []struct{ points, first int }{{atoms, 1}, {atoms + 4, atoms}} { // rows are atoms, or probes
			colptr, perm := bySource(src, atoms, c.first)
			out := l.floats(nans(3 * c.points))
			p := Positions{Points: c.points, Atoms: atoms, Rows: 4}
			l.run(l.must(p.Bind(l.dev, PositionsBuffers{F: l.floats(f), RowPtr: l.ints(rowptr), ColPtr: l.ints(colptr), Perm: l.ints(perm), Out: out}, len(src))))
			want := make([]float64, 3*c.points)
			for e, s := range src {
				row := 0
				for int(rowptr[row+1]) <= e {
					row++
				}
				for k := range 3 {
					want[3*int(s)+k] -= float64(f[3*e+k])
					want[3*(c.first+row)+k] += float64(f[3*e+k])
				}
			}
			near(t, fmt.Sprint(c), l.read(out, 3*c.points), want, 1e-6)
		}
	})
}

func TestReadoutAndSum(t *testing.T) {
	onBoth(t, func(t *testing.T, l lab) {
		const rows, width, count = 5000, 9, 5
		x, a, rho := l.normal(rows*width), l.normal(count), l.normal(rows)
		r := Readout{Width: width, Count: count, Add: true}
		at, out, dx, sum := l.floats(a), l.floats(rho), l.floats(nans(rows*width)), l.floats(nans(1))
		s := Sum{N: rows}
		total := l.must(s.Bind(l.dev, out, sum))
		l.run(l.must(r.Bind(l.dev, l.floats(x), at, out, rows)), l.must(r.BindGrad(l.dev, out, at, dx, rows)), total)
		want, back, all := make([]float64, rows), make([]float64, rows*width), 0.0
		for i := range rows {
			want[i] = float64(rho[i]) + dot(doubles(x[i*width:i*width+count]), doubles(a))
			for u, v := range a {
				back[i*width+u] = want[i] * float64(v)
			}
			all += want[i]
		}
		near(t, "readout", l.read(out, rows), want, 1e-6)
		near(t, "readout backwards", l.read(dx, rows*width), back, 1e-6)
		// Rounding of 5,000 values of size 1 to float32 before they are added.
		if got := l.read(sum, 1)[0]; math.Abs(got-all) > 5e-4 {
			t.Errorf("sum %g, want %g", got, all)
		}
	})
}

// gradient is a product backwards with all it reads.
type gradient struct {
	g          TensorProductGrad
	graph      graph
	x, y, w, d []float32
	dx, dy, dw device.Buffer
	before     [3][]float32 // what is added to
	b          *Bound
}

func (l lab) gradient(tp TensorProduct, g graph, adds bool) *gradient {
	edges, rows := len(g.src), len(g.rowPtr)-1
	c := &gradient{g: TensorProductGrad{Product: tp, AddX: adds, AddY: adds}, graph: g,
		x: l.normal(g.nodes * tp.TP.In1.Dim()), y: l.normal(edges * tp.TP.In2.Dim()), w: l.normal(edges * tp.TP.WeightNumel()), d: l.normal(rows * tp.TP.Out.Dim())}
	for i, v := range [][]float32{c.x, c.y, c.w} {
		if c.before[i] = nans(len(v)); adds && i < 2 { // dw is overwritten
			c.before[i] = l.normal(len(v))
		}
	}
	c.dx, c.dy, c.dw = l.floats(c.before[0]), l.floats(c.before[1]), l.floats(c.before[2])
	colptr, perm := bySource(g.src, g.nodes, 0)
	c.b = l.must(c.g.Bind(l.dev, TPGradBuffers{X: l.floats(c.x), Y: l.floats(c.y), W: l.floats(c.w), DOut: l.floats(c.d), Src: l.ints(g.src), Dst: l.ints(g.dst),
		ColPtr: l.ints(colptr), Perm: l.ints(perm), DX: c.dx, DY: c.dy, DW: c.dw}, g.nodes, rows, edges))
	return c
}

// reference is dx, dy and dw in float64.
func (c *gradient) reference(t *testing.T) (dx, dy, dw []float64) {
	tp := c.g.Product
	in, sh, numel, out := tp.TP.In1.Dim(), tp.TP.In2.Dim(), tp.TP.WeightNumel(), tp.TP.Out.Dim()
	dx, dy, dw = make([]float64, len(c.x)), make([]float64, len(c.y)), make([]float64, len(c.w))
	one := make([]float64, in)
	for e, s := range c.graph.src {
		r, n := int(c.graph.dst[e]), int(s)
		if err := RefTensorProductGrad(tp, doubles(c.x[n*in:(n+1)*in]), doubles(c.y[e*sh:(e+1)*sh]), doubles(c.w[e*numel:(e+1)*numel]), doubles(c.d[r*out:(r+1)*out]),
			one, dy[e*sh:(e+1)*sh], dw[e*numel:(e+1)*numel]); err != nil {
			t.Fatal(err)
		}
		for i, v := range one {
			dx[n*in+i] += v
		}
	}
	return dx, dy, dw
}

func TestTensorProductGrad(t *testing.T) {
	onBoth(t, func(t *testing.T, l lab) {
		for name, p := range map[string]so3.TensorProduct{
			"mace": uvu(t, "9x0e+9x1o", "0e+1o+2e+3o", "9x0e+9x1o+9x2e"), "shared": shared(t), "wide": uvu(t, "70x0e+33x1o", "0e+1o", "0e+1o"),
			"high": uvu(t, "2x4e+3x3o", "0e+1o+2e+3o+4e", "4e+3o"), "unread": uvu(t, "3x0e+2x6e", "0e+1o", "0e+1o"),
		} {
			for _, layout := range []Layout{MulIr, IrMul} {
				g := graph{nodes: 4, rowPtr: []int32{0}}
				for row, d := range []int{5, 0, 21, 3} {
					for range d {
						g.src, g.dst = append(g.src, int32(l.rnd.IntN(3))), append(g.dst, int32(row)) // one node is no source
					}
					g.rowPtr = append(g.rowPtr, int32(len(g.src)))
				}
				c := l.gradient(TensorProduct{TP: p, Layout: layout, Scale: .3}, g, false)
				l.run(c.b)
				dx, dy, dw := c.reference(t)
				near(t, name+" dx", l.read(c.dx, len(dx)), dx, 2e-6)
				near(t, name+" dy", l.read(c.dy, len(dy)), dy, 2e-6)
				near(t, name+" dw", l.read(c.dw, len(dw)), dw, 2e-6)
			}
		}
	})
}

// Sources with more edges than a segment, and gradients that are added.
func TestTensorProductGradSegments(t *testing.T) {
	onBoth(t, func(t *testing.T, l lab) {
		p := uvu(t, "3x0e+2x1o", "0e+1o", "0e+1o")
		g := graph{nodes: 3, rowPtr: []int32{0}}
		for row := range 2 {
			for e := range 310 {
				g.src, g.dst = append(g.src, int32(min(e/290, 1)*2)), append(g.dst, int32(row))
			}
			g.rowPtr = append(g.rowPtr, int32(len(g.src)))
		}
		for _, layout := range []Layout{MulIr, IrMul} {
			c := l.gradient(TensorProduct{TP: p, Layout: layout}, g, true)
			l.run(c.b)
			var want [3][]float64
			want[0], want[1], want[2] = c.reference(t)
			for i, b := range []device.Buffer{c.dx, c.dy, c.dw} {
				for k, v := range c.before[i] {
					if i < 2 {
						want[i][k] += float64(v)
					}
				}
				near(t, []string{"dx ", "dy ", "dw "}[i]+string(layout), l.read(b, len(want[i])), want[i], 3e-6)
			}
		}
	})
}

func TestGradsDoNotDependOnThreads(t *testing.T) {
	var first []float64
	for _, threads := range []int{1, 2, 5} {
		r := newRig(t, threads)
		r.rnd = rand.New(rand.NewPCG(7, 7))
		l := lab{t: t, dev: r.dev, rnd: r.rnd, ints: r.ints, run: r.run, must: r.must, floats: func(v []float32) device.Buffer {
			b := r.alloc(len(v))
			copy(device.Floats(b), v)
			return b
		}}
		c := l.gradient(TensorProduct{TP: uvu(t, "9x0e+9x1o", "0e+1o+2e", "0e+1o+2e"), Layout: IrMul}, r.graph([]int{300, 40, 0, 500}, 5), false)
		l.run(c.b)
		var all []float64
		for _, b := range []device.Buffer{c.dx, c.dy, c.dw} {
			all = append(all, wide(b, 0, b.Len()/4)...)
		}
		if first == nil {
			first = all
			continue
		}
		for i, v := range all {
			if math.Float64bits(v) != math.Float64bits(first[i]) {
				t.Fatalf("with %d threads value %d is %g, with one %g", threads, i, v, first[i])
			}
		}
	}
}

// BenchmarkTensorProductGrad is the reverse of BenchmarkTensorProduct: all three
// gradients of MACE medium with 5,000 edges.
func BenchmarkTensorProductGrad(b *testing.B) {
	r := newRig(b, 0)
	c := maceMedium(b, r, ImplCSR, IrMul)
	colptr, perm := bySource(c.g.src, c.g.nodes, 0)
	e := len(c.g.src)
	p := c.tp.TP
	bound := r.must(TensorProductGrad{Product: c.tp}.Bind(r.dev, TPGradBuffers{X: c.b.X, Y: c.b.Y, W: c.b.W, DOut: r.normal(1000 * p.Out.Dim()), Src: c.b.Src, Dst: c.b.Dst,
		ColPtr: r.ints(colptr), Perm: r.ints(perm), DX: r.alloc(c.g.nodes * p.In1.Dim()), DY: r.alloc(e * p.In2.Dim()), DW: r.alloc(e * p.WeightNumel())}, c.g.nodes, 1000, e))
	r.run(bound)
	start := time.Now()
	for b.Loop() {
		r.run(bound)
	}
	b.ReportMetric(float64(time.Since(start).Milliseconds())/float64(b.N), "ms")
	b.ReportMetric(5000*float64(b.N)/b.Elapsed().Seconds(), "edges/s")
}
