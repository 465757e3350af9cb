package op

import (
	_ "embed"

	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed tensorproduct_fused.ptx.zst
var tpFusedPTX string

// One item of tpFusedKernel is one edge; on CUDA it is one tile of the output of a chunk of edges.
var tpFusedKernel = device.Typed[tpFusedArgs](device.Kernel{Name: "tp_fused", Host: tpFusedHost, Grain: 8, PTX: tpFusedPTX, Threads: 128, PerBlock: 1})

// fusedChunk is the number of edges per CUDA block, enough to amortise the block's start.
const fusedChunk = 32

// addFused appends the launches of fused: one zeroes the rows, one adds the products of all edges with atomics. On CUDA
// a block first adds consecutive edges of one row, so that sorted edges take one atomic add per row and block.
func (k *binder) addFused(t TensorProduct, tab tpTable, plan tpPlan, b TPBuffers, rows int) {
	outDim, inDim, shDim, numel := t.TP.Out.Dim(), t.TP.In1.Dim(), t.TP.In2.Dim(), t.weightStride()
	table, constants, cut := k.uploadInts(tab.ints), k.uploadFloats(tab.constants), k.uploadInts(plan.ints)
	k.addFill(b.Out, rows*outDim, 0, 0)
	// The host kernel multiplies the results by the weight even where x is narrower, and adds each of them to out.
	added, flops := 0, tab.flops
	for _, ins := range t.TP.Instructions {
		a, o := t.TP.In1[ins.In1], t.TP.Out[ins.Out]
		added += o.Dim()
		flops += o.Dim() + a.Mul*max(o.Ir.Dim()-a.Ir.Dim(), 0)
	}
	cost := rate{perEdge: Moved(flops, inDim+shDim+numel+2+added, added)}
	work := items{perEdge: 1}
	if k.isTiled() {
		work = items{perEdge: 1, per: fusedChunk, times: plan.tiles}
		adds := ceilDiv(added, fusedChunk)
		cost = rate{fixed: Moved(0, rows*outDim, rows*outDim), perEdge: Moved(tab.flops, inDim+shDim+numel+2+adds, adds)}
	}
	k.addLaunch(plan.shapeKernel(&tpFusedKernel), work, cost, tpFusedArgs{
		x: b.X, y: b.Y, w: b.W, src: b.Src, dst: b.Dst, out: b.Out, table: table, constants: constants, plan: cut,
		edges: edgeCount, chunk: fusedChunk,
	})
}
