package op

import (
	"math"

	"github.com/gpuprof/gpuprof"
)

// Activation numbers in kernel arguments; op.cuh has the same enum.
const (
	actNone = iota
	actSilu
	actSigmoid
	actTanh
	actAbs
)

// parity is the effect of an activation on the parity of an odd scalar (a pseudoscalar). An odd function leaves the
// scalar odd, an even function makes it even. Any other function is not equivariant on odd scalars.
type parity int8

const (
	neither parity = 0
	even    parity = 1
	odd     parity = -1
)

// activation is one row of the table of activations. exact and e3nn are constants c for which c*phi(z) has second
// moment 1 when z ~ N(0,1). exact is 1/sqrt(E[phi(z)^2]). e3nn is the estimate of e3nn's normalize2mom (Monte Carlo,
// one million samples), or NaN if unknown.
type activation struct {
	name        string
	id          int
	parity      parity
	exact, e3nn float64
	flops       int // operations per value; an exponential counts as one
}

var activations = [...]activation{
	{"none", actNone, odd, 1, 1, 0},
	{"silu", actSilu, neither, 1.6765324703310912, 1.6791767923989418, 5},
	{"sigmoid", actSigmoid, neither, 1.8462285453386054, 1.8467055342154763, 4},
	{"tanh", actTanh, odd, 1.5925374197228315, 1.5937334472592695, 2},
	{"abs", actAbs, even, 1, math.NaN(), 2},
}

// Values of a Normalisation field: which constant c of an activation to use.
const (
	NormExact = "exact"
	NormE3NN  = "e3nn"
)

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

// activate evaluates an activation in float64, for host kernels and references. float64 costs little more than
// float32, because an exponential dominates the time.
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

// activationSlope returns the activation's first derivative at v; the derivative of abs at 0 is taken as 0.
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
