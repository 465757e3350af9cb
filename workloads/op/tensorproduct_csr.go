package op

import (
	_ "embed"

	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed tensorproduct_csr.ptx.zst
var tpCSRPTX string

// tpCSRKernel computes in ir_mul: x, y, w, src, dst, rowptr, out, partial, table, constants, plan, edges, segment.
// The host reads table and constants and the plan's header, CUDA the plan.
//
// Segment c covers the edges [c*segment, (c+1)*segment). It writes the rows that start there, each up to its first
// segment of edges. A longer row has further segments, one every segment edges from its start; at most one of all
// rows' further segments starts inside an item's edges, and its sum goes to the item's slot of partial. Work is
// balanced by edges, and the assignment of edges to items does not depend on the number of threads. One item is one
// segment; on CUDA one tile of the output of one segment.
//
// tpFixupKernel: rowptr, out, partial, n, out dim, segment. One item is one
// row: it zeroes rows without edges and adds the further segments of long rows
// in order.
var (
	tpCSRKernel   = device.Typed[tpCsrArgs](device.Kernel{Name: "tp_csr", Host: tpCSRHost, PTX: tpCSRPTX, Threads: 128, PerBlock: 1})
	tpFixupKernel = device.Typed[tpCsrFixupArgs](device.Kernel{Name: "tp_csr_fixup", Host: tpFixupHost, Grain: 64, PTX: tpCSRPTX, Threads: 128, PerBlock: 1})
)

// SlowestToCompile returns the kernel that tests a driver's compiler: compiling it takes seconds unless the driver
// has cached it.
func SlowestToCompile() *device.Kernel { return &tpFusedKernel }

func (t TensorProduct) segmentCount(edgeCap int) int {
	return (edgeCap + t.segmentLength() - 1) / t.segmentLength()
}

func (t TensorProduct) csrScratch(nodes, rows, edgeCap int) int64 {
	n := max(int64(t.segmentCount(edgeCap))*int64(t.TP.Out.Dim()), 1) * floatBytes
	if t.Layout == MulIr {
		n += (max(int64(nodes)*int64(t.TP.In1.Dim()), 1) + max(int64(rows)*int64(t.TP.Out.Dim()), 1)) * floatBytes
		n += Transpose{Irreps: t.TP.In1}.transposeScratch() + Transpose{Irreps: t.TP.Out}.transposeScratch()
	}
	return n
}

// addCSR appends the launches of csr. With mul_ir it transposes the features once per node and the rows once at the
// end, which costs little compared with the edges, so that the inner loops always run over contiguous copies.
func (k *binder) addCSR(t TensorProduct, tab tpTable, plan tpPlan, b TPBuffers, nodes, rows int) {
	outDim, inDim, shDim := t.TP.Out.Dim(), t.TP.In1.Dim(), t.TP.In2.Dim()
	table, constants, cut := k.uploadInts(tab.ints), k.uploadFloats(tab.constants), k.uploadInts(plan.ints)
	partial := k.allocateScratch(int64(t.segmentCount(k.b.capacity)) * int64(outDim))
	x, out := b.X, b.Out
	if t.Layout == MulIr {
		x, out = k.allocateScratch(int64(nodes)*int64(inDim)), k.allocateScratch(int64(rows)*int64(outDim))
		k.addTranspose(Transpose{Irreps: t.TP.In1}, b.X, x, nodes)
	}
	cost := rate{fixed: moveCost(0, rows+1, rows*outDim), perEdge: moveCost(tab.flops, inDim+shDim+1+t.weightStride(), 0)}
	segments := items{perEdge: 1, per: t.segmentLength()}
	if k.isTiled() {
		segments.times = plan.tiles
	}
	kernel := &tpCSRKernel
	if plan.kernel != nil && k.isTiled() {
		kernel = plan.kernel
	}
	k.addLaunch(plan.shapeKernel(kernel), segments, cost, tpCsrArgs{
		x: x, y: b.Y, w: b.W, src: b.Src, dst: b.Dst, rowptr: b.RowPtr, out: out, partial: partial, table: table,
		constants: constants, plan: cut, edges: edgeCount{}, segment: t.segmentLength(),
	})
	// By count a fix-up reads the index; long or empty rows come on top.
	k.addLaunch(&tpFixupKernel, items{fixed: rows}, rate{fixed: moveCost(0, rows+1, 0)},
		tpCsrFixupArgs{
			rowptr: b.RowPtr, out: out, partial: partial, count: itemCount{}, outDim: outDim,
			segment: t.segmentLength(),
		})
	if t.Layout == MulIr {
		k.addTranspose(Transpose{Irreps: t.TP.Out, ToMulIr: true}, out, b.Out, rows)
	}
}

// shapeKernel returns the kernel with the plan's launch shape.
func (p tpPlan) shapeKernel(kernel *device.Kernel) *device.Kernel {
	k := *kernel
	k.Threads, k.SharedBytes = p.threads, p.shared
	return &k
}
