package optim

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// UpdateTolerance is that of the change of parameters whose gradients have tolerance t: Adam
// divides a gradient by its size, so of one that is near 0 only the sign is left. A change that
// is missing is off by 1; first moments show gradients more closely.
func UpdateTolerance(t float64) float64 { return max(1e-2, 20*t) }

// Learned compares parameters and first moments with those of a reference after the same steps,
// by parameters in the order of Open. The first moments are sums of the gradients of all steps;
// of the values it compares the change since they were drawn. order is how the device's values
// of a parameter lie in the reference's order, nil for as they are. It returns the largest error
// of a parameter.
func (s *Step) Learned(stream gpuprof.Stream, drawn, p, m [][]float64, order func(i int, v []float64) []float64) (gradients, update float64, err error) {
	now, err := s.Save(stream)
	if err != nil {
		return 0, 0, err
	}
	if order == nil {
		order = func(_ int, v []float64) []float64 { return v }
	}
	for k := range p {
		var moments, change op.ErrorNorm
		moments.Add(op.As[float32](order(k, now.m[k])), m[k])
		for i, v := range order(k, now.p[k]) {
			change.Add([]float32{float32(v - drawn[k][i])}, []float64{p[k][i] - drawn[k][i]})
		}
		gradients, update = worse(gradients, moments.Relative()), worse(update, change.Relative())
	}
	return gradients, update, nil
}

func worse(a, b float64) float64 {
	if op.Worse(gpuprof.Number(a), gpuprof.Number(b)) {
		return b
	}
	return a
}
