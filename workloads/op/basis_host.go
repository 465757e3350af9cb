package op

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// basisHost computes in float64 between float32 input and output: in float32 the sine recurrence would lose digits.
// The conversion costs as much as a few exponentials per edge.
func basisHost(args *device.Args, lo, hi int) {
	a := device.View[basisView](args)
	n, kind, envelope, cutoff := a.functions.Int(), a.kind.Int(), a.envelope.Int() != 0, float64(a.cutoff.F32())
	vec, b := a.vec.Floats(), a.b.Floats()
	for e := lo; e < hi; e++ {
		basisOne(b[e*n:(e+1)*n], vec[3*e:3*e+3], kind, envelope, cutoff)
	}
}

// basisOne writes the radial functions of one vector v to row.
func basisOne(row, v []float32, kind int, envelope bool, cutoff float64) {
	x, y, z := float64(v[0]), float64(v[1]), float64(v[2])
	r, scale := math.Sqrt(x*x+y*y+z*z), 1.0
	if envelope {
		scale = cutoffPolynomial(r / cutoff)
	}
	if kind == basisGaussian {
		gaussianRow(row, r, cutoff/float64(len(row)-1), scale/1.12)
	} else {
		besselRow(row, r, cutoff, scale)
	}
}

func gaussianRow(row []float32, r, delta, scale float64) {
	for i := range row {
		t := r/delta - float64(i)
		row[i] = float32(scale * math.Exp(-t*t))
	}
}

// besselRow writes the Bessel functions at length r to row. It computes their sines by the recurrence sin(n t) = 2 cos
// t sin((n-1) t) - sin((n-2) t). Near r = 0 it writes the limit, which is exact to float32: the next term is (n t)^2/6.
func besselRow(row []float32, r, c, scale float64) {
	t := math.Pi * r / c
	scale *= math.Sqrt(2 / c)
	if t < 1e-9 {
		for i := range row {
			row[i] = float32(scale * float64(i+1) * math.Pi / c)
		}
		return
	}
	sin, cos := math.Sincos(t)
	cur, before := sin, 0.0
	scale /= r
	for i := range row {
		row[i] = float32(scale * cur)
		cur, before = 2*cos*cur-before, cur
	}
}

// cutoffPolynomial returns the envelope of order 6, 1 - 28 t^6 + 48 t^7 - 21 t^8, and 0 for t >= 1.
func cutoffPolynomial(t float64) float64 {
	if t >= 1 {
		return 0
	}
	t3 := t * t * t
	return 1 - t3*t3*(28-t*(48-21*t))
}
