package op

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/so3"
)

// fourth is the derivative by *at of f, by fourth-order central differences; at 1e-3
// these are good to some 1e-11 where plain ones are to 1e-6.
func fourth(at *float64, f func() float64) float64 {
	const h = 1e-3
	was := *at
	value := func(d float64) float64 {
		*at = was + d
		defer func() { *at = was }()
		return f()
	}
	return (8*(value(h)-value(-h)) - (value(2*h) - value(-2*h))) / (12 * h)
}

// isGradient checks that grad is the derivative of f by arg.
func isGradient(t *testing.T, what string, arg, grad []float64, f func() float64) {
	t.Helper()
	worst, scale := 0.0, 0.0
	for i := range arg {
		worst = max(worst, math.Abs(fourth(&arg[i], f)-grad[i]))
		scale = max(scale, math.Abs(grad[i]))
	}
	if !(worst <= 1e-10*max(scale, 1)) {
		t.Errorf("%s: differences are %.3g off", what, worst)
	}
}

func normals(rnd *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = rnd.NormFloat64()
	}
	return v
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// digits checks figures that are known to twelve decimals.
func digits(t *testing.T, what string, got []float64, want ...float64) {
	t.Helper()
	for i, w := range want {
		if !(math.Abs(got[i]-w) <= 1e-12) {
			t.Errorf("%s[%d] = %.12f, want %.12f", what, i, got[i], w)
		}
	}
}

func TestBasisGradKnown(t *testing.T) {
	each := func(s Basis) []float64 {
		var out []float64
		for i := range s.N {
			db := make([]float64, s.N)
			db[i] = 1
			out = append(out, RefBasisGrad(s, []float64{0, 1, 0}, db))
		}
		return out
	}
	// Only four of ten Gaussians are far from 0 at r = 1.
	digits(t, "gaussian", each(Basis{Kind: "gaussian", N: 10, Cutoff: 4}), -.057221757771, -1.052735761362, -.943606871130, 1.716979494167)
	digits(t, "bessel", each(Basis{Kind: "bessel", N: 3, Cutoff: 4}), -.107300918301, -.707106781187, -1.678097245096)
	digits(t, "bessel with envelope", each(Basis{Kind: "bessel", N: 3, Cutoff: 4, Envelope: true}), -.118383035697, -.720431928812, -1.682540101894)
	digits(t, "envelope", []float64{refEnvelope(.25), refEnvelopeSlope(.25) / 4}, .995773315430, -.023071289062)
}

func TestDerivativesKnown(t *testing.T) {
	at := func(name string, z float64) float64 {
		a, c, err := findActivation(name, NormExact)
		if err != nil {
			t.Fatal(err)
		}
		return c * activationSlope(a.id, z)
	}
	digits(t, "c phi'", []float64{at("silu", 1), at("sigmoid", 1), at("tanh", 1), at("silu", 0)}, 1.555269734921, .362990563505, .668824854344, .838266235166)
	g := Gate{Scalars: irreps(t, "1x0e"), Gates: irreps(t, "1x0e"), Gated: irreps(t, "1x1o"), ActScalars: []string{"silu"}, ActGates: []string{"sigmoid"},
		Normalisation: NormExact, Layout: MulIr}
	dx := make([]float64, 5)
	if err := RefGateGrad(g, []float64{.5, -.3, 1, 2, -1}, []float64{2, 1, -1, .5}, dx); err != nil {
		t.Fatal(err)
	}
	digits(t, "gate", dx, 2.481137914595, -.676988869783, .785676373145, -.785676373145, .392838186572)
}

func TestGradsAreDerivatives(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, layout := range []Layout{MulIr, IrMul} {
		g := Gate{Scalars: irreps(t, "2x0e+2x0o"), Gates: irreps(t, "5x0e"), Gated: irreps(t, "3x1o+2x2e"), ActScalars: []string{"silu", "tanh"},
			ActGates: []string{"sigmoid"}, Normalisation: NormExact, Layout: layout}
		x, dout, dx := normals(rnd, g.InDim()), normals(rnd, g.OutDim()), make([]float64, g.InDim())
		if err := RefGateGrad(g, x, dout, dx); err != nil {
			t.Fatal(err)
		}
		isGradient(t, "gate", x, dx, func() float64 {
			out := make([]float64, g.OutDim())
			if err := RefGate(g, x, out); err != nil {
				t.Fatal(err)
			}
			return dot(out, dout)
		})

		l := Linear{In: irreps(t, "3x0e+2x1o+2x0e+1x2e"), Out: irreps(t, "2x0e+3x1o+1x0e+2x1e"), Layout: layout}
		x, dout = normals(rnd, l.In.Dim()), normals(rnd, l.Out.Dim())
		w, dw := normals(rnd, l.WeightNumel()), make([]float64, l.WeightNumel())
		dx = make([]float64, l.In.Dim())
		RefLinearGrad(l, x, w, dout, dx, dw)
		of := func() float64 {
			out := make([]float64, l.Out.Dim())
			RefLinear(l, x, w, out)
			return dot(out, dout)
		}
		isGradient(t, "linear by x", x, dx, of)
		isGradient(t, "linear by w", w, dw, of)
	}

	m := MLP{In: 4, Hidden: 3, Out: 5}
	b, w1, w2, dw := normals(rnd, 4), normals(rnd, 12), normals(rnd, 15), normals(rnd, 5)
	db, dw1, dw2 := make([]float64, 4), make([]float64, 12), make([]float64, 15)
	if err := RefMLPGrad(m, b, w1, w2, dw, db, dw1, dw2); err != nil {
		t.Fatal(err)
	}
	of := func() float64 {
		w := make([]float64, 5)
		if err := RefMLP(m, b, w1, w2, w); err != nil {
			t.Fatal(err)
		}
		return dot(w, dw)
	}
	isGradient(t, "mlp by b", b, db, of)
	isGradient(t, "mlp by w1", w1, dw1, of)
	isGradient(t, "mlp by w2", w2, dw2, of)

	for _, s := range []Basis{{Kind: "gaussian", N: 10, Cutoff: 4}, {Kind: "gaussian", N: 5, Cutoff: 4, Envelope: true}, {Kind: "bessel", N: 8, Cutoff: 4, Envelope: true}} {
		for _, r := range []float64{.3, 1, 2.7, 3.9} {
			vec, db := []float64{0, r, 0}, normals(rnd, s.N)
			isGradient(t, fmt.Sprint(s, r), vec[1:2], []float64{RefBasisGrad(s, vec, db)}, func() float64 {
				b := make([]float64, s.N)
				RefBasis(s, vec, b)
				return dot(b, db)
			})
		}
	}
	// Where the series of a Bessel function takes over, both agree.
	for _, r := range []float64{1e-5, 4e-5} {
		s := Basis{Kind: "bessel", N: 1, Cutoff: math.Pi}
		if got, want := RefBasisGrad(s, []float64{r, 0, 0}, []float64{1}), -math.Sqrt(2/math.Pi)*r/3; math.Abs(got-want) > 1e-12 {
			t.Errorf("bessel at %g: %g, want %g", r, got, want)
		}
	}
}

// cluster is three atoms and all six pairs: the whole network and its reverse,
// edge by edge from the float64 oracles.
type cluster struct {
	basis          Basis
	mlp            MLP
	tp             TensorProduct
	linear         Linear
	gate           Gate
	pos            []float64 // [3,3]
	x, w1, w2, mix []float64
}

// theCluster is the example whose figures are known: every parameter a sine.
func theCluster(t *testing.T) *cluster {
	feat := irreps(t, "1x0e+1x1o")
	c := &cluster{
		basis: Basis{Kind: "gaussian", N: 4, Cutoff: 4}, mlp: MLP{In: 4, Hidden: 3, Out: 4},
		tp:   TensorProduct{TP: so3.UVUProduct(feat, irreps(t, "1x0e+1x1o"), feat), Layout: MulIr, Scale: float32(1 / math.Sqrt(20))},
		gate: Gate{Scalars: irreps(t, "1x0e"), Gates: irreps(t, "1x0e"), Gated: irreps(t, "1x1o"), ActScalars: []string{"silu"}, ActGates: []string{"sigmoid"}, Normalisation: NormExact, Layout: MulIr},
		pos:  []float64{0, 0, 0, 1.1, .2, -.3, -.4, 1.3, .8},
		x:    sines(12, 0), w1: sines(12, 1), w2: sines(12, 2), mix: sines(6, 3),
	}
	c.linear = Linear{In: c.tp.TP.Out, Out: irreps(t, "1x0e+1x0e+1x1o"), Layout: MulIr}
	return c
}

func sines(n, k int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = math.Sin(float64(k + 1 + i))
	}
	return v
}

// scaleExactly undoes that a Scale is float32: figures to twelve decimals need 1/sqrt 20.
func (c *cluster) scaleExactly() float64 { return 1 / math.Sqrt(20) / c.tp.scaleFactor() }

type clusterGrads struct {
	energy              float64
	pos, x, w1, w2, mix []float64
	virial              [3][3]float64
	worst               float64 // of w.dw = x.dx = y.dy, relative
}

// vec is the edge from dst to src: what dst sees.
func (c *cluster) vec(src, dst int) []float64 {
	v := make([]float64, 3)
	for k := range v {
		v[k] = c.pos[3*src+k] - c.pos[3*dst+k]
	}
	return v
}

func (c *cluster) run(t *testing.T) clusterGrads {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	g := clusterGrads{pos: make([]float64, 9), x: make([]float64, 12), w1: make([]float64, 12), w2: make([]float64, 12), mix: make([]float64, 6)}
	sph, m, exact := Sph{LMax: 1}, c.mlp, c.scaleExactly()
	dim := c.tp.TP.Out.Dim()
	for dst := range 3 {
		mid := make([]float64, dim)
		var edges []int
		var bs, ys, ws [][]float64
		for src := range 3 {
			if src == dst {
				continue
			}
			v := c.vec(src, dst)
			b, y, w, z := make([]float64, 4), make([]float64, 4), make([]float64, 4), make([]float64, dim)
			RefBasis(c.basis, v, b)
			RefSph(sph, v, y)
			must(RefMLP(m, b, c.w1, c.w2, w))
			must(RefTensorProduct(c.tp, c.x[4*src:4*src+4], y, w, z))
			for i := range mid {
				mid[i] += exact * z[i]
			}
			edges, bs, ys, ws = append(edges, src), append(bs, b), append(ys, y), append(ws, w)
		}
		before, out := make([]float64, 5), make([]float64, 4)
		RefLinear(c.linear, mid, c.mix, before)
		must(RefGate(c.gate, before, out))
		g.energy += out[0]
		dbefore, dmid := make([]float64, 5), make([]float64, dim)
		must(RefGateGrad(c.gate, before, []float64{1, 0, 0, 0}, dbefore))
		RefLinearGrad(c.linear, mid, c.mix, dbefore, dmid, g.mix)
		for i := range dmid {
			dmid[i] *= exact
		}
		for n, src := range edges {
			x := c.x[4*src : 4*src+4]
			dx, dy, dw, db, f := make([]float64, 4), make([]float64, 4), make([]float64, 4), make([]float64, 4), make([]float64, 3)
			must(RefTensorProductGrad(c.tp, x, ys[n], ws[n], dmid, dx, dy, dw))
			for _, other := range []float64{dot(x, dx), dot(ys[n], dy)} {
				g.worst = max(g.worst, math.Abs(other-dot(ws[n], dw))/max(1e-3, math.Abs(other)))
			}
			must(RefMLPGrad(m, bs[n], c.w1, c.w2, dw, db, g.w1, g.w2))
			v := c.vec(src, dst)
			RefSphGrad(sph, v, dy, f)
			slope, r := RefBasisGrad(c.basis, v, db), math.Sqrt(dot(v, v))
			for k := range 3 {
				f[k] += slope * v[k] / r
				g.pos[3*src+k] += f[k]
				g.pos[3*dst+k] -= f[k]
				for j := range 3 {
					g.virial[j][k] += v[j] * f[k]
				}
			}
			for i, d := range dx {
				g.x[4*src+i] += d
			}
		}
	}
	return g
}

func TestClusterKnown(t *testing.T) {
	c := theCluster(t)
	g := c.run(t)
	digits(t, "energy", []float64{g.energy}, .007696524783894)
	digits(t, "dE/dpos", g.pos, -.002106623979, .007624453785, .004658861715, .004235472122, -.003576535313, -.003405971905, -.002128848143, -.004047918472, -.001252889810)
	digits(t, "norms", []float64{math.Sqrt(dot(g.w1, g.w1)), math.Sqrt(dot(g.w2, g.w2))}, .030497294309, .009405408960)
	digits(t, "mixing", g.mix, -.009873262893, 0, -.000941806189, 0, 0, 0)
	if g.worst > 1e-13 {
		t.Errorf("w.dw, x.dx and y.dy differ by %.3g", g.worst)
	}
}

// The reverse of the whole network, against differences and the identities that
// hold whatever the parameters.
func TestClusterGradients(t *testing.T) {
	c := theCluster(t)
	g := c.run(t)
	energy := func() float64 { return c.run(t).energy }
	for _, p := range []struct {
		what      string
		arg, grad []float64
	}{{"positions", c.pos, g.pos}, {"features", c.x, g.x}, {"w1", c.w1, g.w1}, {"w2", c.w2, g.w2}, {"mixing", c.mix, g.mix}} {
		isGradient(t, p.what, p.arg, p.grad, energy)
	}
	scale := math.Sqrt(dot(g.pos, g.pos))
	for k := range 3 {
		if sum := g.pos[k] + g.pos[3+k] + g.pos[6+k]; math.Abs(sum) > 1e-14*scale {
			t.Errorf("the forces along %d sum to %g", k, sum)
		}
	}
	// The torque is what turning the features would give: sum vec x f = sum (L x).dx.
	torque, turned := torqueOf(g.virial), [3]float64{}
	for a := range 3 {
		for k, v := range turn(c.x[4*a+1:4*a+4], g.x[4*a+1:4*a+4]) {
			turned[k] += v
		}
	}
	for k := range 3 {
		if math.Abs(torque[k]-turned[k]) > 1e-13 {
			t.Errorf("torque %d is %.15g, turning the features gives %.15g", k, torque[k], turned[k])
		}
	}
	// With scalar features there is none.
	for a := range 3 {
		clear(c.x[4*a+1 : 4*a+4])
	}
	for k, v := range torqueOf(c.run(t).virial) {
		if math.Abs(v) > 1e-15 {
			t.Errorf("torque %d is %g with scalar features", k, v)
		}
	}
}

// F(R pos, D x) = R F: turning the atoms and their features turns the forces.
func TestForcesTurn(t *testing.T) {
	c := theCluster(t)
	g := c.run(t)
	sin, cos := math.Sincos(.7)
	r := [3][3]float64{{cos, -sin * .6, sin * .8}, {sin, cos * .6, -cos * .8}, {0, .8, .6}}
	turned := func(v []float64) {
		var out [3]float64
		for i := range 3 {
			out[i] = r[i][0]*v[0] + r[i][1]*v[1] + r[i][2]*v[2]
		}
		copy(v, out[:])
	}
	for a := range 3 {
		turned(c.pos[3*a : 3*a+3])
		turned(c.x[4*a+1 : 4*a+4])
		turned(g.pos[3*a : 3*a+3])
	}
	for i, v := range c.run(t).pos {
		if math.Abs(v-g.pos[i]) > 1e-15 {
			t.Errorf("component %d of the turned cluster is %.15g, want %.15g", i, v, g.pos[i])
		}
	}
}

// torqueOf is sum vec x f of a virial sum vec f^T.
func torqueOf(v [3][3]float64) [3]float64 {
	return [3]float64{v[1][2] - v[2][1], v[2][0] - v[0][2], v[0][1] - v[1][0]}
}

// turn is (L x).dx of a vector: the generator of a turn of what the energy depends on.
func turn(x, dx []float64) [3]float64 {
	var out [3]float64
	w, err := so3.Wigner3j(1, 1, 1)
	if err != nil {
		return [3]float64{math.NaN()}
	}
	for k := range 3 {
		for m := range 3 {
			for n := range 3 { // sqrt(l(l+1)(2l+1)) w3j(l,1,l)[m',k,m] x_m'
				out[k] += math.Sqrt(6) * w[(n*3+k)*3+m] * x[n] * dx[m]
			}
		}
	}
	return out
}
