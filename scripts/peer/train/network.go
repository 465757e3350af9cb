package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

// paramNames lists the parameters in the order of INPUT and of the optimizer.
func paramNames() []string { return []string{"x", "w1", "w2", "mix", "readout"} }

type header struct {
	Atoms, Edges, Mul, LMax, Functions, Hidden int32
	Cutoff, Rate, Clip                         float64
}

// network is one convolution with its parameters and readout:
//
//	w_e = MLP(basis(|vec_e|)),  mid_i = sum over the edges to i of TP(x[src_e], Y(vec_e), w_e) / sqrt(20)
//	rho_i = readout . scalars of gate(linear(mid_i)),  loss = sum_i (rho_i - target_i)^2 / (2 atoms)
type network struct {
	header
	in      so3.Irreps
	product so3.TensorProduct
	linear  op.Linear // its Layout, and the gate's, is set when it is bound
	gate    op.Gate
	basis   op.Basis
	sph     op.Sph
	mlp     op.MLP
	readout op.Readout

	vec, target []float32
	params      [][]float32 // by names, in mul_ir
	src, dst    []int32
}

// Sums over neighbours are divided by the root of neighbours, as in the workload e3nn.
const neighbours = 20

// Upper limits for INPUT, so that no size overflows.
const (
	maxCount = 1 << 24
	maxLMax  = 6
)

// naturalIrreps returns mul channels of every irrep with parity (-1)^l, the parity of spherical harmonics.
func naturalIrreps(mul, lmax int) so3.Irreps {
	var out so3.Irreps
	for _, h := range so3.HarmonicIrreps(max(0, lmax)) {
		out = append(out, so3.MulIrrep{Mul: mul, Ir: h.Ir})
	}
	return out
}

func read(path string) (*network, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, n := bufio.NewReader(f), &network{}
	if err := binary.Read(r, binary.LittleEndian, &n.header); err != nil {
		return nil, fmt.Errorf("reading sizes: %w", err)
	}
	if err := n.deriveOps(); err != nil {
		return nil, err
	}
	floats := func(what string, count int) []float32 {
		v := make([]float32, count)
		if err == nil {
			if err = binary.Read(r, binary.LittleEndian, v); err != nil {
				err = fmt.Errorf("reading %s, %d values: %w", what, count, err)
			}
		}
		return v
	}
	n.vec = floats("vec", 3*int(n.Edges))
	for i, count := range []int{int(n.Atoms) * n.in.Dim(), n.mlp.In * n.mlp.Hidden, n.mlp.Hidden * n.mlp.Out, n.linear.WeightNumel(), n.readout.Count} {
		n.params = append(n.params, floats(paramNames()[i], count))
	}
	n.target = floats("target", int(n.Atoms))
	n.src, n.dst = make([]int32, n.Edges), make([]int32, n.Edges)
	for _, v := range [][]int32{n.src, n.dst} {
		if err == nil {
			err = binary.Read(r, binary.LittleEndian, v)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := n.checkEdges(); err != nil {
		return nil, err
	}
	if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, gpuprof.Errorf(err, "more follows the edges").WithFix("write INPUT with the same sizes as its header has")
	}
	return n, nil
}

func (n *network) deriveOps() error {
	for _, v := range []struct {
		name      string
		v         int32
		low, high int32
	}{{"atoms", n.Atoms, 1, maxCount}, {"edges", n.Edges, 1, maxCount}, {"mul", n.Mul, 1, 1 << 14}, {"lmax", n.LMax, 0, maxLMax},
		{"functions", n.Functions, 2, 1 << 10}, {"hidden", n.Hidden, 1, 1 << 14}} {
		if v.v < v.low || v.v > v.high {
			return gpuprof.Errorf(nil, "%s is %d", v.name, v.v).WithFix("give %d to %d", v.low, v.high)
		}
	}
	if !(n.Rate > 0) || !(n.Clip > 0) {
		return gpuprof.Errorf(nil, "lr is %g and clip %g", n.Rate, n.Clip).WithFix("give both above 0")
	}
	mul, lmax := int(n.Mul), int(n.LMax)
	n.in = naturalIrreps(mul, lmax-2)
	target := naturalIrreps(mul, lmax-1)
	n.product = so3.UVUProduct(n.in, so3.HarmonicIrreps(lmax), target)
	n.gate = op.Gate{Scalars: target[:1], ActScalars: []string{"silu"}, Gated: target[1:], Normalisation: "e3nn"}
	before := slices.Clone(n.gate.Scalars)
	if gates := mul * len(n.gate.Gated); gates > 0 {
		n.gate.Gates, n.gate.ActGates = so3.Irreps{{Mul: gates, Ir: so3.Irrep{P: 1}}}, []string{"sigmoid"}
		before = append(append(before, n.gate.Gates...), n.gate.Gated...)
	}
	// e3nn's Gate joins its scalars and gates in irreps_in, and so the linear layer has one block of them.
	n.linear = op.Linear{In: n.product.Out, Out: before.Simplify()}
	n.basis = op.Basis{Kind: "gaussian", N: int(n.Functions), Cutoff: n.Cutoff}
	n.sph = op.Sph{LMax: lmax}
	n.mlp = op.MLP{In: int(n.Functions), Hidden: int(n.Hidden), Out: n.product.WeightNumel(), Normalisation: "e3nn"}
	n.readout = op.Readout{Width: target.Dim(), Count: mul}
	return n.basis.Check()
}

func (n *network) checkEdges() error {
	for e := range n.src {
		if s, d := n.src[e], n.dst[e]; min(s, d) < 0 || max(s, d) >= n.Atoms {
			return gpuprof.Errorf(nil, "edge %d goes from %d to %d of %d atoms", e, s, d, n.Atoms).WithFix("give atoms from 0 on")
		}
	}
	if !slices.IsSorted(n.dst) {
		return gpuprof.Errorf(nil, "the edges are not sorted by dst").WithFix("sort them")
	}
	return nil
}

// rowOffsets returns each atom's offset in a list of edges sorted by end.
func rowOffsets(ends []int32, atoms int32) []int32 {
	out := make([]int32, atoms+1)
	for _, a := range ends {
		out[a+1]++
	}
	for a := range atoms {
		out[a+1] += out[a]
	}
	return out
}

// changeLayout converts a parameter to another layout. Only x changes, because only x holds features.
func (n *network) changeLayout(name string, v []float32, change func(dst, src []float32)) []float32 {
	if name != paramNames()[0] {
		return v
	}
	out, dim := make([]float32, len(v)), n.in.Dim()
	for at := 0; at < len(v); at += dim {
		change(out[at:at+dim], v[at:at+dim])
	}
	return out
}
