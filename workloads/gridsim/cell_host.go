package gridsim

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

// field is an array of values a cell; see kernels.go.
type field struct {
	v      []float32
	cs     int
	c      int // channels
	hwc    bool
	within int // distance of cells
}

func fieldOf(a *device.Args, buf, at, cs, channels int, hwc bool) field {
	f := field{v: a.Floats(buf)[at:], cs: cs, c: channels, hwc: hwc, within: 1}
	if hwc {
		f.within, f.cs = channels, 1
	}
	return f
}

func boolArg(a *device.Args, i int) bool { return a.Int(i) != 0 }

// laneCount returns the number of contiguous pieces of memory for cells [lo, hi): one per channel, or one with all
// channels of the cells; lane returns one of them.
func (f field) laneCount() int {
	if f.hwc {
		return 1
	}
	return f.c
}

func (f field) lane(k, lo, hi int) []float32 {
	return f.v[k*f.cs+lo*f.within : k*f.cs+hi*f.within]
}

// offsetOf returns the offset of channel c of cell i.
func (f field) offsetOf(c, i int) int { return c*f.cs + i*f.within }

func neighboursHost(a *device.Args, lo, hi int) {
	n, c, first, hwc, concat := a.Int(5), a.Int(6), a.Int(7), boolArg(a, 8), boolArg(a, 10)
	g := grid{v: a.Floats(0)[a.Int(2):], n: n, c: c, hwc: hwc, zero: boolArg(a, 9)}
	outC := c
	if concat {
		outC = 2 * c
	}
	out := fieldOf(a, 1, a.Int(3), a.Int(4), outC, hwc)
	switch {
	case !hwc && concat:
		from := g.fieldFrom(first)
		for k := range c {
			copy(out.lane(k, lo, hi), from.lane(k, lo, hi))
		}
		g.neighbourMeans(out.v[c*out.cs+lo:], out.cs, first+lo, first+hi)
	case !hwc:
		g.neighbourMeans(out.v[lo:], out.cs, first+lo, first+hi)
	case !concat:
		g.neighbourMeans(out.v[lo*c:], 0, first+lo, first+hi)
	default:
		s := takeScratch(0, (hi-lo)*c)
		g.neighbourMeans(s.b, 0, first+lo, first+hi)
		for i := lo; i < hi; i++ {
			copy(out.v[2*i*c:], g.v[(first+i)*c:(first+i+1)*c])
			copy(out.v[(2*i+1)*c:(2*i+2)*c], s.b[(i-lo)*c:])
		}
		s.giveBack()
	}
}

func concatHost(a *device.Args, lo, hi int) {
	c, hwc := a.Int(9), boolArg(a, 10)
	psi, k := fieldOf(a, 0, a.Int(3), a.Int(4), c, hwc), fieldOf(a, 1, a.Int(5), a.Int(6), c, hwc)
	out := fieldOf(a, 2, a.Int(7), a.Int(8), 2*c, hwc)
	if !hwc {
		for j := range c {
			copy(out.lane(j, lo, hi), psi.lane(j, lo, hi))
			copy(out.lane(c+j, lo, hi), k.lane(j, lo, hi))
		}
		return
	}
	for i := lo; i < hi; i++ {
		copy(out.v[2*i*c:], psi.v[i*c:(i+1)*c])
		copy(out.v[(2*i+1)*c:(2*i+2)*c], k.v[i*c:(i+1)*c])
	}
}

func activateHost(a *device.Args, lo, hi int) {
	h, hwc, identity := a.Int(8), boolArg(a, 9), boolArg(a, 10)
	x, out := fieldOf(a, 0, a.Int(3), a.Int(4), h, hwc), fieldOf(a, 2, a.Int(6), a.Int(7), h, hwc)
	bias := a.Floats(1)[a.Int(5):][:h]
	for k := range x.laneCount() {
		to := out.lane(k, lo, hi)
		if hwc {
			for i, v := range x.lane(k, lo, hi) {
				to[i] = v + bias[i%h]
			}
		} else {
			for i, v := range x.lane(k, lo, hi) {
				to[i] = v + bias[k]
			}
		}
		if !identity {
			vec.Elu(to)
		}
	}
}

func updateHost(a *device.Args, lo, hi int) {
	c, hwc, rate := a.Int(11), boolArg(a, 12), a.F32(14)
	psi, delta := fieldOf(a, 0, a.Int(4), a.Int(5), c, hwc), fieldOf(a, 1, a.Int(6), a.Int(7), c, hwc)
	bias, out := a.Floats(2)[a.Int(8):][:c], fieldOf(a, 3, a.Int(9), a.Int(10), c, hwc)
	for k := range psi.laneCount() {
		p, to := psi.lane(k, lo, hi), out.lane(k, lo, hi)
		for i, d := range delta.lane(k, lo, hi) {
			b := k
			if hwc {
				b = i % c
			}
			to[i] = p[i] + rate*(d+bias[b])
		}
	}
	if boolArg(a, 13) {
		normaliseCells(out, lo, hi)
	}
}

// normaliseCells divides cells [lo, hi) by their length.
func normaliseCells(f field, lo, hi int) {
	s := takeScratch(0, hi-lo)
	lengths := s.b
	clear(lengths)
	addSquares(f, lengths, lo, hi)
	vec.InvSqrt(lengths, tiny)
	if f.hwc {
		for i, v := range lengths {
			row := f.v[(lo+i)*f.c:][:f.c]
			for j := range row {
				row[j] *= v
			}
		}
	} else {
		for k := range f.c {
			lane := f.lane(k, lo, hi)
			vec.Mul(lane, lane, lengths)
		}
	}
	s.giveBack()
}

// addSquares adds a cell's squares to sums.
func addSquares(f field, sums []float32, lo, hi int) {
	if !f.hwc {
		for k := range f.c {
			lane := f.lane(k, lo, hi)
			vec.MulAdd(sums, lane, lane)
		}
		return
	}
	for i := range sums {
		for _, v := range f.v[(lo+i)*f.c:][:f.c] {
			sums[i] += v * v
		}
	}
}

func squareHost(a *device.Args, lo, hi int) {
	x, out := a.Floats(0)[a.Int(2):][lo:hi], a.Floats(1)[a.Int(3):][lo:hi]
	vec.Mul(out, x, x)
}

func sumHost(a *device.Args, lo, hi int) {
	c, hwc := a.Int(5), boolArg(a, 6)
	x, out := fieldOf(a, 0, a.Int(2), a.Int(3), c, hwc), a.Floats(1)[a.Int(4):][lo:hi]
	clear(out)
	if !hwc {
		for k := range c {
			vec.Axpy(1, x.lane(k, lo, hi), out)
		}
		return
	}
	for i := range out {
		for _, v := range x.v[(lo+i)*c:][:c] {
			out[i] += v
		}
	}
}

func rootHost(a *device.Args, lo, hi int) {
	x, out := a.Floats(0)[a.Int(2):][lo:hi], a.Floats(1)[a.Int(3):][lo:hi]
	for i, v := range x {
		out[i] = float32(math.Sqrt(float64(v) + tiny))
	}
}

func divideHost(a *device.Args, lo, hi int) {
	c, hwc := a.Int(8), boolArg(a, 9)
	u, root, out := fieldOf(a, 0, a.Int(3), a.Int(4), c, hwc), a.Floats(1)[a.Int(5):][lo:hi], fieldOf(a, 2, a.Int(6), a.Int(7), c, hwc)
	for k := range u.laneCount() {
		to := out.lane(k, lo, hi)
		for i, v := range u.lane(k, lo, hi) {
			to[i] = v / root[i/u.within]
		}
	}
}

func poisonHost(a *device.Args, lo, hi int) {
	out, v := a.Floats(0)[a.Int(1):][lo:hi], a.F32(2)
	for i := range out {
		out[i] = v
	}
}
