package op

import "math"

// RefMLP computes the weights w [Out] of one edge from b [In]. Its factors 1/sqrt(n) are not rounded to float32.
func RefMLP(m MLP, b, w1, w2, w []float64) error {
	first, second := m.gemmLayers()
	first.Scale, second.Scale = 1, 1
	h := make([]float64, m.Hidden)
	if err := RefGemm(first, divideBySqrt(b, m.In), w1, h); err != nil {
		return err
	}
	return RefGemm(second, divideBySqrt(h, m.Hidden), w2, w)
}

func divideBySqrt(v []float64, n int) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = x / math.Sqrt(float64(n))
	}
	return out
}
