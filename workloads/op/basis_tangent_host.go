package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
)

// basisTangentHost works in float64 between the float32 input and output, as
// basisHost does.
func basisTangentHost(args *device.Args, lo, hi int) {
	a := device.View[basisTangentView](args)
	n, kind, envelope, cutoff := a.functions.Int(), a.kind.Int(), a.envelope.Int() != 0, float64(a.cutoff.F32())
	vec, u, out := a.vec.Floats(), a.u.Floats(), a.out.Floats()
	for e := lo; e < hi; e++ {
		v, w, row := vec[3*e:3*e+3], u[3*e:3*e+3], out[e*n:(e+1)*n]
		s := slopesOf(v, kind, envelope, cutoff)
		if s.r == 0 {
			clear(row)
			continue
		}
		along := float64(v[0])*float64(w[0]) + float64(v[1])*float64(w[1]) + float64(v[2])*float64(w[2])
		s.sumSlopes(n, nil, row, along/s.r)
	}
}
