package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

// tpMMAHost rounds h and w2 to TF32 as the kernel does; three products of TF32 are here the float32 product that they
// represent.
func tpMMAHost(args *device.Args, lo, hi int) {
	a := device.View[tpmKernelView](args)
	var scratch csrScratch
	q := mlpView{h: a.h.Floats(), w2: a.w2.Floats(), hidden: a.hidden.Int(), scale: a.scale.F32(), byEdge: true, tf32: a.split.Int() == 0}
	plan, edges, segment := a.plan.Ints(), a.edges.Int(), a.segment.Int()
	v := csrView{
		tpView: makeTPView(a.table.Ints(), a.constants.Floats(), plan),
		x:      a.x.Floats(), y: a.y.Floats(), src: a.src.Ints(), dst: a.dst.Ints(), rowPtr: a.rowptr.Ints(),
		out: a.out.Floats(), partial: a.partial.Floats(), scratch: &scratch,
	}
	v.readSizes(plan)
	for c := lo; c < hi; c++ {
		v.runItem(c, edges, segment, &q)
	}
}

// segmentMMA adds the edges [from, to) to row, edge by edge, and computes the weights of some copies of a path at a
// time.
func (v *csrView) segmentMMA(from, to int, row []float32, q *mlpView) {
	var made, rounded [uChunk]float32
	for e := from; e < to; e++ {
		x, y, h := v.x[int(v.src[e])*v.inDim:][:v.inDim], v.y[e*v.shDim:][:v.shDim], q.h[e*q.hidden:][:q.hidden]
		for p := range v.path {
			t := v.table[p*pathInts : (p+1)*pathInts]
			cells, m := v.pathM(t, y)
			for u0 := 0; u0 < int(t[4]); u0 += uChunk {
				w := made[:min(uChunk, int(t[4])-u0)]
				clear(w)
				for k, hk := range h {
					columns := q.w2[k*v.numel+int(t[2])+u0:][:len(w)]
					if q.tf32 {
						copy(rounded[:], columns)
						columns = rounded[:len(w)]
						RoundTo(TF32, columns)
						hk = roundTF32(hk)
					}
					vec.Axpy(q.scale*hk, columns, w)
				}
				v.addCopies(t, u0, w, x, row, cells, m)
			}
		}
	}
}
