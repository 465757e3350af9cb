package e3nn

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

// netBuffers are what a network's way there and back leaves for the second one, named as
// in network.bind. hidden is the hidden layer before its activation and h after it; unit
// is the gradient of the energy by every row's value.
type netBuffers struct {
	product                          op.TensorProduct
	at, x, w1, w2, mix, unit         gpuprof.Buffer
	src, dst, rowptr, colptr, perm   gpuprof.Buffer
	basis, y, hidden, h, w, mid, pre gpuprof.Buffer
	dout, dpre, dmid, dw, dh, da     gpuprof.Buffer
}

// forcesGrad compares the gradients of v.forces by x, w1, w2, mix and readout.
func (v *vectorRunner) forcesGrad(c *vectorCase) ([]gpuprof.CaseResult, error) {
	n, err := c.network()
	if err != nil {
		return nil, err
	}
	sizes := []int{len(c.X), len(c.W1), len(c.W2), len(c.Mix), len(c.Readout)}
	total := 0
	for _, size := range sizes {
		total += size
	}
	if err := cmpLengths(map[string]sized{"v": {c.V, 3 * n.atoms}, "out": {c.Out, total}}); err != nil {
		return nil, err
	}
	dir := make([]float64, len(c.V)) // forces are the gradient's opposite
	for i, x := range c.V {
		dir[i] = -x
	}
	wide, err := n.reference(dir)
	if err != nil {
		return nil, err
	}
	var narrow []float32
	for which, size := range sizes {
		one, err := v.launch(size, func(a *op.Arena, out gpuprof.Buffer) ([]*op.Bound, error) {
			to := make([]gpuprof.Buffer, len(sizes))
			for i, size := range sizes {
				if to[i] = out; i != which {
					to[i] = a.Words("gradients", int64(size), gpuprof.OnDevice)
				}
			}
			return n.bind(v, a, a.Words("the energy", 1, gpuprof.OnDevice), a.Words("forces", int64(3*n.atoms), gpuprof.OnDevice), &layerGrads{to[0], to[1], to[2], to[3], to[4]})
		})
		if err != nil {
			return nil, err
		}
		narrow = append(narrow, one...)
	}
	res := result32(narrow, c.Out)
	res.Tolerance = forcesTolerance
	return []gpuprof.CaseResult{result64(wide[len(wide)-total:], c.Out), res}, nil
}

// bindSecond goes on from the forces: their change along v, and back to the gradients; see
// pullBuffers.
func (n *network) bindSecond(v *vectorRunner, a *op.Arena, keep func(*op.Bound, error), m netBuffers, grads *layerGrads) {
	c, l, e := n.c, n.layer, len(n.src)
	perEdge := func(width int) gpuprof.Buffer { return a.Words("values", int64(e)*int64(width), gpuprof.OnDevice) }
	perRow := func(irs so3.Irreps) gpuprof.Buffer {
		return a.Words("values", int64(n.atoms)*int64(irs.Dim()), gpuprof.OnDevice)
	}
	u, basisChange, yChange := perEdge(3), perEdge(n.basis.N), perEdge(n.sph.Dim())
	keep(op.Positions{Points: n.atoms, Atoms: n.atoms, Rows: n.atoms}.BindGrad(v.dev, v.up(a, c.V), m.src, m.dst, m.colptr, u, e))
	keep(op.BasisTangent{Basis: n.basis}.Bind(v.dev, m.at, u, basisChange, e))
	keep(op.SphTangent{Sph: n.sph}.Bind(v.dev, m.at, u, yChange, e))
	ga, aChange, hChange, wChange, gw := perEdge(n.mlp.Hidden), perEdge(n.mlp.Hidden), perEdge(n.mlp.Hidden), perEdge(n.mlp.Out), perEdge(n.mlp.Out)
	keep(op.MLPTangent{MLP: n.mlp}.Bind(v.dev, op.MLPTangentBuffers{A: m.hidden, DB: basisChange, W1: m.w1, W2: m.w2, DA: aChange, DH: hChange, DW: wChange}, e))
	midChange, half, gmid, preChange, gpre, outChange := perRow(l.TP.Out), perRow(l.TP.Out), perRow(l.TP.Out), perRow(l.Linear.Out), perRow(l.Linear.Out), perRow(l.Out)
	for _, of := range [][3]gpuprof.Buffer{{yChange, m.w, midChange}, {m.y, wChange, half}} {
		sum, _, err := m.product.Bind(v.dev, op.TPBuffers{X: m.x, Y: of[0], W: of[1], Src: m.src, Dst: m.dst, RowPtr: m.rowptr, Out: of[2]}, n.atoms, n.atoms, e)
		keep(sum, err)
	}
	keep(op.BindAdd(v.dev, half, midChange, n.atoms*l.TP.Out.Dim()))
	keep(l.Linear.Bind(v.dev, midChange, m.mix, preChange, n.atoms))
	keep(op.GateTangent{Gate: l.Gate}.Bind(v.dev, m.pre, preChange, outChange, n.atoms))
	keep(op.GateSecond{Gate: l.Gate}.Bind(v.dev, m.pre, preChange, m.dout, gpre, n.atoms))
	keep(op.LinearGrad{Linear: l.Linear}.Bind(v.dev, gpre, m.mix, gmid, n.atoms))
	for i, of := range [][3]gpuprof.Buffer{{m.y, m.w, gmid}, {yChange, m.w, m.dmid}, {m.y, wChange, m.dmid}} {
		bufs := op.TPGradBuffers{X: m.x, Y: of[0], W: of[1], DOut: of[2], Src: m.src, Dst: m.dst, ColPtr: m.colptr, Perm: m.perm, DX: grads.x}
		if i < 2 {
			bufs.DW = gw
		}
		keep(op.TensorProductGrad{Product: m.product, AddX: i > 0, AddW: i > 0}.Bind(v.dev, bufs, n.atoms, n.atoms, e))
	}
	keep(op.MLPSecond{MLP: n.mlp}.Bind(v.dev, op.MLPSecondBuffers{A: m.hidden, DA: aChange, W2: m.w2, GW: gw, GDH: m.dh, GA: ga}, e))
	keep(op.MLPWeightGrad{MLP: n.mlp}.Bind(v.dev, m.basis, ga, m.h, gw, grads.w1, grads.w2, e))
	keep(op.MLPWeightGrad{MLP: n.mlp, Add: true}.Bind(v.dev, basisChange, m.da, hChange, m.dw, grads.w1, grads.w2, e))
	keep(op.LinearWeightGrad{Linear: l.Linear}.Bind(v.dev, m.mid, gpre, grads.mix, n.atoms))
	keep(op.LinearWeightGrad{Linear: l.Linear, Add: true}.Bind(v.dev, midChange, m.dpre, grads.mix, n.atoms))
	keep(n.readout().BindWeightGrad(v.dev, m.unit, outChange, grads.readout, n.atoms))
}
