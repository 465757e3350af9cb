package op

import "github.com/gpuprof/gpuprof/workloads/so3"

// RefSphGrad writes to f (three values) the gradient of sum_lm dy_lm Y_lm with respect to one vector.
func RefSphGrad(s Sph, vec, dy, f []float64) {
	grads := make([]float64, 3*s.Dim())
	so3.HarmonicsGrad(s.LMax, so3.Component, vec[0], vec[1], vec[2], grads)
	clear(f[:3])
	for i, g := range dy {
		for k := range 3 {
			f[k] += g * grads[3*i+k]
		}
	}
}
