package gruflow

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

// piece is the largest number of a row's units that a host kernel processes at a time, in memory on its stack.
const piece = 512

// load reads values [at, at+len(dst)) of an array of values in the precision's width, and converts them to float32.
func (p precision) load(dst, from []float32, at int) {
	if p.isNarrow() {
		p.unpack(dst, viewHalves(from)[at:][:len(dst)])
		return
	}
	copy(dst, from[at:])
}

// storeValues converts values to the precision's width and stores them from value at on; float32 values stay unchanged.
func (p precision) storeValues(to []float32, at int, v []float32) {
	if p.isNarrow() {
		p.pack(viewHalves(to)[at:][:len(v)], v)
		return
	}
	copy(to[at:], v)
}

// walkPieces divides units [lo, hi) of rows of n units into pieces of at most piece units within a row. For each piece
// it calls f with the row b, the index j of the first unit in the row, the number of units w, and the index at of the
// first unit among all rows.
func walkPieces(lo, hi, n int, f func(b, j, w, at int)) {
	for at := lo; at < hi; {
		b, j := at/n, at%n
		w := min(n-j, hi-at, piece)
		f(b, j, w, at)
		at += w
	}
}

func keepHost(args *device.Args, lo, hi int) {
	a := device.View[gruKeepView](args)
	all, n, from, p, biased := a.n.Int(), a.H.Int(), a.at.Int(), precision(a.precision.Int()), a.biased.Int() != 0
	gx, gh, bx, bh := a.gx.Floats(), a.gh.Floats(), a.bx.Floats(), a.bh.Floats()
	h, states, kept := a.h.Floats(), a.states.Floats(), a.kept.Floats()
	var space [5 * piece]float32
	walkPieces(lo, hi, n, func(b, j, w, at int) {
		c := keptCells{gx: gx[3*b*n+j:], gh: gh[3*b*n+j:], stride: n, n: w}
		if biased {
			for g := range 3 {
				addTo(c.gx[g*n:][:w], bx[g*n+j:])
				addTo(c.gh[g*n:][:w], bh[g*n+j:])
			}
		}
		if !p.isNarrow() {
			c.before, c.after, c.kept, c.keptStride = states[from+at:][:w], states[from+all+at:][:w], kept[4*b*n+j:], n
			c.forward()
			return
		}
		c.before, c.after, c.kept, c.keptStride = h[at:][:w], h[at:][:w], space[:4*w], w
		c.forward()
		for g := range 4 {
			p.storeValues(kept, (4*b+g)*n+j, space[g*w:(g+1)*w])
		}
		p.storeValues(states, from+all+at, c.after)
	})
}

func cellBackHost(args *device.Args, lo, hi int) {
	a := device.View[gruCellBwdView](args)
	all, n, from, p := a.n.Int(), a.H.Int(), a.at.Int(), precision(a.precision.Int())
	depth, ago, step, first, last := a.depth.Int(), a.ago.Int(), a.step.Int(), a.first.Int(), a.last.Int()
	dout, dh, chain, states, kept := a.dout.Floats(), a.dh.Floats(), a.chain.Floats(), a.states.Floats(), a.kept.Floats()
	level, gx, gh := a.level.Ints(), a.gx.Floats(), a.gh.Floats()
	var space [5 * piece]float32
	var zero [piece]float32
	walkPieces(lo, hi, n, func(b, j, w, at int) {
		c := keptCells{gx: gx[3*b*n+j:], gh: gh[3*b*n+j:], stride: n, n: w, back: dh[at:][:w]}
		c.dh, c.chain = c.back, chain[at:][:w]
		if step == last && depth > 0 && hasLeft(level[b], ago, depth) {
			c.dh, c.chain = zero[:w], zero[:w]
		}
		if step >= first {
			c.dout = dout[(step-first)*all+at:][:w]
		}
		if p.isNarrow() {
			for g := range 4 {
				p.load(space[g*w:(g+1)*w], kept, (4*b+g)*n+j)
			}
			p.load(space[4*w:5*w], states, from+at)
			c.kept, c.keptStride, c.before = space[:4*w], w, space[4*w:5*w]
		} else {
			c.kept, c.keptStride, c.before = kept[4*b*n+j:], n, states[from+at:][:w]
		}
		c.backward()
	})
}

// hasLeft reports whether a row's carrier left at the last level and was replaced, in the move that is ago moves before
// the last one. level is the row's present level.
func hasLeft(level int32, ago, depth int) bool { return levelThen(level, ago, depth) == 0 }

// levelThen returns a carrier's level before its last ago moves; level is its present level.
func levelThen(level int32, ago, depth int) int { return (int(level) + depth - ago%depth) % depth }

func leaveHost(args *device.Args, lo, hi int) {
	a := device.View[gruLeaveView](args)
	n, from, p := a.H.Int(), a.at.Int(), precision(a.precision.Int())
	states, h, level := a.states.Floats(), a.h.Floats(), a.level.Ints()
	var zero [piece]float32
	walkPieces(lo, hi, n, func(b, _, w, at int) {
		if !hasLeft(level[b], a.ago.Int(), a.depth.Int()) {
			return
		}
		p.storeValues(states, from+at, zero[:w])
		if p.isNarrow() {
			clear(h[at:][:w])
		}
	})
}

func restoreHost(args *device.Args, lo, hi int) {
	a := device.View[gruRestoreView](args)
	all, n, from, p := a.n.Int(), a.H.Int(), a.at.Int(), precision(a.precision.Int())
	states, kept, level := a.states.Floats(), a.kept.Floats(), a.level.Ints()
	var space [3 * piece]float32
	walkPieces(lo, hi, n, func(b, j, w, at int) {
		if !hasLeft(level[b], a.ago.Int(), a.depth.Int()) {
			return
		}
		h, z, c := space[:w], space[w:2*w], space[2*w:3*w]
		p.load(h, states, from+at-all)
		p.load(z, kept, (4*b+1)*n+j)
		p.load(c, kept, (4*b+2)*n+j)
		for i, v := range c {
			h[i] = v + z[i]*(h[i]-v)
		}
		p.storeValues(states, from+at, h)
	})
}

func turnHost(args *device.Args, lo, hi int) {
	a := device.View[gruTurnView](args)
	v, out, rows, k, p := a.p.Floats(), a.out.Floats(), a.rows.Int(), a.K.Int(), precision(a.precision.Int())
	var space [piece]float32
	walkPieces(lo, hi, rows, func(col, row, w, at int) {
		turned := space[:w]
		for i := range turned {
			turned[i] = v[(row+i)*k+col]
		}
		if !p.isNarrow() {
			p.round(turned, turned)
		}
		p.storeValues(out, at, turned)
	})
}

func energyBackHost(args *device.Args, lo, hi int) {
	a := device.View[gruEnergyBwdView](args)
	batch, steps, g, p := a.n.Int(), a.steps.Int(), a.G.Int(), precision(a.precision.Int())
	gx, w, de := a.gx.Floats(), a.w.Floats(), a.de.Floats()
	var space [2 * piece]float32
	for c := lo; c < hi; c++ {
		sum := float32(0)
		for t := range steps {
			for j := 0; j < g; j += piece {
				n := min(piece, g-j)
				x, y := space[:n], space[piece:][:n]
				p.round(x, gx[(t*batch+c)*g+j:][:n])
				p.load(y, w, j)
				sum += dot(x, y)
			}
		}
		de[c] += sum
	}
}

func biasHost(args *device.Args, lo, hi int) {
	a := device.View[gruBiasView](args)
	g, db, m, rows := a.g.Floats(), a.db.Floats()[lo:hi], a.n.Int(), a.rows.Int()
	if a.add.Int() == 0 {
		clear(db)
	}
	var sum [biasSide]float32
	for c := 0; c < rows; c += gradChunk {
		for from := 0; from < len(db); from += biasSide {
			part := sum[:min(biasSide, len(db)-from)]
			vec.SumRows(part, g[c*m+lo+from:], m, min(rows-c, gradChunk))
			vec.Axpy(1, part, db[from:][:len(part)])
		}
	}
}
