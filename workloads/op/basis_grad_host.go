package op

import (
	"math"

	"github.com/gpuprof/gpuprof"
)

// basisGradHost works in float64 between the float32 input and output, as
// basisHost does.
func basisGradHost(a *gpuprof.Args, lo, hi int) {
	n, kind, envelope, cutoff := a.Int(4), a.Int(5), a.Int(6) != 0, float64(a.F32(7))
	vec, db, g := a.Floats(0), a.Floats(1), a.Floats(2)
	for e := lo; e < hi; e++ {
		x, y, z := float64(vec[3*e]), float64(vec[3*e+1]), float64(vec[3*e+2])
		r := math.Sqrt(x*x + y*y + z*z)
		u, slope := 1.0, 0.0
		if envelope {
			u, slope = cutoffPolynomial(r/cutoff), cutoffSlope(r/cutoff)/cutoff
		}
		row := db[e*n : (e+1)*n]
		if kind == basisGaussian {
			g[e] = float32(gaussianSlope(row, r, cutoff/float64(n-1), u, slope))
		} else {
			g[e] = float32(besselSlope(row, r, cutoff, u, slope))
		}
	}
}

func gaussianSlope(db []float32, r, delta, u, slope float64) float64 {
	sum := 0.0
	for i, d := range db {
		t := r/delta - float64(i)
		sum += float64(d) * math.Exp(-t*t) * (slope - 2*t/delta*u)
	}
	return sum / 1.12
}

// besselSlope has sin and cos of n t by the same recurrence. With k = n pi/c the
// difference k cos kr/r - sin kr/r^2 loses digits near 0, where its series is
// -k^3 r/3 + k^5 r^3/30.
func besselSlope(db []float32, r, c, u, slope float64) float64 {
	t := math.Pi * r / c
	sin, cos := math.Sincos(t)
	s, sBefore, k, kBefore := sin, 0.0, cos, 1.0
	sum := 0.0
	for i, d := range db {
		wave := float64(i+1) * math.Pi / c
		kr := wave * r
		b, db := wave, -wave*wave*kr/3*(1-kr*kr/10)
		if kr > 1e-3 {
			b, db = s/r, (wave*k-s/r)/r
		}
		sum += float64(d) * (db*u + b*slope)
		s, sBefore = 2*cos*s-sBefore, s
		k, kBefore = 2*cos*k-kBefore, k
	}
	return sum * math.Sqrt(2/c)
}

// cutoffSlope is the derivative of cutoffPolynomial, -168 t^5 (1-t)^2; 0 from t = 1 on.
func cutoffSlope(t float64) float64 {
	if t >= 1 {
		return 0
	}
	t2 := t * t
	return -168 * t2 * t2 * t * (1 - t) * (1 - t)
}
