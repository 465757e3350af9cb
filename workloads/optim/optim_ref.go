package optim

import "math"

// RefAdam computes step t, counted from 1, of Adam in float64, in place.
func RefAdam(rate float64, t int, p, g, m, v []float64) {
	size, root := rate/(1-math.Pow(beta1, float64(t))), math.Sqrt(1-math.Pow(beta2, float64(t)))
	for i, x := range g {
		m[i] = beta1*m[i] + (1-beta1)*x
		v[i] = beta2*v[i] + (1-beta2)*x*x
		p[i] -= size * m[i] / (math.Sqrt(v[i])/root + eps)
	}
}

// RefClip returns the factor that clips the norm of all gradients together to limit.
func RefClip(limit float64, gradients ...[]float64) float64 {
	sum := 0.0
	for _, g := range gradients {
		for _, x := range g {
			sum += x * x
		}
	}
	return math.Min(1, limit/(math.Sqrt(sum)+1e-6))
}
