package e3nn

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

const (
	basisSize  = 10  // radial functions
	mlpHidden  = 100 // neurons of the radial MLP
	neighbours = 20  // sums over neighbours are divided by sqrt(neighbours)
)

// layer is one convolution. Messages from atoms with features In go through a uvu tensor product with harmonics. Their
// sum over neighbours is mixed linearly into the gate's input.
type layer struct {
	In     so3.Irreps
	TP     so3.TensorProduct // TP.Out is summed over neighbours; it has one block per path
	Linear op.Linear
	Gate   op.Gate
	Out    so3.Irreps // after the gate
}

type model struct {
	LMax   int // largest degree of the harmonics
	Layers []layer
}

// buildModel returns a preset's network with mul channels and harmonics up to degree lmax.
func buildModel(preset string, mul, lmax int, layout op.Layout) model {
	m := model{LMax: lmax}
	add := func(in, target so3.Irreps) { m.Layers = append(m.Layers, newLayer(in, target, lmax, layout)) }
	switch preset {
	case "deepaw":
		for _, keep := range []func(so3.Irrep) bool{isNatural, notPseudoscalar, acceptAll} {
			h := sharedIrreps(mul, lmax, keep)
			add(h, h)
		}
	case "mace-medium":
		add(perIrrep(mul, max(lmax-2, 0), isNatural), perIrrep(mul, max(lmax-1, 0), isNatural))
	case "mace-large":
		add(perIrrep(mul, max(lmax-1, 0), isNatural), perIrrep(mul, lmax, isNatural))
	case "nequip-lips":
		h := perIrrep(mul, lmax, acceptAll)
		add(h, h)
	default: // small
		h := perIrrep(mul, lmax, isNatural)
		add(h, h)
	}
	return m
}

// Predicates that select the irreps of a layer's features.
func isNatural(ir so3.Irrep) bool       { return (ir.L%2 == 0) == (ir.P == 1) }
func notPseudoscalar(ir so3.Irrep) bool { return ir != so3.Irrep{L: 0, P: -1} }
func acceptAll(so3.Irrep) bool          { return true }

func perIrrep(mul, lmax int, keep func(so3.Irrep) bool) so3.Irreps {
	return build(lmax, keep, func(int) int { return mul })
}

// sharedIrreps splits total channels over the degrees up to lmax so that each degree has about the same number of
// components, as charge-density models do. For example, 500 at lmax 4 gives 100/33/20/14/11 per parity.
func sharedIrreps(total, lmax int, keep func(so3.Irrep) bool) so3.Irreps {
	return build(lmax, keep, func(l int) int {
		return max(1, int(math.RoundToEven(float64(total)/float64(lmax+1)/float64(2*l+1))))
	})
}

func build(lmax int, keep func(so3.Irrep) bool, mul func(l int) int) so3.Irreps {
	var out so3.Irreps
	for l := 0; l <= lmax; l++ {
		for _, p := range []int8{-1, 1} {
			if ir := (so3.Irrep{L: l, P: p}); keep(ir) {
				out = append(out, so3.MulIrrep{Mul: mul(l), Ir: ir})
			}
		}
	}
	return out
}

// newLayer derives the tensor product, the linear layer and the gate of a layer from the features before and after it.
func newLayer(in, target so3.Irreps, lmax int, layout op.Layout) layer {
	tp := so3.UVUProduct(in, so3.HarmonicIrreps(lmax), target)
	g := op.Gate{Normalisation: op.NormExact, Layout: layout}
	gates := 0
	for _, b := range target {
		switch {
		case b.Ir.L > 0:
			g.Gated = append(g.Gated, b)
			gates += b.Mul
		case b.Ir.P < 0:
			g.Scalars, g.ActScalars = append(g.Scalars, b), append(g.ActScalars, "tanh")
		default:
			g.Scalars, g.ActScalars = append(g.Scalars, b), append(g.ActScalars, "silu")
		}
	}
	if gates > 0 {
		g.Gates, g.ActGates = so3.Irreps{{Mul: gates, Ir: so3.Irrep{L: 0, P: 1}}}, []string{"sigmoid"}
	}
	var before so3.Irreps
	before = append(append(append(before, g.Scalars...), g.Gates...), g.Gated...)
	return layer{
		In: in, TP: tp, Gate: g,
		Linear: op.Linear{In: tp.Out, Out: before, Layout: layout},
		Out:    append(append(so3.Irreps{}, g.Scalars...), g.Gated...),
	}
}
