package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
)

// BasisTangent is the change of a Basis when the vectors move:
//
//	vec [E,3], u [E,3] -> out [E,N],  out_i = b_i'(r) n.u
//
// with the direction n and b' as BasisGrad has it. The zero vector has no direction:
// its change is 0.
type BasisTangent struct{ Basis Basis }

// basisTangentKernel: one item is one edge.
var basisTangentKernel = device.Typed[basisTangentArgs](device.Kernel{Name: "basis_tangent", Host: basisTangentHost, Grain: 64, PTX: basisGradPTX, Threads: 128, PerBlock: 128})

// Bind binds the operation for up to edgeCap edges.
func (g BasisTangent) Bind(dev device.Device, vec, u, out device.Buffer, edgeCap int) (*Bound, error) {
	s := g.Basis
	k := newBinder(dev, "change of the basis", edgeCap)
	if err := s.Check(); err != nil {
		k.failUsage("", "%w", err)
	}
	kind, _ := s.kindNumber() // Check has accepted it
	k.checkBuffer("vec", vec, 3*int64(edgeCap))
	k.checkBuffer("u", u, 3*int64(edgeCap))
	k.checkBuffer("out", out, int64(s.N)*int64(edgeCap))
	envelope := 0
	if s.Envelope {
		envelope = 1
	}
	// A product per function replaces the two operations that add a term, and n.u costs 6.
	flops := s.gradFlops() - s.N + 6
	k.b.minimum = rate{perEdge: moveCost(flops, 6, s.N).In("fp64", int64(flops))} // double on either device
	k.addLaunch(&basisTangentKernel, items{perEdge: 1}, k.b.minimum, basisTangentArgs{
		vec: vec, u: u, out: out, count: itemCount{}, functions: s.N, kind: kind, envelope: envelope,
		cutoff: float32(s.Cutoff),
	})
	return k.finishBinding()
}
