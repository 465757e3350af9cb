package gruflow

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/vec"
)

func keepHost(a *gpuprof.Args, lo, hi int) {
	batch, n, step := a.Int(5), a.Int(6), a.Int(7)
	row := batch * n
	gx, gh := a.Floats(0)[step*3*row:], a.Floats(1)
	h, next, kept := a.Floats(2)[step*row:], a.Floats(2)[(step+1)*row:], a.Floats(3)[step*4*row:]
	for at := lo; at < hi; {
		b, j := at/n, at%n
		w := min(n-j, hi-at)
		x, s, k := gx[3*b*n+j:], gh[3*b*n+j:], kept[4*b*n+j:]
		for gate := range 2 {
			g := k[gate*n:][:w]
			for i := range g {
				g[i] = x[gate*n+i] + s[gate*n+i]
			}
			sigmoidAll(g)
		}
		c := k[2*n:][:w]
		for i := range c {
			k[3*n+i] = s[2*n+i]
			c[i] = x[2*n+i] + k[i]*s[2*n+i]
		}
		tanhAll(c)
		for i, v := range c {
			next[at+i] = v + k[n+i]*(h[at+i]-v)
		}
		at += w
	}
}

func cellBackHost(a *gpuprof.Args, lo, hi int) {
	batch, n, step := a.Int(7), a.Int(8), a.Int(9)
	row := batch * n
	dout, dh, h := a.Floats(0)[step*row:], a.Floats(1), a.Floats(2)[step*row:]
	kept, gx, gh := a.Floats(3)[step*4*row:], a.Floats(4)[step*3*row:], a.Floats(5)[step*3*row:]
	for at := lo; at < hi; at++ {
		b, j := at/n, at%n
		k, x, s := kept[4*b*n+j:], gx[3*b*n+j:], gh[3*b*n+j:]
		r, z, c, u := k[0], k[n], k[2*n], k[3*n]
		d := dh[at] + dout[at]
		an := d * (1 - z) * (1 - c*c)
		ar, az := an*u*r*(1-r), d*(h[at]-c)*z*(1-z)
		x[0], x[n], x[2*n] = ar, az, an
		s[0], s[n], s[2*n] = ar, az, an*r
		dh[at] = d * z
	}
}

func chainHost(a *gpuprof.Args, lo, hi int) {
	rows, k, n := a.Int(4), a.Int(5), a.Int(6)
	left, w, out := a.Floats(0)[a.Int(7):], a.Floats(1), a.Floats(2)
	panels := ceilDiv(n, gradTile)
	for lo < hi { // neighbouring items of the same rows go together
		r0, first := lo/panels*gradTile, lo%panels
		last := min(panels, first+hi-lo)
		c0, c1 := first*gradTile, min(n, last*gradTile)
		vec.Gemm(min(gradTile, rows-r0), c1-c0, k, 1, left[r0*k:], k, w[c0:], n, out[r0*n+c0:], n)
		lo += last - first
	}
}

// weightsHost sums a chunk into a block of its own and adds that to the rest.
func weightsHost(a *gpuprof.Args, lo, hi int) {
	rows, m, k := a.Int(4), a.Int(5), a.Int(6)
	g, x, dw := a.Floats(0), a.Floats(1)[a.Int(7):], a.Floats(2)
	panels := ceilDiv(k, gradTile)
	space := takeWidened()
	turned, sum := space.a[:], space.b[:gradTile*gradTile]
	for item := lo; item < hi; item++ {
		m0, k0 := item/panels*gradTile, item%panels*gradTile
		height, width := min(gradTile, m-m0), min(gradTile, k-k0)
		for i := range height {
			clear(dw[(m0+i)*k+k0:][:width])
		}
		for c0 := 0; c0 < rows; c0 += gradChunk {
			clear(sum)
			end := min(rows, c0+gradChunk)
			for r0 := c0; r0 < end; r0 += narrowInner {
				inner := min(narrowInner, end-r0)
				for r := range inner {
					for i, v := range g[(r0+r)*m+m0:][:height] {
						turned[i*inner+r] = v
					}
				}
				vec.Gemm(height, width, inner, 1, turned, inner, x[r0*k+k0:], k, sum, gradTile)
			}
			for i := range height {
				addTo(dw[(m0+i)*k+k0:][:width], sum[i*gradTile:])
			}
		}
	}
	space.give()
}

func biasHost(a *gpuprof.Args, lo, hi int) {
	g, db, m, rows := a.Floats(0), a.Floats(1)[lo:hi], a.Int(2), a.Int(3)
	clear(db)
	var sum [gradTile]float32
	for c := 0; c < rows; c += gradChunk {
		for from := 0; from < len(db); from += gradTile {
			part := sum[:min(gradTile, len(db)-from)]
			clear(part)
			for r := c; r < min(rows, c+gradChunk); r++ {
				addTo(part, g[r*m+lo+from:])
			}
			addTo(db[from:][:len(part)], part)
		}
	}
}
