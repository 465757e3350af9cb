package op

import (
	_ "embed"

	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed positions.ptx.zst
var positionsPTX string

// Positions sums the forces f on edges to forces on points; f is the gradient of the energy with respect to an edge's
// vector, source minus destination. Points 0 to Atoms-1 are sources; rows of the batch are consecutive points, and
// PositionsBuffers.ColPtr has the point of row 0. Sums run in fp64 in a fixed order, source edges first.
//
//	f [E,3], sources and destinations of the edges -> out [Points,3]
//	out_i = sum over the edges with destination i of f_e - sum over the edges with source i
type Positions struct{ Points, Atoms, Rows int }

// PositionsBuffers are the arguments of Positions. Edges are sorted by row; RowPtr [Rows+1] holds the start of each
// row. Perm [E] lists the edges by source. ColPtr [Atoms+2] holds each source's start in Perm and, last, the point of
// row 0.
type PositionsBuffers struct{ F, RowPtr, ColPtr, Perm, Out device.Buffer }

// One item of positionsKernel is one point; on CUDA a block computes it.
var positionsKernel = device.Typed[positionsArgs](device.Kernel{Name: "positions", Host: positionsHost, Grain: 1, PTX: positionsPTX, Threads: 128, PerBlock: 1})

// Bind binds the operation for up to edgeCap edges.
func (p Positions) Bind(dev device.Device, b PositionsBuffers, edgeCap int) (*Bound, error) {
	k := newBinder(dev, "positions", edgeCap)
	if p.Points < 0 || p.Atoms < 0 || p.Rows < 0 {
		k.failUsage("use 0 or more of each", "%d points, %d atoms and %d rows", p.Points, p.Atoms, p.Rows)
	}
	e := int64(edgeCap)
	k.checkBuffer("f", b.F, 3*e)
	k.checkBuffer("rowptr", b.RowPtr, int64(p.Rows)+1)
	k.checkBuffer("colptr", b.ColPtr, int64(p.Atoms)+2)
	k.checkBuffer("perm", b.Perm, e)
	k.checkBuffer("out", b.Out, 3*int64(p.Points))
	// Every edge is added at both of its ends.
	k.b.minimum = rate{fixed: Moved(0, p.Rows+p.Atoms+3, 3*p.Points), perEdge: Moved(6, 3+1, 0).In("fp64", 6)}
	k.addLaunch(&positionsKernel, items{fixed: p.Points}, rate{fixed: k.b.minimum.fixed, perEdge: Moved(6, 6+1, 0).In("fp64", 6)},
		positionsArgs{
			f: b.F, rowptr: b.RowPtr, colptr: b.ColPtr, perm: b.Perm, out: b.Out, count: itemCount, atoms: p.Atoms,
			rows: p.Rows,
		})
	b2, err := k.finishBinding()
	if err == nil {
		b2.overEdges = true // the pointers determine which edges exist; this makes SetEdges adjust the counted cost
	}
	return b2, err
}
