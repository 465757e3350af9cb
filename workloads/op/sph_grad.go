package op

import (
	_ "embed"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

//go:embed sph_grad.ptx.zst
var sphGradPTX string

// SphGrad is the backward pass of Sph and of a Basis together, with respect to the vectors. n is the direction of a
// vector and g the gradient with respect to its length r (see BasisGrad); for the zero vector f is 0:
//
//	vec [E,3], dy [E,(LMax+1)^2], g [E] -> f [E,3] = g n + sum_lm dy_lm grad Y_lm
//
// The gradient of the unnormalised solid harmonic R_l^m = (P_l^m(y)/s^m)(z+ix)^m, with R_l^m = 0 for m > l, is a sum
// of harmonics of degree l-1, so it needs no division at the poles:
//
//	d_y R_l^m = (l+m) R_{l-1}^m
//	d_z R_l^m = (D-U)/2, d_x = i(D+U)/2 with D = (l+m)(l+m-1) R_{l-1}^{m-1}, U = R_{l-1}^{m+1}
//	d_z R_l^0 = -Re U, d_x = -Im U
type SphGrad struct{ Sph Sph }

// One item of sphGradKernel is one edge.
var sphGradKernel = device.Typed[sphGradArgs](device.Kernel{Name: "sph_grad", Host: sphGradHost, Grain: 64, PTX: sphGradPTX, Threads: 128, PerBlock: 128})

// Bind binds the operation for up to edgeCap edges.
func (g SphGrad) Bind(dev device.Device, vec, dy, slope, f device.Buffer, edgeCap int) (*Bound, error) {
	s := g.Sph
	k := newBinder(dev, "sph backwards", edgeCap)
	if s.LMax < 0 || s.LMax > so3.MaxL {
		k.failUsage("choose one inside", "lmax %d is outside 0..%d", s.LMax, so3.MaxL)
	}
	e := int64(edgeCap)
	k.checkBuffer("vec", vec, 3*e)
	k.checkBuffer("dy", dy, int64(s.Dim())*e)
	k.checkBuffer("g", slope, e)
	k.checkBuffer("f", f, 3*e)
	flops := s.gradFlops()
	k.b.minimum = rate{perEdge: Moved(flops, 3+s.Dim()+1, 3).In("fp64", int64(flops))} // fp64 on host and GPU
	k.addLaunch(&sphGradKernel, items{perEdge: 1}, k.b.minimum, sphGradArgs{
		vec: vec, dy: dy, slope: slope, f: f, count: itemCount, lmax: s.LMax,
	})
	return k.finishBinding()
}

// gradFlops counts the operations of one edge: edgeFlops for the values. The gradient's three components take 4 for a
// harmonic with m = 0, and 7 for each pair m, -m. Adding each component, and the value, to the sums takes 2. The last
// projection takes 9.
func (s Sph) gradFlops() int {
	n := s.edgeFlops() + 9
	for l := 1; l <= s.LMax; l++ {
		n += 4 + 7*l + 8*(2*l+1)
	}
	return n
}
