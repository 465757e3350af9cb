package op

// RefGateGrad computes one row of GateGrad: dx from x and the output's cotangent dout, all in g.Layout.
func RefGateGrad(g Gate, x, dout, dx []float64) error {
	if err := g.Check(); err != nil {
		return err
	}
	scalars, gates := g.Scalars.Dim(), g.Gates.Dim()
	at := 0
	for i, m := range g.Scalars {
		a, c, _ := findActivation(g.ActScalars[i], g.Normalisation) // g.Check has accepted the activation
		for range m.Mul {
			dx[at] = c * activationSlope(a.id, x[at]) * dout[at]
			at++
		}
	}
	phi, slope := make([]float64, 0, gates), make([]float64, 0, gates)
	for i, m := range g.Gates {
		a, c, _ := findActivation(g.ActGates[i], g.Normalisation)
		for range m.Mul {
			v := x[scalars+len(phi)]
			phi, slope = append(phi, c*activate(a.id, v)), append(slope, c*activationSlope(a.id, v))
		}
	}
	flat, back := make([]float64, g.Gated.Dim()), make([]float64, g.Gated.Dim())
	FromLayout(g.Layout, g.Gated, flat, x[scalars+gates:])
	FromLayout(g.Layout, g.Gated, back, dout[scalars:])
	at = 0
	q := 0
	for _, m := range g.Gated {
		for range m.Mul {
			sum := 0.0
			for range m.Ir.Dim() {
				sum += flat[at] * back[at]
				back[at] *= phi[q]
				at++
			}
			dx[scalars+q] = slope[q] * sum
			q++
		}
	}
	ToLayout(g.Layout, g.Gated, dx[scalars+gates:], back)
	return nil
}
