package op

import "math"

// RefBasis writes the radial functions of one vector (three values) to b, each from its definition.
func RefBasis(s Basis, vec, b []float64) {
	r := math.Sqrt(vec[0]*vec[0] + vec[1]*vec[1] + vec[2]*vec[2])
	c := s.Cutoff
	for i := range b {
		n := float64(i + 1)
		switch {
		case s.Kind == "gaussian":
			delta := c / float64(s.N-1)
			b[i] = math.Exp(-math.Pow((r-float64(i)*delta)/delta, 2)) / 1.12
		case r == 0:
			b[i] = math.Sqrt(2/c) * n * math.Pi / c
		default:
			b[i] = math.Sqrt(2/c) * math.Sin(n*math.Pi*r/c) / r
		}
		if s.Envelope {
			b[i] *= refEnvelope(r / c)
		}
	}
}

func refEnvelope(t float64) float64 {
	const p = 6.0
	if t >= 1 {
		return 0
	}
	return 1 - (p+1)*(p+2)/2*math.Pow(t, p) + p*(p+2)*math.Pow(t, p+1) - p*(p+1)/2*math.Pow(t, p+2)
}
