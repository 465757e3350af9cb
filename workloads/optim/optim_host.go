package optim

import (
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// operands holds a launch's tensors for host code, and the end offsets of the first four in their concatenation.
type operands struct {
	p, g [perLaunch]device.Mem
	ends [perLaunch - 1]device.Int32
}

// each divides [lo, hi), a range in the concatenation of all tensors, at the tensors' ends. It calls f for each part
// with the part's values, its gradients and its range.
func (o *operands) each(lo, hi int, f func(p, g []float32, lo, hi int)) {
	start := 0
	for i := range perLaunch {
		end := hi
		if i < perLaunch-1 {
			end = o.ends[i].Int()
		}
		if from, to := max(lo, start), min(hi, end); from < to {
			f(o.p[i].Floats()[from-start:to-start], o.g[i].Floats()[from-start:to-start], from, to)
		}
		start = end
	}
}

func adamHost(args *device.Args, lo, hi int) {
	a := device.View[adamView](args)
	state, m, v := a.state.Floats(), a.m.Floats(), a.v.Floats()
	if state[stateFound] != 0 {
		return
	}
	size, root := state[stateStepSize], state[stateRoot]
	o := operands{
		[perLaunch]device.Mem{a.p0, a.p1, a.p2, a.p3, a.p4}, [perLaunch]device.Mem{a.g0, a.g1, a.g2, a.g3, a.g4},
		[perLaunch - 1]device.Int32{a.e0, a.e1, a.e2, a.e3},
	}
	o.each(lo, hi, func(p, g []float32, lo, hi int) {
		m, v := m[lo:hi], v[lo:hi]
		for i, x := range g {
			m[i] += (x - m[i]) * (1 - beta1)
			v[i] = beta2*v[i] + (1-beta2)*x*x
			p[i] -= size * m[i] / (sqrt(v[i])*root + eps)
		}
	})
}

func sqrt(x float32) float32 { return float32(math.Sqrt(float64(x))) }

func adamPartHost(args *device.Args, lo, hi int) {
	a := device.View[adamPartView](args)
	state, m, v, d, part := a.state.Floats(), a.m.Floats(), a.v.Floats(), a.d.Floats(), a.part.Int()
	if state[stateFound] != 0 {
		return
	}
	o := operands{
		[perLaunch]device.Mem{a.p0, a.p1, a.p2, a.p3, a.p4}, [perLaunch]device.Mem{a.g0, a.g1, a.g2, a.g3, a.g4},
		[perLaunch - 1]device.Int32{a.e0, a.e1, a.e2, a.e3},
	}
	o.each(lo, hi, func(p, g []float32, lo, hi int) {
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

func tickHost(args *device.Args, _, _ int) {
	a := device.View[adamTickView](args)
	state := a.state.Floats()
	if state[stateFound] != 0 {
		return
	}
	t := float64(state[stateStep]) + 1
	state[stateStep] = float32(t)
	state[stateStepSize] = float32(float64(state[stateRate]) / (1 - math.Pow(beta1, t)))
	state[stateRoot] = float32(1 / math.Sqrt(1-math.Pow(beta2, t)))
}

func squaresHost(args *device.Args, lo, hi int) {
	a := device.View[squaresView](args)
	g, partial, n, at := a.g.Floats(), a.partial.Floats(), a.values.Int(), a.at.Int()
	for c := lo; c < hi; c++ {
		sum := 0.0
		for _, x := range g[c*chunk : min((c+1)*chunk, n)] {
			sum += float64(x) * float64(x)
		}
		partial[at+c] = float32(sum)
	}
}

func clipHost(args *device.Args, _, _ int) {
	a := device.View[clipView](args)
	sum := 0.0
	for _, x := range a.partial.Floats()[:a.count.Int()] {
		sum += float64(x)
	}
	a.state.Floats()[stateNorm] = float32(math.Sqrt(sum))
	a.state.Floats()[stateFactor] = float32(min(1, float64(a.limit.F32())/(math.Sqrt(sum)+1e-6)))
}

func scaleHost(args *device.Args, lo, hi int) {
	a := device.View[scaleByView](args)
	g, f := a.g.Floats()[lo:hi], a.state.Floats()[a.which.Int()]
	for i := range g {
		g[i] *= f
	}
}

func unscaleHost(args *device.Args, lo, hi int) {
	a := device.View[unscaleView](args)
	state := a.state.Floats()
	f, found := state[stateInverse], false
	grads := [perLaunch]device.Mem{a.g0, a.g1, a.g2, a.g3, a.g4}
	o := operands{grads, grads, [perLaunch - 1]device.Int32{a.e0, a.e1, a.e2, a.e3}}
	o.each(lo, hi, func(_, g []float32, _, _ int) {
		for k := range g {
			g[k] *= f
			found = found || g[k]-g[k] != 0 // x - x is NaN for NaN and infinities
		}
	})
	if found { // several items may store it
		atomic.StoreUint32((*uint32)(unsafe.Pointer(&state[stateFound])), math.Float32bits(1))
	}
}

func scaleUpdateHost(args *device.Args, _, _ int) {
	a := device.View[scaleUpdateView](args)
	state, growth := a.state.Floats(), a.growth.Int()
	scale, good := state[stateScale], state[stateGood]+1
	if growth > 0 {
		switch {
		case state[stateFound] != 0:
			scale, good = scale/2, 0
		case int(good) == growth:
			scale, good = scale*2, 0
		}
	}
	state[stateScale], state[stateInverse], state[stateCotangent] = scale, 1/scale, scale*a.weight.F32()
	state[stateGood], state[stateFound] = good, 0
}
