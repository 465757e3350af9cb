package op

// RefMLP computes the weights w [Out] of one edge from b [In].
func RefMLP(m MLP, b, w1, w2, w []float64) error {
	first, second := m.layers()
	h := make([]float64, m.Hidden)
	if err := RefGemm(first, b, w1, h); err != nil {
		return err
	}
	return RefGemm(second, h, w2, w)
}
