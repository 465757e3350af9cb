package gruflow

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

// piece is the most units of a row that a host kernel has on its stack at a time.
const piece = 512

// load reads values [at, at+len(dst)) of an array of a precision's width.
func (p precision) load(dst, from []float32, at int) {
	if p.isNarrow() {
		p.unpack(dst, viewHalves(from)[at:][:len(dst)])
		return
	}
	copy(dst, from[at:])
}

// storeValues converts values to the precision and stores them; float32 stays unchanged.
func (p precision) storeValues(to []float32, at int, v []float32) {
	if p.isNarrow() {
		p.pack(viewHalves(to)[at:][:len(v)], v)
		return
	}
	copy(to[at:], v)
}

// walkPieces walks the units [lo, hi) of rows of n, row by row and at most piece at a time: row b, its units [j, j+w),
// and the index of the first of them.
func walkPieces(lo, hi, n int, f func(b, j, w, at int)) {
	for at := lo; at < hi; {
		b, j := at/n, at%n
		w := min(n-j, hi-at, piece)
		f(b, j, w, at)
		at += w
	}
}

func keepHost(a *device.Args, lo, hi int) {
	all, n, from, p, biased := a.Int(7), a.Int(8), a.Int(9), precision(a.Int(10)), a.Int(11) != 0
	gx, gh, bx, bh := a.Floats(0), a.Floats(1), a.Floats(2), a.Floats(3)
	h, states, kept := a.Floats(4), a.Floats(5), a.Floats(6)
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

func cellBackHost(a *device.Args, lo, hi int) {
	all, n, from, p := a.Int(8), a.Int(9), a.Int(10), precision(a.Int(11))
	depth, ago, step, first, last := a.Int(12), a.Int(13), a.Int(14), a.Int(15), a.Int(16)
	dout, dh, chain, states, kept := a.Floats(0), a.Floats(1), a.Floats(2), a.Floats(3), a.Floats(4)
	level, gx, gh := a.Ints(5), a.Floats(6), a.Floats(7)
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

// hasLeft reports whether a carrier, now at this level, left ago levels earlier.
func hasLeft(level int32, ago, depth int) bool { return levelThen(level, ago, depth) == 0 }

// levelThen returns the level, ago levels earlier, of a carrier that is now at this level.
func levelThen(level int32, ago, depth int) int { return (int(level) + depth - ago%depth) % depth }

func leaveHost(a *device.Args, lo, hi int) {
	n, from, p := a.Int(4), a.Int(5), precision(a.Int(6))
	states, h, level := a.Floats(0), a.Floats(1), a.Ints(2)
	var zero [piece]float32
	walkPieces(lo, hi, n, func(b, _, w, at int) {
		if !hasLeft(level[b], a.Int(8), a.Int(7)) {
			return
		}
		p.storeValues(states, from+at, zero[:w])
		if p.isNarrow() {
			clear(h[at:][:w])
		}
	})
}

func restoreHost(a *device.Args, lo, hi int) {
	all, n, from, p := a.Int(3), a.Int(4), a.Int(5), precision(a.Int(6))
	states, kept, level := a.Floats(0), a.Floats(1), a.Ints(2)
	var space [3 * piece]float32
	walkPieces(lo, hi, n, func(b, j, w, at int) {
		if !hasLeft(level[b], a.Int(8), a.Int(7)) {
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

func turnHost(a *device.Args, lo, hi int) {
	v, out, rows, k, p := a.Floats(0), a.Floats(1), a.Int(3), a.Int(4), precision(a.Int(5))
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

func energyBackHost(a *device.Args, lo, hi int) {
	batch, steps, g, p := a.Int(3), a.Int(4), a.Int(5), precision(a.Int(6))
	gx, w, de := a.Floats(0), a.Floats(1), a.Floats(2)
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

func biasHost(a *device.Args, lo, hi int) {
	g, db, m, rows := a.Floats(0), a.Floats(1)[lo:hi], a.Int(2), a.Int(3)
	if a.Int(4) == 0 {
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
