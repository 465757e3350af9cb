package optim

import (
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// Reference is what steps make of parameters in float64, by parameters in the order of Open.
type Reference struct {
	P, before, m, v [][]float64 // now, before the last step, and the moments
	least           [][]float64 // the smallest gradient of all steps, over the root mean square of its parameter's
	steps           int
	rate, clip      float64
	moments, update float64 // see Errors
}

// checkRate bounds the learning rate of checked steps. A larger one makes weights larger than they
// are drawn: sums of them have larger rounding errors than tolerances are for.
const checkRate = 1e-3

// NewReference begins with parameters as they were drawn.
func NewReference(drawn [][]float64, set gpuprof.Settings) *Reference {
	r := &Reference{rate: min(set.Float("lr"), checkRate), clip: set.Float("clip")}
	for _, p := range drawn {
		r.P, r.before = append(r.P, slices.Clone(p)), append(r.before, make([]float64, len(p)))
		r.m, r.v = append(r.m, make([]float64, len(p))), append(r.v, make([]float64, len(p)))
		r.least = append(r.least, slices.Repeat([]float64{math.Inf(1)}, len(p)))
	}
	return r
}

// Begin takes the device to where the reference begins: see Step.Checked.
func (r *Reference) Begin(s *Step, stream device.Stream) error {
	if err := s.Checked(stream); err != nil {
		return err
	}
	state, err := op.Receive(s.mem.Dev, stream, s.adam.state, 0, stateWords)
	if err != nil {
		return err
	}
	state[stateRate] = float32(r.rate)
	return op.Send(s.mem.Dev, stream, s.adam.state, state)
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
		copy(r.before[k], r.P[k])
		RefAdam(r.rate, r.steps, r.P[k], g, r.m[k], r.v[k])
	}
}

// UpdateTolerance is that of the change of parameters where gradients have a relative error of t:
// Adam divides a gradient by its size, so an error counts against the smallest that is compared.
// Twice that is left for the moments of earlier steps. A change that is missing is off by 1.
func UpdateTolerance(t float64) float64 { return 2 * t / certain(t) }

// certain is the smallest gradient whose change is compared, over the root mean square of its
// parameter's.
func certain(t float64) float64 { return max(20*t, 0.1) }

// rounded is what a step rounds a float32 parameter by, relative to it.
const rounded = 1. / (1 << 21)

// Follow compares parameters and first moments with the reference's after a step of both. The
// first moments are sums of the gradients of all steps. Of the parameters it compares the change
// in this step, where gradients with a relative error of t leave it certain. The reference goes on
// from the device's parameters: where the change is not certain the two may be twice the learning
// rate apart, and the next step's gradients with them. order is how the device's values of a
// parameter lie in the reference's order, nil for as they are.
func (r *Reference) Follow(s *Step, stream device.Stream, t float64, order func(i int, v []float64) []float64) error {
	now, err := s.Save(stream)
	if err != nil {
		return err
	}
	if order == nil {
		order = func(_ int, v []float64) []float64 { return v }
	}
	for k, p := range r.P {
		var moments, change op.ErrorNorm
		m, there := order(k, now.m[k]), order(k, now.p[k])
		moments.Add(op.As[float32](m), r.m[k])
		for i, v := range there {
			// Without a gradient nothing may change; rounding errors of one that cancels are no gradient.
			if least := r.least[k][i]; least <= certain(t) && (least > 0 || m[i] != 0) && v == v {
				continue
			}
			if math.Abs(v-p[i]) <= rounded*math.Abs(p[i]) { // a change can be smaller than that
				v = p[i]
			}
			change.Add([]float32{float32(v - r.before[k][i])}, []float64{p[i] - r.before[k][i]})
		}
		r.moments, r.update = worse(r.moments, moments.Relative()), worse(r.update, change.Relative())
		copy(p, there)
	}
	return nil
}

// Errors are the largest of a parameter's first moments and of its change, in any step.
func (r *Reference) Errors() (moments, update float64) { return r.moments, r.update }

func worse(a, b float64) float64 {
	if op.Worse(gpuprof.Number(a), gpuprof.Number(b)) {
		return b
	}
	return a
}
