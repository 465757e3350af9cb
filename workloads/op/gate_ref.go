package op

import "github.com/gpuprof/gpuprof/workloads/so3"

// RefGate computes one row of the gate; x and out are in g.Layout.
func RefGate(g Gate, x, out []float64) error {
	if err := g.Check(); err != nil {
		return err
	}
	scalars, gates := g.Scalars.Dim(), g.Gates.Dim()
	refActivate(g.Scalars, g.ActScalars, g.Normalisation, x[:scalars], out[:scalars])
	phi := make([]float64, gates)
	refActivate(g.Gates, g.ActGates, g.Normalisation, x[scalars:scalars+gates], phi)
	flat, res := make([]float64, g.Gated.Dim()), make([]float64, g.Gated.Dim())
	FromLayout(g.Layout, g.Gated, flat, x[scalars+gates:])
	at, q := 0, 0
	for _, m := range g.Gated {
		for range m.Mul {
			for range m.Ir.Dim() {
				res[at] = phi[q] * flat[at]
				at++
			}
			q++
		}
	}
	ToLayout(g.Layout, g.Gated, out[scalars:], res)
	return nil
}

func refActivate(irs so3.Irreps, acts []string, normalisation string, x, out []float64) {
	at := 0
	for i, m := range irs {
		// g.Check has accepted every activation.
		a, c, _ := findActivation(acts[i], normalisation)
		for range m.Mul {
			out[at] = c * activate(a.id, x[at])
			at++
		}
	}
}
