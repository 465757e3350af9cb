package op

import (
	"math"

	"github.com/gpuprof/gpuprof"
)

// MLP turns radial functions into tensor-product weights:
//
//	b [E,In], w1 [In,Hidden], w2 [Hidden,Out] -> w [E,Out]
//	h = silu_c(b w1/sqrt(In)),  w = h w2/sqrt(Hidden)
//
// Normalisation ("exact" when empty, or "e3nn") chooses the constant of silu_c.
type MLP struct {
	In, Hidden, Out int
	// Padding is how many of Out's columns are nobody's weights (see
	// TensorProduct.Columns): they are computed, and Minimum does without them.
	Padding       int
	Normalisation string
	// Precision, Library, Tile and Grain are those of Gemm, for both products.
	Precision, Library string
	Tile, Grain        int
}

// Scratch is the bytes Bind allocates: the hidden layer and what the products
// take.
func (m MLP) Scratch(edgeCap int) int64 {
	first, second := m.layers()
	return max(int64(edgeCap)*int64(m.Hidden), 1)*floatBytes + first.Scratch(edgeCap) + second.Scratch(edgeCap)
}

// HiddenScratch is the bytes BindHidden allocates.
func (m MLP) HiddenScratch(edgeCap int) int64 {
	first, _ := m.layers()
	return first.Scratch(edgeCap)
}

// OutScale is the factor of the second product, which a tensor product that
// fuses it in takes as WScale.
func (m MLP) OutScale() float32 {
	_, second := m.layers()
	return second.Scale
}

func (m MLP) layers() (Gemm, Gemm) {
	norm := m.Normalisation
	if norm == "" {
		norm = NormExact
	}
	layer := Gemm{Normalisation: norm, Precision: m.Precision, Library: m.Library, Tile: m.Tile, Grain: m.Grain}
	first, second := layer, layer
	first.K, first.N, first.Scale, first.Act = m.In, m.Hidden, float32(1/math.Sqrt(float64(m.In))), "silu"
	second.K, second.N, second.Padding, second.Scale, second.Act = m.Hidden, m.Out, m.Padding, float32(1/math.Sqrt(float64(m.Hidden))), "none"
	return first, second
}

// BindHidden binds the first layer alone, b [E,In], w1 [In,Hidden] -> h
// [E,Hidden], for a tensor product that fuses the second in (impl csr+mlp).
func (m MLP) BindHidden(dev gpuprof.Device, b, w1, h gpuprof.Buffer, edgeCap int) (*Bound, error) {
	k := newBinder(dev, "mlp", edgeCap)
	k.positive("In", m.In)
	k.positive("Hidden", m.Hidden)
	first, _ := m.layers()
	k.b.minimum = k.gemm(first, b, w1, h)
	return k.done()
}

// Bind binds the operation for up to edgeCap edges; two products.
func (m MLP) Bind(dev gpuprof.Device, b, w1, w2, w gpuprof.Buffer, edgeCap int) (*Bound, error) {
	k := newBinder(dev, "mlp", edgeCap)
	k.positive("In", m.In)
	k.positive("Hidden", m.Hidden)
	k.positive("Out", m.Out)
	h := k.scratch(int64(edgeCap) * int64(m.Hidden))
	first, second := m.layers()
	minimum := k.gemm(first, b, w1, h).add(k.gemm(second, h, w2, w))
	// A fused implementation keeps the hidden layer to itself.
	minimum.perEdge.BytesWritten -= int64(m.Hidden) * floatBytes
	minimum.perEdge.BytesRead -= int64(m.Hidden) * floatBytes
	k.b.minimum = minimum
	return k.done()
}
