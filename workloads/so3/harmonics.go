package so3

import (
	"math"

	"github.com/gpuprof/gpuprof"
)

// Normalization is the scale of spherical harmonics.
type Normalization string

// Values of Normalization. Component: every component has mean square 1 over the sphere. Norm: every vector Y_l has
// length 1. Integral: the square of a component has integral 1 over the sphere.
const (
	Component Normalization = "component"
	Norm      Normalization = "norm"
	Integral  Normalization = "integral"
)

// ParseNormalization accepts component, norm and integral.
func ParseNormalization(s string) (Normalization, error) {
	switch n := Normalization(s); n {
	case Component, Norm, Integral:
		return n, nil
	}
	return "", gpuprof.Errorf(nil, "parsing spherical harmonics normalization %q: unknown name", s).WithFix("use component, norm or integral")
}

// scaleFactor returns the factor that converts harmonics of degree l from component normalisation to n, or NaN if n is
// unknown.
func (n Normalization) scaleFactor(l int) float64 {
	switch n {
	case Component:
		return 1
	case Norm:
		return 1 / math.Sqrt(float64(2*l+1))
	case Integral:
		return 1 / math.Sqrt(4*math.Pi)
	}
	return math.NaN()
}

// harmonicNorms[l][m] is the factor sqrt((2l+1) (2-delta_m0) (l-m)!/(l+m)!) of Y_lm in component normalisation.
var harmonicNorms = makeHarmonicNorms()

func makeHarmonicNorms() (table [MaxL + 1][MaxL + 1]float64) {
	for l := range table {
		ratio := float64(2*l + 1)
		table[l][0] = math.Sqrt(ratio)
		for m := 1; m <= l; m++ {
			ratio /= float64((l + m) * (l - m + 1))
			table[l][m] = math.Sqrt(2 * ratio)
		}
	}
	return table
}

// Harmonics writes the real spherical harmonics of the direction of (x, y, z), blocks l = 0..lmax one after the other,
// to out[:(lmax+1)^2]. The polar axis is y, phi = atan2(x, z), without Condon-Shortley phase. The vector may have any
// length; for the zero vector blocks above l=0 are 0. Invalid arguments (lmax outside 0..MaxL, a short out, an unknown
// n) fill out with NaN, which no check accepts. Harmonics does not allocate.
//
//	Y_lm = sqrt((2l+1) (2-delta_m0) (l-|m|)!/(l+|m|)!) P_l^|m|(y) * {sin |m|phi (m<0), cos m phi (m>=0)}
func Harmonics(lmax int, n Normalization, x, y, z float64, out []float64) {
	if lmax < 0 || lmax > MaxL || len(out) < (lmax+1)*(lmax+1) {
		for i := range out {
			out[i] = math.NaN()
		}
		return
	}
	x, y, z, zero := normalizeVector(x, y, z)
	if zero {
		clear(out[:(lmax+1)*(lmax+1)])
		out[0] = n.scaleFactor(0)
		return
	}
	// With s = sqrt(x^2+z^2), s^m cos(m phi) + i s^m sin(m phi) = (z + ix)^m, and P_l^m(y)/s^m is a polynomial in y,
	// so there is no division by s, which is 0 at the poles.
	cos, sin, diagonal := 1.0, 0.0, 1.0
	for m := 0; m <= lmax; m++ {
		before, p := 0.0, diagonal
		for l := m; l <= lmax; l++ {
			c := harmonicNorms[l][m] * n.scaleFactor(l) * p
			mid := l*l + l
			out[mid+m] = c * cos
			if m > 0 {
				out[mid-m] = c * sin
			}
			before, p = p, (float64(2*l+1)*y*p-float64(l+m)*before)/float64(l+1-m)
		}
		cos, sin = cos*z-sin*x, cos*x+sin*z
		diagonal *= float64(2*m + 1)
	}
}

// normalizeVector scales a vector to length 1 without overflow or underflow.
func normalizeVector(x, y, z float64) (nx, ny, nz float64, zero bool) {
	big := max(math.Abs(x), math.Abs(y), math.Abs(z))
	if big == 0 {
		return 0, 0, 0, true
	}
	x, y, z = x/big, y/big, z/big
	r := math.Sqrt(x*x + y*y + z*z)
	return x / r, y / r, z / r, false
}
