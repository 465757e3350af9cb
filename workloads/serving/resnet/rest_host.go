package resnet

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

// directHost computes each output in an accumulator of its own, one weight at a time. In nhwc it computes all channels
// of a pixel together, in nchw a row of pixels of one channel.
func directHost(args *device.Args, lo, hi int) {
	a := device.View[resnetConvView](args)
	g := convGeometry(a)
	s := takeScratch()
	x, w, scale, shift, res, out := a.x.Floats(), a.w.Floats(), a.scale.Floats(), a.shift.Floats(), residual(a.res, g.flags), a.out.Floats()
	eachBand(g, lo, hi, func(image, i0, i1 int) {
		operand := s.gather(g, x, image, i0, i1, roundedCopy(g.rounds()))
		if !g.isNCHW() {
			s.directPixels(g, operand, w, scale, shift, res, out, image, i0, i1)
			return
		}
		rows, wide := (i1-1-i0)*g.stride+g.k, g.size+2*g.pad()
		s.panel = grow(s.panel, g.outSize)
		for o := range g.out {
			for i := range i1 - i0 {
				clear(s.panel)
				for tap := range g.depth() {
					c, r, q := tap/(g.k*g.k), tap/g.k%g.k, tap%g.k
					addRow(s.panel, w[o*g.depth()+tap], operand[(c*rows+i*g.stride+r)*wide+q:], g.stride)
				}
				at := ((image*g.out+o)*g.outSize + i0 + i) * g.outSize
				finishOutputs(out[at:at+g.outSize], s.panel, res, at, scale[o], shift[o], g.least())
			}
		}
	})
	s.giveBack()
}

func addRow(sums []float32, w float32, x []float32, stride int) {
	if stride == 1 {
		vec.Axpy(w, x[:len(sums)], sums)
		return
	}
	for j := range sums {
		sums[j] += w * x[j*stride]
	}
}

func (s *scratch) directPixels(g geometry, x, w, scale, shift, res, out []float32, image, i0, i1 int) {
	n, line := s.setPlaces(g, image, i0, i1, g.in, g.out), (g.size+2*g.pad())*g.in
	s.panel = grow(s.panel, g.out)
	for p := range n {
		clear(s.panel)
		for r := range g.k {
			for k, v := range x[s.off[p]+r*line:][:g.k*g.in] {
				vec.Axpy(v, w[(r*g.k*g.in+k)*g.out:][:g.out], s.panel)
			}
		}
		at := s.outOff[p]
		for o, v := range s.panel {
			v = v*scale[o] + shift[o]
			if res != nil {
				v += res[at+o]
			}
			out[at+o] = max(v, g.least())
		}
	}
}

func im2colHost(args *device.Args, lo, hi int) {
	a := device.View[resnetIm2colView](args)
	g, x, cols := im2colGeometry(a), a.x.Floats(), a.cols.Floats()
	for ; lo < hi; lo++ {
		image, i := lo/g.outSize, lo%g.outSize
		for j := range g.outSize {
			if g.isNCHW() {
				im2colPlanes(g, x, cols, image, i, j)
			} else {
				im2colPixel(g, x, cols, image, i, j)
			}
		}
	}
}

func im2colPixel(g geometry, x, cols []float32, image, i, j int) {
	to := cols[((image*g.outSize+i)*g.outSize+j)*g.depth():][:g.depth()]
	for tap := range g.k * g.k {
		y, at := i*g.stride+tap/g.k-g.pad(), j*g.stride+tap%g.k-g.pad()
		part := to[tap*g.in : (tap+1)*g.in]
		if y < 0 || y >= g.size || at < 0 || at >= g.size {
			clear(part)
			continue
		}
		copy(part, x[((image*g.size+y)*g.size+at)*g.in:][:g.in])
	}
}

func im2colPlanes(g geometry, x, cols []float32, image, i, j int) {
	for k := range g.depth() {
		c, r, q := k/(g.k*g.k), k/g.k%g.k, k%g.k
		y, at := i*g.stride+r-g.pad(), j*g.stride+q-g.pad()
		var v float32
		if y >= 0 && y < g.size && at >= 0 && at < g.size {
			v = x[((image*g.in+c)*g.size+y)*g.size+at]
		}
		cols[((image*g.depth()+k)*g.outSize+i)*g.outSize+j] = v
	}
}

func channelOf(i, channels, pixels, flags int) int {
	if flags&flagNCHW != 0 {
		return i / pixels % channels
	}
	return i % channels
}

// eachRun divides values [lo,hi) into runs that share one channel (nchw), or that have successive channels (nhwc).
func eachRun(lo, hi, channels, pixels, flags int, run func(lo, hi, channel int)) {
	whole := channels
	if flags&flagNCHW != 0 {
		whole = pixels
	}
	for lo < hi {
		next := min(hi, (lo/whole+1)*whole)
		run(lo, next, channelOf(lo, channels, pixels, flags))
		lo = next
	}
}

func normHost(args *device.Args, lo, hi int) {
	a := device.View[resnetNormView](args)
	x, scale, shift, flags := a.x.Floats(), a.scale.Floats(), a.shift.Floats(), a.flags.Int()
	res, least := residual(a.res, flags), geometry{flags: flags}.least()
	eachRun(lo, hi, a.channels.Int(), a.pixels.Int(), flags, func(lo, hi, ch int) {
		var added []float32
		if res != nil {
			added = res[lo:hi]
		}
		if flags&flagNCHW != 0 {
			finishOutputs(x[lo:hi], x[lo:hi], added, 0, scale[ch], shift[ch], least)
			return
		}
		finishRow(x[lo:hi], added, scale[ch:], shift[ch:], least)
	})
}

// finishRow applies finishOutputs in place to a row of successive channels.
func finishRow(x, res, scale, shift []float32, least float32) {
	scale, shift = scale[:len(x)], shift[:len(x)]
	if res == nil {
		for i, v := range x {
			x[i] = max(v*scale[i]+shift[i], least)
		}
		return
	}
	res = res[:len(x)]
	for i, v := range x {
		x[i] = max(v*scale[i]+shift[i]+res[i], least)
	}
}

func poolHost(args *device.Args, lo, hi int) {
	a := device.View[resnetPoolView](args)
	x, out, channels, size, outSize := a.x.Floats(), a.out.Floats(), a.channels.Int(), a.size.Int(), a.outSize.Int()
	nchw := a.flags.Int()&flagNCHW != 0
	plane := outSize * outSize
	for n := lo; n < hi; n++ {
		image, ch, p := n/(plane*channels), n%channels, n/channels%plane
		base, step := image*size*size*channels+ch, channels
		if nchw {
			ch, p = n/plane%channels, n%plane
			base, step = (image*channels+ch)*size*size, 1
		}
		i, j := p/outSize, p%outSize
		best := -inf32
		for y := max(2*i-1, 0); y <= min(2*i+1, size-1); y++ {
			for q := max(2*j-1, 0); q <= min(2*j+1, size-1); q++ {
				if v := x[base+(y*size+q)*step]; !(v <= best) { // true for NaN, which then stays
					best = v
				}
			}
		}
		out[n] = best
	}
}

func meanHost(args *device.Args, lo, hi int) {
	a := device.View[resnetMeanView](args)
	x, out, channels, pixels := a.x.Floats(), a.out.Floats(), a.channels.Int(), a.pixels.Int()
	base, step := func(n int) int { return n/channels*channels*pixels + n%channels }, channels
	if a.flags.Int()&flagNCHW != 0 {
		base, step = func(n int) int { return n * pixels }, 1
	}
	for n := lo; n < hi; n++ {
		sum, at := float32(0), base(n)
		for p := range pixels {
			sum += x[at+p*step]
		}
		out[n] = sum / float32(pixels)
	}
}

func prepareHost(args *device.Args, lo, hi int) {
	a := device.View[resnetPrepareView](args)
	images, out := a.images.Bytes(), a.out.Floats()
	source, size, resized, crop, nhwc := a.source.Int(), a.size.Int(), a.resized.Int(), a.crop.Int(), a.flags.Int()&flagNCHW == 0
	for lo < hi {
		image, i := lo/size, lo%size
		next := min(size, i+hi-lo)
		prepareRows(out[image*3*size*size:], images[image*3*source*source:], source, size, resized, crop, nhwc, i, next)
		lo += next - i
	}
}
