package op

import "math"

// RefMLPTangent computes the change dw [Out] of one edge's weights when its radial
// functions b move along db [In]: dh = c silu'(a) s1 db W1, dw = s2 dh W2.
//
//go:norace
func RefMLPTangent(m MLP, b, db, w1, w2, dw []float64) error {
	first, _ := m.gemmLayers()
	act, c, err := findActivation(first.Act, first.Normalisation)
	if err != nil {
		return err
	}
	clear(dw)
	for j := range m.Hidden {
		a, da := refHidden(m, b, w1, j), refHidden(m, db, w1, j)
		dh := c * activationSlope(act.id, a) * da
		for k := range dw {
			dw[k] += dh * w2[j*m.Out+k] / math.Sqrt(float64(m.Hidden))
		}
	}
	return nil
}

// refHidden returns value j of the hidden layer before its activation.
func refHidden(m MLP, b, w1 []float64, j int) float64 {
	a := 0.0
	for i, v := range b {
		a += v * w1[i*m.Hidden+j] / math.Sqrt(float64(m.In))
	}
	return a
}

// RefHiddenSecond computes gradients of T = gw . w + gdw . dw of one edge, with dw the tangent along db: ga [Hidden]
// by the hidden layer before its activation, and gda [Hidden] by the tangent of that layer:
//
//	gh = s2 gw W2^T,  gdh = s2 gdw W2^T,  gda = c silu'(a) gdh,  ga = c silu'(a) gh + c silu''(a) da gdh
//
//go:norace
func RefHiddenSecond(m MLP, b, db, w1, w2, gw, gdw, ga, gda []float64) error {
	first, _ := m.gemmLayers()
	act, c, err := findActivation(first.Act, first.Normalisation)
	if err != nil {
		return err
	}
	for j := range m.Hidden {
		a, da := refHidden(m, b, w1, j), refHidden(m, db, w1, j)
		gh, gdh := 0.0, 0.0
		for k := range gw {
			w := w2[j*m.Out+k] / math.Sqrt(float64(m.Hidden))
			gh, gdh = gh+gw[k]*w, gdh+gdw[k]*w
		}
		gda[j] = c * activationSlope(act.id, a) * gdh
		ga[j] = c*activationSlope(act.id, a)*gh + c*activationCurvature(act.id, a)*da*gdh
	}
	return nil
}

// RefMLPSecond adds one edge's share to the gradients of T by the weights:
//
//	dW1 += s1 (b^T ga + db^T gda),  dW2 += s2 (h^T gw + dh^T gdw)
//
//go:norace
func RefMLPSecond(m MLP, b, db, w1, w2, gw, gdw, dw1, dw2 []float64) error {
	first, _ := m.gemmLayers()
	act, c, err := findActivation(first.Act, first.Normalisation)
	if err != nil {
		return err
	}
	ga, gda := make([]float64, m.Hidden), make([]float64, m.Hidden)
	if err := RefHiddenSecond(m, b, db, w1, w2, gw, gdw, ga, gda); err != nil {
		return err
	}
	for j := range m.Hidden {
		a, da := refHidden(m, b, w1, j), refHidden(m, db, w1, j)
		h, dh := c*activate(act.id, a), c*activationSlope(act.id, a)*da
		for k := range gw {
			dw2[j*m.Out+k] += (h*gw[k] + dh*gdw[k]) / math.Sqrt(float64(m.Hidden))
		}
		for i := range b {
			dw1[i*m.Hidden+j] += (b[i]*ga[j] + db[i]*gda[j]) / math.Sqrt(float64(m.In))
		}
	}
	return nil
}
