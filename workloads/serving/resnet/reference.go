package resnet

import "math"

// refPrepare is Prepare in float64, [3][image][image]: bilinear with half-pixel centres, no
// antialiasing and clamped edges, out(i) at (i+0.5) in/out - 0.5; then (v/255 - mean)/std.
func refPrepare(s Shape, image []byte) []float64 {
	n, src, resized := s.Image, s.Source, s.resized()
	out := make([]float64, 3*n*n)
	at := func(i int) (int, int, float64) {
		x := math.Max((float64(i+s.crop())+0.5)*float64(src)/float64(resized)-0.5, 0)
		lo := math.Min(math.Floor(x), float64(src-1))
		return int(lo), min(int(lo)+1, src-1), x - lo
	}
	for c := range 3 {
		for i := range n {
			y0, y1, fy := at(i)
			for j := range n {
				x0, x1, fx := at(j)
				v := func(y, x int) float64 { return float64(image[(y*src+x)*3+c]) }
				top, low := v(y0, x0)*(1-fx)+v(y0, x1)*fx, v(y1, x0)*(1-fx)+v(y1, x1)*fx
				out[(c*n+i)*n+j] = ((top*(1-fy)+low*fy)/255 - channelMean[c]) / channelDeviation[c]
			}
		}
	}
	return out
}

// refConvAt is one output of a convolution of x [in][size][size], before the batch norm:
//
//	sum over c, r, q of x[c, i s + r - k/2, j s + q - k/2] w[o, c, r, q]
//
// One goroutine computes here, so the race detector would only take time (see op.RefGemm).
//
//go:norace
func refConvAt[F float32 | float64](c conv, x []F, w []float32, o, i, j int) float64 {
	sum, pad, depth := 0.0, c.k/2, c.depth()
	w = w[o*depth : (o+1)*depth]
	for ch := range c.in {
		for r := range c.k {
			y := i*c.stride + r - pad
			if y < 0 || y >= c.size {
				continue
			}
			row := x[(ch*c.size+y)*c.size:][:c.size]
			taps := w[(ch*c.k+r)*c.k:][:c.k]
			for q, v := range taps {
				if at := j*c.stride + q - pad; at >= 0 && at < c.size {
					sum += float64(row[at]) * float64(v)
				}
			}
		}
	}
	return sum
}

// refPoolAt is the maximum of the 3x3 window of stride 2 around an output, of one plane.
func refPoolAt[F float32 | float64](x []F, size, i, j int) float64 {
	best := math.Inf(-1)
	for y := max(2*i-1, 0); y <= min(2*i+1, size-1); y++ {
		for at := max(2*j-1, 0); at <= min(2*j+1, size-1); at++ {
			best = math.Max(best, float64(x[y*size+at])) // not a number stays one
		}
	}
	return best
}

// refNetwork is the whole network in float64: the logits of a prepared image [3][image][image].
//
//go:norace
func refNetwork(s Shape, w *Weights, input []float64) []float64 {
	var acts [actCount][]float64
	acts[actInput] = input
	at := 0
	for _, l := range s.layers() {
		switch l.kind {
		case Conv, Linear:
			acts[l.conv.dst] = refLayer(l.conv, w.Layers[at], acts[:])
			at++
		case Pool:
			out := make([]float64, l.channels*l.outSize*l.outSize)
			for i := range out {
				ch, y, x := i/(l.outSize*l.outSize), i/l.outSize%l.outSize, i%l.outSize
				out[i] = refPoolAt(acts[l.src][ch*l.size*l.size:], l.size, y, x)
			}
			acts[l.dst] = out
		case Mean:
			acts[l.dst] = make([]float64, l.channels)
			plane := l.size * l.size
			for ch := range l.channels {
				for _, v := range acts[l.src][ch*plane : (ch+1)*plane] {
					acts[l.dst][ch] += v / float64(plane)
				}
			}
		}
	}
	return acts[actLogit]
}

//go:norace
func refLayer(c conv, l Layer, acts [][]float64) []float64 {
	n := c.pixels()
	out := make([]float64, c.out*n)
	for o := range c.out {
		plane := out[o*n : (o+1)*n]
		refPlane(c, acts[c.src], l.Weight[o*c.depth():(o+1)*c.depth()], plane)
		scale, shift := l.norm(o)
		for p, v := range plane {
			v = v*scale + shift
			if c.res >= 0 {
				v += acts[c.res][o*n+p]
			}
			if c.relu {
				v = math.Max(v, 0)
			}
			plane[p] = v
		}
	}
	return out
}

// refPlane is refConvAt for all outputs of a channel, a weight at a time.
//
//go:norace
func refPlane(c conv, x []float64, w []float32, plane []float64) {
	pad := c.k / 2
	for tap, weight := range w {
		ch, r, q := tap/(c.k*c.k), tap/c.k%c.k, tap%c.k
		for i := range c.outSize {
			y := i*c.stride + r - pad
			if y < 0 || y >= c.size {
				continue
			}
			row, sums := x[(ch*c.size+y)*c.size:][:c.size], plane[i*c.outSize:][:c.outSize]
			first := (max(0, pad-q) + c.stride - 1) / c.stride
			for j, at := first, first*c.stride+q-pad; j < c.outSize && at < c.size; j, at = j+1, at+c.stride {
				sums[j] += float64(weight) * row[at]
			}
		}
	}
}
