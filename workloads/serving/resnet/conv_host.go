package resnet

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

// bandValues is the largest number of input values that one thread gathers at a time: half a second-level cache. A band
// is a range of output rows of one image whose input has at most bandValues values.
const bandValues = 1 << 16

// scratch is one thread's memory for gathered operands.
type scratch struct {
	x, panel    []float32
	off, outOff []int // for each output of a band: index of its first operand, index of the output
	tile        vec.Tile
	temp        [vec.TileRows * 16]float32
	ones, zeros [16]float32
}

// spare keeps scratch between calls, one for each thread that ran at the same time.
var spare = make(chan *scratch, 1024)

func takeScratch() *scratch {
	select {
	case s := <-spare:
		return s
	default:
		s := new(scratch)
		for i := range s.ones {
			s.ones[i] = 1
		}
		return s
	}
}

func (s *scratch) giveBack() {
	select {
	case spare <- s:
	default:
	}
}

// grow returns a slice of n values: v, or a new one if the capacity of v is too small. It does not keep the values.
func grow[T any](v []T, n int) []T {
	if cap(v) < n {
		return make([]T, n)
	}
	return v[:n]
}

func convHost(args *device.Args, lo, hi int) {
	a := device.View[resnetConvView](args)
	g := convGeometry(a)
	s := takeScratch()
	x, w, scale, shift, res, out := a.x.Floats(), a.w.Floats(), a.scale.Floats(), a.shift.Floats(), residual(a.res, g.flags), a.out.Floats()
	eachBand(g, lo, hi, func(image, i0, i1 int) {
		operand := s.gather(g, x, image, i0, i1, roundedCopy(g.rounds()))
		if g.isNCHW() {
			s.convolvePlanes(g, operand, w, scale, shift, res, out, image, i0, i1)
		} else {
			s.convolveColumns(g, operand, w, scale, shift, res, out, image, i0, i1)
		}
	})
	s.giveBack()
}

// eachBand divides output rows [lo,hi) of all images into bands of one image, each small enough to gather.
func eachBand(g geometry, lo, hi int, band func(image, i0, i1 int)) {
	most := max(1, (bandValues/(max(1, g.in)*(g.size+2*g.pad()))-g.k)/g.stride+1)
	rows := g.outSize
	if g.isFlat() {
		rows = g.batch * g.outSize
	}
	for lo < hi {
		image, i0 := lo/rows, lo%rows
		i1 := min(rows, i0+hi-lo, i0+most)
		band(image, i0, i1)
		lo += i1 - i0
	}
}

// gather copies the input that rows [i0,i1) of an image's output need, with a border of zeros. The result is
// [rows][size+2 pad][in] in nhwc, [in][rows][size+2 pad] in nchw. In nhwc an input that needs neither border nor
// conversion is used in place.
func (s *scratch) gather(g geometry, x []float32, image, i0, i1 int, convert func(dst, src []float32)) []float32 {
	pad := g.pad()
	x = x[image*g.in*g.size*g.size:]
	limit := g.size
	if g.isFlat() {
		limit = g.batch * g.size
	}
	first, rows, wide := i0*g.stride-pad, (i1-1-i0)*g.stride+g.k, g.size+2*pad
	if pad == 0 && g.rounds() == 0 && !g.isNCHW() {
		return x[first*g.size*g.in:]
	}
	s.x = grow(s.x, rows*wide*g.in)
	outer, inner := 1, g.in
	if g.isNCHW() {
		outer, inner = g.in, 1
	}
	for plane := range outer {
		for r := range rows {
			row := s.x[(plane*rows+r)*wide*inner:][:wide*inner]
			y := first + r
			if y < 0 || y >= limit {
				clear(row)
				continue
			}
			clear(row[:pad*inner])
			convert(row[pad*inner:][:g.size*inner], x[(plane*g.size+y)*g.size*inner:][:g.size*inner])
			clear(row[(pad+g.size)*inner:])
		}
	}
	return s.x
}

// setPlaces records for each output of a band where its operand begins, and its index in the result, and returns the
// number of outputs. inner is the number of values per pixel of the operand, step the distance between outputs.
func (s *scratch) setPlaces(g geometry, image, i0, i1, inner, step int) int {
	n, wide := (i1-i0)*g.outSize, g.size+2*g.pad()
	s.off, s.outOff = grow(s.off, n), grow(s.outOff, n)
	at := 0
	for i := range i1 - i0 {
		for j := range g.outSize {
			s.off[at] = (i*wide + j) * g.stride * inner
			s.outOff[at] = (image*g.pixels() + i0*g.outSize + at) * step
			at++
		}
	}
	return n
}

// convolveColumns computes a band in nhwc. A tile is six outputs by a panel of channels; each row of the operand
// consists of k segments of k*in values.
func (s *scratch) convolveColumns(g geometry, x, w, scale, shift, res, out []float32, image, i0, i1 int) {
	n, panel := s.setPlaces(g, image, i0, i1, g.in, g.out), panelOf(g.out)
	t := &s.tile
	t.A, t.Segs, t.SegLen, t.SegStride, t.Cols = x, g.k, g.k*g.in, (g.size+2*g.pad())*g.in, panel
	for j := 0; j < g.out; j += panel {
		cols := min(panel, g.out-j)
		t.B, t.Scale, t.Shift = w[j*g.depth():], scale[j:], shift[j:]
		t.Out, t.Res, t.Lo = out[j:], nil, g.least()
		if res != nil {
			t.Res = res[j:]
		}
		for p := 0; p < n; p += vec.TileRows {
			s.setRows(p, n)
			if cols < panel {
				s.runPartial(cols, res, out, j, g.least())
				continue
			}
			t.Run()
		}
	}
}

// setRows sets the tile to the outputs from output p on. If there are not enough, it repeats the last one.
func (s *scratch) setRows(p, n int) {
	if p+vec.TileRows <= n {
		s.tile.Off, s.tile.OutOff = [vec.TileRows]int(s.off[p:]), [vec.TileRows]int(s.outOff[p:])
		return
	}
	for r := range vec.TileRows {
		s.tile.Off[r], s.tile.OutOff[r] = s.off[min(p+r, n-1)], s.outOff[min(p+r, n-1)]
	}
}

// runPartial runs a tile of which only cols columns belong to the output.
func (s *scratch) runPartial(cols int, res, out []float32, j int, least float32) {
	t := s.tile
	t.Out, t.Res, t.Lo = s.temp[:], nil, -inf32
	for r := range vec.TileRows {
		t.OutOff[r] = r * t.Cols
	}
	t.Run()
	for r, at := range s.tile.OutOff {
		for c := range cols {
			v := s.temp[r*t.Cols+c]
			if res != nil {
				v += res[at+j+c]
			}
			out[at+j+c] = max(v, least) // max keeps NaN
		}
	}
}

// convolvePlanes computes a band in nchw. A tile is six channels by sixteen outputs, whose operand is gathered to
// [K][16], with K = in*k*k.
func (s *scratch) convolvePlanes(g geometry, x, w, scale, shift, res, out []float32, image, i0, i1 int) {
	n, depth, first := s.setPlaces(g, image, i0, i1, 1, 1), g.depth(), (image*g.out*g.outSize+i0)*g.outSize
	t := &s.tile
	t.A, t.Segs, t.SegLen, t.SegStride, t.Cols = w, 1, depth, 0, 16
	t.Scale, t.Shift, t.Res, t.Lo = s.ones[:], s.zeros[:], nil, -inf32
	for p := 0; p < n; p += 16 {
		cols := min(16, n-p)
		s.packOperand(g, x, (i1-1-i0)*g.stride+g.k, p, cols)
		t.B = s.panel
		for o := 0; o < g.out; o += vec.TileRows {
			t.Out = s.temp[:]
			for r := range vec.TileRows {
				t.Off[r], t.OutOff[r] = min(o+r, g.out-1)*depth, r*16
			}
			t.Run()
			for r := range min(vec.TileRows, g.out-o) {
				at := first + (o+r)*g.pixels() + p
				finishOutputs(out[at:at+cols], s.temp[r*16:], res, at, scale[o+r], shift[o+r], g.least())
			}
		}
	}
}

// finishOutputs writes out = max(scale sum + shift + res, least) for a row.
func finishOutputs(out, sums, res []float32, at int, scale, shift, least float32) {
	sums = sums[:len(out)]
	if res != nil {
		res = res[at:][:len(out)]
		for i, v := range sums {
			out[i] = max(v*scale+shift+res[i], least) // max instead of a branch, which would be mispredicted half the time
		}
		return
	}
	for i, v := range sums {
		out[i] = max(v*scale+shift, least)
	}
}

// packOperand gathers the operand of outputs [p,p+cols) to [K][16].
func (s *scratch) packOperand(g geometry, x []float32, rows, p, cols int) {
	wide := g.size + 2*g.pad()
	s.panel = grow(s.panel, g.depth()*16)
	off := s.off[p : p+cols]
	together := cols == 16 && off[15]-off[0] == 15 // sixteen outputs adjacent in one row
	at := 0
	for c := range g.in {
		for r := range g.k {
			for q := range g.k {
				from, to := x[(c*rows+r)*wide+q:], s.panel[at:at+16]
				at += 16
				if together {
					*(*[16]float32)(to) = [16]float32(from[off[0]:])
					continue
				}
				for i, o := range off {
					to[i] = from[o]
				}
				clear(to[cols:])
			}
		}
	}
}
