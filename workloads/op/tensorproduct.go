package op

import (
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

// TensorProduct is an equivariant convolution: for every destination row the
// sum over its edges of the tensor product of the source's features with the
// edge's harmonics, with the edge's own weights,
//
//	x [nodes,In1.Dim], y [E,In2.Dim], w [E,WeightNumel] -> out [rows,Out.Dim]
//	out_r = Scale * sum_{e: dst[e] = r} TP(x[src[e]], y[e], w[e])
//
// Implementations (all read the same buffers):
//
//	unfused  what e3nn's eager code does, each its own launch: gather, outer
//	         product a pair of blocks, contraction and weighting a path, then
//	         zero, scatter and scale; any mode. The contraction runs over the
//	         non-zeros only, which favours it: e3nn multiplies by dense 3j.
//	fused    one kernel over edges with atomic adds at the destination
//	csr      edges sorted by destination, one writer a row, no atomics,
//	         bit-identical whatever the number of threads
//
// The last two take paths of mode uvu with weights and harmonics of
// multiplicity 1. X, Y and Out are in Layout (Y is the same in both when its
// multiplicities are 1).
type TensorProduct struct {
	TP            so3.TensorProduct
	Impl          string
	Layout        Layout
	Scale         float32 // 0 means 1
	Deterministic bool    // for the scatter of unfused; csr always is
	// Segment bounds the edges of one row that one item of csr adds; longer rows are split and summed by a second
	// launch. 0 means 256.
	Segment int
	// Threads of a CUDA block, a multiple of 32 up to 256, for all but unfused; 0 means 128. The host device ignores it.
	Threads int
	// General makes csr use the general kernel for a product that has a generated one (package tpgen): its irreps
	// match a preset, and its weights have the columns that the generated kernel reads. Packed states that the
	// weights have these columns although the product's own order differs; see Columns.
	General, Packed bool

	made      *generatedProduct // by Compile
	madeGrad  *generatedGrad    // by CompileGrad
	madeGradX *generatedGradX
}

// Names of the implementations.
const (
	ImplUnfused = "unfused"
	ImplFused   = "fused"
	ImplCSR     = "csr"
)

// TPBuffers are the arguments of TensorProduct. Edges are sorted by destination; RowPtr [rows+1] holds the start of
// every row, int32 like Src [E] and Dst [E]. After SetEdges(e), RowPtr[rows] must be e.
type TPBuffers struct{ X, Y, W, Src, Dst, RowPtr, Out device.Buffer }

const (
	defaultSegment = 256
	shortSegment   = 128
	defaultThreads = 128
)

// SegmentFor returns the Segment for rows of at most longest edges, on a GPU. Where half the default splits no row,
// it shortens the work of the last blocks (deepaw's three products on an H200: 1.77 ms, 2.05 ms by default) and
// changes no sum. 0 is the default.
func SegmentFor(longest int) int {
	if longest <= shortSegment {
		return shortSegment
	}
	return 0
}

func (t TensorProduct) blockThreads() int {
	if t.Threads > 0 {
		return t.Threads
	}
	return defaultThreads
}

func (t TensorProduct) segmentLength() int {
	if t.Segment > 0 {
		return t.Segment
	}
	return defaultSegment
}

func (t TensorProduct) scaleFactor() float64 {
	if t.Scale == 0 {
		return 1
	}
	return float64(t.Scale)
}

// Check returns the reason why the product cannot be bound, with the implementation that can do it if there is one,
// or nil.
func (t TensorProduct) Check() error {
	usage := func(fix, format string, args ...any) error {
		return gpuprof.Errorf(gpuprof.ErrUsage, "binding tensor product: %w", fmt.Errorf(format, args...)).WithFix("%s", fix)
	}
	if err := t.Layout.checkLayout("tensor product"); err != nil {
		return err
	}
	if err := t.TP.Validate(); err != nil {
		return gpuprof.Errorf(gpuprof.ErrUsage, "binding tensor product: %w", err)
	}
	switch t.Impl {
	case ImplUnfused:
		return nil
	case ImplFused:
		if t.Deterministic {
			return usage("use impl=csr", "impl=fused adds with atomics and cannot be deterministic")
		}
	case ImplCSR:
	default:
		return usage("use unfused, fused or csr", "unknown impl %q", t.Impl)
	}
	if t.Threads < 0 || t.Threads > maxTPThreads || t.Threads%warpLanes != 0 {
		return usage(fmt.Sprintf("use a multiple of %d up to %d", warpLanes, maxTPThreads), "%d threads per block", t.Threads)
	}
	for i, ins := range t.TP.Instructions {
		if ins.Mode != so3.UVU || !ins.HasWeight || t.TP.In2[ins.In2].Mul != 1 {
			return usage("use impl=unfused", "impl=%s takes weighted uvu paths with harmonics of multiplicity 1, path %d is %s with multiplicity %d (weights: %t)",
				t.Impl, i, ins.Mode, t.TP.In2[ins.In2].Mul, ins.HasWeight)
		}
	}
	return nil
}

// Bind binds the product for up to edgeCap edges. scatter is the sum over edges if it is a separate stage (unfused),
// else nil; it reads memory of the product, so close the product last.
func (t TensorProduct) Bind(dev device.Device, b TPBuffers, nodes, rows, edgeCap int) (product, scatter *Bound, err error) {
	if err := t.Check(); err != nil {
		return nil, nil, err
	}
	k := newBinder(dev, "tensor product ("+t.Impl+")", edgeCap)
	if nodes < 0 || rows < 0 {
		k.failUsage("use 0 or more of each", "%d nodes and %d rows", nodes, rows)
	}
	e := int64(edgeCap)
	k.checkBuffer("x", b.X, int64(nodes)*int64(t.TP.In1.Dim()))
	k.checkBuffer("y", b.Y, e*int64(t.TP.In2.Dim()))
	k.checkBuffer("w", b.W, e*int64(t.weightStride()))
	k.checkBuffer("src", b.Src, e)
	k.checkBuffer("dst", b.Dst, e)
	k.checkBuffer("rowptr", b.RowPtr, int64(rows)+1)
	k.checkBuffer("out", b.Out, int64(rows)*int64(t.TP.Out.Dim()))
	tab, err := t.compileTable()
	if err != nil {
		k.failUsage("", "%w", err)
	}
	k.b.minimum = t.minimumCost(tab, nodes, rows)
	if t.Impl == ImplUnfused {
		return k.bindUnfused(t, b, rows)
	}
	plan, err := t.planFor(tab)
	if err != nil {
		k.failUsage("", "%w", err)
	}
	if t.Impl == ImplFused {
		k.addFused(t, tab, plan, b, rows)
	} else {
		k.addCSR(t, tab, plan, b, nodes, rows)
	}
	product, err = k.finishBinding()
	return product, nil, err
}

// Scratch returns the bytes that Bind allocates, before anything is allocated.
func (t TensorProduct) Scratch(nodes, rows, edgeCap int) int64 {
	if t.Check() != nil {
		return 0
	}
	tab, err := t.compileTable()
	if err != nil {
		return 0
	}
	if t.Impl == ImplUnfused {
		return t.unfusedScratch(edgeCap)
	}
	plan, err := t.planFor(tab)
	if err != nil {
		return 0
	}
	n := tab.scratchBytes() + int64(len(plan.ints))*floatBytes
	if t.Impl == ImplFused {
		return n
	}
	return n + t.csrScratch(nodes, rows, edgeCap)
}

// minimumCost counts M_ik = sum_j C_ijk Y_j once per edge and path (coefficients folded into C), then w*x and its
// products with the non-zeros of M for every copy and the sum at the destination. For modes other than uvu the
// products of the extra multiplicities count too. The index and every input are read once and only the rows are
// written, whatever an implementation keeps in between.
func (t TensorProduct) minimumCost(tab tpTable, nodes, rows int) rate {
	return rate{
		fixed:   moveCost(0, nodes*t.TP.In1.Dim()+rows+1, rows*t.TP.Out.Dim()),
		perEdge: moveCost(tab.flops, t.TP.In2.Dim()+1+t.TP.WeightNumel(), 0),
	}
}
