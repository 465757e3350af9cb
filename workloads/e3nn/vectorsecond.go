package e3nn

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

// forcesGrad compares the gradients of v.forces by x, w1, w2, mix and readout.
func (v *vectorRunner) forcesGrad(c *vectorCase) ([]gpuprof.CaseResult, error) {
	n, err := c.newNetwork()
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
		one, err := v.runBound(size, func(a *op.Arena, out device.Buffer) ([]*op.Bound, error) {
			to := make([]device.Buffer, len(sizes))
			for i, size := range sizes {
				if to[i] = out; i != which {
					to[i] = a.Words("gradients", int64(size), device.OnDevice)
				}
			}
			return n.bindNetwork(v, a, a.Words("the energy", 1, device.OnDevice), a.Words("forces", int64(3*n.atoms), device.OnDevice), &layerGrads{to[0], to[1], to[2], to[3], to[4]})
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

// bindSecond continues from the forces: their change along v, and back to the gradients; see pullBuffers.
func (d *deviceNet) bindSecond(grads *layerGrads) {
	l, e, dev := d.layer, len(d.src), d.v.dev
	perEdge := func(width int) device.Buffer { return d.newWords(e * width) }
	perRow := func(irs so3.Irreps) device.Buffer { return d.newWords(d.atoms * irs.Dim()) }
	u, basisChange, yChange := perEdge(3), perEdge(d.basis.N), perEdge(d.sph.Dim())
	d.addBound(op.Positions{Points: d.atoms, Atoms: d.atoms, Rows: d.atoms}.BindGrad(dev, d.v.upload(d.mem, d.c.V), d.srcs, d.dsts, d.columns, u, e))
	d.addBound(op.BasisTangent{Basis: d.basis}.Bind(dev, d.at, u, basisChange, e))
	d.addBound(op.SphTangent{Sph: d.sph}.Bind(dev, d.at, u, yChange, e))
	ga, aChange, hChange, wChange, gw := perEdge(d.mlp.Hidden), perEdge(d.mlp.Hidden), perEdge(d.mlp.Hidden), perEdge(d.mlp.Out), perEdge(d.mlp.Out)
	d.addBound(op.MLPTangent{MLP: d.mlp}.Bind(dev, op.MLPTangentBuffers{A: d.hidden, DB: basisChange, W1: d.w1, W2: d.w2, DA: aChange, DH: hChange, DW: wChange}, e))
	midChange, half, gmid, preChange, gpre, outChange := perRow(l.TP.Out), perRow(l.TP.Out), perRow(l.TP.Out), perRow(l.Linear.Out), perRow(l.Linear.Out), perRow(l.Out)
	for _, of := range [][3]device.Buffer{{yChange, d.w, midChange}, {d.y, wChange, half}} {
		sum, _, err := d.product.Bind(dev, op.TPBuffers{X: d.x, Y: of[0], W: of[1], Src: d.srcs, Dst: d.dsts, RowPtr: d.rows, Out: of[2]}, d.atoms, d.atoms, e)
		d.addBound(sum, err)
	}
	d.addBound(op.BindAdd(dev, half, midChange, d.atoms*l.TP.Out.Dim()))
	d.addBound(l.Linear.Bind(dev, midChange, d.mix, preChange, d.atoms))
	d.addBound(op.GateTangent{Gate: l.Gate}.Bind(dev, d.pre, preChange, outChange, d.atoms))
	d.addBound(op.GateSecond{Gate: l.Gate}.Bind(dev, d.pre, preChange, d.dout, gpre, d.atoms))
	d.addBound(op.LinearGrad{Linear: l.Linear}.Bind(dev, gpre, d.mix, gmid, d.atoms))
	for i, of := range [][3]device.Buffer{{d.y, d.w, gmid}, {yChange, d.w, d.dmid}, {d.y, wChange, d.dmid}} {
		bufs := op.TPGradBuffers{X: d.x, Y: of[0], W: of[1], DOut: of[2], Src: d.srcs, Dst: d.dsts, ColPtr: d.columns, Perm: d.order, DX: grads.x}
		if i < 2 {
			bufs.DW = gw
		}
		d.addBound(op.TensorProductGrad{Product: d.product, AddX: i > 0, AddW: i > 0}.Bind(dev, bufs, d.atoms, d.atoms, e))
	}
	d.addBound(op.MLPSecond{MLP: d.mlp}.Bind(dev, op.MLPSecondBuffers{A: d.hidden, DA: aChange, W2: d.w2, GW: gw, GDH: d.dh, GA: ga}, e))
	d.addBound(op.MLPWeightGrad{MLP: d.mlp}.Bind(dev, d.radial, ga, d.h, gw, grads.w1, grads.w2, e))
	d.addBound(op.MLPWeightGrad{MLP: d.mlp, Add: true}.Bind(dev, basisChange, d.da, hChange, d.dw, grads.w1, grads.w2, e))
	d.addBound(op.LinearWeightGrad{Linear: l.Linear}.Bind(dev, d.mid, gpre, grads.mix, d.atoms))
	d.addBound(op.LinearWeightGrad{Linear: l.Linear, Add: true}.Bind(dev, midChange, d.dpre, grads.mix, d.atoms))
	d.addBound(d.readout().BindWeightGrad(dev, d.drho, outChange, grads.readout, d.atoms))
}
