package op

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// basisGradHost computes in float64 between float32 input and output, for the reason given at basisHost.
func basisGradHost(args *device.Args, lo, hi int) {
	a := device.View[basisGradView](args)
	n, kind, envelope, cutoff := a.functions.Int(), a.kind.Int(), a.envelope.Int() != 0, float64(a.cutoff.F32())
	vec, db, g := a.vec.Floats(), a.db.Floats(), a.g.Floats()
	for e := lo; e < hi; e++ {
		s := slopesOf(vec[3*e:3*e+3], kind, envelope, cutoff)
		g[e] = float32(s.sumSlopes(n, db[e*n:(e+1)*n]))
	}
}

// slopes holds the parameters for the derivatives of all radial functions at one length r.
type slopes struct {
	kind     int
	r, c     float64
	u, slope float64 // the envelope and its derivative
}

func slopesOf(v []float32, kind int, envelope bool, cutoff float64) slopes {
	x, y, z := float64(v[0]), float64(v[1]), float64(v[2])
	s := slopes{kind: kind, r: math.Sqrt(x*x + y*y + z*z), c: cutoff, u: 1}
	if envelope {
		s.u, s.slope = cutoffPolynomial(s.r/cutoff), cutoffSlope(s.r/cutoff)/cutoff
	}
	return s
}

// sumSlopes returns sum_i db_i (b_i u)'(r) with the envelope u.
func (s slopes) sumSlopes(n int, db []float32) float64 {
	if s.kind == basisGaussian {
		return s.sumGaussian(n, db) / 1.12
	}
	return s.sumBessel(n, db) * math.Sqrt(2/s.c)
}

func (s slopes) sumGaussian(n int, db []float32) float64 {
	sum, delta := 0.0, s.c/float64(n-1)
	for i := range n {
		t := s.r/delta - float64(i)
		sum += float64(db[i]) * (math.Exp(-t*t) * (s.slope - 2*t/delta*s.u))
	}
	return sum
}

// sumBessel computes sin and cos of n t by the recurrence of besselRow. The difference k cos kr/r - sin kr/r^2 with k
// = n pi/c cancels near r = 0, so the series -k^3 r/3 + k^5 r^3/30 replaces it there.
func (s slopes) sumBessel(n int, db []float32) float64 {
	t := math.Pi * s.r / s.c
	sin, cos := math.Sincos(t)
	now, before, k, kBefore := sin, 0.0, cos, 1.0
	sum := 0.0
	for i := range n {
		wave := float64(i+1) * math.Pi / s.c
		kr := wave * s.r
		b, d := wave, -wave*wave*kr/3*(1-kr*kr/10)
		if kr > 1e-3 {
			b, d = now/s.r, (wave*k-now/s.r)/s.r
		}
		sum += float64(db[i]) * (d*s.u + b*s.slope)
		now, before = 2*cos*now-before, now
		k, kBefore = 2*cos*k-kBefore, k
	}
	return sum
}

// cutoffSlope returns the derivative of cutoffPolynomial, -168 t^5 (1-t)^2, and 0 for t >= 1.
func cutoffSlope(t float64) float64 {
	if t >= 1 {
		return 0
	}
	t2 := t * t
	return -168 * t2 * t2 * t * (1 - t) * (1 - t)
}
