package op

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

// sphTable holds the constants of the recurrence for Legendre functions Q that are component-normalised and divided by
// s^m, s = sqrt(x^2+z^2). Normalised functions stay near 1, and the recurrence is stable upwards in l:
//
//	Q_mm = start[m],  Q_lm = a[l][m] (y Q_{l-1,m} - b[l][m] Q_{l-2,m})
type sphTable struct {
	start [so3.MaxL + 1]float64
	a, b  [so3.MaxL + 1][so3.MaxL + 1]float64
}

var sphConst = makeSphTable()

func makeSphTable() (t sphTable) {
	start := 1.0
	for m := range t.start {
		switch {
		case m == 1:
			start *= math.Sqrt(3) // sqrt((2m+1)/(2m)) and sqrt(2) for m > 0
		case m > 1:
			start *= math.Sqrt(float64(2*m+1) / float64(2*m))
		}
		t.start[m] = start
		for l := m + 1; l <= so3.MaxL; l++ {
			ll, mm := float64(l), float64(m)
			t.a[l][m] = math.Sqrt((4*ll*ll - 1) / (ll*ll - mm*mm))
			if l > m+1 {
				t.b[l][m] = math.Sqrt(((ll-1)*(ll-1) - mm*mm) / (4*(ll-1)*(ll-1) - 1))
			}
		}
	}
	return t
}

func sphHost(args *device.Args, lo, hi int) {
	a := device.View[sphView](args)
	lmax := a.lmax.Int()
	dim := (lmax + 1) * (lmax + 1)
	vec, y := a.vec.Floats(), a.out.Floats()
	for e := lo; e < hi; e++ {
		sphOne(lmax, float64(vec[3*e]), float64(vec[3*e+1]), float64(vec[3*e+2]), y[e*dim:(e+1)*dim])
	}
}

// sphOne writes the harmonics of one vector. Powers (z+ix)^m = s^m (cos m phi + i sin m phi) replace trigonometric
// functions. It computes in float64 between float32 input and output: near the poles Y_l0 changes by l(l+1)/2 times
// the rounding error of y, in float32 3e-6 at l=8. float64 costs no time here and keeps squares from overflow.
func sphOne(lmax int, x, y, z float64, out []float32) {
	r := math.Sqrt(x*x + y*y + z*z)
	if r == 0 {
		clear(out)
		out[0] = 1
		return
	}
	x, y, z = x/r, y/r, z/r
	t := &sphConst
	c, s := 1.0, 0.0
	for m := 0; m <= lmax; m++ {
		if m > 0 {
			c, s = c*z-s*x, s*z+c*x
		}
		q, before := t.start[m], 0.0
		for l := m; l <= lmax; l++ {
			if l > m {
				q, before = t.a[l][m]*(y*q-t.b[l][m]*before), q
			}
			mid := l*l + l
			out[mid+m] = float32(q * c)
			if m > 0 {
				out[mid-m] = float32(q * s)
			}
		}
	}
}
