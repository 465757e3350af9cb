package op

import "math"

// MLP turns the radial functions b of an edge into its tensor-product weights. Radial binds an MLP together with its
// Basis; BindKept binds the MLP alone and keeps values for a backward pass. Normalisation ("exact" or empty, or
// "e3nn") selects the constant of silu_c:
//
//	b [E,In], w1 [In,Hidden], w2 [Hidden,Out] -> w [E,Out]
//	h = silu_c(b w1/sqrt(In)),  w = h w2/sqrt(Hidden)
type MLP struct {
	In, Hidden, Out int
	// Padding is the number of columns of w that hold no weights (see TensorProduct.Columns); Bound.Minimum does not count
	// them.
	Padding       int
	Normalisation string
	// Precision, Library, Tile and Grain apply to both products; see Gemm.
	Precision, Library string
	Tile, Grain        int
}

func (m MLP) gemmLayers() (Gemm, Gemm) {
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
