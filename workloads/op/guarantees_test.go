package op

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

// everyOp binds one of each operation on small data.
func everyOp(r *rig) map[string]*Bound {
	t := r.t
	const edges, rows = 40, 8
	g := r.graph([]int{5, 0, 20, 3, 0, 10, 1, 1}, 6)
	tp := uvu(t, "4x0e+4x1o", "0e+1o", "0e+1o")
	ops := map[string]*Bound{}
	bind := func(name string) func(*Bound, error) {
		return func(b *Bound, err error) { ops[name] = r.must(b, err) }
	}
	vec := r.normal(3 * edges)
	bind("fill")(Fill{}.Bind(r.dev, r.alloc(100), 100, 0, 0))
	bind("sph")(Sph{LMax: 4}.Bind(r.dev, vec, r.alloc(25*edges), edges))
	bind("gaussian")(Basis{Kind: "gaussian", N: 8, Cutoff: 4}.Bind(r.dev, vec, r.alloc(8*edges), edges))
	bind("bessel")(Basis{Kind: "bessel", N: 8, Cutoff: 4, Envelope: true}.Bind(r.dev, vec, r.alloc(8*edges), edges))
	for _, precision := range []string{FP32, BF16, TF32x3} {
		radial := Radial{Basis{Kind: "gaussian", N: 8, Cutoff: 4}, MLP{In: 8, Hidden: 20, Out: 700, Precision: precision}}
		bind("radial " + precision)(radial.Bind(r.dev, vec, r.normal(160), r.normal(14000), r.alloc(700*edges), edges))
	}
	irs := irreps(t, "4x0e+4x1o")
	for _, layout := range []Layout{MulIr, IrMul} {
		l := Linear{In: irs, Out: irs, Layout: layout, Accumulate: true}
		bind("linear " + string(layout))(l.Bind(r.dev, r.normal(16*rows), r.normal(32), r.normal(16*rows), rows))
		gate := Gate{Scalars: irreps(t, "4x0e"), ActScalars: []string{"silu"}, Gates: irreps(t, "4x0e"), ActGates: []string{"sigmoid"},
			Gated: irreps(t, "4x1o"), Layout: layout, Normalisation: NormExact}
		bind("gate " + string(layout))(gate.Bind(r.dev, r.normal(20*rows), r.alloc(16*rows), rows))
		for _, impl := range []string{ImplUnfused, ImplFused, ImplCSR} {
			c := r.convolution(TensorProduct{TP: tp, Impl: impl, Layout: layout, Scale: 0.5, Segment: 6}, g)
			ops[impl+" "+string(layout)] = c.product
			if c.scatter != nil {
				ops["scatter "+string(layout)] = c.scatter
			}
		}
	}
	for _, precision := range []string{FP32, TF32, BF16, FP16, TF32x3} {
		gemm := Gemm{K: 9, N: 300, Scale: 0.1, Act: "tanh", Normalisation: NormExact, Precision: precision}
		bind("gemm " + precision)(gemm.Bind(r.dev, r.normal(9*edges), r.normal(2700), r.alloc(300*edges), edges))
	}
	sum := ScatterAdd{C: 9, Deterministic: true, Scale: 2}
	bind("scatter sorted")(sum.Bind(r.dev, ScatterBuffers{Src: r.normal(9 * edges), RowPtr: r.ints(g.rowPtr), Out: r.alloc(9 * rows)}, rows, edges))
	return ops
}

func TestNothingIsAllocated(t *testing.T) {
	r := newRig(t, 1)
	for name, b := range everyOp(r) {
		r.run(b)
		if n := testing.AllocsPerRun(20, func() {
			b.SetEdges(b.capacity)
			if b.Enqueue(r.s) != nil || r.s.Sync() != nil {
				t.Error(name + " failed")
			}
		}); n != 0 {
			t.Errorf("%s: SetEdges and Enqueue allocate %g times", name, n)
		}
		for i := range b.launches {
			l := &b.launches[i]
			if n := testing.AllocsPerRun(20, func() { l.Func.Kernel().Host(&l.Args, 0, l.N) }); n != 0 {
				t.Errorf("%s: kernel %s allocates %g times", name, l.Kernel, n)
			}
		}
	}
}

// Everything but the atomic sums gives the same bits on 1 to 4 threads.
func TestThreadsDoNotChangeResults(t *testing.T) {
	r := newRig(t, 4)
	const rows = 203
	l := Linear{In: irreps(t, "37x0e+19x1o"), Out: irreps(t, "41x0e+23x1o"), Layout: IrMul}
	m := MLP{In: 9, Hidden: 31, Out: 530}
	out, w := r.alloc(rows*l.Out.Dim()), r.alloc(rows*m.Out)
	ops := []*Bound{
		r.must(l.Bind(r.dev, r.normal(rows*l.In.Dim()), r.normal(l.WeightNumel()), out, rows)),
		r.must(Radial{Basis{Kind: "gaussian", N: 9, Cutoff: 4}, m}.Bind(r.dev, r.normal(rows*3), r.normal(m.In*m.Hidden), r.normal(m.Hidden*m.Out), w, rows)),
	}
	var first []float64
	for threads := 1; threads <= 4; threads++ {
		if err := r.dev.SetThreads(threads); err != nil {
			t.Fatal(err)
		}
		poison(out)
		poison(w)
		r.run(ops...)
		got := append(wide(out, 0, rows*l.Out.Dim()), wide(w, 0, rows*m.Out)...)
		if first == nil {
			first = got
		}
		for i := range got {
			if math.Float64bits(got[i]) != math.Float64bits(first[i]) {
				t.Fatalf("%d threads: value %d is %g, on one thread %g", threads, i, got[i], first[i])
			}
		}
	}
}

func TestRowOperationsIgnoreEdges(t *testing.T) {
	r := newRig(t, 1)
	out := r.poisoned(10)
	b := r.must(Fill{Value: 3}.Bind(r.dev, out, 10, 0, 0))
	b.SetEdges(5)
	r.run(b)
	near(t, "fill", wide(out, 0, 10), []float64{3, 3, 3, 3, 3, 3, 3, 3, 3, 3}, 1e-9)
}

func TestWithOtherBuffers(t *testing.T) {
	r := newRig(t, 1)
	s := Sph{LMax: 1}
	vec, first, second := r.normal(6), r.poisoned(8), r.poisoned(8)
	b := r.must(s.Bind(r.dev, vec, first, 2))
	again, err := b.Rebind(map[device.Buffer]device.Buffer{first: second})
	if err != nil {
		t.Fatal(err)
	}
	again.SetEdges(1)
	r.run(b, again)
	near(t, "copy", wide(second, 0, 4), wide(first, 0, 4), 1e-12)
	if v := device.Floats(second)[4]; v == v {
		t.Error("the copy kept the edges of the original")
	}
	if _, err := b.Rebind(map[device.Buffer]device.Buffer{first: vec}); err == nil {
		t.Error("a smaller buffer was accepted")
	}
}

// rotate multiplies every row of irs, in mul_ir, by D(rot).
func rotate(t *testing.T, b device.Buffer, irs so3.Irreps, rows int, rot [3][3]float64) {
	t.Helper()
	d, err := irs.D(rot)
	if err != nil {
		t.Fatal(err)
	}
	n := irs.Dim()
	for r := range rows {
		row := device.Floats(b)[r*n : (r+1)*n]
		old := wide(b, r*n, (r+1)*n)
		for i := range n {
			sum := 0.0
			for j := range n {
				sum += d[i*n+j] * old[j]
			}
			row[i] = float32(sum)
		}
	}
}

// A whole float32 layer (harmonics, product, linear, gate) commutes with
// rotations and the inversion.
func TestLayerIsEquivariant(t *testing.T) {
	for trial := range 4 {
		r := newRig(t, 2)
		const nodes, rows = 5, 4
		g := r.graph([]int{6, 0, 9, 3}, nodes)
		edges := len(g.src)
		tp := uvu(t, "6x0e+4x1o+3x2e", "0e+1o+2e+3o", "0e+1o+2e")
		gate := Gate{Scalars: irreps(t, "5x0e"), ActScalars: []string{"silu"}, Gates: irreps(t, "7x0e"), ActGates: []string{"sigmoid"},
			Gated: irreps(t, "4x1o+3x2e"), Layout: MulIr, Normalisation: NormExact}
		lin := Linear{In: tp.Out, Out: irreps(t, "5x0e+7x0e+4x1o+3x2e"), Layout: MulIr}
		vec, y := r.normal(3*edges), r.poisoned(16*edges)
		c := r.convolution(TensorProduct{TP: tp, Impl: []string{ImplCSR, ImplFused, ImplUnfused, ImplCSR}[trial], Layout: MulIr, Scale: 0.3}, g)
		c.b.Y = y
		r.bind(c)
		hidden, out := r.poisoned(rows*gate.InDim()), r.poisoned(rows*gate.OutDim())
		ops := []*Bound{r.must(Sph{LMax: 3}.Bind(r.dev, vec, y, edges)), c.product, c.scatter,
			r.must(lin.Bind(r.dev, c.b.Out, r.normal(lin.WeightNumel()), hidden, rows)), r.must(gate.Bind(r.dev, hidden, out, rows))}
		r.run(ops...)
		outIrreps, err := gate.OutIrreps()
		if err != nil {
			t.Fatal(err)
		}
		rot := r.rotation(trial%2 == 1)
		rotate(t, out, outIrreps, rows, rot)
		want := wide(out, 0, rows*gate.OutDim())
		rotate(t, vec, irreps(t, "1o"), edges, rot)
		rotate(t, c.b.X, tp.In1, nodes, rot)
		poison(out)
		r.run(ops...)
		t.Logf("%s: %.2g", c.tp.Impl, near(t, "equivariance", wide(out, 0, len(want)), want, 1e-5))
	}
}

// rotation is a random rotation from a quaternion, times -1 when improper.
func (r *rig) rotation(improper bool) [3][3]float64 {
	q, norm := [4]float64{}, 0.0
	for i := range q {
		q[i] = r.rnd.NormFloat64()
		norm += q[i] * q[i]
	}
	for i := range q {
		q[i] /= math.Sqrt(norm)
	}
	a, b, c, d := q[0], q[1], q[2], q[3]
	m := [3][3]float64{
		{a*a + b*b - c*c - d*d, 2 * (b*c - a*d), 2 * (b*d + a*c)},
		{2 * (b*c + a*d), a*a - b*b + c*c - d*d, 2 * (c*d - a*b)},
		{2 * (b*d - a*c), 2 * (c*d + a*b), a*a - b*b - c*c + d*d}}
	if improper {
		for i := range m {
			for j := range m[i] {
				m[i][j] = -m[i][j]
			}
		}
	}
	return m
}

// e3nnCase is a tensor_product case of the vectors exported from e3nn.
type e3nnCase struct {
	Kind         string
	In1          string `json:"irreps_in1"`
	In2          string `json:"irreps_in2"`
	Out          string `json:"irreps_out"`
	Instructions [][]any
	IrrepNorm    string `json:"irrep_normalization"`
	PathNorm     string `json:"path_normalization"`
	X, Y, W, O   [][]float64
}

func (c *e3nnCase) UnmarshalJSON(text []byte) error {
	type plain e3nnCase
	var rest struct {
		Kind string
		Out  json.RawMessage
	}
	if err := json.Unmarshal(text, &rest); err != nil || rest.Kind != "tensor_product" {
		return err
	}
	if err := json.Unmarshal(text, (*plain)(c)); err != nil {
		return err
	}
	return json.Unmarshal(rest.Out, &c.O)
}

func (c e3nnCase) product(t *testing.T) so3.TensorProduct {
	tp := so3.TensorProduct{In1: irreps(t, c.In1), In2: irreps(t, c.In2), Out: irreps(t, c.Out), IrrepNorm: c.IrrepNorm, PathNorm: c.PathNorm}
	for _, v := range c.Instructions {
		tp.Instructions = append(tp.Instructions, so3.Instruction{In1: int(v[0].(float64)), In2: int(v[1].(float64)), Out: int(v[2].(float64)),
			Mode: so3.Mode(v[3].(string)), HasWeight: v[4].(bool), PathWeight: v[5].(float64)})
	}
	return tp
}

// Every tensor product that e3nn evaluated, in float32 through every
// implementation that takes it: each sample is one edge of its own row.
func TestAgainstE3NN(t *testing.T) {
	text, err := os.ReadFile("../../testdata/e3nn/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []e3nnCase }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, 2)
	ran := map[string]int{}
	for n, c := range file.Cases {
		if c.Kind != "tensor_product" {
			continue
		}
		degrees := make([]int, len(c.X))
		for i := range degrees {
			degrees[i] = 1
		}
		for _, impl := range []string{ImplUnfused, ImplFused, ImplCSR} {
			tp := TensorProduct{TP: c.product(t), Impl: impl, Layout: MulIr}
			if err := tp.Check(); err != nil {
				if !strings.Contains(err.Error(), "use impl=unfused") {
					t.Errorf("case %d: %v", n, err)
				}
				continue
			}
			g := r.graph(degrees, len(c.X))
			for i := range g.src {
				g.src[i] = int32(i)
			}
			conv := r.convolution(tp, g)
			store(conv.b.X, c.X)
			store(conv.b.Y, c.Y)
			store(conv.b.W, c.W)
			var want []float64
			for _, row := range c.O {
				want = append(want, row...)
			}
			near(t, fmt.Sprintf("case %d %s", n, impl), r.result(conv), want, 1e-6)
			ran[impl]++
		}
	}
	if ran[ImplUnfused] < 30 || ran[ImplCSR] < 4 || ran[ImplFused] != ran[ImplCSR] {
		t.Errorf("cases that ran: %v, expected at least 30 unfused and 4 of the others", ran)
	}
	t.Logf("cases: %v", ran)
}

func store(b device.Buffer, rows [][]float64) {
	v := device.Floats(b)
	for _, row := range rows {
		for _, x := range row {
			v[0] = float32(x)
			v = v[1:]
		}
	}
}
