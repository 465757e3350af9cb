package gruflow

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

func cellHost(args *device.Args, lo, hi int) {
	a := device.View[gruCellView](args)
	n, outAt, biased := a.H.Int(), a.outAt.Int(), a.biased.Int() != 0
	gx, gh, h := a.gx.Floats()[a.gxAt.Int():], a.gh.Floats(), a.h.Floats()[a.hAt.Int():]
	for at := lo; at < hi; {
		r, j := at/n, at%n
		w := min(n-j, hi-at)
		x, s := gx[3*r*n+j:], gh[3*r*n+j:]
		if biased { // in place: the products are not read again
			for g := range 3 {
				addTo(x[g*n:][:w], a.bx.Floats()[g*n+j:])
				addTo(s[g*n:][:w], a.bh.Floats()[g*n+j:])
			}
		}
		cell(x, s, h[at:at+w], n)
		at += w
	}
	if outAt >= 0 {
		copy(a.out.Floats()[outAt+lo:outAt+hi], h[lo:hi])
	}
}

func addTo(x, y []float32) {
	for i := range x {
		x[i] += y[i]
	}
}

// rows iterates over items [lo, hi) of an elementwise kernel, row by row.
type rows struct {
	a, b, out            []float32
	n, aRow, bRow, oRow  int
	at, hi               int
	left, right, written []float32 // parts of a, b and out in the current row
}

func walkRows(args *device.Args, lo, hi int) rows {
	a := device.View[elementwiseView](args)
	return rows{
		a: a.a.Floats()[a.aAt.Int():], b: a.b.Floats()[a.bAt.Int():], out: a.out.Floats()[a.outAt.Int():],
		n: a.H.Int(), aRow: a.aRow.Int(), bRow: a.bRow.Int(), oRow: a.outRow.Int(), at: lo, hi: hi,
	}
}

func (w *rows) next() bool {
	if w.at >= w.hi {
		return false
	}
	r, j := w.at/w.n, w.at%w.n
	k := min(w.n-j, w.hi-w.at)
	w.left, w.right, w.written = w.a[r*w.aRow+j:][:k], w.b[r*w.bRow+j:][:k], w.out[r*w.oRow+j:][:k]
	w.at += k
	return true
}

func addHost(a *device.Args, lo, hi int) {
	for w := walkRows(a, lo, hi); w.next(); {
		for i, v := range w.left {
			w.written[i] = v + w.right[i]
		}
	}
}

func subHost(a *device.Args, lo, hi int) {
	for w := walkRows(a, lo, hi); w.next(); {
		for i, v := range w.left {
			w.written[i] = v - w.right[i]
		}
	}
}

func mulHost(a *device.Args, lo, hi int) {
	for w := walkRows(a, lo, hi); w.next(); {
		vec.Mul(w.written, w.left, w.right)
	}
}

func copyHost(a *device.Args, lo, hi int) {
	for w := walkRows(a, lo, hi); w.next(); {
		copy(w.written, w.left)
	}
}

func sigmoidHost(a *device.Args, lo, hi int) {
	for w := walkRows(a, lo, hi); w.next(); {
		copy(w.written, w.left)
		sigmoidAll(w.written)
	}
}

func tanhHost(a *device.Args, lo, hi int) {
	for w := walkRows(a, lo, hi); w.next(); {
		copy(w.written, w.left)
		tanhAll(w.written)
	}
}
