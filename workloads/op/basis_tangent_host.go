package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
)

// basisTangentHost works in float64 between the float32 input and output, as
// basisHost does.
func basisTangentHost(a *device.Args, lo, hi int) {
	n, kind, envelope, cutoff := a.Int(4), a.Int(5), a.Int(6) != 0, float64(a.F32(7))
	vec, u, out := a.Floats(0), a.Floats(1), a.Floats(2)
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
