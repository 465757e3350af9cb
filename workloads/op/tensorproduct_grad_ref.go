package op

// RefTensorProductGrad computes one edge of the convolution's backward pass: it overwrites dx, dy and dw from the
// cotangent dout [Out.Dim] of the edge's row, all in t.Layout. The factor t.Scale is included.
func RefTensorProductGrad(t TensorProduct, x, y, w, dout, dx, dy, dw []float64) error {
	fx, fy, fz := make([]float64, len(x)), make([]float64, len(y)), make([]float64, len(dout))
	FromLayout(t.Layout, t.TP.In1, fx, x)
	FromLayout(t.Layout, t.TP.In2, fy, y)
	FromLayout(t.Layout, t.TP.Out, fz, dout)
	for i := range fz {
		fz[i] *= t.scaleFactor()
	}
	gx, gy := make([]float64, len(x)), make([]float64, len(y))
	clear(dw)
	if err := t.TP.EvalGrad(fx, fy, w, fz, gx, gy, dw); err != nil {
		return err
	}
	ToLayout(t.Layout, t.TP.In1, dx, gx)
	ToLayout(t.Layout, t.TP.In2, dy, gy)
	return nil
}
