package gridsim

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/op"
)

// advance is steps of the reference over a whole grid in planes.
func (r reference) advance(psi []float64, steps int) []float64 {
	n := r.s.cells()
	for range steps {
		next := make([]float64, len(psi))
		for i := range n {
			for c, v := range r.nextCell(func(c, i int) float64 { return psi[c*n+i] }, i) {
				next[c*n+i] = v
			}
		}
		psi = next
	}
	return psi
}

// wave is v cos(kx i + ky j) in planes, a plane for each of v.
func wave(n int, kx, ky float64, v ...float64) []float64 {
	out := make([]float64, len(v)*n*n)
	for c, a := range v {
		for i := range n * n {
			out[c*n*n+i] = a * math.Cos(kx*float64(i/n)+ky*float64(i%n))
		}
	}
	return out
}

func lambda(kx, ky float64) float64 {
	return ((1+2*math.Cos(kx))*(1+2*math.Cos(ky)) - 1) / 8
}

func within(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s: %.12g, want %.12g", what, got, want)
	}
}

// largest is the largest difference of two arrays.
func largest(a, b []float64) float64 {
	d := 0.0
	for i, v := range a {
		d = math.Max(d, math.Abs(v-b[i]))
		if v != v {
			return math.Inf(1)
		}
	}
	return d
}

// Known answer 1 and 2: modes of diffuse, in the reference and in the kernels.
func TestDiffuseModes(t *testing.T) {
	const n = 64
	r := reference{s: shape{N: n, C: 2, law: lawDiffuse, tau: 0.5}}
	for _, tt := range []struct {
		p, q   float64
		factor float64
		tol    float64
	}{{1, 0, 0.99819427250, 1e-11}, {3, 5, 0.94084420771, 1e-11}, {32, 32, 0.5, 0}} {
		kx, ky := 2*math.Pi*tt.p/n, 2*math.Pi*tt.q/n
		within(t, "factor", 1-0.5*(1-lambda(kx, ky)), tt.factor, tt.tol+1e-15)
		start := wave(n, kx, ky, 1, 0.5)
		after := r.advance(start, 1)
		for i, v := range start {
			start[i] = tt.factor * v
		}
		if d := largest(after, start); d > 1e-11 {
			t.Errorf("mode (%g,%g): %g off", tt.p, tt.q, d)
		}
	}
	start := wave(n, 2*math.Pi/n, 0, 1, 1)
	for i := range start {
		start[i]++
	}
	after := r.advance(start, 100)
	within(t, "after 100 steps", after[0]-1, 0.83465569631, 1e-11)
	within(t, "the sum", sum(after)/sum(start), 1, 1e-13)

	zero := reference{s: shape{N: n, C: 2, law: lawDiffuse, tau: 0.5, zero: true}}
	mode := make([]float64, 2*n*n)
	for i := range mode {
		y, x := i%(n*n)/n+1, i%n+1
		mode[i] = math.Sin(2*math.Pi*float64(y)/(n+1)) * math.Sin(3*math.Pi*float64(x)/(n+1))
	}
	after = zero.advance(mode, 1)
	for i, v := range mode {
		mode[i] = 0.99432650980 * v
	}
	if d := largest(after, mode); d > 1e-11 {
		t.Errorf("zero border: %g off", d)
	}
	onBoth(t, func(t *testing.T, open opener) {
		for _, set := range []string{"layout=chw", "layout=hwc", "impl=split", "impl=split,chunk=9,layout=hwc"} {
			for _, r := range []reference{r, zero} {
				s := open(append(tinyGrid(set+",law=diffuse,grid=64,channels=2"), border(r.s))...)
				s.shape.tau = 0.5
				s.bindLaw()
				compareWith(t, s, r, wave(n, 0.3, 0.5, 1, 0.5), 10, 1e-6)
			}
		}
	})
}

type opener func(set ...string) *session

// onBoth has a test of kernels run on the host and on the simulated CUDA device.
func onBoth(t *testing.T, test func(t *testing.T, open opener)) {
	t.Helper()
	t.Run("host", func(t *testing.T) {
		test(t, func(set ...string) *session { return openSession(t, set...) })
	})
	t.Run("cuda", func(t *testing.T) {
		d := openSimulated(t, false)
		test(t, func(set ...string) *session { return openOn(t, d, set...) })
	})
}

func border(s shape) string {
	if s.zero {
		return "border=zero"
	}
	return "border=periodic"
}

func sum(x []float64) float64 {
	s := 0.0
	for _, v := range x {
		s += v
	}
	return s
}

// compareWith runs both from the same state.
func compareWith(t *testing.T, s *session, r reference, start []float64, steps int, tol float64) {
	t.Helper()
	first := op.As[float32](start)
	put(t, s, first)
	run(t, s, steps)
	want := r.advance(op.As[float64](first), steps)
	if d := largest(op.As[float64](present(t, s)), want); !(d <= tol) {
		t.Errorf("%v: %g off after %d steps", s.k.Impl, d, steps)
	}
}

// Known answer 3: without activation, biases and normalising the law is linear,
// and a mode becomes G^n of itself.
func TestLinearMode(t *testing.T) {
	const n, c, h = 16, 4, 6
	sh := shape{N: n, C: c, H: h, law: lawMLP, identity: true, tau: tau}
	w := drawWeights(sh, 5)
	clear(w.b1)
	clear(w.b2)
	r := newReference(sh, w)
	kx, ky := 2*math.Pi*2/n, 2*math.Pi*3/n
	v := []float64{0.3, -0.5, 0.2, 0.7}
	want := append([]float64(nil), v...)
	l := lambda(kx, ky)
	for range 10 {
		p := make([]float64, 2*c)
		copy(p, want)
		for k, x := range want {
			p[c+k] = l * x
		}
		want = r.update(want, r.outputLayer(r.hiddenLayer(p)))
	}
	start := wave(n, kx, ky, v...)
	if d := largest(r.advance(start, 10), wave(n, kx, ky, want...)); d > 5e-15 {
		t.Errorf("the reference is %g off", d)
	}
	onBoth(t, func(t *testing.T, open opener) {
		for _, set := range ways() {
			s := open(append(tinyGrid(set), "grid=16", "channels=4", "hidden=6", "normalise=off")...)
			s.shape.identity = true
			network(t, s, w)
			put(t, s, op.As[float32](start))
			run(t, s, 10)
			if d := largest(op.As[float64](present(t, s)), wave(n, kx, ky, want...)); !(d < 2e-6) {
				t.Errorf("%s: %g off", set, d)
			}
		}
	})
}

// twoByTwo is the network of known answers 4 and 5.
func twoByTwo() weights {
	return weights{w1: []float32{.1, -.2, .3, -.4, .5, .6, -.7, .8}, b1: []float32{.05, -.1}, w2: []float32{.9, -.8, .7, .6}, b2: []float32{.01, .02}}
}

// Known answer 4: a uniform state stays uniform, bit for bit.
func TestUniformState(t *testing.T) {
	const n = 8
	uniform := func(a, b float64) []float64 {
		out := make([]float64, 2*n*n)
		for i := range n * n {
			out[i], out[n*n+i] = a, b
		}
		return out
	}
	for _, tt := range []struct {
		normalise bool
		steps     int
		a, b      float64
	}{{true, 1, 0.6790882806, -0.7340566044}, {false, 1, 0.7293523465, -0.7883892599}, {true, 10, 0.9665861793, -0.2563418608}} {
		sh := shape{N: n, C: 2, H: 2, law: lawMLP, normalise: tt.normalise, tau: tau}
		// The weights of the contract are decimal numbers; float32's are 1e-8 off.
		if d := largest(newReference(sh, twoByTwo()).advance(uniform(.6, -.8), tt.steps), uniform(tt.a, tt.b)); d > 5e-8 {
			t.Errorf("reference after %d steps: %g off", tt.steps, d)
		}
		norm := "normalise=off"
		if tt.normalise {
			norm = "normalise=on"
		}
		onBoth(t, func(t *testing.T, open opener) {
			for _, set := range ways() {
				s := open(append(tinyGrid(set), "grid=8", "channels=2", "hidden=2", norm)...)
				network(t, s, twoByTwo())
				put(t, s, op.As[float32](uniform(.6, -.8)))
				run(t, s, tt.steps)
				got := present(t, s)
				if d := largest(op.As[float64](got), uniform(tt.a, tt.b)); !(d < 3e-7) {
					t.Errorf("%s after %d steps: %g off", set, tt.steps, d)
				}
				for i := range n * n {
					if got[i] != got[0] || got[n*n+i] != got[n*n] {
						t.Fatalf("%s: cell %d differs", set, i)
					}
				}
			}
		})
	}
}

// Known answer 5: one cell of 1 in a grid of zeros.
func TestPointSource(t *testing.T) {
	const n = 8
	sh := shape{N: n, C: 2, H: 2, law: lawMLP, tau: tau}
	start := make([]float64, 2*n*n)
	start[0] = 1
	want := make([]float64, 2*n*n)
	for i := range n * n {
		y, x := min(i/n, n-i/n), min(i%n, n-i%n)
		want[i], want[n*n+i] = 0.0131130066, -0.0002097549
		switch {
		case i == 0:
			want[i], want[n*n+i] = 0.9825, 0.0365
		case y <= 1 && x <= 1:
			want[i], want[n*n+i] = 0.0225526706, -0.0021332529
		}
	}
	if d := largest(newReference(sh, twoByTwo()).advance(start, 1), want); d > 5e-8 {
		t.Errorf("reference: %g off", d)
	}
	onBoth(t, func(t *testing.T, open opener) {
		for _, set := range ways() {
			s := open(append(tinyGrid(set), "grid=8", "channels=2", "hidden=2", "normalise=off")...)
			network(t, s, twoByTwo())
			put(t, s, op.As[float32](start))
			run(t, s, 1)
			if d := largest(op.As[float64](present(t, s)), want); !(d < 2e-7) {
				t.Errorf("%s: %g off", set, d)
			}
		}
	})
}

// moved is a state in planes with cell f(y,x) in cell (y,x).
func moved[T any](psi []T, n int, f func(y, x int) (int, int)) []T {
	out := make([]T, len(psi))
	for i := range psi {
		y, x := f(i%(n*n)/n, i%n)
		out[i] = psi[i/(n*n)*n*n+(y+n)%n*n+(x+n)%n]
	}
	return out
}

// Known answer 6: a step commutes with shifts, bit for bit, and with the eight
// symmetries of the square.
func TestShiftsAndSymmetries(t *testing.T) {
	const n = 20
	onBoth(t, func(t *testing.T, open opener) {
		for _, set := range append(ways(), "law=diffuse", "law=diffuse,impl=split,layout=hwc", "law=walk", "law=walk,impl=split", "precision=bf16") {
			s := open(append(tinyGrid(set), "grid=20", "scale=4")...)
			start := s.shape.permute(drawState(s.shape, 9), false)
			for _, by := range [][2]int{{1, 0}, {0, 1}, {7, 13}} {
				shift := func(y, x int) (int, int) { return y + by[0], x + by[1] }
				put(t, s, start)
				run(t, s, 3)
				want := moved(present(t, s), n, shift)
				put(t, s, moved(start, n, shift))
				run(t, s, 3)
				same(t, present(t, s), want)
			}
		}
	})
	sh := shape{N: 9, C: 4, H: 5, law: lawMLP, normalise: true, tau: tau}
	r := newReference(sh, drawWeights(sh, 3))
	start := op.As[float64](drawState(sh, 4))
	for k := range 8 {
		turn := func(y, x int) (int, int) {
			if k&1 != 0 {
				y, x = x, y
			}
			if k&2 != 0 {
				y = -y
			}
			if k&4 != 0 {
				x = -x
			}
			return y, x
		}
		if d := largest(r.advance(moved(start, 9, turn), 1), moved(r.advance(start, 1), 9, turn)); d > 1e-15 {
			t.Errorf("symmetry %d: %g off", k, d)
		}
	}
}

// Known answer 7: walk keeps the norm, and a mode turns by omega.
func TestWalk(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	r := reference{s: shape{N: 16, C: 4, law: lawWalk}}
	psi := make([]float64, 4*16*16)
	for i := range psi {
		psi[i] = rng.NormFloat64()
	}
	norm := func(x []float64) float64 {
		s := 0.0
		for _, v := range x {
			s += v * v
		}
		return s
	}
	within(t, "norm after 200 steps", norm(r.advance(psi, 200))/norm(psi), 1, 4e-14*5)

	const n = 32
	kx, ky := 2*math.Pi*3/n, 2*math.Pi*5/n
	cos := math.Cos(turn)*math.Cos(turn)*math.Cos(kx+ky) - math.Sin(turn)*math.Sin(turn)*math.Cos(kx-ky)
	within(t, "omega", math.Acos(cos), 1.6515685518, 1e-10)
	// A mode obeys psi(t+1) + psi(t-1) = 2 cos(omega) psi(t): both eigenvalues do.
	r = reference{s: shape{N: n, C: 4, law: lawWalk}}
	start := make([]float64, 4*n*n)
	for i := range n * n {
		phase := kx*float64(i/n) + ky*float64(i%n)
		start[i], start[2*n*n+i] = math.Cos(phase), math.Sin(phase)
		start[n*n+i], start[3*n*n+i] = -0.5*math.Sin(phase), 0.5*math.Cos(phase)
	}
	one := r.advance(start, 1)
	two := r.advance(one, 1)
	d := 0.0
	for i, v := range one {
		d = math.Max(d, math.Abs(two[i]+start[i]-2*cos*v))
	}
	if d > 1e-13 {
		t.Errorf("a mode is %g off its recurrence", d)
	}
	onBoth(t, func(t *testing.T, open opener) {
		for _, set := range []string{"law=walk", "law=walk,impl=split", "law=walk,layout=hwc", "law=walk,impl=split,chunk=5,layout=hwc"} {
			s := open(append(tinyGrid(set), "grid=16", "channels=4")...)
			compareWith(t, s, reference{s: shape{N: 16, C: 4, law: lawWalk}}, psi, 10, 5e-6)
		}
	})
}
