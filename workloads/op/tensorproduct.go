package op

import (
	"github.com/gpuprof/gpuprof"
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
// fused and csr take paths of mode uvu with weights and harmonics of
// multiplicity 1. X, Y and Out are in Layout (Y is the same in both when its
// multiplicities are 1).
type TensorProduct struct {
	TP            so3.TensorProduct
	Impl          string
	Layout        Layout
	Scale         float32 // 0 means 1
	Deterministic bool    // for the scatter of unfused; csr always is
	// Segment is the most edges of one row that csr lets one item add; longer
	// rows are cut and put together by a second launch. 0 means 256.
	Segment int
}

// Names of the implementations.
const (
	ImplUnfused = "unfused"
	ImplFused   = "fused"
	ImplCSR     = "csr"
)

// TPBuffers are the arguments of TensorProduct. Edges are sorted by
// destination; RowPtr [rows+1] is where every row starts, int32 like Src [E]
// and Dst [E]. After SetEdges(e), RowPtr[rows] has to be e.
type TPBuffers struct{ X, Y, W, Src, Dst, RowPtr, Out gpuprof.Buffer }

const defaultSegment = 256

func (t TensorProduct) segment() int {
	if t.Segment > 0 {
		return t.Segment
	}
	return defaultSegment
}

func (t TensorProduct) scale() float64 {
	if t.Scale == 0 {
		return 1
	}
	return float64(t.Scale)
}

// Check reports why the product cannot be bound, naming the implementation
// that can do it when there is one, or nil.
func (t TensorProduct) Check() error {
	usage := func(format string, args ...any) error { return gpuprof.Errorf(gpuprof.ErrUsage, format, args...) }
	if err := t.Layout.check("tensor product"); err != nil {
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
			return usage("binding tensor product: impl=fused adds with atomics and cannot be deterministic; use impl=csr")
		}
	case ImplCSR:
	default:
		return usage("binding tensor product: unknown impl %q; use unfused, fused or csr", t.Impl)
	}
	for i, ins := range t.TP.Instructions {
		if ins.Mode != so3.UVU || !ins.HasWeight || t.TP.In2[ins.In2].Mul != 1 {
			return usage("binding tensor product: impl=%s takes weighted uvu paths with harmonics of multiplicity 1, path %d is %s with multiplicity %d (weights: %t); use impl=unfused",
				t.Impl, i, ins.Mode, t.TP.In2[ins.In2].Mul, ins.HasWeight)
		}
	}
	return nil
}

// Bind binds the product for up to edgeCap edges. scatter is the sum over
// edges where it is a stage of its own (unfused), else nil; it reads memory
// of the product, so close the product last.
func (t TensorProduct) Bind(dev gpuprof.Device, b TPBuffers, nodes, rows, edgeCap int) (product, scatter *Bound, err error) {
	if err := t.Check(); err != nil {
		return nil, nil, err
	}
	k := newBinder(dev, "tensor product ("+t.Impl+")", edgeCap)
	if nodes < 0 || rows < 0 {
		k.usage("%d nodes and %d rows; use 0 or more of each", nodes, rows)
	}
	e := int64(edgeCap)
	k.want("x", b.X, int64(nodes)*int64(t.TP.In1.Dim()))
	k.want("y", b.Y, e*int64(t.TP.In2.Dim()))
	k.want("w", b.W, e*int64(t.TP.WeightNumel()))
	k.want("src", b.Src, e)
	k.want("dst", b.Dst, e)
	k.want("rowptr", b.RowPtr, int64(rows)+1)
	k.want("out", b.Out, int64(rows)*int64(t.TP.Out.Dim()))
	tab, err := t.compile()
	if err != nil {
		k.usage("%v", err)
	}
	k.b.minimum = t.minimum(tab, nodes, rows)
	switch t.Impl {
	case ImplFused:
		k.fused(t, tab, b, rows)
	case ImplCSR:
		k.csr(t, tab, b, nodes, rows)
	default:
		return k.unfused(t, b, rows)
	}
	product, err = k.done()
	return product, nil, err
}

// Scratch is the bytes Bind allocates, known before anything is allocated.
func (t TensorProduct) Scratch(nodes, rows, edgeCap int) int64 {
	if t.Check() != nil {
		return 0
	}
	tab, err := t.compile()
	if err != nil {
		return 0
	}
	switch t.Impl {
	case ImplFused:
		return tab.bytes()
	case ImplCSR:
		return tab.bytes() + t.csrScratch(nodes, rows, edgeCap)
	}
	return t.unfusedScratch(edgeCap)
}

// minimum: M_ik = sum_j C_ijk Y_j once an edge and path (coefficients folded
// into C), then w*x and its products with the non-zeros of M for every copy
// and the sum at the destination. For modes other than uvu the products of the
// extra multiplicities count as they are. The index and every input are read
// once and only the rows are written, whatever the implementation keeps between.
func (t TensorProduct) minimum(tab tpTable, nodes, rows int) rate {
	return rate{
		fixed: move(0, nodes*t.TP.In1.Dim()+rows+1, rows*t.TP.Out.Dim()),
		perEdge: move(tab.flops,
			t.TP.In2.Dim()+t.TP.WeightNumel()+1, 0),
	}
}
