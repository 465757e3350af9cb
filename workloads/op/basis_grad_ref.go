package op

import "math"

// RefBasisGrad is the derivative of sum_i db_i b_i with respect to the length r of vec (three values), by definition:
//
//	gaussian  b' = -2 (r-mu)/Delta^2 b
//	bessel    b' = sqrt(2/c) (k cos kr/r - sin kr/r^2), k = n pi/c; near 0 -sqrt(2/c) k^3 r/3
//	envelope  u' = -168 t^5 (1-t)^2/c with t = r/c, 0 from t = 1 on; (b u)' = b' u + b u'
func RefBasisGrad(s Basis, vec, db []float64) float64 {
	r := math.Sqrt(vec[0]*vec[0] + vec[1]*vec[1] + vec[2]*vec[2])
	flat := s
	flat.Envelope = false
	b := make([]float64, s.N)
	RefBasis(flat, vec, b)
	u, du := 1.0, 0.0
	if s.Envelope {
		u, du = refEnvelope(r/s.Cutoff), refEnvelopeSlope(r/s.Cutoff)/s.Cutoff
	}
	sum := 0.0
	for i, v := range b {
		sum += db[i] * (s.refSlope(i, r, v)*u + v*du)
	}
	return sum
}

// refSlope returns b_i'(r) without the envelope; v is b_i(r).
func (s Basis) refSlope(i int, r, v float64) float64 {
	if s.Kind == "gaussian" {
		delta := s.Cutoff / float64(s.N-1)
		return -2 * (r - float64(i)*delta) / (delta * delta) * v
	}
	k, scale := float64(i+1)*math.Pi/s.Cutoff, math.Sqrt(2/s.Cutoff)
	if k*r < 1e-4 { // the next term is (k r)^2/10 of this term; the exact difference below loses more digits
		return -scale * k * k * k * r / 3
	}
	return scale * (k*math.Cos(k*r)/r - math.Sin(k*r)/(r*r))
}

func refEnvelopeSlope(t float64) float64 {
	if t >= 1 {
		return 0
	}
	return -168 * math.Pow(t, 5) * (1 - t) * (1 - t)
}
