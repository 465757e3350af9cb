package gridsim

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

// grid is the state of n x n cells with c channels, for the host kernels. zero selects a zero border instead of a
// periodic one.
type grid struct {
	v         []float32
	n, c      int
	hwc, zero bool
}

func (g grid) fieldFrom(first int) field {
	if g.hwc {
		return field{v: g.v[first*g.c:], cs: 1, c: g.c, hwc: true, within: g.c}
	}
	return field{v: g.v[first:], cs: g.n * g.n, c: g.c, within: 1}
}

// neighbourMeans writes the mean of the eight neighbours of cells [lo, hi) to dst. With chw, the channels in dst are cs
// elements apart; with hwc, a cell's channels are adjacent.
func (g grid) neighbourMeans(dst []float32, cs, lo, hi int) {
	lanes, d := g.c, 1
	if g.hwc {
		lanes, d = 1, g.c
	}
	for k := range lanes {
		plane := g.v
		if !g.hwc {
			plane = g.v[k*g.n*g.n:][:g.n*g.n]
		}
		for at := lo; at < hi; {
			row, from := at/g.n, at%g.n
			to := min(g.n, from+hi-at)
			g.meanRow(dst[k*cs+(at-lo)*d:][:(to-from)*d], plane, row, from*d, d)
			at += to - from
		}
	}
}

// meanRow averages the neighbours for part of a row, starting at element from; cells are d elements apart.
func (g grid) meanRow(dst, plane []float32, row, from, d int) {
	n := g.n * d
	line := func(r int) []float32 {
		switch {
		case r >= 0 && r < g.n:
		case g.zero:
			return nil
		case r < 0:
			r += g.n
		default:
			r -= g.n
		}
		return plane[r*n : (r+1)*n]
	}
	up, mid, down := line(row-1), line(row), line(row+1)
	to := from + len(dst)
	inner, outer := max(from, d), min(to, n-d)
	if up == nil || down == nil || inner >= outer {
		inner, outer = to, to
	}
	for i := from; i < inner; i++ {
		dst[i-from] = g.meanAt(up, mid, down, i, d)
	}
	if inner < outer {
		vec.MeanOf8(dst[inner-from:outer-from], up[inner-d:], mid[inner-d:], down[inner-d:], d)
	}
	for i := outer; i < to; i++ {
		dst[i-from] = g.meanAt(up, mid, down, i, d)
	}
}

// meanAt averages one element's neighbours, in the order of vec.MeanOf8.
func (g grid) meanAt(up, mid, down []float32, i, d int) float32 {
	n := g.n * d
	left, right := i-d, i+d
	if left < 0 {
		left = pick(g.zero, -1, left+n)
	}
	if right >= n {
		right = pick(g.zero, -1, right-n)
	}
	return (elementAt(up, left) + elementAt(up, i) + elementAt(up, right) + elementAt(mid, left) + elementAt(mid, right) + elementAt(down, left) + elementAt(down, i) + elementAt(down, right)) * 0.125
}

func pick(cond bool, a, b int) int {
	if cond {
		return a
	}
	return b
}

// elementAt returns an element, or 0 outside the grid.
func elementAt(line []float32, i int) float32 {
	if line == nil || i < 0 {
		return 0
	}
	return line[i]
}

func relaxHost(args *device.Args, lo, hi int) {
	a := device.View[gridRelaxView](args)
	c, hwc, rate := a.C.Int(), a.hwc.Bool(), a.tau.F32()
	psi, k, out := fieldOf(a.psi, a.psiAt, a.psiCs.Int(), c, hwc), fieldOf(a.k, a.kAt, a.kCs.Int(), c, hwc), fieldOf(a.out, a.outAt, a.outCs.Int(), c, hwc)
	for l := range psi.laneCount() {
		relax(out.lane(l, lo, hi), psi.lane(l, lo, hi), k.lane(l, lo, hi), rate)
	}
}

func relax(out, psi, k []float32, rate float32) {
	for i, v := range psi {
		d := k[i] - v
		out[i] = v + rate*d
	}
}

func diffuseHost(args *device.Args, lo, hi int) {
	a := device.View[gridDiffuseView](args)
	g := grid{v: a.psi.Floats()[a.psiAt.Int():], n: a.N.Int(), c: a.C.Int(), hwc: a.hwc.Bool(), zero: a.zero.Bool()}
	out := grid{v: a.out.Floats()[a.outAt.Int():], n: g.n, c: g.c, hwc: g.hwc}.fieldFrom(0)
	g.neighbourMeans(out.v[lo*out.within:], out.cs, lo, hi)
	psi := g.fieldFrom(0)
	for l := range psi.laneCount() {
		relax(out.lane(l, lo, hi), psi.lane(l, lo, hi), out.lane(l, lo, hi), a.tau.F32())
	}
}

// walkHost computes each cell from its neighbours along the axis: component a from the cell before, b from the one
// after.
func walkHost(args *device.Args, lo, hi int) {
	a := device.View[gridWalkView](args)
	n, c, axis, first, cos, sin := a.N.Int(), a.C.Int(), a.axis.Int(), a.first.Int(), a.cos.F32(), a.sin.F32()
	g := grid{v: a.psi.Floats()[a.psiAt.Int():], n: n, c: c, hwc: a.hwc.Bool()}
	psi := g.fieldFrom(0)
	out := grid{v: a.out.Floats()[a.outAt.Int():], n: n, c: c, hwc: g.hwc}.fieldFrom(0)
	turned := func(from func(k, i int) (float32, float32), k, i int) (float32, float32) {
		x, y := from(k, i)
		return cos*x - sin*y, sin*x + cos*y
	}
	here := func(k, i int) (float32, float32) { return psi.v[psi.offsetOf(k, i)], psi.v[psi.offsetOf(k+1, i)] }
	along := func(from func(k, i int) (float32, float32), axis int) func(k, i int) (float32, float32) {
		return func(k, i int) (float32, float32) {
			before, after := adjacentCells(i, n, axis)
			x, _ := turned(from, k, before)
			_, y := turned(from, k, after)
			return x, y
		}
	}
	way := here
	if axis != 1 {
		way = along(way, 0)
	}
	if axis != 0 {
		way = along(way, 1)
	}
	for i := first + lo; i < first+hi; i++ {
		for k := 0; k < c; k += 2 {
			out.v[out.offsetOf(k, i)], out.v[out.offsetOf(k+1, i)] = way(k, i)
		}
	}
}

// adjacentCells returns the cells before and after i along an axis, with periodic borders. Axis 0 crosses rows.
func adjacentCells(i, n, axis int) (before, after int) {
	r, c := i/n, i%n
	if axis == 0 {
		return (r+n-1)%n*n + c, (r+1)%n*n + c
	}
	return r*n + (c+n-1)%n, r*n + (c+1)%n
}

func mapsHost(args *device.Args, lo, hi int) {
	a := device.View[gridMapsView](args)
	n, c, hwc, maps, scale := a.N.Int(), a.C.Int(), a.hwc.Bool(), a.maps.Int(), a.scale.Int()
	psi := grid{v: a.psi.Floats()[a.psiAt.Int():], n: n, c: c, hwc: hwc}.fieldFrom(0)
	before := grid{v: a.before.Floats()[a.beforeAt.Int():], n: n, c: c, hwc: hwc}.fieldFrom(0)
	out, side := a.out.Floats(), n/scale
	part := 1 / float32(scale*scale)
	for px := lo; px < hi; px++ {
		var sum [maxMaps]float32
		for dy := range scale {
			for dx := range scale {
				i := (px/side*scale+dy)*n + px%side*scale + dx
				for k := range c {
					v := psi.v[psi.offsetOf(k, i)]
					sum[0] += v * v
					if maps > 1 {
						d := v - before.v[before.offsetOf(k, i)]
						sum[1] += d * d
					}
				}
				sum[2] += psi.v[psi.offsetOf(0, i)]
				sum[3] += psi.v[psi.offsetOf(c/2, i)]
			}
		}
		for m := range maps {
			out[m*side*side+px] = sum[m] * part
		}
	}
}

func cropHost(args *device.Args, lo, hi int) {
	a := device.View[gridCropView](args)
	n, c, w, h, hwc := a.N.Int(), a.C.Int(), a.width.Int(), a.height.Int(), a.hwc.Bool()
	psi := grid{v: a.psi.Floats()[a.psiAt.Int():], n: n, c: c, hwc: hwc}.fieldFrom(0)
	out := fieldOf(a.out, a.outAt, w*h, c, hwc)
	for i := lo; i < hi; i++ {
		from := i/w*n + i%w
		for k := range c {
			out.v[out.offsetOf(k, i)] = psi.v[psi.offsetOf(k, from)]
		}
	}
}
