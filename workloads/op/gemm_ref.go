package op

// RefGemm computes one row, out [N] from a [K] and b [K,N]. It starts no goroutines, and norace makes its tests faster.
//
//go:norace
func RefGemm(g Gemm, a, b, out []float64) error {
	act, c, err := findActivation(g.Act, g.Normalisation)
	if err != nil {
		return err
	}
	for j := range out {
		sum := 0.0
		for l, v := range a {
			sum += v * b[l*g.N+j]
		}
		out[j] = c * activate(act.id, float64(g.Scale)*sum)
	}
	return nil
}
