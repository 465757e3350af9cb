package optim

import (
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// eachTensor calls f for the parts of [lo, hi) in one tensor each: its values and gradients, and their range among
// all values.
func eachTensor(a *device.Args, first, ends, lo, hi int, f func(p, g []float32, lo, hi int)) {
	start := 0
	for i := range perLaunch {
		end := hi
		if i < perLaunch-1 {
			end = a.Int(ends + i)
		}
		if from, to := max(lo, start), min(hi, end); from < to {
			f(a.Floats(first + 2*i)[from-start:to-start], a.Floats(first + 2*i + 1)[from-start:to-start], from, to)
		}
		start = end
	}
}

func adamHost(a *device.Args, lo, hi int) {
	state, m, v := a.Floats(0), a.Floats(1), a.Floats(2)
	if state[stateFound] != 0 {
		return
	}
	size, root := state[stateStepSize], state[stateRoot]
	eachTensor(a, 3, 13, lo, hi, func(p, g []float32, lo, hi int) {
		m, v := m[lo:hi], v[lo:hi]
		for i, x := range g {
			m[i] += (x - m[i]) * (1 - beta1)
			v[i] = beta2*v[i] + (1-beta2)*x*x
			p[i] -= size * m[i] / (sqrt(v[i])*root + eps)
		}
	})
}

func sqrt(x float32) float32 { return float32(math.Sqrt(float64(x))) }

func adamPartHost(a *device.Args, lo, hi int) {
	state, m, v, d, part := a.Floats(0), a.Floats(1), a.Floats(2), a.Floats(3), a.Int(18)
	if state[stateFound] != 0 {
		return
	}
	eachTensor(a, 4, 14, lo, hi, func(p, g []float32, lo, hi int) {
		m, v, d := m[lo:hi], v[lo:hi], d[lo:hi]
		for i := range g {
			switch part {
			case partLerp:
				m[i] += (g[i] - m[i]) * (1 - beta1)
			case partMul:
				v[i] *= beta2
			case partAddcmul:
				v[i] += (1 - beta2) * g[i] * g[i]
			case partSqrt:
				d[i] = sqrt(v[i])
			case partDiv:
				d[i] *= state[stateRoot]
			case partAdd:
				d[i] += eps
			case partAddcdiv:
				p[i] -= state[stateStepSize] * m[i] / d[i]
			}
		}
	})
}

func tickHost(a *device.Args, _, _ int) {
	state := a.Floats(0)
	if state[stateFound] != 0 {
		return
	}
	t := float64(state[stateStep]) + 1
	state[stateStep] = float32(t)
	state[stateStepSize] = float32(float64(state[stateRate]) / (1 - math.Pow(beta1, t)))
	state[stateRoot] = float32(1 / math.Sqrt(1-math.Pow(beta2, t)))
}

func squaresHost(a *device.Args, lo, hi int) {
	g, partial, n, at := a.Floats(0), a.Floats(1), a.Int(2), a.Int(3)
	for c := lo; c < hi; c++ {
		sum := 0.0
		for _, x := range g[c*chunk : min((c+1)*chunk, n)] {
			sum += float64(x) * float64(x)
		}
		partial[at+c] = float32(sum)
	}
}

func clipHost(a *device.Args, _, _ int) {
	sum := 0.0
	for _, x := range a.Floats(0)[:a.Int(2)] {
		sum += float64(x)
	}
	a.Floats(1)[stateNorm] = float32(math.Sqrt(sum))
	a.Floats(1)[stateFactor] = float32(min(1, float64(a.F32(3))/(math.Sqrt(sum)+1e-6)))
}

func scaleHost(a *device.Args, lo, hi int) {
	g, f := a.Floats(0)[lo:hi], a.Floats(1)[a.Int(2)]
	for i := range g {
		g[i] *= f
	}
}

func unscaleHost(a *device.Args, lo, hi int) {
	state := a.Floats(0)
	f, start, found := state[stateInverse], 0, false
	for i := range perLaunch {
		end := hi
		if i < perLaunch-1 {
			end = a.Int(6 + i)
		}
		if from, to := max(lo, start), min(hi, end); from < to {
			g := a.Floats(1 + i)[from-start : to-start]
			for k := range g {
				g[k] *= f
				found = found || g[k]-g[k] != 0 // NaN and infinities differ from themselves by NaN
			}
		}
		start = end
	}
	if found { // several items may store it
		atomic.StoreUint32((*uint32)(unsafe.Pointer(&state[stateFound])), math.Float32bits(1))
	}
}

func scaleUpdateHost(a *device.Args, _, _ int) {
	state, growth := a.Floats(0), a.Int(1)
	scale, good := state[stateScale], state[stateGood]+1
	if growth > 0 {
		switch {
		case state[stateFound] != 0:
			scale, good = scale/2, 0
		case int(good) == growth:
			scale, good = scale*2, 0
		}
	}
	state[stateScale], state[stateInverse], state[stateCotangent] = scale, 1/scale, scale*a.F32(2)
	state[stateGood], state[stateFound] = good, 0
}
