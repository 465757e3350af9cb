package op

import "github.com/gpuprof/gpuprof/workloads/device"

// MLPGrad is the backward pass of an MLP with respect to the radial functions. With Add, db is added to its buffer. The
// products round their operands as the MLP's products do. a is the hidden layer before its activation; s1 and s2 are
// the scales of the layers:
//
//	a [E,Hidden], dw [E,Out], w1, w2 -> db [E,In]
//	dh = s2 dw w2^T,  da = c silu'(a) dh,  db = s1 da w1^T
type MLPGrad struct {
	MLP MLP
	Add bool
}

// MLPGradBuffers are the arguments of MLPGrad. A comes from BindKept; DA [E,Hidden] receives da. If DB is nil the
// operation ends with da, which is all that training the weights needs.
type MLPGradBuffers struct{ A, W1, W2, DW, DA, DB device.Buffer }

// BindKept binds an MLP for a later backward pass. From b [E,In] it computes w and keeps a and h [E,Hidden], the
// hidden layer before and after its activation.
func (m MLP) BindKept(dev device.Device, b, w1, w2, a, h, w device.Buffer, edgeCap int) (*Bound, error) {
	k := newBinder(dev, "mlp", edgeCap)
	k.checkPositive("In", m.In)
	k.checkPositive("Hidden", m.Hidden)
	first, second := m.gemmLayers()
	act, c, err := findActivation(first.Act, first.Normalisation)
	k.failOn(err)
	first.Act = "none"
	minimum := k.addGemm(first, b, w1, a)
	k.checkBuffer("h", h, int64(edgeCap)*int64(m.Hidden))
	apply := rate{perEdge: Moved(m.Hidden*(act.flops+1), m.Hidden, m.Hidden)}
	k.addLaunch(&actApplyKernel, items{perEdge: m.Hidden}, apply, actApplyArgs{
		x: a, out: h, count: itemCount, act: act.id, c: float32(c),
	})
	apply.perEdge.BytesRead = 0 // a fused implementation still has a in registers
	k.checkPositive("Out", m.Out)
	last := k.addGemm(second, h, w2, w)
	last.perEdge.BytesRead -= int64(m.Hidden) * floatBytes
	k.b.minimum = minimum.add(apply).add(last)
	return k.finishBinding()
}

// BindWeights binds the second layer alone, h [E,Hidden] -> w [E,Out]. It recomputes weights w that the forward pass
// has not kept.
func (m MLP) BindWeights(dev device.Device, h, w2, w device.Buffer, edgeCap int) (*Bound, error) {
	_, second := m.gemmLayers()
	return second.Bind(dev, h, w2, w, edgeCap)
}

func (g MLPGrad) gemmLayers() (toHidden, toBasis Gemm) {
	toBasis, toHidden = g.MLP.gemmLayers()
	toHidden.K, toHidden.N = toHidden.N, toHidden.K
	toBasis.K, toBasis.N, toBasis.Act = toBasis.N, toBasis.K, "none"
	return toHidden, toBasis
}

// Bind binds the operation for up to edgeCap edges. Its launches transpose the weights, then compute dh, da (in place
// of dh), db and, with Add, the sum.
func (g MLPGrad) Bind(dev device.Device, b MLPGradBuffers, edgeCap int) (*Bound, error) {
	k := newBinder(dev, "mlp backwards", edgeCap)
	m := g.MLP
	k.checkPositive("In", m.In)
	k.checkPositive("Hidden", m.Hidden)
	k.checkPositive("Out", m.Out)
	e := int64(edgeCap)
	k.checkBuffer("a", b.A, e*int64(m.Hidden))
	k.checkBuffer("w1", b.W1, int64(m.In)*int64(m.Hidden))
	k.checkBuffer("w2", b.W2, int64(m.Hidden)*int64(m.Out))
	first, _ := m.gemmLayers()
	act, c, err := findActivation(first.Act, first.Normalisation)
	k.failOn(err)
	toHidden, toBasis := g.gemmLayers()
	minimum := k.addGemm(toHidden, b.DW, k.addFlip(b.W2, matrix{0, m.Hidden, m.Out}), b.DA)
	slope := rate{perEdge: Moved(m.Hidden*(act.flops+5), 2*m.Hidden, m.Hidden)}
	k.addLaunch(&actGradKernel, items{perEdge: m.Hidden}, slope, actGradArgs{
		x: b.A, d: b.DA, count: itemCount, act: act.id, c: float32(c),
	})
	slope.perEdge.BytesRead = int64(m.Hidden) * floatBytes // dh is still in registers
	if b.DB == nil {
		k.b.minimum = minimum.add(slope)
		return k.finishBinding()
	}
	k.checkBuffer("db", b.DB, e*int64(m.In))
	slope.perEdge.BytesWritten = 0
	db := b.DB
	if g.Add {
		db = k.allocateScratch(e * int64(m.In))
	}
	last := k.addGemm(toBasis, b.DA, k.addFlip(b.W1, matrix{0, m.In, m.Hidden}), db)
	last.perEdge.BytesRead = 0 // da is still in registers, too
	if g.Add {
		k.addLaunch(&addKernel, items{perEdge: m.In}, rate{perEdge: Moved(m.In, 2*m.In, m.In)}, addArgs{
			x: db, out: b.DB, count: itemCount,
		})
		last.perEdge = last.perEdge.Add(Moved(m.In, m.In, 0))
	}
	k.b.minimum = minimum.add(slope).add(last)
	return k.finishBinding()
}
