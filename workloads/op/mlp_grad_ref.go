package op

import "math"

// RefMLPGrad computes one edge of the MLP's backward pass: db [In] from the cotangent dw [Out] of the edge's weights.
// It adds the edge's share to dw1 and dw2 if they are not nil. h = c silu(a), a = s1 b W1 and w = s2 h W2 give:
//
//	dh = s2 dw W2^T,  da = c silu'(a) dh,  db = s1 da W1^T,  dW1 += s1 b^T da,  dW2 += s2 h^T dw
//
//go:norace
func RefMLPGrad(m MLP, b, w1, w2, dw, db, dw1, dw2 []float64) error {
	first, _ := m.gemmLayers()
	act, c, err := findActivation(first.Act, first.Normalisation)
	if err != nil {
		return err
	}
	s1, s2 := 1/math.Sqrt(float64(m.In)), 1/math.Sqrt(float64(m.Hidden))
	clear(db)
	for j := range m.Hidden {
		a := 0.0
		for i, v := range b {
			a += s1 * v * w1[i*m.Hidden+j]
		}
		h, dh := c*activate(act.id, a), 0.0
		row := w2[j*m.Out : (j+1)*m.Out]
		for k, v := range dw {
			dh += s2 * v * row[k]
			if dw2 != nil {
				dw2[j*m.Out+k] += s2 * h * v
			}
		}
		da := c * activationSlope(act.id, a) * dh
		for i, v := range b {
			db[i] += s1 * da * w1[i*m.Hidden+j]
			if dw1 != nil {
				dw1[i*m.Hidden+j] += s1 * v * da
			}
		}
	}
	return nil
}

// RefHiddenGrad computes da [Hidden] from dw, the first half of RefMLPGrad (norace: see RefGemm).
//
//go:norace
func RefHiddenGrad(m MLP, b, w1, w2, dw, da []float64) error {
	first, _ := m.gemmLayers()
	act, c, err := findActivation(first.Act, first.Normalisation)
	if err != nil {
		return err
	}
	for j := range da {
		a, dh := 0.0, 0.0
		for i, v := range b {
			a += v * w1[i*m.Hidden+j] / math.Sqrt(float64(m.In))
		}
		for k, v := range dw {
			dh += v * w2[j*m.Out+k] / math.Sqrt(float64(m.Hidden))
		}
		da[j] = c * activationSlope(act.id, a) * dh
	}
	return nil
}
