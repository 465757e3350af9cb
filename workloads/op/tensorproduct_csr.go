package op

import (
	_ "embed"

	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed tensorproduct_csr.ptx.zst
var tpCSRPTX string

//go:embed tensorproduct_csrmlp.ptx.zst
var tpCSRMLPPTX string

// tpCSRKernel works in ir_mul: x, y, w, src, dst, rowptr, out, partial, table,
// constants, plan, edges, segment. The host reads table and constants and the
// plan's header, CUDA the plan.
//
// Segment c belongs to the edges [c*segment, (c+1)*segment). It writes the rows
// that start there, each up to its first segment of edges. A row longer than
// that has further segments, one every segment edges from its start; at most one
// of all rows' further segments starts inside an item's edges, and its sum goes
// to the item's slot of partial. Work is balanced by edges, and which item
// adds which edges does not depend on the number of threads. One item is one
// segment; on CUDA it is one tile of the output of one segment.
//
// tpCSRMLPKernel: x, y, h, w2, src, dst, rowptr, out, partial, table,
// constants, plan, work, edges, segment, hidden, scale of the weights. work is
// the host's, mlpWork values a segment.
//
// tpFixupKernel: rowptr, out, partial, n, out dim, segment. One item is one
// row: it zeroes rows without edges and adds the further segments of long rows
// in order.
var (
	tpCSRKernel    = device.Kernel{Name: "tp_csr", Sig: "bbbbbbbbbbbii", Host: tpCSRHost, PTX: tpCSRPTX, Threads: 128, PerBlock: 1}
	tpCSRMLPKernel = device.Kernel{Name: "tp_csr_mlp", Sig: "bbbbbbbbbbbbbiiif", Host: tpCSRMLPHost, PTX: tpCSRMLPPTX, Threads: 96, PerBlock: 1}
	tpFixupKernel  = device.Kernel{Name: "tp_csr_fixup", Sig: "bbbiii", Host: tpFixupHost, Grain: 64, PTX: tpCSRPTX, Threads: 128, PerBlock: 1}
)

// SlowestToCompile is the kernel by which a driver's compiler is tried: it takes
// seconds where the driver has not kept it.
func SlowestToCompile() *device.Kernel { return &tpFusedKernel }

func (t TensorProduct) slots(edgeCap int) int { return (edgeCap + t.segment() - 1) / t.segment() }

func (t TensorProduct) csrScratch(nodes, rows, edgeCap int) int64 {
	n := max(int64(t.slots(edgeCap))*int64(t.TP.Out.Dim()), 1) * floatBytes
	if t.Impl == ImplCSRMLP && !t.onTensorCores() {
		n += max(int64(t.slots(edgeCap))*mlpWork, 1) * floatBytes
	}
	if t.Layout == MulIr {
		n += (max(int64(nodes)*int64(t.TP.In1.Dim()), 1) + max(int64(rows)*int64(t.TP.Out.Dim()), 1)) * floatBytes
		n += Transpose{Irreps: t.TP.In1}.transposeScratch() + Transpose{Irreps: t.TP.Out}.transposeScratch()
	}
	return n
}

// csr: with mul_ir the features are transposed once a node and the rows once at
// the end, which is little beside the edges, so that the inner loops always run
// over contiguous copies.
func (k *binder) csr(t TensorProduct, tab tpTable, plan tpPlan, b TPBuffers, nodes, rows int) {
	outDim, inDim, shDim := t.TP.Out.Dim(), t.TP.In1.Dim(), t.TP.In2.Dim()
	table, constants, cut := k.uploadInts(tab.ints), k.uploadFloats(tab.constants), k.uploadInts(plan.ints)
	partial := k.scratch(int64(t.slots(k.b.capacity)) * int64(outDim))
	x, out := b.X, b.Out
	if t.Layout == MulIr {
		x, out = k.scratch(int64(nodes)*int64(inDim)), k.scratch(int64(rows)*int64(outDim))
		k.transpose(Transpose{Irreps: t.TP.In1}, b.X, x, nodes)
	}
	cost := rate{fixed: move(0, rows+1, rows*outDim), perEdge: move(tab.flops, inDim+shDim+1, 0)}.add(t.weightCost(t.stride(), k.tiled()))
	segments := items{perEdge: 1, per: t.segment()}
	if k.tiled() {
		segments.times = plan.tiles
	}
	switch {
	case t.onTensorCores():
		k.launchMMA(t, plan, cost, x, b.Y, b.H, b.W2, b.Src, b.Dst, b.RowPtr, out, partial, table, constants, cut)
	case t.Impl == ImplCSRMLP:
		work := k.scratch(int64(t.slots(k.b.capacity)) * mlpWork)
		k.launch(plan.shaped(&tpCSRMLPKernel), segments, cost, x, b.Y, b.H, b.W2, b.Src, b.Dst, b.RowPtr, out, partial, table, constants, cut, work,
			edgeCount{}, t.segment(), t.Hidden, t.wScale())
	default:
		kernel := &tpCSRKernel
		if plan.kernel != nil && k.tiled() {
			kernel = plan.kernel
		}
		k.launch(plan.shaped(kernel), segments, cost, x, b.Y, b.W, b.Src, b.Dst, b.RowPtr, out, partial, table, constants, cut,
			edgeCount{}, t.segment())
	}
	// By count a fix-up reads the index; long or empty rows come on top.
	k.launch(&tpFixupKernel, items{fixed: rows}, rate{fixed: move(0, rows+1, 0)},
		b.RowPtr, out, partial, itemCount{}, outDim, t.segment())
	if t.Layout == MulIr {
		k.transpose(Transpose{Irreps: t.TP.Out, ToMulIr: true}, out, b.Out, rows)
	}
}

// shaped is the kernel with the plan's launch shape.
func (p tpPlan) shaped(kernel *device.Kernel) *device.Kernel {
	k := *kernel
	k.Threads, k.SharedBytes = p.threads, p.shared
	return &k
}
