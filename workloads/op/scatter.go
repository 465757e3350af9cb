package op

import (
	_ "embed"

	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed scatter.ptx.zst
var scatterPTX string

// ScatterAdd sums the rows of src by destination and scales the sums:
//
//	src [E,C], dst [E] -> out [rows,C] = Scale * sum over e with dst[e] = row
//
// Without Deterministic it is e3nn's scatter_add: zero the destination, add
// edge by edge with atomics in whatever order the threads come, then scale.
// With Deterministic the edges have to be sorted by destination and every row
// has one writer that adds its edges in order, so that the result is
// bit-identical whatever the number of threads; dst is not read then.
type ScatterAdd struct {
	C             int
	Deterministic bool
	Scale         float32 // 0 or 1: no scaling launch
}

// ScatterBuffers are the arguments of ScatterAdd. Dst may be nil when
// Deterministic is set and RowPtr [rows+1] when it is not.
type ScatterBuffers struct{ Src, Dst, RowPtr, Out device.Buffer }

// The kernels: atomic src, dst, out, edges, C (an item is an edge, on CUDA
// scatterRun of them); sorted src, rowptr, out, n
// (rows), C; scale out, n (elements), factor. On CUDA the first two take as
// many rows a block as C leaves threads for (inTeams).
var (
	scatterAtomicKernel = device.Kernel{Name: "scatter_atomic", Sig: "bbbii", Host: scatterAtomicHost, Grain: 8, PTX: scatterPTX, Threads: 256, PerBlock: 1}
	scatterSortedKernel = device.Kernel{Name: "scatter_sorted", Sig: "bbbii", Host: scatterSortedHost, Grain: 4, PTX: scatterPTX, Threads: 256, PerBlock: 1}
	scaleKernel         = device.Kernel{Name: "scale", Sig: "bif", Host: scaleHost, Grain: 1 << 14, PTX: scatterPTX, Threads: 256, PerBlock: 1024}
)

// scatterRun edges are added by one thread of a block, those in a row that have
// one destination without an atomic in between. What is counted as added is for
// sorted edges; in random order it is an add an edge.
const scatterRun = 16

// Bind binds the operation for up to edgeCap edges.
func (s ScatterAdd) Bind(dev device.Device, b ScatterBuffers, rows, edgeCap int) (*Bound, error) {
	k := newBinder(dev, "scatter", edgeCap)
	k.scatter(s, b, rows)
	return k.done()
}

func (k *binder) scatter(s ScatterAdd, b ScatterBuffers, rows int) {
	if s.C < 0 || rows < 0 {
		k.usage("use 0 or more", "the size %d rows of %d values is negative", rows, s.C)
	}
	k.want("src", b.Src, int64(k.b.capacity)*int64(s.C))
	k.want("out", b.Out, int64(rows)*int64(s.C))
	all := rows * s.C
	if s.Deterministic {
		k.want("rowptr", b.RowPtr, int64(rows)+1)
		k.launch(inTeams(&scatterSortedKernel, s.C), items{fixed: rows}, rate{move(0, rows+1, all), move(s.C, s.C, 0)},
			b.Src, b.RowPtr, b.Out, itemCount{}, s.C)
	} else {
		k.want("dst", b.Dst, int64(k.b.capacity))
		k.fill(b.Out, all, 0, 0)
		work, adds := items{perEdge: 1}, s.C
		if k.tiled() {
			work.per, adds = scatterRun, ceilDiv(s.C, scatterRun)
		}
		k.launch(inTeams(&scatterAtomicKernel, s.C), work, rate{perEdge: move(s.C, s.C+adds+1, adds)}, b.Src, b.Dst, b.Out, edgeCount{}, s.C)
	}
	flops := 0
	if s.Scale != 0 && s.Scale != 1 {
		flops = all
		k.launch(&scaleKernel, items{fixed: all}, rate{fixed: move(all, all, all)}, b.Out, itemCount{}, s.Scale)
	}
	k.b.minimum = rate{fixed: move(flops, 0, all), perEdge: move(s.C, s.C+1, 0)}
}
