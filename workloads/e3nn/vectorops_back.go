package e3nn

import (
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

// harmonicsGrad compares the gradients of sum(dy Y) with respect to the vectors.
func (v *vectorRunner) harmonicsGrad(c *vectorCase) ([]gpuprof.CaseResult, error) {
	norm, lmax, err := c.degreesOf()
	if err != nil {
		return nil, err
	}
	n, err := sampleCount("r", c.R, 3)
	if err != nil {
		return nil, err
	}
	dim := (lmax + 1) * (lmax + 1)
	if err := cmpLengths(map[string]sized{"dy": {c.DY, n * dim}, "out": {c.Out, 3 * n}}); err != nil {
		return nil, err
	}
	wide, grad := make([]float64, 3*n), make([]float64, 3*dim)
	dy := make([]float64, len(c.DY)) // dy for the kernel's component normalisation
	for i := range n {
		so3.HarmonicsGrad(lmax, norm, c.R[3*i], c.R[3*i+1], c.R[3*i+2], grad)
		for k, d := range c.DY[i*dim : (i+1)*dim] {
			for x := range 3 {
				wide[3*i+x] += d * grad[3*k+x]
			}
			switch l := math.Floor(math.Sqrt(float64(k))); norm {
			case so3.Norm:
				d /= math.Sqrt(2*l + 1)
			case so3.Integral:
				d /= math.Sqrt(4 * math.Pi)
			}
			dy[i*dim+k] = d
		}
	}
	return v.compare(wide, c.Out, func(a *op.Arena, out device.Buffer) (*op.Bound, error) {
		return op.SphGrad{Sph: op.Sph{LMax: lmax}}.Bind(v.dev, v.upload(a, c.R), v.upload(a, dy), v.upload(a, make([]float64, n)), out, n)
	})
}

func (v *vectorRunner) upload(a *op.Arena, x []float64) device.Buffer {
	return a.Upload(v.stream, "vectors", op.As[float32](x))
}

func (v *vectorRunner) uploadIndex(a *op.Arena, x []int32) device.Buffer {
	return a.Upload(v.stream, "indices", asFloats(x))
}

type sized struct {
	a array
	n int
}

// cmpLengths returns an error for the first array whose number of values is wrong.
func cmpLengths(all map[string]sized) error {
	for _, name := range []string{"dout", "dy", "db", "x", "w1", "w2", "mix", "readout", "v", "out"} {
		if s, ok := all[name]; ok {
			if err := checkLength(name, s.a, s.n); err != nil {
				return err
			}
		}
	}
	return nil
}

// tensorProductGrad compares dx, dy and dw of all samples.
func (v *vectorRunner) tensorProductGrad(c *vectorCase) ([]gpuprof.CaseResult, error) {
	tp, err := c.caseProduct()
	if err != nil {
		return nil, err
	}
	n, err := c.productSamples(tp, c.DOut)
	if err != nil {
		return nil, err
	}
	d1, d2, do, nw := tp.In1.Dim(), tp.In2.Dim(), tp.Out.Dim(), tp.WeightNumel()
	width := d1 + d2 + nw
	if err := checkLength("out", c.Out, n*width); err != nil {
		return nil, err
	}
	wide := make([]float64, n*width)
	for i := range n {
		row := wide[i*width : (i+1)*width]
		if err := tp.EvalGrad(c.X[i*d1:(i+1)*d1], c.Y[i*d2:(i+1)*d2], c.W[i*nw:(i+1)*nw], c.DOut[i*do:(i+1)*do], row[:d1], row[d1:d1+d2], row[d1+d2:]); err != nil {
			return nil, err
		}
	}
	out := []gpuprof.CaseResult{result64(wide, c.Out)}
	g := op.TensorProductGrad{Product: op.TensorProduct{TP: tp, Impl: op.ImplCSR, Layout: op.MulIr, Scale: 1}}
	if g.Product.Check() != nil {
		return out, nil // the backward kernels do not support this mode
	}
	got := make([]float32, n*width)
	for k, part := range []struct{ at, width int }{{0, d1}, {d1, d2}, {d1 + d2, nw}} {
		one, err := v.runProductGrad(g, c, n, k, part.width)
		if err != nil {
			return nil, err
		}
		for i := range n {
			copy(got[i*width+part.at:][:part.width], one[i*part.width:])
		}
	}
	return append(out, result32(got, c.Out)), nil
}

// runProductGrad computes the gradients of the samples, each an edge as in runProduct. It returns dx, dy or dw, as
// which selects.
func (v *vectorRunner) runProductGrad(g op.TensorProductGrad, c *vectorCase, n, which, width int) ([]float32, error) {
	index := make([]int32, n+1)
	for i := range index {
		index[i] = int32(i)
	}
	return v.runBound(n*width, func(a *op.Arena, out device.Buffer) ([]*op.Bound, error) {
		b := op.TPGradBuffers{X: v.upload(a, c.X), Y: v.upload(a, c.Y), W: v.upload(a, c.W), DOut: v.upload(a, c.DOut), Src: v.uploadIndex(a, index[:n]), Dst: v.uploadIndex(a, index[:n]),
			ColPtr: v.uploadIndex(a, index), Perm: v.uploadIndex(a, index[:n])}
		*[]*device.Buffer{&b.DX, &b.DY, &b.DW}[which] = out
		bound, err := g.Bind(v.dev, b, n, n, n)
		return []*op.Bound{bound}, err
	})
}

func (c *vectorCase) radialBasis() (op.Basis, error) {
	s := op.Basis{Kind: c.Basis, N: c.Functions, Cutoff: c.Cutoff, Envelope: c.Envelope}
	if c.Functions < 1 || c.Functions > maxVectorDim {
		return s, gpuprof.Errorf(nil, "functions is %d", c.Functions).WithFix("give 1 to %d", maxVectorDim)
	}
	return s, s.Check()
}

// radialGrad compares the derivative of sum(db b(r)) with respect to the length r.
func (v *vectorRunner) radialGrad(c *vectorCase) ([]gpuprof.CaseResult, error) {
	s, err := c.radialBasis()
	if err != nil {
		return nil, err
	}
	n, err := sampleCount("r", c.R, 1)
	if err != nil {
		return nil, err
	}
	if err := cmpLengths(map[string]sized{"db": {c.DB, n * s.N}, "out": {c.Out, n}}); err != nil {
		return nil, err
	}
	wide, vec := make([]float64, n), make([]float64, 3*n)
	for i, r := range c.R {
		vec[3*i] = r
		wide[i] = op.RefBasisGrad(s, vec[3*i:3*i+3], c.DB[i*s.N:(i+1)*s.N])
	}
	return v.compare(wide, c.Out, func(a *op.Arena, out device.Buffer) (*op.Bound, error) {
		return op.BasisGrad{Basis: s}.Bind(v.dev, v.upload(a, vec), v.upload(a, c.DB), out, n)
	})
}

// gateGrad compares dx of every sample, in the order of e3nn's Gate.irreps_in.
func (v *vectorRunner) gateGrad(c *vectorCase) ([]gpuprof.CaseResult, error) {
	g, before, err := c.caseGate()
	if err != nil {
		return nil, err
	}
	in, out := g.InDim(), g.OutDim()
	n, err := sampleCount("x", c.X, in)
	if err != nil {
		return nil, err
	}
	if err := cmpLengths(map[string]sized{"dout": {c.DOut, n * out}, "out": {c.Out, n * in}}); err != nil {
		return nil, err
	}
	x, want := unsortRows(before, c.X), unsortRows(before, c.Out)
	wide := make([]float64, n*in)
	for i := range n {
		if err := op.RefGateGrad(g, x[i*in:(i+1)*in], c.DOut[i*out:(i+1)*out], wide[i*in:(i+1)*in]); err != nil {
			return nil, err
		}
	}
	return v.compare(wide, want, func(a *op.Arena, dx device.Buffer) (*op.Bound, error) {
		return op.GateGrad{Gate: g}.Bind(v.dev, v.upload(a, x), v.upload(a, c.DOut), dx, n)
	})
}
