package op

import "math"

// RefBasisTangent writes to out [N] the change of the radial functions of one vector
// (three values) that moves along u: b_i'(r) n.u, with b' as RefBasisGrad has it. The
// zero vector has no direction, and no change.
func RefBasisTangent(s Basis, vec, u, out []float64) {
	r := math.Sqrt(vec[0]*vec[0] + vec[1]*vec[1] + vec[2]*vec[2])
	one := make([]float64, s.N)
	for i := range out {
		if r == 0 {
			out[i] = 0
			continue
		}
		one[i] = 1
		out[i] = RefBasisGrad(s, vec, one) * (vec[0]*u[0] + vec[1]*u[1] + vec[2]*u[2]) / r
		one[i] = 0
	}
}
