package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

// mlpEdges is the number of edges whose weights of a path are computed at a time.
const mlpEdges = 32

// mlpWork is the length of mlpView.w in values.
const mlpWork = mlpEdges * uChunk

// mlpView is the second layer of the MLP for csr+mlp. w is memory for the weights of some copies of one path for
// mlpEdges edges; a view that computes them edge by edge has none.
type mlpView struct {
	h, w2, w     []float32
	hidden       int
	scale        float32
	byEdge, tf32 bool
}

func tpCSRMLPHost(args *device.Args, lo, hi int) {
	a := device.View[tpCsrMlpView](args)
	var scratch csrScratch
	q := mlpView{h: a.h.Floats(), w2: a.w2.Floats(), hidden: a.hidden.Int(), scale: a.wScale.F32()}
	plan, work, edges, segment := a.plan.Ints(), a.work.Floats(), a.edges.Int(), a.segment.Int()
	v := csrView{
		tpView: makeTPView(a.table.Ints(), a.constants.Floats(), plan),
		x:      a.x.Floats(), y: a.y.Floats(), src: a.src.Ints(), dst: a.dst.Ints(), rowPtr: a.rowptr.Ints(),
		out: a.out.Floats(), partial: a.partial.Floats(), scratch: &scratch,
	}
	v.readSizes(plan)
	for c := lo; c < hi; c++ {
		q.w = work[c*mlpWork:][:mlpWork]
		v.runItem(c, edges, segment, &q)
	}
}

// segmentMLP adds the edges [from, to) to row, path by path, so that the weights in use stay small; every value still
// adds its edges in order.
func (v *csrView) segmentMLP(from, to int, row []float32, q *mlpView) {
	for e0 := from; e0 < to; e0 += mlpEdges {
		n := min(mlpEdges, to-e0)
		for p := range v.path {
			t := v.table[p*pathInts : (p+1)*pathInts]
			for u0 := 0; u0 < int(t[4]); u0 += uChunk {
				copies := min(uChunk, int(t[4])-u0)
				w := q.w[:n*copies]
				clear(w)
				vec.Gemm(n, copies, q.hidden, q.scale, q.h[e0*q.hidden:], q.hidden, q.w2[int(t[2])+u0:], v.numel, w, copies)
				for e := range n {
					cells, m := v.pathM(t, v.y[(e0+e)*v.shDim:][:v.shDim])
					v.addCopies(t, u0, w[e*copies:(e+1)*copies], v.x[int(v.src[e0+e])*v.inDim:][:v.inDim], row, cells, m)
				}
			}
		}
	}
}
