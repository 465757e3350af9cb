package gridsim

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

// field is an array with c values per cell. Element c*cs + i*within is channel c of cell i.
type field struct {
	v      []float32
	cs     int
	c      int // channels
	hwc    bool
	within int // distance between cells, in elements
}

func fieldOf(mem device.Mem, at device.Int32, cs, channels int, hwc bool) field {
	f := field{v: mem.Floats()[at.Int():], cs: cs, c: channels, hwc: hwc, within: 1}
	if hwc {
		f.within, f.cs = channels, 1
	}
	return f
}

// laneCount returns the number of lanes. A lane is a contiguous piece of memory for a range of cells: one per channel,
// or with hwc a single one with all channels.
func (f field) laneCount() int {
	if f.hwc {
		return 1
	}
	return f.c
}

func (f field) lane(k, lo, hi int) []float32 {
	return f.v[k*f.cs+lo*f.within : k*f.cs+hi*f.within]
}

func (f field) offsetOf(c, i int) int { return c*f.cs + i*f.within }

func neighboursHost(args *device.Args, lo, hi int) {
	a := device.View[gridNeighboursView](args)
	n, c, first, hwc, concat := a.N.Int(), a.C.Int(), a.first.Int(), a.hwc.Bool(), a.concat.Bool()
	g := grid{v: a.psi.Floats()[a.psiAt.Int():], n: n, c: c, hwc: hwc, zero: a.zero.Bool()}
	outC := c
	if concat {
		outC = 2 * c
	}
	out := fieldOf(a.out, a.outAt, a.outCs.Int(), outC, hwc)
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

func concatHost(args *device.Args, lo, hi int) {
	a := device.View[gridConcatView](args)
	c, hwc := a.C.Int(), a.hwc.Bool()
	psi, k := fieldOf(a.psi, a.psiAt, a.psiCs.Int(), c, hwc), fieldOf(a.k, a.kAt, a.kCs.Int(), c, hwc)
	out := fieldOf(a.out, a.outAt, a.outCs.Int(), 2*c, hwc)
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

func activateHost(args *device.Args, lo, hi int) {
	a := device.View[gridActivateView](args)
	h, hwc, identity := a.H.Int(), a.hwc.Bool(), a.identity.Bool()
	x, out := fieldOf(a.x, a.xAt, a.xCs.Int(), h, hwc), fieldOf(a.out, a.outAt, a.outCs.Int(), h, hwc)
	bias := a.weights.Floats()[a.biasAt.Int():][:h]
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

func updateHost(args *device.Args, lo, hi int) {
	a := device.View[gridUpdateView](args)
	c, hwc, rate := a.C.Int(), a.hwc.Bool(), a.tau.F32()
	psi, delta := fieldOf(a.psi, a.psiAt, a.psiCs.Int(), c, hwc), fieldOf(a.delta, a.deltaAt, a.deltaCs.Int(), c, hwc)
	bias, out := a.weights.Floats()[a.biasAt.Int():][:c], fieldOf(a.out, a.outAt, a.outCs.Int(), c, hwc)
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
	if a.normalise.Bool() {
		normaliseCells(out, lo, hi)
	}
}

// normaliseCells divides each cell of [lo, hi) by its length.
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

// addSquares adds the sum of squares of each cell of [lo, hi) to sums.
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

func squareHost(args *device.Args, lo, hi int) {
	a := device.View[gridSquareView](args)
	x, out := a.x.Floats()[a.xAt.Int():][lo:hi], a.out.Floats()[a.outAt.Int():][lo:hi]
	vec.Mul(out, x, x)
}

func sumHost(args *device.Args, lo, hi int) {
	a := device.View[gridSumView](args)
	c, hwc := a.C.Int(), a.hwc.Bool()
	x, out := fieldOf(a.x, a.xAt, a.xCs.Int(), c, hwc), a.out.Floats()[a.outAt.Int():][lo:hi]
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

func rootHost(args *device.Args, lo, hi int) {
	a := device.View[gridSquareView](args)
	x, out := a.x.Floats()[a.xAt.Int():][lo:hi], a.out.Floats()[a.outAt.Int():][lo:hi]
	for i, v := range x {
		out[i] = float32(math.Sqrt(float64(v) + tiny))
	}
}

func divideHost(args *device.Args, lo, hi int) {
	a := device.View[gridDivideView](args)
	c, hwc := a.C.Int(), a.hwc.Bool()
	u, root, out := fieldOf(a.u, a.uAt, a.uCs.Int(), c, hwc), a.root.Floats()[a.rootAt.Int():][lo:hi], fieldOf(a.out, a.outAt, a.outCs.Int(), c, hwc)
	for k := range u.laneCount() {
		to := out.lane(k, lo, hi)
		for i, v := range u.lane(k, lo, hi) {
			to[i] = v / root[i/u.within]
		}
	}
}

func poisonHost(args *device.Args, lo, hi int) {
	a := device.View[gridPoisonView](args)
	out, v := a.out.Floats()[a.at.Int():][lo:hi], a.value.F32()
	for i := range out {
		out[i] = v
	}
}
