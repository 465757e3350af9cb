package op

import "github.com/gpuprof/gpuprof"

// tpFusedKernel: x, y, w, src, dst, out, table, constants, n, in dim, sh dim,
// weights an edge, out dim, paths, cells. One item is one edge.
var tpFusedKernel = gpuprof.Kernel{Name: "tp_fused", Sig: "bbbbbbbbiiiiiii", Host: tpFusedHost, Grain: 8, Threads: 128, PerBlock: 1}

// fused: zero the rows, then one kernel over edges with atomic adds.
func (k *binder) fused(t TensorProduct, tab tpTable, b TPBuffers, rows int) {
	outDim, inDim, shDim, numel := t.TP.Out.Dim(), t.TP.In1.Dim(), t.TP.In2.Dim(), t.TP.WeightNumel()
	table, constants := k.uploadInts(tab.ints), k.uploadFloats(tab.constants)
	k.fill(b.Out, rows*outDim, 0, 0)
	// It weights every result where the other side may be narrower, and adds it.
	added, flops := 0, tab.flops
	for _, ins := range t.TP.Instructions {
		a, o := t.TP.In1[ins.In1], t.TP.Out[ins.Out]
		added += o.Dim()
		flops += o.Dim() + a.Mul*max(o.Ir.Dim()-a.Ir.Dim(), 0)
	}
	cost := rate{perEdge: move(flops, inDim+shDim+numel+2+added, added)}
	k.launch(&tpFusedKernel, items{perEdge: 1}, cost,
		b.X, b.Y, b.W, b.Src, b.Dst, b.Out, table, constants,
		itemCount{}, inDim, shDim, numel, outDim, tab.paths, tab.cells)
}
