package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

const uChunk = 128

// maxComponents is 2l+1 of the highest degree.
const maxComponents = 2*so3.MaxL + 1

// pathScratch holds the results of one path before weighting. It stays on the stack, as no assembly is called.
type pathScratch [maxComponents * uChunk]float32

func tpFusedHost(args *device.Args, lo, hi int) {
	a := device.View[tpFusedView](args)
	var scratch pathScratch
	plan := a.plan.Ints()
	inDim, shDim, numel, outDim := int(plan[planIn]), int(plan[planSh]), int(plan[planNumel]), int(plan[planOut])
	paths := int(plan[planPaths])
	v := makeTPView(a.table.Ints(), a.constants.Floats(), plan)
	x, y, w, src, dst, out := a.x.Floats(), a.y.Floats(), a.w.Floats(), a.src.Ints(), a.dst.Ints(), a.out.Floats()
	for e := lo; e < hi; e++ {
		xr := x[int(src[e])*inDim:][:inDim]
		or := out[int(dst[e])*outDim:][:outDim]
		for p := range paths {
			v.addPathAtomic(v.table[p*pathInts:(p+1)*pathInts], &scratch, xr, y[e*shDim:(e+1)*shDim], w[e*numel:(e+1)*numel], or)
		}
	}
}

// tpView holds a tpTable as a kernel's arguments; cells and terms are the offsets of these parts in table.
type tpView struct {
	table     []int32
	constants []float32
	cells     int
	terms     int
}

func makeTPView(table []int32, constants []float32, plan []int32) tpView {
	cells := int(plan[planPaths]) * pathInts
	return tpView{table: table, constants: constants, cells: cells, terms: cells + int(plan[planPathCells])*cellInts}
}

// readCell returns i, k and M_ik of cell n.
func (v *tpView) readCell(n int, y []float32) (i, k int, m float32) {
	c := v.table[v.cells+n*cellInts:][:cellInts]
	js := v.table[v.terms+int(c[2]) : v.terms+int(c[3])]
	for t, cc := range v.constants[c[2]:c[3]] {
		m += cc * y[js[t]]
	}
	return int(c[0]), int(c[1]), m
}

func (v *tpView) addPathAtomic(t []int32, s *pathScratch, x, y, w, out []float32) {
	mul, d3 := int(t[4]), int(t[6])
	x, y, w, out = x[t[0]:], y[t[1]:], w[t[2]:], out[t[3]:]
	xu, xi, ou, ok := int(t[9]), int(t[10]), int(t[11]), int(t[12])
	for u0 := 0; u0 < mul; u0 += uChunk {
		n := min(uChunk, mul-u0)
		clear(s[:d3*uChunk])
		for c := int(t[7]); c < int(t[8]); c++ {
			i, k, m := v.readCell(c, y)
			sum, at := s[k*uChunk:][:n], u0*xu+i*xi
			for u := range sum {
				sum[u] += m * x[at]
				at += xu
			}
		}
		for k := range d3 {
			at := u0*ou + k*ok
			for u, sum := range s[k*uChunk:][:n] {
				atomicAdd(&out[at], w[u0+u]*sum)
				at += ou
			}
		}
	}
}
