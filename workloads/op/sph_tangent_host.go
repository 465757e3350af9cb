package op

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/device"
)

func sphTangentHost(args *device.Args, lo, hi int) {
	a := device.View[sphTangentView](args)
	lmax := a.lmax.Int()
	dim := (lmax + 1) * (lmax + 1)
	vec, u, out := a.vec.Floats(), a.u.Floats(), a.out.Floats()
	for e := lo; e < hi; e++ {
		sphTangentOne(lmax, vec[3*e:3*e+3], u[3*e:3*e+3], out[e*dim:(e+1)*dim])
	}
}

// sphTangentOne uses the gradients of sphGradOne, which sums the terms of all harmonics; here each is written.
func sphTangentOne(lmax int, vec, u, out []float32) {
	x, y, z := float64(vec[0]), float64(vec[1]), float64(vec[2])
	r := math.Sqrt(x*x + y*y + z*z)
	clear(out)
	if r == 0 {
		return
	}
	x, y, z = x/r, y/r, z/r
	ux, uy, uz := float64(u[0])/r, float64(u[1])/r, float64(u[2])/r
	along := ux*x + uy*y + uz*z
	var before, below, here degree // of degrees l-2, l-1 and l
	below[0][0] = 1
	for l := 1; l <= lmax; l++ {
		nextDegree(&here, &below, &before, l, x, y, z)
		mid, l1 := l*l+l, float64(l)
		for m := 0; m <= l; m++ {
			n, up, own := sphNorm[l][m], below[m+1], float64(l+m)*uy
			re, im := own*below[m][0]-l1*along*here[m][0], own*below[m][1]-l1*along*here[m][1]
			if m == 0 {
				out[mid] = float32(n * (re - uz*up[0] - ux*up[1]))
				continue
			}
			k := float64((l + m) * (l + m - 1))
			d := [2]float64{k * below[m-1][0], k * below[m-1][1]}
			out[mid+m] = float32(n * (re + (uz*(d[0]-up[0])-ux*(d[1]+up[1]))/2))
			out[mid-m] = float32(n * (im + (uz*(d[1]-up[1])+ux*(d[0]+up[0]))/2)) // i (D+U)/2
		}
		before, below = below, here
	}
}
