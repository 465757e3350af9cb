package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

// SphTangent is the change of a Sph when the vectors move:
//
//	vec [E,3], u [E,3] -> out [E,(LMax+1)^2] = grad Y_lm . u
//
// with the gradients of SphGrad. The zero vector has no direction: its change is 0.
type SphTangent struct{ Sph Sph }

// sphTangentKernel: one item is one edge.
var sphTangentKernel = device.Typed[sphTangentArgs](device.Kernel{Name: "sph_tangent", Host: sphTangentHost, Grain: 64, PTX: sphGradPTX, Threads: 128, PerBlock: 128})

// Bind binds the operation for up to edgeCap edges.
func (g SphTangent) Bind(dev device.Device, vec, u, out device.Buffer, edgeCap int) (*Bound, error) {
	s := g.Sph
	k := newBinder(dev, "change of the harmonics", edgeCap)
	if s.LMax < 0 || s.LMax > so3.MaxL {
		k.failUsage("choose one inside", "lmax %d is outside 0..%d", s.LMax, so3.MaxL)
	}
	e := int64(edgeCap)
	k.checkBuffer("vec", vec, 3*e)
	k.checkBuffer("u", u, 3*e)
	k.checkBuffer("out", out, int64(s.Dim())*e)
	flops := s.gradFlops()
	k.b.minimum = rate{perEdge: moveCost(flops, 6, s.Dim()).In("fp64", int64(flops))} // double on either device
	k.addLaunch(&sphTangentKernel, items{perEdge: 1}, k.b.minimum, sphTangentArgs{
		vec: vec, u: u, out: out, count: itemCount{}, lmax: s.LMax,
	})
	return k.finishBinding()
}
