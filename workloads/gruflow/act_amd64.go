package gruflow

import "golang.org/x/sys/cpu"

// fast reports whether the assembly can run. Tests change it to compare both implementations.
var fast = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// The assembly functions take n values, a multiple of eight.
//
//go:noescape
func sigmoidAVX2(x *float32, n int)

//go:noescape
func tanhAVX2(x *float32, n int)

// gx and gh each have rows r, z and n, stride values apart.
//
//go:noescape
func cellAVX2(gx, gh, h *float32, stride, n int)

// The assembly reads the fields of keptCells by offset; n is a multiple of eight.
//
//go:noescape
func keepAVX2(c *keptCells, n int)

//go:noescape
func backAVX2(c *keptCells, n int)

//go:noescape
func dotAVX2(a, b *float32, n int) float32

func dot(a, b []float32) float32 {
	b = b[:len(a)]
	whole := len(a) &^ 7
	if !fast || whole == 0 {
		return dotGeneric(a, b)
	}
	return dotAVX2(&a[0], &b[0], whole) + dotGeneric(a[whole:], b[whole:])
}

func sigmoidAll(x []float32) {
	if !fast {
		sigmoidGeneric(x)
		return
	}
	whole := len(x) &^ 7
	if whole > 0 {
		sigmoidAVX2(&x[0], whole)
	}
	if whole < len(x) { // same arithmetic as the assembly: a value must not depend on its position
		var rest [8]float32
		copy(rest[:], x[whole:])
		sigmoidAVX2(&rest[0], len(rest))
		copy(x[whole:], rest[:])
	}
}

func tanhAll(x []float32) {
	if !fast {
		tanhGeneric(x)
		return
	}
	whole := len(x) &^ 7
	if whole > 0 {
		tanhAVX2(&x[0], whole)
	}
	if whole < len(x) {
		var rest [8]float32
		copy(rest[:], x[whole:])
		tanhAVX2(&rest[0], len(rest))
		copy(x[whole:], rest[:])
	}
}

func cell(gx, gh, h []float32, stride int) {
	if !fast {
		cellGeneric(gx, gh, h, stride)
		return
	}
	n := len(h)
	whole := n &^ 7
	if whole > 0 {
		cellAVX2(&gx[0], &gh[0], &h[0], stride, whole)
	}
	if whole == n {
		return
	}
	var a, b [3 * 8]float32
	var rest [8]float32
	for g := range 3 {
		copy(a[8*g:8*g+8], gx[g*stride+whole:g*stride+n])
		copy(b[8*g:8*g+8], gh[g*stride+whole:g*stride+n])
	}
	copy(rest[:], h[whole:])
	cellAVX2(&a[0], &b[0], &rest[0], 8, 8)
	copy(h[whole:], rest[:])
}

func keepCells(c *keptCells) {
	whole := 0
	if fast {
		if whole = c.n &^ 7; whole > 0 {
			c.checkBounds()
			keepAVX2(c, whole)
		}
	}
	if whole < c.n { // same arithmetic as the assembly: a value must not depend on its position
		rest := c.tail(whole)
		keepGeneric(&rest)
	}
}

func backCells(c *keptCells) {
	whole := 0
	if fast {
		if whole = c.n &^ 7; whole > 0 {
			c.checkBounds()
			backAVX2(c, whole)
		}
	}
	if whole < c.n {
		rest := c.tail(whole)
		backGeneric(&rest)
	}
}

// checkBounds panics where the assembly would read or write beyond a slice.
func (c *keptCells) checkBounds() {
	_, _, _, _ = c.gx[2*c.stride+c.n-1], c.gh[2*c.stride+c.n-1], c.kept[3*c.keptStride+c.n-1], c.before[c.n-1]
	if c.after != nil {
		_ = c.after[c.n-1]
		return
	}
	_, _, _ = c.dh[c.n-1], c.chain[c.n-1], c.back[c.n-1]
	if c.dout != nil {
		_ = c.dout[c.n-1]
	}
}
