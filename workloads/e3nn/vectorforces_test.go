package e3nn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

// Tolerance of forces in float32: some twenty operations follow each other.
const forcesTolerance = 1e-5

// networkCase is a case of kind forces or train_step, in a file of this project's own tests: one layer with its readout,
// as no other program has it. The heads of scripts/record/export_e3nn_vectors.py and export_e3nn_steps.py describe the
// files. lmax, x and irreps_out are as in a product's case, basis to envelope as in one of radial functions.
type networkCase struct {
	vectorCase
	stepCase
	IrrepsIn  string `json:"irreps_in"`
	Hidden    int    `json:"hidden"`
	Positions array  `json:"positions"`
	Src       array  `json:"src"`
	Dst       array  `json:"dst"`
	W1        array  `json:"w1"`
	W2        array  `json:"w2"`
	Mix       array  `json:"mix"`
	Readout   array  `json:"readout"`
}

// checkNetworks compares the cases of a file.
func checkNetworks(d device.Device, file []byte) ([]gpuprof.CaseResult, error) {
	stream, err := d.NewStream("vectors")
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	v := &vectorRunner{dev: d, stream: stream}
	return loop.Vectors(context.Background(), file, "networks.json", "this file", func(c *networkCase) string { return c.Kind }, func(c *networkCase) ([]gpuprof.CaseResult, error) {
		if c.Kind == "forces" {
			return v.runForces(c)
		}
		return v.trainStep(c)
	})
}

// network is a case with its layer and index.
type network struct {
	c        *networkCase
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

// runForces compares the energy and its gradient by every position.
func (v *vectorRunner) runForces(c *networkCase) ([]gpuprof.CaseResult, error) {
	n, err := c.newNetwork()
	if err == nil {
		err = checkLength("out", c.Out, 1+3*n.atoms)
	}
	if err != nil {
		return nil, err
	}
	wide, err := n.reference()
	if err != nil {
		return nil, err
	}
	energy, err := v.runBound(1, func(a *op.Arena, out device.Buffer) ([]*op.Bound, error) { return n.bindNetwork(v, a, out, nil) })
	if err != nil {
		return nil, err
	}
	pulls, err := v.runBound(3*n.atoms, func(a *op.Arena, out device.Buffer) ([]*op.Bound, error) {
		return n.bindNetwork(v, a, a.Words("the energy", 1, device.OnDevice), out)
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

// newNetwork checks a case and makes its layer and index.
func (c *networkCase) newNetwork() (*network, error) {
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
	_, lmax, err := c.degreesOf()
	if err != nil {
		return nil, err
	}
	if n.basis, err = c.radialBasis(); err != nil {
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
	if n.atoms, err = sampleCount("positions", c.Positions, 3); err != nil {
		return nil, err
	}
	if err := cmpLengths(map[string]sized{"x": {c.X, n.atoms * in.Dim()}, "w1": {c.W1, c.Functions * c.Hidden}, "w2": {c.W2, c.Hidden * numel},
		"mix": {c.Mix, n.layer.Linear.WeightNumel()}, "readout": {c.Readout, n.readout().Count}}); err != nil {
		return nil, err
	}
	err = n.connectEdges()
	return n, err
}

// readout has a factor for every scalar of a case, odd ones too.
func (n *network) readout() op.Readout {
	return op.Readout{Width: n.layer.Out.Dim(), Count: n.layer.Gate.Scalars.Dim()}
}

// connectEdges reads the edges, which are sorted by destination.
func (n *network) connectEdges() error {
	c := n.c
	if len(c.Src) == 0 || len(c.Src) != len(c.Dst) {
		return gpuprof.Errorf(nil, "src has %d edges and dst %d", len(c.Src), len(c.Dst)).WithFix("give one of each per edge")
	}
	n.rowptr = make([]int32, n.atoms+1)
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
	}
	if !slices.IsSorted(n.dst) {
		return gpuprof.Errorf(nil, "the edges are not sorted by dst").WithFix("sort them")
	}
	for a := range n.atoms {
		n.rowptr[a+1] += n.rowptr[a]
	}
	n.colptr, n.perm = op.BySource(n.src, n.atoms)
	n.colptr = append(n.colptr, 0) // the point of row 0
	return nil
}

// edgeVector returns an edge's vector in float64.
func (n *network) edgeVector(e int) []float64 {
	p, v := n.c.Positions, make([]float64, 3)
	for k := range v {
		v[k] = p[3*int(n.src[e])+k] - p[3*int(n.dst[e])+k]
	}
	return v
}

// refNet returns the network in float64.
func (n *network) refNet() *refNet {
	c := n.c
	return &refNet{layer: n.layer, basis: n.basis, sph: n.sph, mlp: n.mlp, readout: n.readout(), w1: c.W1, w2: c.W2, mix: c.Mix, factors: c.Readout}
}

// reference returns the energy and its gradient by every position.
func (n *network) reference() ([]float64, error) {
	out, in, net := make([]float64, 1+3*n.atoms), n.layer.In.Dim(), n.refNet()
	for r := range n.atoms {
		row, to := refRow{}, refSums{}
		for e := n.rowptr[r]; e < n.rowptr[r+1]; e++ {
			at := int(n.src[e]) * in
			row.vec, row.x = append(row.vec, n.edgeVector(int(e))), append(row.x, n.c.X[at:at+in])
		}
		if err := net.addRow(row, &to); err != nil {
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
	return out, nil
}

// bindNetwork binds the network on the device: forward, and backward if forces are wanted.
func (n *network) bindNetwork(v *vectorRunner, a *op.Arena, energy, forces device.Buffer) ([]*op.Bound, error) {
	var params []device.Buffer
	for _, p := range n.parameters() {
		params = append(params, v.upload(a, p))
	}
	d := n.bindForward(v, a, params)
	d.addBound(op.Sum{N: n.atoms}.Bind(v.dev, d.rho, energy))
	if forces != nil {
		d.bindForces(forces)
	}
	if d.err != nil {
		return nil, errors.Join(d.err, d.close())
	}
	return d.ops, nil
}

// bindForces goes back from the energy, the sum of all values, to the positions.
func (d *deviceNet) bindForces(forces device.Buffer) {
	e, dev := len(d.src), d.v.dev
	d.bindBack(d.v.upload(d.mem, slices.Repeat([]float64{1}, d.atoms)), nil)
	slope, f := d.newWords(e), d.newWords(3*e)
	d.addBound(op.BasisGrad{Basis: d.basis}.Bind(dev, d.at, d.dbase, slope, e))
	d.addBound(op.SphGrad{Sph: d.sph}.Bind(dev, d.at, d.dy, slope, f, e))
	positions := op.Positions{Points: d.atoms, Atoms: d.atoms, Rows: d.atoms}
	d.addBound(positions.Bind(dev, op.PositionsBuffers{F: f, RowPtr: d.rows, ColPtr: d.columns, Perm: d.order, Out: forces}, e))
}
