package resnet

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

// exactDepth is the number of products of two bytes that a float32 adds without rounding: 1,040 times 127 squared is
// below 2^24.
const exactDepth = 1040

// convInt8Host multiplies bytes as float32, in pieces whose sums are exact, and adds the
// pieces as int32.
func convInt8Host(args *device.Args, lo, hi int) {
	a := device.View[resnetConvInt8View](args)
	g := int8Geometry(a)
	s := takeScratch()
	x, w, out := bytesOf(a.x), bytesOf(a.w), a.sums.Ints()
	weights := widenBytes(s, w, g)
	eachBand(g, lo, hi, func(image, i0, i1 int) {
		operand := gather(s, g, x, image, i0, i1, widenRow)
		if g.isNCHW() {
			s.planesInt8(g, operand, weights, out, image, i0, i1)
		} else {
			s.columnsInt8(g, operand, weights, out, image, i0, i1)
		}
	})
	s.giveBack()
}

func widenRow(dst []float32, src []int8) {
	src = src[:len(dst)]
	for i, v := range src {
		dst[i] = float32(v)
	}
}

// widenBytes returns a convolution's weights as float32.
func widenBytes(s *scratch, w []int8, g geometry) []float32 {
	n := g.depth() * g.out
	if !g.isNCHW() {
		n = g.depth() * paddedChannels(g.out)
	}
	s.weights = grow(s.weights, n)
	widenRow(s.weights, w)
	return s.weights
}

// runExactly runs the tile in pieces and leaves its sums in s.sums [6][Cols].
func (s *scratch) runExactly() {
	t := s.tile
	t.Out, t.Res, t.Lo, t.Scale, t.Shift = s.temp[:], nil, -inf32, s.ones[:], s.zeros[:]
	for r := range vec.TileRows {
		t.OutOff[r] = r * t.Cols
	}
	sums := s.temp[:vec.TileRows*t.Cols]
	s.sums = grow(s.sums, len(sums))
	if t.Segs*t.SegLen <= exactDepth {
		t.Run()
		for i, v := range sums {
			s.sums[i] = int32(v)
		}
		return
	}
	clear(s.sums)
	a, b := t.A, t.B
	segs, length := t.Segs, t.SegLen
	t.Segs = 1
	for seg := range segs {
		for k := 0; k < length; k += exactDepth {
			t.SegLen = min(exactDepth, length-k)
			t.A, t.B = a[seg*t.SegStride+k:], b[(seg*length+k)*t.Cols:]
			t.Run()
			for i, v := range sums {
				s.sums[i] += int32(v)
			}
		}
	}
}

func (s *scratch) columnsInt8(g geometry, x, w []float32, out []int32, image, i0, i1 int) {
	n, panel := s.setPlaces(g, image, i0, i1, g.in, g.out), panelOf(g.out)
	t := &s.tile
	t.A, t.Segs, t.SegLen, t.SegStride, t.Cols = x, g.k, g.k*g.in, (g.size+2*g.pad())*g.in, panel
	for j := 0; j < g.out; j += panel {
		cols := min(panel, g.out-j)
		t.B = w[j*g.depth():]
		for p := 0; p < n; p += vec.TileRows {
			s.setRows(p, n)
			s.runExactly()
			for r, at := range t.OutOff {
				copy(out[at+j:][:cols], s.sums[r*panel:])
			}
		}
	}
}

func (s *scratch) planesInt8(g geometry, x, w []float32, out []int32, image, i0, i1 int) {
	n, depth, first := s.setPlaces(g, image, i0, i1, 1, 1), g.depth(), (image*g.out*g.outSize+i0)*g.outSize
	t := &s.tile
	t.A, t.Segs, t.SegLen, t.SegStride, t.Cols = w, 1, depth, 0, 16
	for p := 0; p < n; p += 16 {
		cols := min(16, n-p)
		s.packOperand(g, x, (i1-1-i0)*g.stride+g.k, p, cols)
		t.B = s.panel
		for o := 0; o < g.out; o += vec.TileRows {
			for r := range vec.TileRows {
				t.Off[r] = min(o+r, g.out-1) * depth
			}
			s.runExactly()
			for r := range min(vec.TileRows, g.out-o) {
				copy(out[first+(o+r)*g.pixels()+p:][:cols], s.sums[r*16:])
			}
		}
	}
}

// directInt8Host sums one output after the other.
func directInt8Host(args *device.Args, lo, hi int) {
	a := device.View[resnetConvInt8View](args)
	g := int8Geometry(a)
	x, w, out := bytesOf(a.x), bytesOf(a.w), a.sums.Ints()
	for ; lo < hi; lo++ {
		image, i := lo/g.outSize, lo%g.outSize
		for j := range g.outSize {
			for o := range g.out {
				at := ((image*g.outSize+i)*g.outSize+j)*g.out + o
				if g.isNCHW() {
					at = ((image*g.out+o)*g.outSize+i)*g.outSize + j
				}
				out[at] = directSum(g, x, w, image, o, i, j)
			}
		}
	}
}

// directSum adds the products of one output; w is [out][K] in nchw, [K][out] in nhwc.
func directSum(g geometry, x, w []int8, image, o, i, j int) int32 {
	var sum int32
	for r := range g.k {
		y := i*g.stride + r - g.pad()
		if y < 0 || y >= g.size {
			continue
		}
		for q := range g.k {
			at := j*g.stride + q - g.pad()
			if at < 0 || at >= g.size {
				continue
			}
			for c := range g.in {
				if g.isNCHW() {
					sum += int32(x[((image*g.in+c)*g.size+y)*g.size+at]) * int32(w[o*g.depth()+(c*g.k+r)*g.k+q])
				} else {
					sum += int32(x[((image*g.size+y)*g.size+at)*g.in+c]) * int32(w[((r*g.k+q)*g.in+c)*g.out+o])
				}
			}
		}
	}
	return sum
}
