package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
)

// MLPTangent is the change of an MLP's weights when the radial functions change:
//
//	a [E,Hidden], db [E,In], w1, w2 -> da [E,Hidden], dh [E,Hidden], dw [E,Out]
//	da = s1 db w1,  dh = c silu'(a) da,  dw = s2 dh w2
//
// with the factors s1, s2 of the layers. Both are products of the MLP itself.
type MLPTangent struct{ MLP MLP }

// MLPTangentBuffers are the arguments of MLPTangent; BindKept has written A.
type MLPTangentBuffers struct{ A, DB, W1, W2, DA, DH, DW device.Buffer }

// Bind binds the operation for up to edgeCap edges.
func (g MLPTangent) Bind(dev device.Device, b MLPTangentBuffers, edgeCap int) (*Bound, error) {
	k := newBinder(dev, "change of the mlp", edgeCap)
	m := g.MLP
	first, second := m.gemmLayers()
	act, c, err := findActivation(first.Act, first.Normalisation)
	if err != nil {
		k.failUsage("", "%w", err)
	}
	first.Act = "none"
	k.checkBuffer("a", b.A, int64(edgeCap)*int64(m.Hidden))
	k.checkBuffer("dh", b.DH, int64(edgeCap)*int64(m.Hidden))
	minimum := k.addGemm(first, b.DB, b.W1, b.DA)
	slope := rate{perEdge: moveCost(m.Hidden*(act.flops+5), 2*m.Hidden, m.Hidden)}
	k.addLaunch(&actTangentKernel, items{perEdge: m.Hidden}, slope, actTangentArgs{
		x: b.A, d: b.DA, out: b.DH, count: itemCount{}, act: act.id, c: float32(c),
	})
	slope.perEdge.BytesRead = int64(m.Hidden) * floatBytes // da is still in registers
	last := k.addGemm(second, b.DH, b.W2, b.DW)
	last.perEdge.BytesRead -= int64(m.Hidden) * floatBytes // likewise dh
	k.b.minimum = minimum.add(slope).add(last)
	return k.finishBinding()
}

// Scratch returns the bytes that Bind allocates.
func (g MLPTangent) Scratch(edgeCap int) int64 { return g.MLP.KeptScratch(edgeCap, true) }

// MLPSecond is the backward pass through an MLP and its MLPTangent together, to the hidden layer before its
// activation: from gw, the cotangent of the weights, and gdh, the cotangent of the tangent's dh (MLPGrad has written
// it, since it equals the MLP's own),
//
//	a, da, gdh [E,Hidden], gw [E,Out], w2 -> ga [E,Hidden]
//	gh = s2 gw w2^T,  ga = c (silu'(a) gh + silu''(a) da gdh)
type MLPSecond struct{ MLP MLP }

// MLPSecondBuffers are the arguments of MLPSecond.
type MLPSecondBuffers struct{ A, DA, W2, GW, GDH, GA device.Buffer }

// Bind binds the operation for up to edgeCap edges.
func (g MLPSecond) Bind(dev device.Device, b MLPSecondBuffers, edgeCap int) (*Bound, error) {
	k := newBinder(dev, "gradient of the mlp's change", edgeCap)
	m := g.MLP
	first, _ := m.gemmLayers()
	act, c, err := findActivation(first.Act, first.Normalisation)
	if err != nil {
		k.failUsage("", "%w", err)
	}
	hidden := int64(edgeCap) * int64(m.Hidden)
	k.checkBuffer("a", b.A, hidden)
	k.checkBuffer("da", b.DA, hidden)
	k.checkBuffer("gdh", b.GDH, hidden)
	k.checkBuffer("w2", b.W2, int64(m.Hidden)*int64(m.Out))
	toHidden, _ := MLPGrad{MLP: m}.gemmLayers()
	minimum := k.addGemm(toHidden, b.GW, k.addFlip(b.W2, matrix{0, m.Hidden, m.Out}), b.GA)
	// Both derivatives come from one exponential; three products and a sum follow.
	bend := rate{perEdge: moveCost(m.Hidden*(act.flops+13), 4*m.Hidden, m.Hidden)}
	k.addLaunch(&actSecondKernel, items{perEdge: m.Hidden}, bend, actSecondArgs{
		x: b.A, dx: b.DA, back: b.GDH, d: b.GA, count: itemCount{}, act: act.id, c: float32(c),
	})
	bend.perEdge.BytesRead = 3 * int64(m.Hidden) * floatBytes // gh is still in registers
	bend.perEdge.BytesWritten = 0
	k.b.minimum = minimum.add(bend)
	return k.finishBinding()
}

// Scratch returns the bytes that Bind allocates.
func (g MLPSecond) Scratch(edgeCap int) int64 { return MLPGrad{MLP: g.MLP}.HiddenScratch(edgeCap) }
