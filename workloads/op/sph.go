package op

import (
	_ "embed"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

//go:embed sph.ptx.zst
var sphPTX string

// Sph evaluates real spherical harmonics of edge directions, component-normalised, in e3nn's convention (see
// so3.Harmonics). Vectors may have any length; the zero vector gives 1 for l=0 and 0 for l>0.
//
//	vec [E,3] -> y [E,(LMax+1)^2]
type Sph struct{ LMax int }

// One item of sphKernel is one edge.
var sphKernel = device.Typed[sphArgs](device.Kernel{Name: "sph", Host: sphHost, Grain: 64, PTX: sphPTX, Threads: 64, PerBlock: 64})

// Dim returns the number of harmonics per edge.
func (s Sph) Dim() int { return (s.LMax + 1) * (s.LMax + 1) }

// Bind binds the operation for up to edgeCap edges.
func (s Sph) Bind(dev device.Device, vec, y device.Buffer, edgeCap int) (*Bound, error) {
	k := newBinder(dev, "sph", edgeCap)
	if s.LMax < 0 || s.LMax > so3.MaxL {
		k.failUsage("choose one inside", "lmax %d is outside 0..%d", s.LMax, so3.MaxL)
	}
	k.checkBuffer("vec", vec, 3*int64(edgeCap))
	k.checkBuffer("y", y, int64(s.Dim())*int64(edgeCap))
	// The kernel computes in fp64 on host and GPU.
	k.b.minimum = rate{perEdge: Moved(s.edgeFlops(), 3, s.Dim()).In("fp64", int64(s.edgeFlops()))}
	shared := sphKernel.PerBlock * (s.Dim() | 1) * floatBytes // one row of odd length per edge
	k.addLaunch(withShared(&sphKernel, shared), items{perEdge: 1}, k.b.minimum, sphArgs{
		vec: vec, out: y, count: itemCount, lmax: s.LMax,
	})
	return k.finishBinding()
}

// edgeFlops counts the operations of one edge. Length and direction take 9, each power of z+ix above the first 6. A
// step of the Legendre recurrence takes 4 (2 for l=m+1, none for l=m), and 2 products with sine and cosine if m > 0.
func (s Sph) edgeFlops() int {
	if s.LMax == 0 {
		return 0
	}
	n := 9 + 6*(s.LMax-1)
	for m := 0; m <= s.LMax; m++ {
		for l := m; l <= s.LMax; l++ {
			switch l - m {
			case 0:
			case 1:
				n += 2
			default:
				n += 4
			}
			if m > 0 {
				n += 2
			}
		}
	}
	return n
}
