package optim

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// Values of the knob scaler.
const (
	ScalerOff     = "off"
	ScalerStatic  = "static"  // constant scale
	ScalerDynamic = "dynamic" // halved after an overflow, doubled after many steps without
)

const (
	firstScale = 65536 // this and growAfter as in PyTorch's GradScaler
	growAfter  = 2000
)

// Scaler scales a loss so that small gradients survive rounding to fp16, and divides the gradients by the scale. A
// step with a gradient that is not finite is skipped; it halves a dynamic scale, which Growth steps without a skip
// double. Weight is the weight of a micro-batch.
type Scaler struct {
	Mode   string
	Growth int
	Weight float32
}

// unscaleKernel takes up to five tensors, and the end offsets of the first four in the concatenation of all; an item is
// one value. scaleUpdateKernel has one item. It keeps the scale if its argument growth is 0.
var (
	unscaleKernel     = device.Typed[unscaleArgs](device.Kernel{Name: "unscale", Host: unscaleHost, Grain: 1 << 12, PTX: optimPTX, Threads: 256, PerBlock: 1024})
	scaleUpdateKernel = device.Typed[scaleUpdateArgs](device.Kernel{Name: "scale_update", Host: scaleUpdateHost, PTX: optimPTX, Threads: 32, PerBlock: 1})
)

// isOn reports whether the loss is scaled.
func (s Scaler) isOn() bool { return s.Mode != ScalerOff && s.Mode != "" }

func (s Scaler) weight() float32 {
	if s.Weight == 0 {
		return 1
	}
	return s.Weight
}

func (s Scaler) initState(state []float32) {
	scale := float32(1)
	if s.isOn() {
		scale = firstScale
	}
	state[stateScale], state[stateInverse], state[stateCotangent] = scale, 1/scale, scale*s.weight()
}

// unscaleLaunches returns the launches that divide all gradients by the scale and detect gradients that are not finite.
// There are none if the loss is not scaled.
func (a *Adam) unscaleLaunches() (all []op.Launch) {
	if !a.scaler.isOn() {
		return nil
	}
	for _, g := range cutGroups(a.all, perLaunch) {
		_, d, e := g.operands()
		all = append(all, op.Launch{Kernel: &unscaleKernel, N: g.n, Cost: op.Moved(g.n, g.n+1, g.n), Args: unscaleArgs{
			state: a.state, g0: d[0], g1: d[1], g2: d[2], g3: d[3], g4: d[4], e0: e[0], e1: e[1], e2: e[2], e3: e[3],
		}})
	}
	return all
}

// updateLaunches returns the launch that updates the scale at the end of a step, or none if the loss is not scaled.
func (a *Adam) updateLaunches() (all []op.Launch) {
	if !a.scaler.isOn() {
		return nil
	}
	growth := 0
	if a.scaler.Mode == ScalerDynamic {
		growth = a.scaler.Growth
	}
	return []op.Launch{{Kernel: &scaleUpdateKernel, N: 1, Cost: op.Moved(3, 3, 5), Args: scaleUpdateArgs{
		state: a.state, growth: growth, weight: a.scaler.weight(),
	}}}
}
