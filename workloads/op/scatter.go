package op

import (
	_ "embed"

	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed scatter.ptx.zst
var scatterPTX string

// ScatterAdd sums the rows of src by destination and scales the sums. Without Deterministic it is e3nn's scatter_add:
// it zeroes out, adds edge by edge with atomics in the order of the threads, then scales. With Deterministic the edges
// must be sorted by destination; each row has one writer, which adds the row's edges in order, so the result is
// bit-identical for any number of threads, and dst is not read.
//
//	src [E,C], dst [E] -> out [rows,C] = Scale * sum over e with dst[e] = row
type ScatterAdd struct {
	C             int
	Deterministic bool
	Scale         float32 // 0 and 1: no scaling launch
}

// ScatterBuffers are the arguments of ScatterAdd. With Deterministic RowPtr [rows+1] is needed, otherwise Dst.
type ScatterBuffers struct{ Src, Dst, RowPtr, Out device.Buffer }

// A work item of scatterAtomicKernel is one edge; on CUDA it is scatterRun consecutive edges. A work item of
// scatterSortedKernel is one output row. A work item of scaleKernel is one element. If C is small, a CUDA block of a
// scatter kernel processes several items at a time (see shapeTeams).
var (
	scatterAtomicKernel = device.Typed[scatterAtomicArgs](device.Kernel{Name: "scatter_atomic", Host: scatterAtomicHost, Grain: 8, PTX: scatterPTX, Threads: 256, PerBlock: 1})
	scatterSortedKernel = device.Typed[scatterSortedArgs](device.Kernel{Name: "scatter_sorted", Host: scatterSortedHost, Grain: 4, PTX: scatterPTX, Threads: 256, PerBlock: 1})
	scaleKernel         = device.Typed[scaleArgs](device.Kernel{Name: "scale", Host: scaleHost, Grain: 1 << 14, PTX: scatterPTX, Threads: 256, PerBlock: 1024})
)

// scatterRun is the number of consecutive edges in an item on CUDA; the item's threads share the C values. Consecutive
// edges with the same destination cost one atomic add per value together. The cost model counts one atomic add per item
// and value, the minimum; edges in random order need nearly one each.
const scatterRun = 16

// Bind binds the operation for up to edgeCap edges.
func (s ScatterAdd) Bind(dev device.Device, b ScatterBuffers, rows, edgeCap int) (*Bound, error) {
	k := newBinder(dev, "scatter", edgeCap)
	k.addScatter(s, b, rows)
	return k.finishBinding()
}

func (k *binder) addScatter(s ScatterAdd, b ScatterBuffers, rows int) {
	if s.C < 0 || rows < 0 {
		k.failUsage("use 0 or more", "the size %d rows of %d values is negative", rows, s.C)
	}
	k.checkBuffer("src", b.Src, int64(k.b.capacity)*int64(s.C))
	k.checkBuffer("out", b.Out, int64(rows)*int64(s.C))
	all := rows * s.C
	if s.Deterministic {
		k.checkBuffer("rowptr", b.RowPtr, int64(rows)+1)
		k.addLaunch(shapeTeams(&scatterSortedKernel, s.C), items{fixed: rows}, rate{Moved(0, rows+1, all), Moved(s.C, s.C, 0)},
			scatterSortedArgs{src: b.Src, rowptr: b.RowPtr, out: b.Out, count: itemCount, c: s.C})
	} else {
		k.checkBuffer("dst", b.Dst, int64(k.b.capacity))
		k.addFill(b.Out, all, 0, 0)
		work, adds := items{perEdge: 1}, s.C
		if k.isTiled() {
			work.per, adds = scatterRun, ceilDiv(s.C, scatterRun)
		}
		k.addLaunch(shapeTeams(&scatterAtomicKernel, s.C), work, rate{perEdge: Moved(s.C, s.C+adds+1, adds)}, scatterAtomicArgs{
			src: b.Src, dst: b.Dst, out: b.Out, edges: edgeCount, c: s.C,
		})
	}
	flops := 0
	if s.Scale != 0 && s.Scale != 1 {
		flops = all
		k.addLaunch(&scaleKernel, items{fixed: all}, rate{fixed: Moved(all, all, all)}, scaleArgs{
			out: b.Out, count: itemCount, factor: s.Scale,
		})
	}
	k.b.minimum = rate{fixed: Moved(flops, 0, all), perEdge: Moved(s.C, s.C+1, 0)}
}
