package so3

import "math"

// HarmonicsGrad writes the gradients of the harmonics with respect to (x, y, z), three values each, to
// out[:3*(lmax+1)^2]. The gradients at the zero vector are defined as 0. Invalid arguments fill out with NaN, as in
// Harmonics. r is the length, n the direction and G the gradient of the solid harmonic at n:
//
//	grad Y_lm = (G_lm - l Y_lm n)/r
//	G_lm,k    = (2l+1) sqrt(l) sum_m' w3j(l-1,1,l)[m',k,m] Y_{l-1,m'},  k = x, y, z
func HarmonicsGrad(lmax int, n Normalization, x, y, z float64, out []float64) {
	dim := (lmax + 1) * (lmax + 1)
	if lmax < 0 || lmax > MaxL || len(out) < 3*dim {
		for i := range out {
			out[i] = math.NaN()
		}
		return
	}
	clear(out[:3*dim])
	r := math.Hypot(math.Hypot(x, y), z)
	nx, ny, nz, zero := normalizeVector(x, y, z)
	if zero {
		return
	}
	values := make([]float64, dim)
	Harmonics(lmax, Component, nx, ny, nz, values)
	for l := 1; l <= lmax; l++ {
		cg, err := SparseCG(l-1, 1, l)
		if err != nil { // cannot happen: the triangle rule holds and l is in range
			cg = &CG{Entries: []CGEntry{{C: math.NaN()}}}
		}
		below, here := values[(l-1)*(l-1):], values[l*l:(l+1)*(l+1)]
		grad := out[3*l*l : 3*(l+1)*(l+1)]
		for _, e := range cg.Entries {
			grad[3*e.K+e.J] += float64(2*l+1) * math.Sqrt(float64(l)) * e.C * below[e.I]
		}
		for m, v := range here {
			for k, d := range [3]float64{nx, ny, nz} {
				grad[3*m+k] = n.scaleFactor(l) * (grad[3*m+k] - float64(l)*v*d) / r
			}
		}
	}
}
