package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

// tpMMAHost rounds h and w2 to TF32 as the kernel does; three products of TF32 are here the float32 product that they
// represent.
func tpMMAHost(a *device.Args, lo, hi int) {
	var scratch csrScratch
	q := mlpView{h: a.Floats(2), w2: a.Floats(3), hidden: a.Int(14), scale: a.F32(15), byEdge: true, tf32: a.Int(16) == 0}
	plan, edges, segment := a.Ints(11), a.Int(12), a.Int(13)
	v := csrView{
		tpView: makeTPView(a.Ints(9), a.Floats(10), plan),
		x:      a.Floats(0), y: a.Floats(1), src: a.Ints(4), dst: a.Ints(5), rowPtr: a.Ints(6),
		out: a.Floats(7), partial: a.Floats(8), scratch: &scratch,
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
