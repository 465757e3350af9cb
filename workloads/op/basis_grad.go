package op

import (
	_ "embed"

	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed basis_grad.ptx.zst
var basisGradPTX string

// BasisGrad is the backward pass of a Basis with respect to the edge lengths r. RefBasisGrad has the derivatives b_i'.
//
//	vec [E,3], db [E,N] -> g [E],  g = sum_i db_i b_i'(r)
type BasisGrad struct{ Basis Basis }

// One item of basisGradKernel is one edge.
var basisGradKernel = device.Typed[basisGradArgs](device.Kernel{Name: "basis_grad", Host: basisGradHost, Grain: 64, PTX: basisGradPTX, Threads: 128, PerBlock: 128})

// Bind binds the operation for up to edgeCap edges.
func (g BasisGrad) Bind(dev device.Device, vec, db, slope device.Buffer, edgeCap int) (*Bound, error) {
	s := g.Basis
	k := newBinder(dev, "basis backwards", edgeCap)
	k.failOn(s.Check())
	kind, _ := s.kindNumber() // Check has accepted it
	k.checkBuffer("vec", vec, 3*int64(edgeCap))
	k.checkBuffer("db", db, int64(s.N)*int64(edgeCap))
	k.checkBuffer("g", slope, int64(edgeCap))
	flops := s.gradFlops()
	k.b.minimum = rate{perEdge: Moved(flops, 3+s.N, 1).In("fp64", int64(flops))} // fp64 on host and GPU
	k.addLaunch(&basisGradKernel, items{perEdge: 1}, k.b.minimum, basisGradArgs{
		vec: vec, db: db, g: slope, count: itemCount, functions: s.N, kind: kind, envelope: s.Envelope,
		cutoff: float32(s.Cutoff),
	})
	return k.finishBinding()
}

// gradFlops counts the operations of one edge: edgeFlops for the functions' values, then 5 per function for its
// derivative and for adding it to the sum. An envelope takes 8 more for u', and 3 per function.
func (s Basis) gradFlops() int {
	n := s.edgeFlops() + 5*s.N
	if s.Envelope {
		n += 8 + 3*s.N
	}
	return n
}
