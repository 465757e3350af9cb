package op

import (
	_ "embed"

	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed tensorproduct_csr.ptx.zst
var tpCSRPTX string

// tpCSRKernel computes in ir_mul. The host kernel reads the table, the constants and the plan's header; the CUDA kernel
// reads only the plan.
//
// Item c of tpCSRKernel covers the edges [c*segment, (c+1)*segment). A row is cut into segments of that many edges,
// counted from the row's start. The item sums the first segment of every row that starts among its edges, and writes
// the sum to out. At most one later segment of a long row starts among its edges; the item writes the sum of that
// segment to partial[c]. So work is balanced by edges, and the assignment of edges to items does not depend on the
// number of threads. On CUDA an item is one tile of the output for one such range of edges.
//
// One item of tpFixupKernel is one row. It zeroes the row if it has no edges, and adds the later segments of a long row
// in order.
var (
	tpCSRKernel   = device.Typed[tpCsrArgs](device.Kernel{Name: "tp_csr", Host: tpCSRHost, PTX: tpCSRPTX, Threads: 128, PerBlock: 1})
	tpFixupKernel = device.Typed[tpCsrFixupArgs](device.Kernel{Name: "tp_csr_fixup", Host: tpFixupHost, Grain: 64, PTX: tpCSRPTX, Threads: 128, PerBlock: 1})
)

// SlowestToCompile returns a kernel whose compilation takes a driver seconds, unless it is cached.
func SlowestToCompile() *device.Kernel { return &tpFusedKernel }

func (t TensorProduct) segmentCount(edgeCap int) int {
	return ceilDiv(edgeCap, t.segmentLength())
}

// addCSR appends the launches of csr. For the layout mul_ir it transposes the features of the nodes first and the
// output rows last, so that inner loops run over contiguous copies. That costs little compared with the edges.
func (k *binder) addCSR(t TensorProduct, tab tpTable, plan tpPlan, b TPBuffers, nodes, rows int) {
	outDim, inDim, shDim := t.TP.Out.Dim(), t.TP.In1.Dim(), t.TP.In2.Dim()
	table, constants, cut := k.uploadInts(tab.ints), k.uploadFloats(tab.constants), k.uploadInts(plan.ints)
	partial := k.allocateScratch(int64(t.segmentCount(k.b.capacity)) * int64(outDim))
	x, out := b.X, b.Out
	if t.Layout == MulIr {
		out = k.allocateScratch(int64(rows) * int64(outDim))
		x = k.addToIrMul(t.TP.In1, b.X, nodes)
	}
	cost := rate{fixed: Moved(0, rows+1, rows*outDim), perEdge: Moved(tab.flops, inDim+shDim+1+t.weightStride(), 0)}
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
		constants: constants, plan: cut, edges: edgeCount, segment: t.segmentLength(),
	})
	// The counted cost of the fix-up is only the read of the row index; long or empty rows cost more.
	k.addLaunch(&tpFixupKernel, items{fixed: rows}, rate{fixed: Moved(0, rows+1, 0)},
		tpCsrFixupArgs{
			rowptr: b.RowPtr, out: out, partial: partial, count: itemCount, outDim: outDim,
			segment: t.segmentLength(),
		})
	if t.Layout == MulIr {
		k.addTranspose(Transpose{Irreps: t.TP.Out, ToMulIr: true}, out, b.Out, rows)
	}
}

func (p tpPlan) shapeKernel(kernel *device.Kernel) *device.Kernel {
	k := withShared(kernel, p.shared)
	k.Threads = p.threads
	return k
}
