package gruflow

import "math"

// Inner loops of the host device other than the matrix product: assembly with AVX2 and FMA on amd64 (act_amd64.s), else
// plain Go. None of them allocates. The relative error of tanh is small also near zero.
//
//	dot(a, b)               sum of a[i] b[i]
//	sigmoidAll(x)           x = 1/(1+exp(-x))
//	tanhAll(x)              x = tanh(x)
//	cell(gx, gh, h, stride) one GRU step of len(h) units: gx and gh hold the
//	                        products for r, z and n, stride values apart, and
//	                        h becomes the new state

func sigmoidGeneric(x []float32) {
	for i, v := range x {
		x[i] = float32(sigmoid(float64(v)))
	}
}

func tanhGeneric(x []float32) {
	for i, v := range x {
		x[i] = float32(math.Tanh(float64(v)))
	}
}

func cellGeneric(gx, gh, h []float32, stride int) {
	for j, old := range h {
		r := sigmoid(float64(gx[j] + gh[j]))
		z := sigmoid(float64(gx[stride+j] + gh[stride+j]))
		n := math.Tanh(float64(gx[2*stride+j]) + r*float64(gh[2*stride+j]))
		h[j] = float32(n + z*(float64(old)-n))
	}
}

// dotGeneric adds eight partial sums, which is faster and more accurate than one running sum.
func dotGeneric(a, b []float32) float32 {
	var s [8]float32
	for len(a) >= 8 && len(b) >= 8 {
		p, q := (*[8]float32)(a), (*[8]float32)(b)
		for i := range s {
			s[i] += p[i] * q[i]
		}
		a, b = a[8:], b[8:]
	}
	for i, v := range a {
		s[i] += v * b[i]
	}
	return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))
}
