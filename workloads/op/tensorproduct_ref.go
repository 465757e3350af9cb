package op

// RefTensorProduct computes one row of the convolution, out [Out.Dim]. x [degree,In1.Dim] holds the features of the
// row's sources, y and w the harmonics and weights of its edges. All are in t.Layout.
func RefTensorProduct(t TensorProduct, x, y, w, out []float64) error {
	in, sh, numel, outDim := t.TP.In1.Dim(), t.TP.In2.Dim(), t.TP.WeightNumel(), t.TP.Out.Dim()
	degree := 0
	if in > 0 {
		degree = len(x) / in
	}
	sum, one := make([]float64, outDim), make([]float64, outDim)
	fx, fy := make([]float64, in), make([]float64, sh)
	for e := range degree {
		FromLayout(t.Layout, t.TP.In1, fx, x[e*in:(e+1)*in])
		FromLayout(t.Layout, t.TP.In2, fy, y[e*sh:(e+1)*sh])
		if err := t.TP.Eval(fx, fy, w[e*numel:(e+1)*numel], one); err != nil {
			return err
		}
		for i, v := range one {
			sum[i] += t.scaleFactor() * v
		}
	}
	ToLayout(t.Layout, t.TP.Out, out, sum)
	return nil
}
