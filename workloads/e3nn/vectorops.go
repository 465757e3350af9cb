package e3nn

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

// maxVectorDim is the largest size in a case, so that a file cannot cause huge allocations.
const maxVectorDim = 1 << 20

// vectorRunner runs the cases of a vectors file (docs/vectors.md) on a device. Each case allocates its own buffers.
type vectorRunner struct {
	dev    device.Device
	stream device.Stream
}

func (v *vectorRunner) wigner3j(c *vectorCase) ([]gpuprof.CaseResult, error) {
	if c.L1 == nil || c.L2 == nil || c.L3 == nil {
		return nil, gpuprof.Errorf(nil, "l1, l2 or l3 is missing").WithFix("give all three")
	}
	got, err := so3.Wigner3j(*c.L1, *c.L2, *c.L3)
	if err != nil {
		return nil, err
	}
	if err := checkLength("out", c.Out, len(got)); err != nil {
		return nil, err
	}
	return []gpuprof.CaseResult{result64(got, c.Out), result32(op.As[float32](got), c.Out)}, nil
}

func (v *vectorRunner) runHarmonics(c *vectorCase) ([]gpuprof.CaseResult, error) {
	norm, lmax, err := c.degreesOf()
	if err != nil {
		return nil, err
	}
	n, err := sampleCount("r", c.R, 3)
	if err != nil {
		return nil, err
	}
	dim := (lmax + 1) * (lmax + 1)
	if err := checkLength("out", c.Out, n*dim); err != nil {
		return nil, err
	}
	wide := make([]float64, n*dim)
	for i := range n {
		so3.Harmonics(lmax, norm, c.R[3*i], c.R[3*i+1], c.R[3*i+2], wide[i*dim:(i+1)*dim])
	}
	got, err := v.runBound(n*dim, func(a *op.Arena, out device.Buffer) ([]*op.Bound, error) {
		b, err := op.Sph{LMax: lmax}.Bind(v.dev, a.Upload(v.stream, "vectors", unitVectors(c.R)), out, n)
		return []*op.Bound{b}, err
	})
	if err != nil {
		return nil, err
	}
	for i := range got { // the kernel uses component normalisation
		l := int(math.Sqrt(float64(i % dim)))
		switch norm {
		case so3.Norm:
			got[i] *= float32(1 / math.Sqrt(float64(2*l+1)))
		case so3.Integral:
			got[i] *= float32(1 / math.Sqrt(4*math.Pi))
		}
	}
	return []gpuprof.CaseResult{result64(wide, c.Out), result32(got, c.Out)}, nil
}

// degreesOf returns the normalisation of the harmonics and the largest degree of a case.
func (c *vectorCase) degreesOf() (so3.Normalization, int, error) {
	norm, err := so3.ParseNormalization(c.Normalization)
	if err != nil {
		return "", 0, err
	}
	if c.LMax == nil {
		return "", 0, gpuprof.Errorf(nil, "lmax is missing").WithFix("give 0 to %d", so3.MaxL)
	}
	if *c.LMax < 0 || *c.LMax > so3.MaxL {
		return "", 0, gpuprof.Errorf(nil, "lmax is %d", *c.LMax).WithFix("use 0 to %d", so3.MaxL)
	}
	return norm, *c.LMax, nil
}

// unitVectors divides vectors by their length and converts them to float32. The division comes first, because a valid
// length of 1e300 would overflow float32.
func unitVectors(r array) []float32 {
	out := make([]float32, len(r))
	for i := 0; i+3 <= len(r); i += 3 {
		scale := max(math.Abs(r[i]), math.Abs(r[i+1]), math.Abs(r[i+2]))
		if scale == 0 {
			continue
		}
		x, y, z := r[i]/scale, r[i+1]/scale, r[i+2]/scale
		length := math.Sqrt(x*x + y*y + z*z)
		out[i], out[i+1], out[i+2] = float32(x/length), float32(y/length), float32(z/length)
	}
	return out
}

func (v *vectorRunner) tensorProduct(c *vectorCase) ([]gpuprof.CaseResult, error) {
	tp, err := c.caseProduct()
	if err != nil {
		return nil, err
	}
	n, err := c.productSamples(tp, c.Out)
	if err != nil {
		return nil, err
	}
	d1, d2, do, nw := tp.In1.Dim(), tp.In2.Dim(), tp.Out.Dim(), tp.WeightNumel()
	wide := make([]float64, n*do)
	for i := range n {
		if err := tp.Eval(c.X[i*d1:(i+1)*d1], c.Y[i*d2:(i+1)*d2], c.W[i*nw:(i+1)*nw], wide[i*do:(i+1)*do]); err != nil {
			return nil, err
		}
	}
	out := []gpuprof.CaseResult{result64(wide, c.Out)}
	// Every implementation that supports the product; the worst result counts.
	worst := gpuprof.CaseResult{RelativeError: -1}
	for _, impl := range []string{op.ImplUnfused, op.ImplFused, op.ImplCSR} {
		p := op.TensorProduct{TP: tp, Impl: impl, Layout: op.MulIr, Scale: 1}
		if p.Check() != nil {
			continue // this implementation supports only uvu paths
		}
		got, err := v.runProduct(p, c, n)
		if err != nil {
			return nil, err
		}
		if r := result32(got, c.Out); op.Worse(worst.RelativeError, r.RelativeError) {
			worst = r
		}
	}
	return append(out, worst), nil
}

// runProduct computes the samples of a case as n edges: edge i goes from source i to destination i.
func (v *vectorRunner) runProduct(p op.TensorProduct, c *vectorCase, n int) ([]float32, error) {
	index := make([]int32, n+1)
	for i := range index {
		index[i] = int32(i)
	}
	return v.runBound(n*p.TP.Out.Dim(), func(a *op.Arena, out device.Buffer) ([]*op.Bound, error) {
		b := op.TPBuffers{X: v.upload(a, c.X), Y: v.upload(a, c.Y), W: v.upload(a, c.W), Src: v.uploadIndex(a, index[:n]), Dst: v.uploadIndex(a, index[:n]),
			RowPtr: v.uploadIndex(a, index), Out: out}
		product, scatter, err := p.Bind(v.dev, b, n, n, n)
		if scatter == nil {
			return []*op.Bound{product}, err
		}
		return []*op.Bound{product, scatter}, err
	})
}

func (c *vectorCase) caseProduct() (so3.TensorProduct, error) {
	tp := so3.TensorProduct{IrrepNorm: c.IrrepNorm, PathNorm: c.PathNorm}
	var err error
	for _, f := range []struct {
		name, text string
		to         *so3.Irreps
	}{{"irreps_in1", c.IrrepsIn1, &tp.In1}, {"irreps_in2", c.IrrepsIn2, &tp.In2}, {"irreps_out", c.IrrepsOut, &tp.Out}} {
		if *f.to, err = irrepsOf(f.name, f.text); err != nil {
			return tp, err
		}
	}
	for _, i := range c.Instructions {
		tp.Instructions = append(tp.Instructions, so3.Instruction{In1: i.In1, In2: i.In2, Out: i.Out, Mode: so3.Mode(i.Mode), HasWeight: i.HasWeight, PathWeight: i.PathWeight})
	}
	if err := tp.Validate(); err != nil {
		return tp, err
	}
	if n := tp.WeightNumel(); n > maxVectorDim {
		return tp, gpuprof.Errorf(nil, "a sample has %d weights", n).WithFix("give at most %d", maxVectorDim)
	}
	return tp, nil
}

func (c *vectorCase) productSamples(tp so3.TensorProduct, out array) (int, error) {
	n, err := sampleCount("x", c.X, tp.In1.Dim())
	if err != nil {
		return 0, err
	}
	for _, f := range []struct {
		name  string
		a     array
		width int
	}{{"y", c.Y, tp.In2.Dim()}, {"w", c.W, tp.WeightNumel()}, {"the output", out, tp.Out.Dim()}} {
		if err := checkLength(f.name, f.a, n*f.width); err != nil {
			return 0, err
		}
	}
	return n, nil
}

func irrepsOf(name, text string) (so3.Irreps, error) {
	irs, err := so3.ParseIrreps(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if irs.Dim() > maxVectorDim {
		return nil, gpuprof.Errorf(nil, "%s has dimension %d", name, irs.Dim()).WithFix("give at most %d", maxVectorDim)
	}
	return irs, nil
}

func (v *vectorRunner) runGate(c *vectorCase) ([]gpuprof.CaseResult, error) {
	g, before, err := c.caseGate()
	if err != nil {
		return nil, err
	}
	n, err := sampleCount("x", c.X, g.InDim())
	if err != nil {
		return nil, err
	}
	if err := checkLength("out", c.Out, n*g.OutDim()); err != nil {
		return nil, err
	}
	x := unsortRows(before, c.X)
	wide := make([]float64, n*g.OutDim())
	for i := range n {
		if err := op.RefGate(g, x[i*g.InDim():(i+1)*g.InDim()], wide[i*g.OutDim():(i+1)*g.OutDim()]); err != nil {
			return nil, err
		}
	}
	return v.compare(wide, c.Out, func(a *op.Arena, out device.Buffer) (*op.Bound, error) {
		return g.Bind(v.dev, a.Upload(v.stream, "vectors", op.As[float32](x)), out, n)
	})
}

// caseGate returns the case's gate and its input irreps in the order scalars, gates, gated, whose blocks are not
// sorted.
func (c *vectorCase) caseGate() (op.Gate, so3.Irreps, error) {
	g := op.Gate{Normalisation: c.Normalisation, Layout: op.MulIr}
	var err error
	var before so3.Irreps
	for _, f := range []struct {
		name, text string
		to         *so3.Irreps
	}{{"irreps_scalars", c.Scalars, &g.Scalars}, {"irreps_gates", c.Gates, &g.Gates}, {"irreps_gated", c.Gated, &g.Gated}} {
		if *f.to, err = irrepsOf(f.name, f.text); err != nil {
			return g, nil, err
		}
		before = append(before, *f.to...)
	}
	if len(c.Activations) != 2 {
		return g, nil, gpuprof.Errorf(nil, "activations has %d lists", len(c.Activations)).WithFix("give [[of scalar blocks], [of gate blocks]]")
	}
	g.ActScalars, g.ActGates = c.Activations[0], c.Activations[1]
	return g, before, g.Check()
}

// unsortRows reorders rows from e3nn's Gate.irreps_in, whose blocks are sorted, to the order of the blocks in irs.
func unsortRows(irs so3.Irreps, x []float64) []float64 {
	sorted, place, _ := irs.Sort()
	from, to, dim := sorted.Offsets(), irs.Offsets(), irs.Dim()
	out := make([]float64, len(x))
	for row := 0; row+dim <= len(x) && dim > 0; row += dim {
		for i, b := range irs {
			copy(out[row+to[i]:row+to[i]+b.Dim()], x[row+from[place[i]]:])
		}
	}
	return out
}

// compare compares the case's values want with the float64 values wide, and with the values that an operation writes.
func (v *vectorRunner) compare(wide, want array, bind func(*op.Arena, device.Buffer) (*op.Bound, error)) ([]gpuprof.CaseResult, error) {
	got, err := v.runBound(len(wide), func(a *op.Arena, out device.Buffer) ([]*op.Bound, error) {
		b, err := bind(a, out)
		return []*op.Bound{b}, err
	})
	if err != nil {
		return nil, err
	}
	return []gpuprof.CaseResult{result64(wide, want), result32(got, want)}, nil
}

// runBound binds operations that write n values to a buffer, fills the buffer with NaN, runs them and returns the
// values.
func (v *vectorRunner) runBound(n int, bind func(*op.Arena, device.Buffer) ([]*op.Bound, error)) (res []float32, err error) {
	a := &op.Arena{Dev: v.dev}
	defer func() { err = cmp.Or(err, a.Free()) }()
	out := a.Words("the result", int64(n), device.OnDevice)
	if a.Err == nil {
		a.Err = op.Poison(v.dev, v.stream, out)
	}
	ops, err := bind(a, out)
	if err := cmp.Or(a.Err, err); err != nil {
		return nil, err
	}
	defer func() {
		for _, b := range slices.Backward(ops) {
			err = cmp.Or(err, b.Close())
		}
	}()
	for _, b := range ops {
		if err := b.Enqueue(v.stream); err != nil {
			return nil, err
		}
	}
	return op.Receive(v.dev, v.stream, out, 0, n)
}

// asFloats returns integers as the floats with the same bits, so that a float32 buffer can hold them.
func asFloats(x []int32) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = math.Float32frombits(uint32(v))
	}
	return out
}
