package optim

import (
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// Reference computes training steps in float64. It has the parameters in the order of Step.Open.
type Reference struct {
	P, before, m, v [][]float64 // parameters now, parameters before the last step, and Adam's two moments
	least           [][]float64 // smallest gradient of all steps, relative to the root mean square over its parameter
	terms           []float64   // per parameter, sum of the squares of the gradient's parts in this step, see Term
	sizes           []float64   // root of terms after clipping, averaged over steps as Adam averages the first moment
	steps           int
	rate, clip      float64
	moments, update float64 // see Errors
}

// checkRate is the maximum learning rate of checked steps. A larger rate makes weights larger than their initial
// values, and the rounding errors of sums over them exceed the tolerances.
const checkRate = 1e-3

// NewReference returns a reference that starts with the given initial values of the parameters.
func NewReference(drawn [][]float64, k Settings) *Reference {
	r := &Reference{rate: min(k.Rate, checkRate), clip: k.Clip}
	for _, p := range drawn {
		r.P, r.before = append(r.P, slices.Clone(p)), append(r.before, make([]float64, len(p)))
		r.m, r.v = append(r.m, make([]float64, len(p))), append(r.v, make([]float64, len(p)))
		r.terms, r.sizes = append(r.terms, 0), append(r.sizes, 0)
		r.least = append(r.least, slices.Repeat([]float64{math.Inf(1)}, len(p)))
	}
	return r
}

// Begin resets the device to the start of the reference (see Step.Checked).
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

// Gradients returns zeros in the shapes of the parameters.
func (r *Reference) Gradients() (all [][]float64) {
	for _, p := range r.P {
		all = append(all, make([]float64, len(p)))
	}
	return all
}

// Term adds weight times part, a part of parameter k's gradient, to sum. Where parts cancel, their rounding errors
// remain, so Follow measures errors relative to the parts if these are larger than the sum.
func (r *Reference) Term(k int, sum, part []float64, weight float64) {
	for i, v := range part {
		sum[i] += weight * v
		r.terms[k] += weight * v * weight * v
	}
}

// Step clips the gradients in place, and makes a step of Adam with them.
func (r *Reference) Step(grads [][]float64) {
	factor := RefClip(r.clip, grads...)
	r.steps++
	for k, g := range grads {
		sum := 0.0
		for i := range g {
			g[i] *= factor
			sum += g[i] * g[i]
		}
		size := math.Sqrt(max(sum, factor*factor*r.terms[k]) / float64(len(g)))
		for i, x := range g {
			if size > 0 {
				r.least[k][i] = math.Min(r.least[k][i], math.Abs(x)/size)
			}
		}
		r.sizes[k], r.terms[k] = beta1*r.sizes[k]+(1-beta1)*factor*math.Sqrt(r.terms[k]), 0
		copy(r.before[k], r.P[k])
		RefAdam(r.rate, r.steps, r.P[k], g, r.m[k], r.v[k])
	}
}

// UpdateTolerance returns the tolerance for the change of parameters if gradients have a relative error of t. Adam
// divides a gradient by its size, so the relative error of the change is t divided by the smallest compared gradient
// (see leastCompared). The factor 2 covers the moments of earlier steps. A missing change has an error of 1.
func UpdateTolerance(t float64) float64 { return 2 * t / leastCompared(t) }

// leastCompared returns the smallest gradient for which Follow compares the change of the parameter's value. The unit
// is the root mean square of the parameter's gradients.
func leastCompared(t float64) float64 { return max(20*t, 0.1) }

// rounded is an upper bound of a float32 parameter's rounding error in a step, relative to the parameter.
const rounded = 1. / (1 << 21)

// Follow compares the device's first moments and parameters with the reference after both have made a step. A first
// moment is a sum of the gradients of all steps. Of the parameters, Follow compares the change in this step. It skips
// values with gradients so small that a relative error of t decides the change. Skipped values can differ by twice the
// learning rate, which would change the next gradients. So the reference then continues from the device's parameters.
// order converts a parameter's device values to the reference's order; nil means no conversion.
func (r *Reference) Follow(s *Step, stream device.Stream, t float64, order func(i int, v []float64) []float64) error {
	now, err := s.Save(stream)
	if err != nil {
		return err
	}
	if order == nil {
		order = func(_ int, v []float64) []float64 { return v }
	}
	for k, p := range r.P {
		var change op.ErrorNorm
		m, there := order(k, now.m[k]), order(k, now.p[k])
		for i, v := range there {
			// A parameter without a gradient must not change; ignore rounding errors of a gradient that cancels.
			if least := r.least[k][i]; least <= leastCompared(t) && (least > 0 || m[i] != 0) && v == v {
				continue
			}
			if math.Abs(v-p[i]) <= rounded*math.Abs(p[i]) { // the change can be smaller than the rounding
				v = p[i]
			}
			change.Add([]float32{float32(v - r.before[k][i])}, []float64{p[i] - r.before[k][i]})
		}
		r.moments, r.update = worseOf(r.moments, r.momentError(k, m)), worseOf(r.update, change.Relative())
		copy(p, there)
	}
	return nil
}

// momentError returns the relative error of the first moment of parameter k.
func (r *Reference) momentError(k int, m []float64) float64 {
	var e op.ErrorNorm
	e.Add(op.As[float32](m), r.m[k])
	e.Ref = max(e.Ref, r.sizes[k]*r.sizes[k])
	return e.Relative()
}

// Errors returns the largest errors of a parameter's first moments and of its change, over all steps.
func (r *Reference) Errors() (moments, update float64) { return r.moments, r.update }

func worseOf(a, b float64) float64 {
	if op.Worse(gpuprof.Number(a), gpuprof.Number(b)) {
		return b
	}
	return a
}
