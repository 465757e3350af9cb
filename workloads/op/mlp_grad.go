package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
)

// MLPGrad is an MLP backwards, to the radial functions:
//
//	a [E,Hidden], dw [E,Out], w1, w2 -> db [E,In]
//	dh = s2 dw w2^T,  da = c silu'(a) dh,  db = s1 da w1^T
//
// with the factors s1, s2 of the layers. Add adds to db. The products round their
// inputs as those of the MLP do.
type MLPGrad struct {
	MLP MLP
	Add bool
}

// MLPGradBuffers are the arguments of MLPGrad; A is what BindKept left. DA [E,Hidden]
// receives da. Without DB that is all there is: training needs no more. With DH [E,Hidden]
// dh is kept there, for MLPSecond.
type MLPGradBuffers struct{ A, W1, W2, DW, DH, DA, DB device.Buffer }

// BindKept binds an MLP that goes backwards later, from b [E,In]: a [E,Hidden] is
// the hidden layer before its activation, h after it. Without w it stops there.
func (m MLP) BindKept(dev device.Device, b, w1, w2, a, h, w device.Buffer, edgeCap int) (*Bound, error) {
	k := newBinder(dev, "mlp", edgeCap)
	k.positive("In", m.In)
	k.positive("Hidden", m.Hidden)
	first, second := m.layers()
	act, c, err := findActivation(first.Act, first.Normalisation)
	if err != nil {
		k.usage("", "%w", err)
	}
	first.Act = "none"
	minimum := k.gemm(first, b, w1, a)
	k.want("h", h, int64(edgeCap)*int64(m.Hidden))
	apply := rate{perEdge: move(m.Hidden*(act.flops+1), m.Hidden, m.Hidden)}
	k.launch(&actApplyKernel, items{perEdge: m.Hidden}, apply, a, h, itemCount{}, act.id, float32(c))
	apply.perEdge.BytesRead = 0 // a fused implementation has a at hand
	minimum = minimum.add(apply)
	if w != nil {
		k.positive("Out", m.Out)
		second := k.gemm(second, h, w2, w)
		second.perEdge.BytesRead -= int64(m.Hidden) * floatBytes
		minimum = minimum.add(second)
	}
	k.b.minimum = minimum
	return k.done()
}

// BindWeights binds the second layer alone, h [E,Hidden] -> w [E,Out]: weights
// that were not kept are made again.
func (m MLP) BindWeights(dev device.Device, h, w2, w device.Buffer, edgeCap int) (*Bound, error) {
	_, second := m.layers()
	return second.Bind(dev, h, w2, w, edgeCap)
}

// KeptScratch is the bytes BindKept allocates; whole says that it makes w.
func (m MLP) KeptScratch(edgeCap int, whole bool) int64 {
	first, second := m.layers()
	n := first.Scratch(edgeCap)
	if whole {
		n += second.Scratch(edgeCap)
	}
	return n
}

// WeightsScratch is the bytes BindWeights allocates.
func (m MLP) WeightsScratch(edgeCap int) int64 {
	_, second := m.layers()
	return second.Scratch(edgeCap)
}

// layers are the products backwards.
func (g MLPGrad) layers() (toHidden, toBasis Gemm) {
	toBasis, toHidden = g.MLP.layers()
	toHidden.K, toHidden.N = toHidden.N, toHidden.K
	toBasis.K, toBasis.N, toBasis.Act = toBasis.N, toBasis.K, "none"
	return toHidden, toBasis
}

// Bind binds the operation for up to edgeCap edges: the weights are turned, then a
// product, the activation's derivative in place, a product, and with Add the sum.
func (g MLPGrad) Bind(dev device.Device, b MLPGradBuffers, edgeCap int) (*Bound, error) {
	k := newBinder(dev, "mlp backwards", edgeCap)
	m := g.MLP
	k.positive("In", m.In)
	k.positive("Hidden", m.Hidden)
	k.positive("Out", m.Out)
	e := int64(edgeCap)
	k.want("a", b.A, e*int64(m.Hidden))
	k.want("w1", b.W1, int64(m.In)*int64(m.Hidden))
	k.want("w2", b.W2, int64(m.Hidden)*int64(m.Out))
	first, _ := m.layers()
	act, c, err := findActivation(first.Act, first.Normalisation)
	if err != nil {
		k.usage("", "%w", err)
	}
	toHidden, toBasis := g.layers()
	dh := b.DH
	if dh == nil {
		dh = b.DA
	}
	minimum := k.gemm(toHidden, b.DW, k.flip(b.W2, matrix{0, m.Hidden, m.Out}), dh)
	slope := rate{perEdge: move(m.Hidden*(act.flops+5), 2*m.Hidden, m.Hidden)}
	if b.DH == nil {
		k.launch(&actGradKernel, items{perEdge: m.Hidden}, slope, b.A, b.DA, itemCount{}, act.id, float32(c))
	} else {
		k.launch(&actTangentKernel, items{perEdge: m.Hidden}, slope, b.A, dh, b.DA, itemCount{}, act.id, float32(c))
	}
	slope.perEdge.BytesRead = int64(m.Hidden) * floatBytes // dh is at hand
	if b.DB == nil {
		k.b.minimum = minimum.add(slope)
		return k.done()
	}
	k.want("db", b.DB, e*int64(m.In))
	slope.perEdge.BytesWritten = 0
	db := b.DB
	if g.Add {
		db = k.scratch(e * int64(m.In))
	}
	last := k.gemm(toBasis, b.DA, k.flip(b.W1, matrix{0, m.In, m.Hidden}), db)
	last.perEdge.BytesRead = 0 // likewise da
	if g.Add {
		k.launch(&addKernel, items{perEdge: m.In}, rate{perEdge: move(m.In, 2*m.In, m.In)}, db, b.DB, itemCount{})
		last.perEdge = last.perEdge.Add(move(m.In, m.In, 0))
	}
	k.b.minimum = minimum.add(slope).add(last)
	return k.done()
}

// HiddenScratch is the bytes Bind allocates without DB.
func (g MLPGrad) HiddenScratch(edgeCap int) int64 {
	toHidden, _ := g.layers()
	return toHidden.Scratch(edgeCap) + flipScratch(matrix{0, g.MLP.Hidden, g.MLP.Out})
}

// Scratch is the bytes Bind allocates.
func (g MLPGrad) Scratch(edgeCap int) int64 {
	m := g.MLP
	_, toBasis := g.layers()
	n := g.HiddenScratch(edgeCap) + toBasis.Scratch(edgeCap) + flipScratch(matrix{0, m.In, m.Hidden})
	if g.Add {
		n += max(int64(edgeCap)*int64(m.In), 1) * floatBytes
	}
	return n
}
