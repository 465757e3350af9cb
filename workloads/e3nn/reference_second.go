package e3nn

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/op"
)

// refNet is one layer with its readout in float64, in mul_ir: the contributions of one destination row to an energy,
// to its gradients, and to the gradients of its slope along a direction.
type refNet struct {
	layer                layer
	basis                op.Basis
	sph                  op.Sph
	mlp                  op.MLP
	readout              op.Readout
	w1, w2, mix, factors []float64
}

// refRow are the edges of a row: features of their sources, vectors, and where the second
// gradients are wanted the direction in which each vector moves.
type refRow struct{ x, vec, dir [][]float64 }

// refGrads are the gradients of a row by every parameter; x has an entry an edge, to
// which is added like to the others.
type refGrads struct {
	x                    [][]float64
	w1, w2, mix, readout []float64
}

// refSums are the sums over rows. Sums without a destination are skipped.
type refSums struct {
	energy        float64
	f             [][]float64 // set: the energy's gradient by every vector
	first, second *refGrads   // of the energy, of its slope along dir
	// pull returns, from a row's energy, the gradient by that energy of the function that first differentiates; nil
	// differentiates the energy itself, so 1.
	pull func(energy float64) float64
}

// refValues holds the intermediate values of a row: radial functions, harmonics and weights of every edge, and the
// row's values after the sum. product lacks the factor of the sum, which a TensorProduct holds in float32.
type refValues struct {
	product    op.TensorProduct
	b, y, w    [][]float64
	mid, pre   []float64
	dpre, dmid []float64   // gradients of the energy, the latter by a message
	dw         [][]float64 // likewise
	out        []float64   // after the gate
	energy     float64     // the row's
	sum        float64     // 1/sqrt(neighbours)
	edges      int
}

// addRow adds one row's contribution.
func (n *refNet) addRow(r refRow, to *refSums) error {
	v, err := n.forward(r, to)
	if err != nil {
		return err
	}
	if err := n.addBack(r, v, to); err != nil || to.second == nil {
		return err
	}
	return n.addSecond(r, v, to.second)
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

// addBack adds the gradient of the energy, or of the function with gradient pull.
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
		if to.first != nil {
			to.first.readout[u] += pulled * v.out[n.readout.First+u]
		}
	}
	if err := op.RefGateGrad(l.Gate, v.pre, dout, v.dpre); err != nil {
		return err
	}
	var g refGrads
	if to.first != nil {
		g = *to.first
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

// addSecond adds the gradient of the energy's slope T = sum over edges of dir . dE/dvec: T is the tangent of the energy
// when vectors move along dir. A tangent is written d here, the gradient of T by a value g and by the value's tangent
// gd. Because T is linear in tangents, gd equals the gradient of the energy by the value.
//
//	dmid = sum of TP(x, dy, w) + TP(x, y, dw),  dpre = W dmid,  T = a . J(pre) dpre
//	ga = J dpre,  gpre = of (J(pre)^T a) . dpre,  gmid = W^T gpre,  gW = gpre mid^T + gdpre dmid^T
//	gw = TP*(x, y; gmid) + TP*(x, dy; gdmid),  gx = TP*(y, w; gmid) + TP*(dy, w; gdmid) + TP*(y, dw; gdmid)
func (n *refNet) addSecond(r refRow, v *refValues, g *refGrads) error {
	l := n.layer
	db, dy, dw := make([][]float64, v.edges), make([][]float64, v.edges), make([][]float64, v.edges)
	dmid, dpre, dout, z := make([]float64, len(v.mid)), make([]float64, len(v.pre)), make([]float64, l.Out.Dim()), make([]float64, len(v.mid))
	for e, vec := range r.vec {
		db[e], dy[e], dw[e] = make([]float64, n.basis.N), make([]float64, n.sph.Dim()), make([]float64, n.mlp.Out)
		op.RefBasisTangent(n.basis, vec, r.dir[e], db[e])
		op.RefSphTangent(n.sph, vec, r.dir[e], dy[e])
		if err := op.RefMLPTangent(n.mlp, v.b[e], db[e], n.w1, n.w2, dw[e]); err != nil {
			return err
		}
		for _, term := range [][2][]float64{{dy[e], v.w[e]}, {v.y[e], dw[e]}} {
			if err := op.RefTensorProduct(v.product, r.x[e], term[0], term[1], z); err != nil {
				return err
			}
			addScaled(dmid, z, v.sum)
		}
	}
	op.RefLinear(l.Linear, dmid, n.mix, dpre)
	if err := op.RefGateTangent(l.Gate, v.pre, dpre, dout); err != nil {
		return err
	}
	add(g.readout, dout[n.readout.First:][:len(g.readout)])
	a, gpre, gmid := make([]float64, l.Out.Dim()), make([]float64, len(v.pre)), make([]float64, len(v.mid))
	copy(a[n.readout.First:], n.factors)
	if err := op.RefGateSecond(l.Gate, v.pre, dpre, a, gpre); err != nil {
		return err
	}
	op.RefLinearGrad(l.Linear, v.mid, n.mix, gpre, gmid, g.mix)
	op.RefLinearGrad(l.Linear, dmid, n.mix, v.dpre, make([]float64, len(v.mid)), g.mix)
	scale(gmid, v.sum)
	dx, one, gw, more := make([]float64, l.In.Dim()), make([]float64, n.sph.Dim()), make([]float64, n.mlp.Out), make([]float64, n.mlp.Out)
	for e := range r.vec {
		clear(gw)
		for _, term := range []struct {
			y, w, dz []float64
			weights  bool // their gradient too; that of the tangent's is v.dw
		}{{v.y[e], v.w[e], gmid, true}, {dy[e], v.w[e], v.dmid, true}, {v.y[e], dw[e], v.dmid, false}} {
			if err := op.RefTensorProductGrad(v.product, r.x[e], term.y, term.w, term.dz, dx, one, more); err != nil {
				return err
			}
			add(g.x[e], dx)
			if term.weights {
				add(gw, more)
			}
		}
		if err := op.RefMLPSecond(n.mlp, v.b[e], db[e], n.w1, n.w2, gw, v.dw[e], g.w1, g.w2); err != nil {
			return err
		}
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
