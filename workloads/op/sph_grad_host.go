package op

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

// sphNorm[l][m] = sqrt((2l+1) (2-delta_m0) (l-m)!/(l+m)!) is the factor between Y_lm and the unnormalised R_l^m.
var sphNorm = makeSphNorm()

func makeSphNorm() (t [so3.MaxL + 1][so3.MaxL + 1]float64) {
	for l := range t {
		ratio := float64(2*l + 1)
		t[l][0] = math.Sqrt(ratio)
		for m := 1; m <= l; m++ {
			ratio /= float64((l + m) * (l - m + 1))
			t[l][m] = math.Sqrt(2 * ratio)
		}
	}
	return t
}

func sphGradHost(args *device.Args, lo, hi int) {
	a := device.View[sphGradView](args)
	lmax := a.lmax.Int()
	dim := (lmax + 1) * (lmax + 1)
	vec, dy, g, f := a.vec.Floats(), a.dy.Floats(), a.slope.Floats(), a.f.Floats()
	for e := lo; e < hi; e++ {
		v, out := vec[3*e:3*e+3], f[3*e:3*e+3]
		sphGradOne(lmax, float64(v[0]), float64(v[1]), float64(v[2]), float64(g[e]), dy[e*dim:(e+1)*dim], out)
	}
}

// degree holds R_l^m of one degree l as real and imaginary parts, followed by two zeros.
type degree [so3.MaxL + 3][2]float64

// sphGradOne writes f of one edge to out; slope is g. It computes in float64 for the same reason as sphOne.
func sphGradOne(lmax int, x, y, z, slope float64, dy, out []float32) {
	r := math.Sqrt(x*x + y*y + z*z)
	if r == 0 {
		clear(out)
		return
	}
	x, y, z = x/r, y/r, z/r
	var before, below, here degree // degrees l-2, l-1 and l
	below[0][0] = 1
	var sum [3]float64
	along := 0.0 // sum of l dy Y
	for l := 1; l <= lmax; l++ {
		nextDegree(&here, &below, &before, l, x, y, z)
		mid := l*l + l
		for m := 0; m <= l; m++ {
			n := sphNorm[l][m]
			re := n * float64(dy[mid+m])
			im := 0.0
			if m > 0 {
				im = n * float64(dy[mid-m])
			}
			along += float64(l) * (re*here[m][0] + im*here[m][1])
			sum[1] += float64(l+m) * (re*below[m][0] + im*below[m][1])
			up := below[m+1]
			if m == 0 {
				sum[2] -= re * up[0]
				sum[0] -= re * up[1]
				continue
			}
			k := float64((l + m) * (l + m - 1))
			d := [2]float64{k * below[m-1][0], k * below[m-1][1]}
			sum[2] += (re*(d[0]-up[0]) + im*(d[1]-up[1])) / 2
			sum[0] += (im*(d[0]+up[0]) - re*(d[1]+up[1])) / 2 // i (D+U)/2
		}
		before, below = below, here
	}
	n := [3]float64{x, y, z}
	for k := range 3 {
		out[k] = float32((sum[k]-along*n[k])/r + slope*n[k])
	}
}

// nextDegree computes R of degree l on the unit sphere from the degrees l-1 (below) and l-2 (before).
func nextDegree(here, below, before *degree, l int, x, y, z float64) {
	for m := range l {
		a, b, c := float64(2*l-1)*y, float64(l+m-1), float64(l-m)
		for k := range 2 {
			here[m][k] = (a*below[m][k] - b*before[m][k]) / c
		}
	}
	top, k := below[l-1], float64(2*l-1)
	here[l] = [2]float64{k * (top[0]*z - top[1]*x), k * (top[0]*x + top[1]*z)}
}
