package e3nn

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/op"
)

// refNet is one layer with its readout, in float64 and the layout mul_ir. It processes one row at a time, an atom with
// the edges that end there, and adds the row's contribution to an energy and to gradients.
type refNet struct {
	layer                layer
	basis                op.Basis
	sph                  op.Sph
	mlp                  op.MLP
	readout              op.Readout
	w1, w2, mix, factors []float64
}

// refRow holds the edges of a row. x has one entry per edge, the features of its source; vec has the edges' vectors.
type refRow struct{ x, vec [][]float64 }

// refGrads holds the gradients with respect to every parameter, summed over rows. x is not a sum: it has one entry per
// edge of a row, the gradient with respect to the features of the edge's source.
type refGrads struct {
	x                    [][]float64
	w1, w2, mix, readout []float64
}

// refSums holds the sums over rows to which addRow adds. addRow does not compute fields that are nil.
type refSums struct {
	energy float64
	f      [][]float64 // overwritten, not added to: the gradient of the row's energy with respect to every edge's vector
	grads  *refGrads
	// pull returns the derivative of a loss with respect to a row's energy; then grads receives the gradients of the loss.
	// If pull is nil, grads receives the gradients of the energy.
	pull func(energy float64) float64
}

// refValues holds a row's intermediate values: radial functions, harmonics and weights of every edge, and the values
// after the sum over neighbours. The factor 1/sqrt(neighbours) of this sum is the float64 field sum. It is not in the
// field product, because a TensorProduct rounds its factor to float32.
type refValues struct {
	product    op.TensorProduct
	b, y, w    [][]float64
	mid, pre   []float64
	dpre, dmid []float64   // gradients of the row's energy; dmid is with respect to one edge's message
	dw         [][]float64 // gradients of the row's energy with respect to every edge's weights
	out        []float64   // after the gate
	energy     float64     // of this row
	sum        float64     // the factor 1/sqrt(neighbours)
	edges      int
}

func (n *refNet) addRow(r refRow, to *refSums) error {
	v, err := n.forward(r, to)
	if err != nil {
		return err
	}
	return n.addBack(r, v, to)
}

func (n *refNet) forward(r refRow, to *refSums) (*refValues, error) {
	l := n.layer
	v := &refValues{product: op.TensorProduct{TP: l.TP, Layout: op.MulIr}, sum: 1 / math.Sqrt(neighbours), edges: len(r.vec),
		mid: make([]float64, l.TP.Out.Dim()), pre: make([]float64, l.Linear.Out.Dim())}
	for e, vec := range r.vec {
		b, y, w, z := make([]float64, n.basis.N), make([]float64, n.sph.Dim()), make([]float64, n.mlp.Out), make([]float64, len(v.mid))
		op.RefBasis(n.basis, vec, b)
		op.RefSph(n.sph, vec, y)
		if err := op.RefMLP(n.mlp, b, n.w1, n.w2, w); err != nil {
			return nil, err
		}
		if err := op.RefTensorProduct(v.product, r.x[e], y, w, z); err != nil {
			return nil, err
		}
		addScaled(v.mid, z, v.sum)
		v.b, v.y, v.w = append(v.b, b), append(v.y, y), append(v.w, w)
	}
	op.RefLinear(l.Linear, v.mid, n.mix, v.pre)
	v.out = make([]float64, l.Out.Dim())
	if err := op.RefGate(l.Gate, v.pre, v.out); err != nil {
		return nil, err
	}
	for u, a := range n.factors {
		v.energy += a * v.out[n.readout.First+u]
	}
	to.energy += v.energy
	return v, nil
}

// addBack adds the gradients of the row's energy or, if to.pull is set, of the loss; see refSums.
func (n *refNet) addBack(r refRow, v *refValues, to *refSums) error {
	l := n.layer
	dout := make([]float64, l.Out.Dim())
	v.dpre, v.dmid = make([]float64, len(v.pre)), make([]float64, len(v.mid))
	pulled := 1.0
	if to.pull != nil {
		pulled = to.pull(v.energy)
	}
	for u, a := range n.factors {
		dout[n.readout.First+u] = pulled * a
		if to.grads != nil {
			to.grads.readout[u] += pulled * v.out[n.readout.First+u]
		}
	}
	if err := op.RefGateGrad(l.Gate, v.pre, dout, v.dpre); err != nil {
		return err
	}
	var g refGrads
	if to.grads != nil {
		g = *to.grads
	}
	op.RefLinearGrad(l.Linear, v.mid, n.mix, v.dpre, v.dmid, g.mix)
	scale(v.dmid, v.sum)
	for e, vec := range r.vec {
		dx, dy, dw, db := make([]float64, l.In.Dim()), make([]float64, n.sph.Dim()), make([]float64, n.mlp.Out), make([]float64, n.basis.N)
		if err := op.RefTensorProductGrad(v.product, r.x[e], v.y[e], v.w[e], v.dmid, dx, dy, dw); err != nil {
			return err
		}
		if err := op.RefMLPGrad(n.mlp, v.b[e], n.w1, n.w2, dw, db, g.w1, g.w2); err != nil {
			return err
		}
		if g.x != nil {
			add(g.x[e], dx)
		}
		f := make([]float64, 3)
		refEdge(n.sph, vec, dy, op.RefBasisGrad(n.basis, vec, db), f)
		to.f = append(to.f, f)
		v.dw = append(v.dw, dw)
	}
	return nil
}

func scale(v []float64, k float64) {
	for i := range v {
		v[i] *= k
	}
}

func addScaled(to, v []float64, k float64) {
	for i := range to {
		to[i] += k * v[i]
	}
}
