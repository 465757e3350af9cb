package op

import (
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

// TensorProduct is an equivariant convolution: every destination row is the sum over its edges of the tensor product
// of the source's features with the edge's harmonics, weighted with the edge's own weights. x, y and out are in Layout
// (y is the same in both layouts if its multiplicities are 1):
//
//	x [nodes,In1.Dim], y [E,In2.Dim], w [E,WeightNumel] -> out [rows,Out.Dim]
//	out_r = Scale * sum_{e: dst[e] = r} TP(x[src[e]], y[e], w[e])
//
// Impl names the implementation; all read the same buffers. fused and csr need paths of mode uvu with weights, and
// harmonics of multiplicity 1:
//
//	unfused  the steps of e3nn's eager code, each a launch: gather, outer product
//	         per pair of blocks, contraction and weighting per path, then zero,
//	         scatter and scale; any mode. The contraction runs over non-zeros
//	         only, which makes it faster than e3nn's product with dense 3j.
//	fused    one kernel over edges with atomic adds at the destination
//	csr      edges sorted by destination, one writer per row, no atomics,
//	         bit-identical for any number of threads
type TensorProduct struct {
	TP            so3.TensorProduct
	Impl          string
	Layout        Layout
	Scale         float32 // 0 means 1
	Deterministic bool    // makes the scatter of unfused deterministic; csr always is
	// Segment is the maximum number of edges that one item of csr adds, 0 means 256; longer rows are split.
	Segment int
	// Threads is the number of threads per CUDA block with Impl fused or csr, a multiple of 32 up to 256; 0 means 128.
	// Generated kernels and the host device ignore it.
	Threads int
	// General makes csr use the general kernel even if the product has a generated kernel. A product has one if package
	// tpgen lists its irreps and its weights are in the columns that the generated kernel reads. Packed states that the
	// weights are in these columns although the order of the instructions differs; see Columns.
	General, Packed bool

	made      *generatedProduct // set by Compile
	madeGrad  *generatedGrad    // set by CompileGrad
	madeGradX *generatedGradX
}

// Values of TensorProduct.Impl.
const (
	ImplUnfused = "unfused"
	ImplFused   = "fused"
	ImplCSR     = "csr"
)

// TPBuffers are the arguments of TensorProduct. Edges are sorted by destination. RowPtr [rows+1] holds the start of
// every row. RowPtr, Src [E] and Dst [E] are int32. After SetEdges(e), RowPtr[rows] must be e.
type TPBuffers struct{ X, Y, W, Src, Dst, RowPtr, Out device.Buffer }

const (
	defaultSegment = 256
	shortSegment   = 128
	defaultThreads = 128
)

// SegmentFor returns the Segment to use on a GPU for rows of at most longest edges: half the default if that splits no
// row, else 0 for the default. Short segments shorten the last wave of blocks (deepaw's three products on an H200: 1.77
// ms instead of 2.05).
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

// Check returns the reason why the product cannot be bound, or nil. The error's fix names an implementation that can
// bind it.
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

// Bind binds the product for up to edgeCap edges. For unfused it returns the sum over edges as a second operation,
// scatter, which is otherwise nil. scatter reads memory of product, so close product last.
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
	k.failOn(err)
	k.b.minimum = t.minimumCost(tab, nodes, rows)
	if t.Impl == ImplUnfused {
		return k.bindUnfused(t, b, rows)
	}
	plan, err := t.planFor(tab)
	k.failOn(err)
	if t.Impl == ImplFused {
		k.addFused(t, tab, plan, b, rows)
	} else {
		k.addCSR(t, tab, plan, b, nodes, rows)
	}
	product, err = k.finishBinding()
	return product, nil, err
}

// minimumCost is a lower bound for any implementation. It counts per edge and path the sums M_ik = sum_j C_ijk Y_j. For
// every copy it counts w*x, its products with the non-zeros of M, and the sum at the destination; for modes other than
// uvu also the products of the extra multiplicities. Indices and inputs are read once, and only the rows of the output
// are written.
func (t TensorProduct) minimumCost(tab tpTable, nodes, rows int) rate {
	return rate{
		fixed:   Moved(0, nodes*t.TP.In1.Dim()+rows+1, rows*t.TP.Out.Dim()),
		perEdge: Moved(tab.flops, t.TP.In2.Dim()+1+t.TP.WeightNumel(), 0),
	}
}
