package op

// RefGateTangent computes the change out of one row of the gate's output when its input x moves along dx; see
// GateTangent. All arrays are in g.Layout.
func RefGateTangent(g Gate, x, dx, out []float64) error {
	return g.eachRef(func(a activation, c float64, z int, members []int, at []int) {
		slope := c * activationSlope(a.id, x[z])
		if members == nil {
			out[at[0]] = slope * dx[z]
			return
		}
		for i, m := range members {
			out[at[i]] = slope*dx[z]*x[m] + c*activate(a.id, x[z])*dx[m]
		}
	})
}

// RefGateSecond computes the gradient by x of dout . (the tangent of the gate along dx); see GateSecond. All arrays
// are in g.Layout.
func RefGateSecond(g Gate, x, dx, dout, grad []float64) error {
	return g.eachRef(func(a activation, c float64, z int, members []int, at []int) {
		slope, bend := c*activationSlope(a.id, x[z]), c*activationCurvature(a.id, x[z])
		if members == nil {
			grad[z] = bend * dx[z] * dout[at[0]]
			return
		}
		sum, moved := 0.0, 0.0
		for i, m := range members {
			sum += x[m] * dout[at[i]]
			moved += dx[m] * dout[at[i]]
			grad[m] = slope * dx[z] * dout[at[i]]
		}
		grad[z] = bend*dx[z]*sum + slope*moved
	})
}

// eachRef calls f for every activated value, with its index z in a row of the input; for a gate also with the indices
// of the gated values in the input and in the output.
func (g Gate) eachRef(f func(a activation, c float64, z int, members, at []int)) error {
	if err := g.Check(); err != nil {
		return err
	}
	z := 0
	for i, m := range g.Scalars {
		a, c, _ := findActivation(g.ActScalars[i], g.Normalisation) // Check has accepted it
		for range m.Mul {
			f(a, c, z, nil, []int{z})
			z++
		}
	}
	var acts []activation
	var constants []float64
	for i, m := range g.Gates {
		a, c, _ := findActivation(g.ActGates[i], g.Normalisation)
		for range m.Mul {
			acts, constants = append(acts, a), append(constants, c)
		}
	}
	from, to, q := g.Scalars.Dim()+g.Gates.Dim(), g.Scalars.Dim(), 0
	for _, m := range g.Gated {
		su, si := g.Layout.blockStrides(m)
		for u := range m.Mul {
			var members, at []int
			for i := range m.Ir.Dim() {
				members, at = append(members, from+u*su+i*si), append(at, to+u*su+i*si)
			}
			f(acts[q], constants[q], z, members, at)
			q, z = q+1, z+1
		}
		from, to = from+m.Dim(), to+m.Dim()
	}
	return nil
}
