package op

import "github.com/gpuprof/gpuprof/workloads/so3"

// RefSph writes the harmonics of one vector (three values) to y.
func RefSph(s Sph, vec, y []float64) {
	so3.Harmonics(s.LMax, so3.Component, vec[0], vec[1], vec[2], y)
}
