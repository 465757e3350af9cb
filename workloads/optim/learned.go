package optim

import (
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// Reference is what steps make of parameters in float64, by parameters in the order of Open.
type Reference struct {
	P           [][]float64 // now
	drawn, m, v [][]float64
	least       [][]float64 // the smallest gradient of all steps, over the root mean square of its parameter's
	steps       int
	rate, clip  float64
}

// NewReference begins with parameters as they were drawn.
func NewReference(drawn [][]float64, set gpuprof.Settings) *Reference {
	r := &Reference{drawn: drawn, rate: set.Float("lr"), clip: set.Float("clip")}
	for _, p := range drawn {
		r.P = append(r.P, slices.Clone(p))
		r.m, r.v = append(r.m, make([]float64, len(p))), append(r.v, make([]float64, len(p)))
		r.least = append(r.least, slices.Repeat([]float64{math.Inf(1)}, len(p)))
	}
	return r
}

// Gradients are zeros in the shapes of the parameters.
func (r *Reference) Gradients() (all [][]float64) {
	for _, p := range r.P {
		all = append(all, make([]float64, len(p)))
	}
	return all
}

// Step clips gradients, in place, and makes a step of Adam.
func (r *Reference) Step(grads [][]float64) {
	factor := RefClip(r.clip, grads...)
	r.steps++
	for k, g := range grads {
		sum := 0.0
		for i := range g {
			g[i] *= factor
			sum += g[i] * g[i]
		}
		size := math.Sqrt(sum / float64(len(g)))
		for i, x := range g {
			if size > 0 {
				r.least[k][i] = math.Min(r.least[k][i], math.Abs(x)/size)
			}
		}
		RefAdam(r.rate, r.steps, r.P[k], g, r.m[k], r.v[k])
	}
}

// UpdateTolerance is that of the change of parameters, see Learned: one that is missing is off
// by 1.
const UpdateTolerance = 0.1

// certain is how many times its tolerance a gradient must be for its sign and size to be known:
// Adam divides a gradient by its size.
const certain = 20

// rounded is what a few steps round a float32 parameter by, relative to it.
const rounded = 1. / (1 << 21)

// Learned compares parameters and first moments with the reference's after the same steps. The
// first moments are sums of the gradients of all steps. Of the parameters it compares the change
// since they were drawn, where gradients with a relative error of t leave it certain. order is
// how the device's values of a parameter lie in the reference's order, nil for as they are. It
// returns the largest error of a parameter.
func (s *Step) Learned(stream gpuprof.Stream, r *Reference, t float64,
	order func(i int, v []float64) []float64) (gradients, update float64, err error) {
	now, err := s.Save(stream)
	if err != nil {
		return 0, 0, err
	}
	if order == nil {
		order = func(_ int, v []float64) []float64 { return v }
	}
	for k, p := range r.P {
		var moments, change op.ErrorNorm
		moments.Add(op.As[float32](order(k, now.m[k])), r.m[k])
		for i, v := range order(k, now.p[k]) {
			if least := r.least[k][i]; least > 0 && least <= certain*t && v == v { // at 0 nothing may change
				continue
			}
			if math.Abs(v-p[i]) <= rounded*math.Abs(p[i]) { // a change can be smaller than that
				v = p[i]
			}
			change.Add([]float32{float32(v - r.drawn[k][i])}, []float64{p[i] - r.drawn[k][i]})
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
