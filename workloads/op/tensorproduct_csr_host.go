package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

// csrView holds the arguments of tpCSRHost, decoded once per call.
type csrView struct {
	tpView
	x, y, w, out, partial             []float32
	src, dst, rowPtr                  []int32
	inDim, shDim, numel, outDim, path int
	scratch                           *csrScratch
}

// csrScratch holds the matrix M of a path, and w*x or a sum for a chunk of copies. It is on the stack.
type csrScratch struct {
	m   [maxComponents * maxComponents]float32
	row [maxComponents * uChunk]float32
}

func tpCSRHost(args *device.Args, lo, hi int) {
	a := device.View[tpCsrView](args)
	var scratch csrScratch
	plan, edges, segment := a.plan.Ints(), a.edges.Int(), a.segment.Int()
	v := csrView{
		tpView: makeTPView(a.table.Ints(), a.constants.Floats(), plan),
		x:      a.x.Floats(), y: a.y.Floats(), w: a.w.Floats(), src: a.src.Ints(), dst: a.dst.Ints(), rowPtr: a.rowptr.Ints(),
		out: a.out.Floats(), partial: a.partial.Floats(), scratch: &scratch,
	}
	v.inDim, v.shDim, v.numel, v.outDim = int(plan[planIn]), int(plan[planSh]), int(plan[planNumel]), int(plan[planOut])
	v.path = int(plan[planPaths])
	for c := lo; c < hi; c++ {
		v.runItem(c, edges, segment)
	}
}

// runItem computes item c; see tpCSRKernel. The last value of rowPtr is edges, so the loop over rows ends there.
func (v *csrView) runItem(c, edges, segment int) {
	first, end := c*segment, min((c+1)*segment, edges)
	partial := v.partial[c*v.outDim:][:v.outDim]
	r := int(v.dst[first])
	if start := int(v.rowPtr[r]); start < first {
		// The row began in an earlier item; one of its later segments may start here.
		if at := start + (first-start+segment-1)/segment*segment; at < min(end, int(v.rowPtr[r+1])) {
			v.sumSegment(at, min(at+segment, int(v.rowPtr[r+1])), partial)
		}
		r++
	}
	for ; int(v.rowPtr[r]) < end; r++ {
		from, to := int(v.rowPtr[r]), int(v.rowPtr[r+1])
		if from < to {
			v.sumSegment(from, min(to, from+segment), v.out[r*v.outDim:(r+1)*v.outDim])
		}
	}
}

// sumSegment writes the sum over the edges [from, to) to row.
func (v *csrView) sumSegment(from, to int, row []float32) {
	clear(row)
	for e := from; e < to; e++ {
		x := v.x[int(v.src[e])*v.inDim:][:v.inDim]
		y := v.y[e*v.shDim:][:v.shDim]
		w := v.w[e*v.numel:][:v.numel]
		for p := range v.path {
			v.addPath(v.table[p*pathInts:(p+1)*pathInts], x, y, w, row)
		}
	}
}

// addPath adds one path of one edge to the output row, out_k += sum_i M_ik w x_i, for contiguous copies at a time. It
// multiplies by w on the narrower side: w*x once per i, or, if the output is narrower, the sum over i once per k.
func (v *csrView) addPath(t []int32, x, y, w, out []float32) {
	mul := int(t[4])
	cells, m := v.pathM(t, y)
	for u0 := 0; u0 < mul; u0 += uChunk {
		n := min(uChunk, mul-u0)
		v.addCopies(t, u0, w[int(t[2])+u0:][:n], x, out, cells, m)
	}
}

func (v *csrView) pathM(t []int32, y []float32) (cells []int32, m []float32) {
	first, last := int(t[7]), int(t[8])
	cells, m = v.table[v.cells+first*cellInts:v.cells+last*cellInts], v.scratch.m[:last-first]
	v.contractPath(cells, y[t[1]:], m)
	return cells, m
}

// addCopies adds sum_i M_ik w_u x_ui of one path to out, for len(w) copies u from u0 on. m holds the values of M, w the
// weights of these copies. x is the complete feature row of the edge's source, out the complete output row.
func (v *csrView) addCopies(t []int32, u0 int, w, x, out []float32, cells []int32, m []float32) {
	n, mul, d1, d3 := len(w), int(t[4]), int(t[5]), int(t[6])
	x, out = x[t[0]:][:d1*mul], out[t[3]:][:d3*mul]
	if t[13] == 0 {
		xw := v.scratch.row[:d1*n]
		for i := range d1 {
			vec.Mul(xw[i*n:][:n], w, x[i*mul+u0:])
		}
		vec.Sweep(out[u0:], mul, xw, n, n, cells, m)
		return
	}
	sum := v.scratch.row[:d3*n]
	clear(sum)
	vec.Sweep(sum, n, x[u0:], mul, n, cells, m)
	for k := range d3 {
		vec.MulAdd(out[k*mul+u0:][:n], w, sum[k*n:])
	}
}

// contractPath computes M, one value per cell: the sum of constant * y_j over the cell's consecutive terms.
func (v *csrView) contractPath(cells []int32, y, m []float32) {
	js, constants := v.table[v.terms:], v.constants
	t := int(cells[2])
	for c := range m {
		end, sum := int(cells[c*cellInts+3]), float32(0)
		for ; t < end; t++ {
			sum += constants[t] * y[js[t]]
		}
		m[c] = sum
	}
}

func tpFixupHost(args *device.Args, lo, hi int) {
	a := device.View[tpCsrFixupView](args)
	rowPtr, out, partial := a.rowptr.Ints(), a.out.Floats(), a.partial.Floats()
	outDim, segment := a.outDim.Int(), a.segment.Int()
	for r := lo; r < hi; r++ {
		from, to := int(rowPtr[r]), int(rowPtr[r+1])
		row := out[r*outDim : (r+1)*outDim]
		if from == to {
			clear(row)
		}
		for at := from + segment; at < to; at += segment {
			vec.Axpy(1, partial[at/segment*outDim:][:outDim], row)
		}
	}
}
