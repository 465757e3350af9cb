package e3nn

import (
	"context"
	"math"

	"github.com/gpuprof/gpuprof/workloads/op"
)

// referenceBack computes one row's backward pass in float64 from the batch's vectors and the parameters alone. It
// stores the row's value rho and the gradient of rho with respect to every edge's vector, or in training to every
// edge's hidden layers.
func (s *session) referenceBack(ctx context.Context, ref *rowReference, src []int32, vec, basis []float64, p wide) error {
	n, sh := len(src), (s.model.LMax+1)*(s.model.LMax+1)
	dy, db := make([]float64, n*sh), make([]float64, n*basisSize)
	for i, l := range s.model.Layers {
		lr := &ref.layers[i]
		for u, a := range p.readout[i] {
			ref.rho += a * lr.out[l.readout().First+u]
		}
		dmid, err := s.refGateLinear(i, lr.pre, 1, p)
		if err != nil {
			return err
		}
		in, nw := l.In.Dim(), l.TP.WeightNumel()
		dx, one, dw, back := make([]float64, in), make([]float64, sh), make([]float64, nw), make([]float64, basisSize)
		x := make([]float64, in)
		for e, node := range src {
			if err := ctx.Err(); err != nil {
				return err
			}
			op.ToLayout(s.layout, l.In, x, p.x[i][int(node)*in:(int(node)+1)*in])
			if err := op.RefTensorProductGrad(s.products[i], x, ref.y[e*sh:(e+1)*sh], lr.w[e*nw:(e+1)*nw], dmid, dx, one, dw); err != nil {
				return err
			}
			b := basis[e*basisSize : (e+1)*basisSize]
			if !s.computesForces() {
				da := make([]float64, mlpHidden)
				if err := op.RefHiddenGrad(s.mlps[i], b, p.w1[i], p.w2[i], dw, da); err != nil {
					return err
				}
				lr.da = append(lr.da, da...)
				continue
			}
			add(dy[e*sh:(e+1)*sh], one)
			if err := op.RefMLPGrad(s.mlps[i], b, p.w1[i], p.w2[i], dw, back, nil, nil); err != nil {
				return err
			}
			add(db[e*basisSize:(e+1)*basisSize], back)
		}
	}
	if !s.computesForces() {
		return nil
	}
	ref.f = make([]float64, 3*n)
	for e := range n {
		v := vec[3*e : 3*e+3]
		refEdge(op.Sph{LMax: s.model.LMax}, v, dy[e*sh:(e+1)*sh], op.RefBasisGrad(s.radialBasis(), v, db[e*basisSize:(e+1)*basisSize]), ref.f[3*e:3*e+3])
	}
	return nil
}

// refGateLinear returns the gradient with respect to a row's sum of messages: it goes back through the readout, the
// gate and the linear layer. drho is the gradient with respect to the row's value, pre the gate's input.
func (s *session) refGateLinear(i int, pre []float64, drho float64, p wide) ([]float64, error) {
	l := s.model.Layers[i]
	dout, dpre, dmid := make([]float64, l.Out.Dim()), make([]float64, l.Linear.Out.Dim()), make([]float64, l.TP.Out.Dim())
	for u, a := range p.readout[i] {
		dout[l.readout().First+u] = drho * a
	}
	if err := op.RefGateGrad(l.Gate, pre, dout, dpre); err != nil {
		return nil, err
	}
	op.RefLinearGrad(l.Linear, nil, p.mix[i], dpre, dmid, nil)
	return dmid, nil
}

// refEdge computes f, the gradient with respect to one edge's vector, from the gradients dy with respect to the edge's
// harmonics and slope with respect to its length.
func refEdge(sph op.Sph, vec, dy []float64, slope float64, f []float64) {
	op.RefSphGrad(sph, vec, dy, f)
	r := math.Sqrt(vec[0]*vec[0] + vec[1]*vec[1] + vec[2]*vec[2])
	for k := 0; k < 3 && r > 0; k++ {
		f[k] += slope * vec[k] / r
	}
}

func add(to, v []float64) {
	for i := range to {
		to[i] += v[i]
	}
}
