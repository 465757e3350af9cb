package op

import (
	"math"

	"github.com/gpuprof/gpuprof"
)

// Activation numbers in the arguments of kernels.
const (
	actNone = iota
	actSilu
	actSigmoid
	actTanh
	actAbs
)

// parity is the parity of an activation as a function: an odd one keeps the parity of an odd scalar, an even one
// makes it even, any other is not equivariant on it.
type parity int8

const (
	neither parity = 0
	even    parity = 1
	odd     parity = -1
)

// activation is one row of the only table of activations. exact and e3nn are the constants c that give c*phi(z) a
// second moment of 1 for z ~ N(0,1): the exact 1/sqrt(E[phi(z)^2]), and e3nn's Monte Carlo estimate of it
// (normalize2mom, one million samples); NaN where e3nn's figure is not known.
type activation struct {
	name        string
	id          int
	parity      parity
	exact, e3nn float64
	flops       int // an exponential counted as one
}

var activations = [...]activation{
	{"none", actNone, odd, 1, 1, 0},
	{"silu", actSilu, neither, 1.6765324703310912, 1.6791767923989418, 5},
	{"sigmoid", actSigmoid, neither, 1.8462285453386054, 1.8467055342154763, 4},
	{"tanh", actTanh, odd, 1.5925374197228315, 1.5937334472592695, 2},
	{"abs", actAbs, even, 1, math.NaN(), 2},
}

// Normalisation of activations selects the constant c.
const (
	NormExact = "exact"
	NormE3NN  = "e3nn"
)

// findActivation returns the activation and its constant.
func findActivation(name, normalisation string) (activation, float64, error) {
	for _, a := range activations {
		if a.name != name {
			continue
		}
		switch normalisation {
		case NormExact:
			return a, a.exact, nil
		case NormE3NN:
			if math.IsNaN(a.e3nn) {
				return a, 0, gpuprof.Errorf(nil, "e3nn's constant of activation %q is not known", name).WithFix("use the normalisation exact")
			}
			return a, a.e3nn, nil
		}
		return a, 0, gpuprof.Errorf(nil, "unknown normalisation %q", normalisation).WithFix("use exact or e3nn")
	}
	return activation{}, 0, gpuprof.Errorf(nil, "unknown activation %q", name).WithFix("use silu, sigmoid, tanh, abs or none")
}

// activate applies an activation to a value in float64, for kernels and references; an exponential dominates its
// cost.
func activate(id int, v float64) float64 {
	switch id {
	case actSilu:
		return v / (1 + math.Exp(-v))
	case actSigmoid:
		return 1 / (1 + math.Exp(-v))
	case actTanh:
		return math.Tanh(v)
	case actAbs:
		return math.Abs(v)
	}
	return v
}

// activationSlope returns the activation's first derivative at v, in float64; for abs it is 0 at 0.
func activationSlope(id int, v float64) float64 {
	switch id {
	case actSilu:
		q := 1 / (1 + math.Exp(-v))
		return q * (1 + v*(1-q))
	case actSigmoid:
		q := 1 / (1 + math.Exp(-v))
		return q * (1 - q)
	case actTanh:
		t := math.Tanh(v)
		return 1 - t*t
	case actAbs:
		switch {
		case v > 0:
			return 1
		case v < 0:
			return -1
		}
		return 0
	}
	return 1
}
