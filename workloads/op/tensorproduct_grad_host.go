package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

// backView holds a backward plan and scratch memory; it is on the stack of one call.
type backView struct {
	plan, table, cells, js, swapped []int32
	constants                       []float32
	m                               [maxComponents * maxComponents]float32
	t                               [maxComponents * maxComponents][8]float32
	row                             [maxComponents * uChunk]float32
}

func (v *backView) read(plan []int32, constants []float32) {
	v.plan, v.constants = plan, constants
	v.table, v.cells, v.js, v.swapped = plan[plan[backTable]:], plan[plan[backCells]:], plan[plan[backTerms]:], plan[plan[backSwapped]:]
}

// contractPath computes M of a path for the harmonics y; see csrView.contractPath.
func (v *backView) contractPath(path []int32, y []float32) []float32 {
	first, last := int(path[7]), int(path[8])
	m, cells := v.m[:last-first], v.cells[first*cellInts:]
	t := int(cells[2])
	for c := range m {
		end, sum := int(cells[c*cellInts+3]), float32(0)
		for ; t < end; t++ {
			sum += v.constants[t] * y[v.js[t]]
		}
		m[c] = sum
	}
	return m
}

func tpGradHost(args *device.Args, lo, hi int) { tpGrad(device.View[tpGradView](args), lo, hi) }

func tpGrad(a *tpGradView, lo, hi int) {
	var v backView
	plan, what := a.plan.Ints(), a.what.Int()
	v.read(plan, a.constants.Floats())
	x, y, w, dout, src, dst, dw, dy := a.x.Floats(), a.y.Floats(), a.w.Floats(), a.dout.Floats(), a.src.Ints(), a.dst.Ints(), a.dw.Floats(), a.dy.Floats()
	in, sh, numel, out := int(plan[backIn]), int(plan[backSh]), int(plan[backNumel]), int(plan[backOut])
	var beside [uChunk]float32 // receives results that the caller does not want
	for e := lo; e < hi; e++ {
		xe, ye, we, ze := x[int(src[e])*in:][:in], y[e*sh:][:sh], w[e*numel:][:numel], dout[int(dst[e])*out:][:out]
		back := dy[e*sh:][:sh]
		if what&(gradY|gradAddY) == gradY {
			clear(back)
		}
		for p := range int(plan[backPaths]) {
			path := v.table[p*pathInts:][:pathInts]
			m := v.contractPath(path, ye[path[1]:])
			cells := v.cells[int(path[7])*cellInts : int(path[8])*cellInts]
			mul, t := int(path[4]), v.t[:len(m)]
			clear(t)
			for u := 0; u < mul; u += uChunk {
				n := min(uChunk, mul-u)
				at := int(path[2]) + u
				to := beside[:n]
				if what&gradW != 0 {
					to = dw[e*numel+at:][:n]
				}
				vec.Pairs(to, we[at:], xe[int(path[0])+u:], mul, ze[int(path[3])+u:], mul, n, cells, m, t)
			}
			if what&gradY != 0 {
				v.contractBack(cells, t, back[path[1]:])
			}
		}
	}
}

// contractBack adds A sum_ik C_ijk T_ik to dy_j, one product per term.
func (v *backView) contractBack(cells []int32, t [][8]float32, dy []float32) {
	for c := range t {
		s := &t[c]
		sum := ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))
		for term := cells[c*cellInts+2]; term < cells[c*cellInts+3]; term++ {
			dy[v.js[term]] += v.constants[term] * sum
		}
	}
}

func tpGradXHost(args *device.Args, lo, hi int) { tpGradX(device.View[tpGradXView](args), lo, hi) }

func tpGradXGeneratedHost(args *device.Args, lo, hi int) {
	a := device.View[tpxKernelView](args)
	tpGradX(&tpGradXView{
		y: a.y, w: a.w, dout: a.dout, dst: a.dst, colptr: a.colptr, perm: a.perm, partial: a.partial, plan: a.table, constants: a.constants, nodes: a.nodes,
	}, lo, hi)
}

func tpGradX(a *tpGradXView, lo, hi int) {
	var v backView
	plan := a.plan.Ints()
	v.read(plan, a.constants.Floats())
	y, w, dout, dst, colPtr, perm, partial := a.y.Floats(), a.w.Floats(), a.dout.Floats(), a.dst.Ints(), a.colptr.Ints(), a.perm.Ints(), a.partial.Floats()
	nodes := a.nodes.Int()
	in, sh, numel, out := int(plan[backIn]), int(plan[backSh]), int(plan[backNumel]), int(plan[backOut])
	for s := lo; s < hi; s++ {
		from, to := segmentOf(colPtr, nodes, s)
		row := partial[s*in:][:in]
		clear(row)
		for _, edge := range perm[from:to] {
			e := int(edge)
			ye, we, ze := y[e*sh:][:sh], w[e*numel:][:numel], dout[int(dst[e])*out:][:out]
			for p := range int(plan[backPaths]) {
				path := v.table[p*pathInts:][:pathInts]
				m := v.contractPath(path, ye[path[1]:])
				mul := int(path[4])
				for u := 0; u < mul; u += uChunk {
					v.addBack(path, m, u, we[int(path[2])+u:][:min(uChunk, mul-u)], ze, row)
				}
			}
		}
	}
}

// addBack adds w_u sum_k M_ik dz_uk to dx for len(w) copies from copy u on. It multiplies by w on the narrower side: dz
// once per k, or, if x has fewer components than dz, the sum once per i.
func (v *backView) addBack(path []int32, m []float32, u int, w, dz, dx []float32) {
	n, mul, d1, d3 := len(w), int(path[4]), int(path[5]), int(path[6])
	swapped := v.swapped[int(path[7])*cellInts : int(path[8])*cellInts]
	dz, dx = dz[path[3]:][:d3*mul], dx[path[0]:][:d1*mul]
	if d3 <= d1 {
		wz := v.row[:d3*n]
		for k := range d3 {
			vec.Mul(wz[k*n:][:n], w, dz[k*mul+u:])
		}
		vec.Sweep(dx[u:], mul, wz, n, n, swapped, m)
		return
	}
	q := v.row[:d1*n]
	clear(q)
	vec.Sweep(q, n, dz[u:], mul, n, swapped, m)
	for i := range d1 {
		vec.MulAdd(dx[i*mul+u:][:n], w, q[i*n:])
	}
}

// segmentOf returns the range of edges in perm of segment s. The segment belongs to the last node whose first segment
// is at most s.
func segmentOf(colPtr []int32, nodes, s int) (from, to int) {
	lo, hi := 0, nodes
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; int(colPtr[mid])/tpGradSegment+mid <= s {
			lo = mid
		} else {
			hi = mid
		}
	}
	start, end := int(colPtr[lo]), int(colPtr[lo+1])
	from = min(start+(s-start/tpGradSegment-lo)*tpGradSegment, end)
	return from, min(from+tpGradSegment, end)
}

func tpGradSumHost(args *device.Args, lo, hi int) {
	a := device.View[tpGradSumView](args)
	colPtr, partial, dx, in, add := a.colptr.Ints(), a.partial.Floats(), a.dx.Floats(), a.width.Int(), a.add.Int() != 0
	for node := lo; node < hi; node++ {
		row := dx[node*in : (node+1)*in]
		if !add {
			clear(row)
		}
		first := int(colPtr[node])/tpGradSegment + node
		for j := 0; j*tpGradSegment < int(colPtr[node+1]-colPtr[node]); j++ {
			vec.Axpy(1, partial[(first+j)*in:][:in], row)
		}
	}
}
