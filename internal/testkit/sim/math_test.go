//go:build linux

package sim_test

import (
	"math"
	"testing"
)

// ulps is the distance of got from want in units of the last place of want.
func ulps(got float32, want float64) float64 {
	if math.IsNaN(want) || math.IsInf(float64(float32(want)), 0) || want == 0 {
		if float32(want) == got || (math.IsNaN(want) && got != got) {
			return 0
		}
		// The neighbour of infinity is one unit away.
		if math.IsInf(float64(float32(want)), 0) && math.Abs(float64(got)) == math.MaxFloat32 {
			return 1
		}
		return math.Inf(1)
	}
	_, e := math.Frexp(want)
	return math.Abs(float64(got)-want) / math.Ldexp(1, max(e, -125)-24)
}

// inputs are floats of every exponent and both signs, with what lies at the
// edges; n threads take one each.
func inputs(stride uint64, most float64) []float32 {
	special := []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 1, -1,
		88.72283, 88.72284, -87.33654, -103.972, -103.973, -104.1, 0.625, 9.1, 0.7853981, 0.7853982, 1.5707964, 3.1415927, 32767.998, 32768}
	list := append([]float32(nil), special...)
	for u := uint64(0); u < 1<<32; u += stride {
		x := math.Float32frombits(uint32(u))
		if math.Abs(float64(x)) <= most {
			list = append(list, x)
		}
	}
	return list
}

func apply[T any](c *cu, kernel string, which int, in []T) []T {
	c.t.Helper()
	px, po := put(c, in), put(c, in)
	if code := c.run(kernel, grid((len(in)+255)/256, 256), uint64(po), uint64(px), uint64(which), uint64(len(in))); code != 0 {
		c.t.Fatal(code, c.report().Faults)
	}
	o := get[T](c, po, len(in))
	c.free(px, po)
	return o
}

func TestFloatMath(t *testing.T) {
	c := start(t, "")
	for _, k := range []struct {
		name  string
		which int
		f     func(float64) float64
		most  float64 // range
		bound float64 // ulp
	}{
		{"exp", 0, math.Exp, math.Inf(1), 1},
		{"tanh", 1, math.Tanh, math.Inf(1), 2},
		{"sigmoid", 2, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, math.Inf(1), 3},
		{"sin", 3, math.Sin, 1 << 30, 2},
		{"cos", 4, math.Cos, 1 << 30, 2},
		{"sqrt", 5, math.Sqrt, math.Inf(1), 0.5},
		{"rcp", 6, func(x float64) float64 { return 1 / x }, math.Inf(1), 0.5},
	} {
		in := inputs(9973, k.most)
		worst, where := 0.0, float32(0)
		for i, got := range apply(c, "sim_math", k.which, in) {
			if math.IsInf(k.most, 1) || !math.IsInf(float64(in[i]), 0) {
				if d := ulps(got, k.f(float64(in[i]))); !(d <= worst) {
					worst, where = d, in[i]
				}
			}
		}
		t.Logf("%s: %.3f ulp at %g, over %d values", k.name, worst, where, len(in))
		if !(worst <= k.bound) {
			t.Errorf("%s is off by %g ulp at %g, more than %g", k.name, worst, where, k.bound)
		}
	}
}

// exp64 is math.Exp, which on amd64 overflows from 709.44 on, where it should
// from 709.78: the square of the root there, good to two units and a half.
func exp64(x float64) float64 {
	if x < 709 || x >= 709.79 {
		return math.Exp(x)
	}
	root := math.Exp(x / 2)
	return root * root
}

// Go's own functions are good to one unit: two are allowed between them and ours.
func TestDoubleMath(t *testing.T) {
	c := start(t, "")
	var in []float64
	for i := range 100_000 {
		x := float64(i) / 100_000
		in = append(in, 1440*x-730, 10*x-5, math.Ldexp(x-0.5, 27), math.Ldexp(1+x, -i%60))
	}
	in = append(in, 0, math.Inf(1), math.Inf(-1), math.NaN(), 709.78, 709.79, -745.1, -745.2, 710)
	for _, k := range []struct {
		name  string
		which int
		f     func(float64) float64
		bound float64
	}{
		{"exp", 0, exp64, 3},
		{"sin", 1, math.Sin, 2},
		{"cos", 2, math.Cos, 2},
		{"sigmoid", 3, func(x float64) float64 {
			if x < 0 {
				return math.Exp(x) / (1 + math.Exp(x)) // 1/(1+e^-x) loses its last digits below zero
			}
			return 1 / (1 + math.Exp(-x))
		}, 4},
		{"sqrt", 4, math.Sqrt, 0.5},
	} {
		worst, where := 0.0, 0.0
		for i, got := range apply(c, "sim_math64", k.which, in) {
			want := k.f(in[i])
			if got == want || (got != got && want != want) {
				continue
			}
			_, e := math.Frexp(want)
			if d := math.Abs(got-want) / math.Ldexp(1, max(e, -1021)-53); !(d <= worst) {
				worst, where = d, in[i]
			}
		}
		t.Logf("%s: %.2f ulp at %g", k.name, worst, where)
		if !(worst <= k.bound) {
			t.Errorf("%s is off by %g ulp at %g, more than %g", k.name, worst, where, k.bound)
		}
	}
}

// format is a 16-bit float: the value of every pattern, from the definition.
type format struct {
	name           string
	which          int
	exponent, bias int
	mantissa       int
}

var formats = []format{{"bf16", 0, 8, 127, 7}, {"fp16", 1, 5, 15, 10}}

func (f format) value(h uint16) float64 {
	sign, e, m := 1.0, int(h)>>f.mantissa&(1<<f.exponent-1), float64(int(h)&(1<<f.mantissa-1))
	if h>>15 != 0 {
		sign = -1
	}
	one := math.Ldexp(1, f.mantissa)
	switch {
	case e == 1<<f.exponent-1 && m != 0:
		return math.NaN()
	case e == 1<<f.exponent-1:
		return math.Inf(int(sign))
	case e == 0:
		return sign * math.Ldexp(m/one, 1-f.bias)
	default:
		return sign * math.Ldexp(1+m/one, e-f.bias)
	}
}

func (c *cu) convert(which int, in []float32) ([]uint16, []float32) {
	c.t.Helper()
	there, back, px := put(c, make([]uint16, len(in))), put(c, in), put(c, in)
	if code := c.run("sim_convert", grid((len(in)+255)/256, 256), uint64(there), uint64(back), uint64(px), uint64(which), uint64(len(in))); code != 0 {
		c.t.Fatal(code)
	}
	return get[uint16](c, there, len(in)), get[float32](c, back, len(in))
}

// Every 16-bit value survives the way there and back; around the middle of
// every two neighbours, rounding goes to the nearer one, at the middle to the
// even one.
func TestConversions(t *testing.T) {
	c := start(t, "")
	for _, f := range formats {
		var in []float32
		var want []uint16
		for h := range 1 << 16 {
			in, want = append(in, float32(f.value(uint16(h)))), append(want, uint16(h))
		}
		top := uint16((1<<f.exponent-1)<<f.mantissa) - 1 // the largest finite
		for h := uint16(0); h <= top; h++ {
			lo, hi := f.value(h), f.value(h+1)
			if h == top {
				hi = 2*lo - f.value(h-1) // where infinity takes over
			}
			middle := float32((lo + hi) / 2)
			even := h + h&1
			for _, sign := range []uint16{0, 1 << 15} {
				s := float32(1)
				if sign != 0 {
					s = -1
				}
				in = append(in, s*math.Nextafter32(middle, 0), s*middle, s*math.Nextafter32(middle, float32(math.Inf(1))))
				want = append(want, h|sign, even|sign, (h+1)|sign)
			}
		}
		there, back := c.convert(f.which, in)
		for i := range in {
			nan := in[i] != in[i]
			v := f.value(there[i])
			if (!nan && there[i] != want[i]) || nan != math.IsNaN(v) || (!nan && float64(back[i]) != v) || nan != (back[i] != back[i]) {
				t.Fatalf("%s: %g (%#x) becomes %#04x and %g; want %#04x", f.name, in[i], math.Float32bits(in[i]), there[i], back[i], want[i])
			}
		}
	}
	in := []float32{1, 1 + 0x1p-10, 1 + 0x1p-11, 1 + 0x1p-12, -(1 + 0x1p-11), 0, float32(math.Inf(1)), 3e38}
	_, back := c.convert(2, in)
	for i, want := range []float32{1, 1 + 0x1p-10, 1 + 0x1p-10, 1, -(1 + 0x1p-10), 0, float32(math.Inf(1))} {
		if back[i] != want {
			t.Errorf("TF32 of %g is %g, want %g", in[i], back[i], want)
		}
	}
}
