package op

import (
	_ "embed"

	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed positions.ptx.zst
var positionsPTX string

// Positions gathers what pulls at the edges to forces on points:
//
//	f [E,3], sources and destinations of the edges -> out [Points,3]
//	out_i = sum over the edges with destination i of f_e - sum over those with source i
//
// where f is the gradient of the energy by an edge's vector, source - destination.
// Points 0 to Atoms-1 are sources; row r of the batch is the point after the first
// row's. Sums run in double and in a fixed order, source edges first.
type Positions struct{ Points, Atoms, Rows int }

// PositionsBuffers are the arguments of Positions. Edges are sorted by row, RowPtr
// [Rows+1]. ColPtr [Atoms+2] has where every source's edges start in Perm [E], which
// holds them by source, and last the point of row 0.
type PositionsBuffers struct{ F, RowPtr, ColPtr, Perm, Out device.Buffer }

// positionsKernel: f, rowptr, colptr, perm, out, n, atoms, rows. One item is one
// point, on CUDA a block.
var positionsKernel = device.Kernel{Name: "positions", Sig: "bbbbbiii", Host: positionsHost, Grain: 1, PTX: positionsPTX, Threads: 128, PerBlock: 1}

// Bind binds the operation for up to edgeCap edges.
func (p Positions) Bind(dev device.Device, b PositionsBuffers, edgeCap int) (*Bound, error) {
	k := newBinder(dev, "positions", edgeCap)
	if p.Points < 0 || p.Atoms < 0 || p.Rows < 0 {
		k.usage("use 0 or more of each", "%d points, %d atoms and %d rows", p.Points, p.Atoms, p.Rows)
	}
	e := int64(edgeCap)
	k.want("f", b.F, 3*e)
	k.want("rowptr", b.RowPtr, int64(p.Rows)+1)
	k.want("colptr", b.ColPtr, int64(p.Atoms)+2)
	k.want("perm", b.Perm, e)
	k.want("out", b.Out, 3*int64(p.Points))
	// Every edge is added at both of its ends.
	k.b.minimum = rate{fixed: move(0, p.Rows+p.Atoms+3, 3*p.Points), perEdge: move(6, 3+1, 0).In("fp64", 6)}
	k.launch(&positionsKernel, items{fixed: p.Points}, rate{fixed: k.b.minimum.fixed, perEdge: move(6, 6+1, 0).In("fp64", 6)},
		b.F, b.RowPtr, b.ColPtr, b.Perm, b.Out, itemCount{}, p.Atoms, p.Rows)
	b2, err := k.done()
	if err == nil {
		b2.overEdges = true // by count: the pointers say which edges there are
	}
	return b2, err
}

// positionsGradKernel: v, src, dst, colptr, u, n, atoms. One item is one edge.
var positionsGradKernel = device.Kernel{Name: "positions_grad", Sig: "bbbbbii", Host: positionsGradHost, Grain: 1 << 10, PTX: positionsPTX, Threads: 256, PerBlock: 256}

// BindGrad binds the way back, for up to edgeCap edges: from v [Points,3], the cotangent
// of Out, that of F, u [E,3] = v of an edge's destination - v of its source.
func (p Positions) BindGrad(dev device.Device, v, src, dst, colptr, u device.Buffer, edgeCap int) (*Bound, error) {
	k := newBinder(dev, "positions backwards", edgeCap)
	e := int64(edgeCap)
	k.want("v", v, 3*int64(p.Points))
	k.want("src", src, e)
	k.want("dst", dst, e)
	k.want("colptr", colptr, int64(p.Atoms)+2)
	k.want("u", u, 3*e)
	k.b.minimum = rate{fixed: move(0, 3*p.Points+1, 0), perEdge: move(3, 2, 3)}
	k.launch(&positionsGradKernel, items{perEdge: 1}, rate{fixed: move(0, 1, 0), perEdge: move(3, 8, 3)}, v, src, dst, colptr, u, itemCount{}, p.Atoms)
	return k.done()
}
