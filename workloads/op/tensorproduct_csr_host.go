package op

import "github.com/gpuprof/gpuprof"

// csrView is the arguments of tpCSRHost, read once a call.
type csrView struct {
	tpView
	x, y, w, out, partial             []float32
	src, dst, rowPtr                  []int32
	inDim, shDim, numel, outDim, path int
}

func tpCSRHost(a *gpuprof.Args, lo, hi int) {
	edges, segment, paths, cells := a.Int(11), a.Int(12), a.Int(17), a.Int(18)
	v := csrView{
		tpView: tpView{table: a.Ints(8), constants: a.Floats(9), cells: paths * pathInts, terms: paths*pathInts + cells*cellInts},
		x:      a.Floats(0), y: a.Floats(1), w: a.Floats(2), src: a.Ints(3), dst: a.Ints(4), rowPtr: a.Ints(5),
		out: a.Floats(6), partial: a.Floats(7),
		inDim: a.Int(13), shDim: a.Int(14), numel: a.Int(15), outDim: a.Int(16), path: paths,
	}
	for c := lo; c < hi; c++ {
		v.item(c, edges, segment)
	}
}

// item stops at rowPtr[rows] = edges at the latest.
func (v *csrView) item(c, edges, segment int) {
	first, end := c*segment, min((c+1)*segment, edges)
	slot := v.partial[c*slotWidth(v.outDim):][:slotWidth(v.outDim)]
	partial, xw := slot[:v.outDim], slot[v.outDim:]
	r := int(v.dst[first])
	if start := int(v.rowPtr[r]); start < first {
		// The row began earlier; one of its further segments may start here.
		if at := start + (first-start+segment-1)/segment*segment; at < min(end, int(v.rowPtr[r+1])) {
			v.segment(at, min(at+segment, int(v.rowPtr[r+1])), xw, partial)
		}
		r++
	}
	for ; int(v.rowPtr[r]) < end; r++ {
		from, to := int(v.rowPtr[r]), int(v.rowPtr[r+1])
		if from < to {
			v.segment(from, min(to, from+segment), xw, v.out[r*v.outDim:(r+1)*v.outDim])
		}
	}
}

// segment writes the sum over the edges [from, to) to row.
func (v *csrView) segment(from, to int, xw, row []float32) {
	clear(row)
	for e := from; e < to; e++ {
		x := v.x[int(v.src[e])*v.inDim:][:v.inDim]
		y := v.y[e*v.shDim:][:v.shDim]
		w := v.w[e*v.numel:][:v.numel]
		for p := range v.path {
			v.addPath(v.table[p*pathInts:(p+1)*pathInts], xw, x, y, w, row)
		}
	}
}

// addPath adds one path of one edge, out_k += sum_i M_ik w x_i with the copies
// contiguous: w*x first, once an i, or where the output is narrower the sum over
// i first and then w, once a k.
func (v *csrView) addPath(t []int32, scratch, x, y, w, out []float32) {
	mul := int(t[4])
	x, y, w, out = x[t[0]:], y[t[1]:], w[t[2]:], out[t[3]:]
	for u0 := 0; u0 < mul; u0 += uChunk {
		n := min(uChunk, mul-u0)
		if t[13] != 0 {
			v.sumThenWeight(t, scratch[:n], x[u0:], y, w[u0:u0+n], out[u0:])
		} else {
			v.weightThenSum(t, scratch[:n], x[u0:], y, w[u0:u0+n], out[u0:])
		}
	}
}

// weightThenSum works through cells ordered by i.
func (v *csrView) weightThenSum(t []int32, xw, x, y, w, out []float32) {
	mul, have := int(t[4]), -1
	for c := int(t[7]); c < int(t[8]); c++ {
		i, k, m := v.cell(c, y)
		if i != have {
			product(xw, w, x[i*mul:][:len(xw)])
			have = i
		}
		axpy(m, xw, out[k*mul:][:len(xw)])
	}
}

// sumThenWeight works through cells ordered by k.
func (v *csrView) sumThenWeight(t []int32, sum, x, y, w, out []float32) {
	mul, last := int(t[4]), int(t[8])
	clear(sum)
	for c := int(t[7]); c < last; c++ {
		i, k, m := v.cell(c, y)
		axpy(m, x[i*mul:][:len(sum)], sum)
		if c+1 == last || int(v.table[v.cells+(c+1)*cellInts+1]) != k {
			addProduct(out[k*mul:][:len(sum)], w, sum)
			clear(sum)
		}
	}
}

// product writes a*b to dst; all have the length of dst. The unrolled part
// goes without bounds checks and takes two thirds of the time of the plain loop.
func product(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for len(dst) >= 8 && len(a) >= 8 && len(b) >= 8 {
		d, p, q := (*[8]float32)(dst), (*[8]float32)(a), (*[8]float32)(b)
		d[0], d[1], d[2], d[3] = p[0]*q[0], p[1]*q[1], p[2]*q[2], p[3]*q[3]
		d[4], d[5], d[6], d[7] = p[4]*q[4], p[5]*q[5], p[6]*q[6], p[7]*q[7]
		dst, a, b = dst[8:], a[8:], b[8:]
	}
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

// addProduct adds a*b to dst, like product.
func addProduct(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for len(dst) >= 8 && len(a) >= 8 && len(b) >= 8 {
		d, p, q := (*[8]float32)(dst), (*[8]float32)(a), (*[8]float32)(b)
		d[0], d[1], d[2], d[3] = d[0]+p[0]*q[0], d[1]+p[1]*q[1], d[2]+p[2]*q[2], d[3]+p[3]*q[3]
		d[4], d[5], d[6], d[7] = d[4]+p[4]*q[4], d[5]+p[5]*q[5], d[6]+p[6]*q[6], d[7]+p[7]*q[7]
		dst, a, b = dst[8:], a[8:], b[8:]
	}
	for i := range dst {
		dst[i] += a[i] * b[i]
	}
}

func tpFixupHost(a *gpuprof.Args, lo, hi int) {
	rowPtr, out, partial := a.Ints(0), a.Floats(1), a.Floats(2)
	outDim, segment := a.Int(4), a.Int(5)
	for r := lo; r < hi; r++ {
		from, to := int(rowPtr[r]), int(rowPtr[r+1])
		row := out[r*outDim : (r+1)*outDim]
		if from == to {
			clear(row)
		}
		for at := from + segment; at < to; at += segment {
			axpy(1, partial[at/segment*slotWidth(outDim):][:outDim], row)
		}
	}
}
