package op

import "github.com/gpuprof/gpuprof"

// tpCSRKernel works in ir_mul: x, y, w, src, dst, rowptr, out, partial, table,
// constants, n, edges, segment, in dim, sh dim, weights an edge, out dim,
// paths, cells.
//
// Item c belongs to the edges [c*segment, (c+1)*segment). It writes the rows
// that start there, each up to its first segment of edges. A row longer than
// that has further segments, one every segment edges from its start; at most one
// of all rows' further segments starts inside an item's edges, and its sum goes
// to the item's slot of partial. Work is balanced by edges, and which item
// adds which edges does not depend on the number of threads.
//
// tpFixupKernel: rowptr, out, partial, n, out dim, segment. One item is one
// row: it zeroes rows without edges and adds the further segments of long rows
// in order.
var (
	tpCSRKernel   = gpuprof.Kernel{Name: "tp_csr", Sig: "bbbbbbbbbbiiiiiiiii", Host: tpCSRHost, Threads: 128, PerBlock: 1}
	tpFixupKernel = gpuprof.Kernel{Name: "tp_csr_fixup", Sig: "bbbiii", Host: tpFixupHost, Grain: 64, Threads: 128, PerBlock: 1}
)

func (t TensorProduct) slots(edgeCap int) int { return (edgeCap + t.segment() - 1) / t.segment() }

func (t TensorProduct) csrScratch(nodes, rows, edgeCap int) int64 {
	n := max(int64(t.slots(edgeCap))*int64(t.TP.Out.Dim()), 1) * floatBytes
	if t.Layout == MulIr {
		n += (max(int64(nodes)*int64(t.TP.In1.Dim()), 1) + max(int64(rows)*int64(t.TP.Out.Dim()), 1)) * floatBytes
		n += Transpose{Irreps: t.TP.In1}.transposeScratch() + Transpose{Irreps: t.TP.Out}.transposeScratch()
	}
	return n
}

// csr: with mul_ir the features are transposed once a node and the rows once at
// the end, which is little beside the edges, so that the inner loops always run
// over contiguous copies.
func (k *binder) csr(t TensorProduct, tab tpTable, b TPBuffers, nodes, rows int) {
	outDim, inDim, shDim, numel := t.TP.Out.Dim(), t.TP.In1.Dim(), t.TP.In2.Dim(), t.TP.WeightNumel()
	table, constants := k.uploadInts(tab.ints), k.uploadFloats(tab.constants)
	partial := k.scratch(int64(t.slots(k.b.capacity)) * int64(outDim))
	x, out := b.X, b.Out
	if t.Layout == MulIr {
		x, out = k.scratch(int64(nodes)*int64(inDim)), k.scratch(int64(rows)*int64(outDim))
		k.transpose(Transpose{Irreps: t.TP.In1}, b.X, x, nodes)
	}
	cost := rate{fixed: move(0, rows+1, rows*outDim), perEdge: move(tab.flops, inDim+shDim+numel+1, 0)}
	k.launch(&tpCSRKernel, items{perEdge: 1, per: t.segment()}, cost,
		x, b.Y, b.W, b.Src, b.Dst, b.RowPtr, out, partial, table, constants,
		itemCount{}, edgeCount{}, t.segment(), inDim, shDim, numel, outDim, tab.paths, tab.cells)
	// By count a fix-up reads the index; long or empty rows come on top.
	k.launch(&tpFixupKernel, items{fixed: rows}, rate{fixed: move(0, rows+1, 0)},
		b.RowPtr, out, partial, itemCount{}, outDim, t.segment())
	if t.Layout == MulIr {
		k.transpose(Transpose{Irreps: t.TP.Out, ToMulIr: true}, out, b.Out, rows)
	}
}
