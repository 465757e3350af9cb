package e3nn

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

// Tolerance of forces in float32: some twenty operations follow each other.
const forcesTolerance = 1e-5

// network is a case of kind forces or forces_grad: one layer as a preset has them, its readout, and
// the atoms with their edges.
type network struct {
	c        *vectorCase
	layer    layer
	mlp      op.MLP
	basis    op.Basis
	sph      op.Sph
	atoms    int
	src, dst []int32
	rowptr   []int32
	colptr   []int32
	perm     []int32
}

// forces compares the energy and its gradient by every position.
func (v *vectorRunner) forces(c *vectorCase) ([]gpuprof.CaseResult, error) {
	n, err := c.network()
	if err == nil {
		err = wants("out", c.Out, 1+3*n.atoms)
	}
	if err != nil {
		return nil, err
	}
	wide, err := n.reference(nil)
	if err != nil {
		return nil, err
	}
	energy, err := v.launch(1, func(a *op.Arena, out gpuprof.Buffer) ([]*op.Bound, error) { return n.bind(v, a, out, nil, nil) })
	if err != nil {
		return nil, err
	}
	pulls, err := v.launch(3*n.atoms, func(a *op.Arena, out gpuprof.Buffer) ([]*op.Bound, error) {
		return n.bind(v, a, a.Words("the energy", 1, gpuprof.OnDevice), out, nil)
	})
	if err != nil {
		return nil, err
	}
	for _, f := range pulls { // a force is the gradient's opposite
		energy = append(energy, -f)
	}
	narrow := result32(energy, c.Out)
	narrow.Tolerance = forcesTolerance
	return []gpuprof.CaseResult{result64(wide, c.Out), narrow}, nil
}

// network checks a case and makes its layer and index.
func (c *vectorCase) network() (*network, error) {
	n := &network{c: c}
	in, err := irrepsOf("irreps_in", c.IrrepsIn)
	if err != nil {
		return nil, err
	}
	target, err := irrepsOf("irreps_out", c.IrrepsOut)
	if err != nil {
		return nil, err
	}
	c.Normalization = string(so3.Component)
	_, lmax, err := c.degrees()
	if err != nil {
		return nil, err
	}
	if n.basis, err = c.radial(); err != nil {
		return nil, err
	}
	if c.Hidden < 1 || c.Hidden > maxVectorDim {
		return nil, gpuprof.Errorf(nil, "hidden is %d", c.Hidden).WithFix("give 1 to %d", maxVectorDim)
	}
	n.sph = op.Sph{LMax: lmax}
	n.layer = newLayer(in, target, lmax, op.MulIr)
	if err := n.layer.TP.Validate(); err != nil {
		return nil, err
	}
	if err := n.layer.Gate.Check(); err != nil {
		return nil, err
	}
	numel := n.layer.TP.WeightNumel()
	if numel < 1 || numel > maxVectorDim {
		return nil, gpuprof.Errorf(nil, "irreps_in, lmax and irreps_out give %d weights", numel).WithFix("give irreps whose products are in irreps_out, and at most %d", maxVectorDim)
	}
	n.mlp = op.MLP{In: c.Functions, Hidden: c.Hidden, Out: numel}
	if n.atoms, err = samples("positions", c.Positions, 3); err != nil {
		return nil, err
	}
	if err := cmpLengths(map[string]sized{"x": {c.X, n.atoms * in.Dim()}, "w1": {c.W1, c.Functions * c.Hidden}, "w2": {c.W2, c.Hidden * numel},
		"mix": {c.Mix, n.layer.Linear.WeightNumel()}, "readout": {c.Readout, n.readout().Count}}); err != nil {
		return nil, err
	}
	err = n.connect()
	return n, err
}

// readout has a factor for every scalar of a case, odd ones too.
func (n *network) readout() op.Readout {
	return op.Readout{Width: n.layer.Out.Dim(), Count: n.layer.Gate.Scalars.Dim()}
}

// connect reads the edges, which are sorted by destination.
func (n *network) connect() error {
	c := n.c
	if len(c.Src) == 0 || len(c.Src) != len(c.Dst) {
		return gpuprof.Errorf(nil, "src has %d edges and dst %d", len(c.Src), len(c.Dst)).WithFix("give one of each per edge")
	}
	n.rowptr, n.colptr = make([]int32, n.atoms+1), make([]int32, n.atoms+2)
	for e := range c.Src {
		for _, end := range []struct {
			name string
			v    float64
			to   *[]int32
		}{{"src", c.Src[e], &n.src}, {"dst", c.Dst[e], &n.dst}} {
			if end.v != math.Trunc(end.v) || end.v < 0 || end.v >= float64(n.atoms) {
				return fmt.Errorf("%s of edge %d is %g, which is none of %d atoms", end.name, e, end.v, n.atoms)
			}
			*end.to = append(*end.to, int32(end.v))
		}
		n.rowptr[n.dst[e]+1]++
		n.colptr[n.src[e]+1]++
		n.perm = append(n.perm, int32(e))
	}
	if !slices.IsSorted(n.dst) {
		return gpuprof.Errorf(nil, "the edges are not sorted by dst").WithFix("sort them")
	}
	for a := range n.atoms {
		n.rowptr[a+1] += n.rowptr[a]
		n.colptr[a+1] += n.colptr[a]
	}
	slices.SortStableFunc(n.perm, func(a, b int32) int { return int(n.src[a]) - int(n.src[b]) })
	return nil
}

// vec is an edge's vector in float64, or how it moves where p says how positions do.
func (n *network) vec(e int, p []float64) []float64 {
	v := make([]float64, 3)
	for k := range v {
		v[k] = p[3*int(n.src[e])+k] - p[3*int(n.dst[e])+k]
	}
	return v
}

// refNet is the network in float64.
func (n *network) refNet() *refNet {
	c := n.c
	return &refNet{layer: n.layer, basis: n.basis, sph: n.sph, mlp: n.mlp, readout: n.readout(), w1: c.W1, w2: c.W2, mix: c.Mix, factors: c.Readout}
}

// reference is the energy and its gradient by every position; with dir, a vector a
// position, the gradients of its slope along dir by x, w1, w2, mix and readout follow.
func (n *network) reference(dir []float64) ([]float64, error) {
	c := n.c
	out, in := make([]float64, 1+3*n.atoms), n.layer.In.Dim()
	net := n.refNet()
	gx := make([]float64, len(c.X))
	second := &refGrads{w1: make([]float64, len(c.W1)), w2: make([]float64, len(c.W2)), mix: make([]float64, len(c.Mix)), readout: make([]float64, len(c.Readout))}
	for r := range n.atoms {
		row, to := refRow{}, refSums{}
		second.x = nil
		for e := n.rowptr[r]; e < n.rowptr[r+1]; e++ {
			at := int(n.src[e]) * in
			row.vec, row.x = append(row.vec, n.vec(int(e), c.Positions)), append(row.x, c.X[at:at+in])
			if dir != nil {
				row.dir, second.x, to.second = append(row.dir, n.vec(int(e), dir)), append(second.x, gx[at:at+in]), second
			}
		}
		if err := net.row(row, &to); err != nil {
			return nil, err
		}
		out[0] += to.energy
		for k, f := range to.f {
			e := int(n.rowptr[r]) + k
			for i, d := range f {
				out[1+3*int(n.src[e])+i] += d
				out[1+3*int(n.dst[e])+i] -= d
			}
		}
	}
	if dir == nil {
		return out, nil
	}
	return slices.Concat(out, gx, second.w1, second.w2, second.mix, second.readout), nil
}

// bind is the network on the device, there and, for forces that are wanted, back; for
// gradients of forces it goes on from there.
func (n *network) bind(v *vectorRunner, a *op.Arena, energy, forces gpuprof.Buffer, grads *layerGrads) (ops []*op.Bound, err error) {
	defer func() {
		for _, b := range ops {
			if err != nil {
				err = errors.Join(err, b.Close())
			}
		}
	}()
	c, l, e := n.c, n.layer, len(n.src)
	words := func(count int) gpuprof.Buffer { return a.Words("values", int64(count), gpuprof.OnDevice) }
	var vec []float64
	for i := range e {
		vec = append(vec, n.vec(i, c.Positions)...)
	}
	ones := make([]float64, n.atoms)
	for i := range ones {
		ones[i] = 1
	}
	n.colptr[n.atoms+1] = 0
	at, x, w1, w2, mix, readout := v.up(a, vec), v.up(a, c.X), v.up(a, c.W1), v.up(a, c.W2), v.up(a, c.Mix), v.up(a, c.Readout)
	src, dst, rowptr, colptr, perm := v.index(a, n.src), v.index(a, n.dst), v.index(a, n.rowptr), v.index(a, n.colptr), v.index(a, n.perm)
	basis, y, hidden, h, w := words(e*n.basis.N), words(e*n.sph.Dim()), words(e*n.mlp.Hidden), words(e*n.mlp.Hidden), words(e*n.mlp.Out)
	mid, pre, out, rho := words(n.atoms*l.TP.Out.Dim()), words(n.atoms*l.Linear.Out.Dim()), words(n.atoms*l.Out.Dim()), words(n.atoms)
	keep := func(b *op.Bound, e error) {
		if e == nil {
			ops = append(ops, b)
		} else if err == nil {
			err = e
		}
	}
	product := op.TensorProduct{TP: l.TP, Impl: op.ImplCSR, Layout: op.MulIr, Scale: float32(1 / math.Sqrt(neighbours))}
	keep(n.basis.Bind(v.dev, at, basis, e))
	keep(n.sph.Bind(v.dev, at, y, e))
	keep(n.mlp.BindKept(v.dev, basis, w1, w2, hidden, h, w, e))
	sum, _, e2 := product.Bind(v.dev, op.TPBuffers{X: x, Y: y, W: w, Src: src, Dst: dst, RowPtr: rowptr, Out: mid}, n.atoms, n.atoms, e)
	keep(sum, e2)
	keep(l.Linear.Bind(v.dev, mid, mix, pre, n.atoms))
	keep(l.Gate.Bind(v.dev, pre, out, n.atoms))
	keep(n.readout().Bind(v.dev, out, readout, rho, n.atoms))
	keep(op.Sum{N: n.atoms}.Bind(v.dev, rho, energy))
	if forces == nil {
		return ops, err
	}
	dout, dpre, dmid, dw, dy := words(n.atoms*l.Out.Dim()), words(n.atoms*l.Linear.Out.Dim()), words(n.atoms*l.TP.Out.Dim()), words(e*n.mlp.Out), words(e*n.sph.Dim())
	dh, da, db, slope, f := words(e*n.mlp.Hidden), words(e*n.mlp.Hidden), words(e*n.basis.N), words(e), words(3*e)
	unit := v.up(a, ones)
	keep(n.readout().BindGrad(v.dev, unit, readout, dout, n.atoms))
	keep(op.GateGrad{Gate: l.Gate}.Bind(v.dev, pre, dout, dpre, n.atoms))
	keep(op.LinearGrad{Linear: l.Linear}.Bind(v.dev, dpre, mix, dmid, n.atoms))
	keep(op.TensorProductGrad{Product: product}.Bind(v.dev, op.TPGradBuffers{X: x, Y: y, W: w, DOut: dmid, Src: src, Dst: dst, DY: dy, DW: dw}, n.atoms, n.atoms, e))
	keep(op.MLPGrad{MLP: n.mlp}.Bind(v.dev, op.MLPGradBuffers{A: hidden, W1: w1, W2: w2, DW: dw, DH: dh, DA: da, DB: db}, e))
	keep(op.BasisGrad{Basis: n.basis}.Bind(v.dev, at, db, slope, e))
	keep(op.SphGrad{Sph: n.sph}.Bind(v.dev, at, dy, slope, f, e))
	positions := op.Positions{Points: n.atoms, Atoms: n.atoms, Rows: n.atoms}
	keep(positions.Bind(v.dev, op.PositionsBuffers{F: f, RowPtr: rowptr, ColPtr: colptr, Perm: perm, Out: forces}, e))
	if grads == nil {
		return ops, err
	}
	n.bindSecond(v, a, keep, netBuffers{product: product, at: at, x: x, w1: w1, w2: w2, mix: mix, unit: unit, src: src, dst: dst, rowptr: rowptr, colptr: colptr, perm: perm,
		basis: basis, y: y, hidden: hidden, h: h, w: w, mid: mid, pre: pre, dout: dout, dpre: dpre, dmid: dmid, dw: dw, dh: dh, da: da}, grads)
	return ops, err
}
