package op

import "github.com/gpuprof/gpuprof/workloads/so3"

// RefSphTangent writes to out [Dim] the change of the harmonics of one vector (three
// values) that moves along u, grad Y_lm . u; see so3.HarmonicsGrad.
func RefSphTangent(s Sph, vec, u, out []float64) {
	grads := make([]float64, 3*s.Dim())
	so3.HarmonicsGrad(s.LMax, so3.Component, vec[0], vec[1], vec[2], grads)
	for i := range out {
		out[i] = grads[3*i]*u[0] + grads[3*i+1]*u[1] + grads[3*i+2]*u[2]
	}
}
