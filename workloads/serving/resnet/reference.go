package resnet

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/op"
)

// refPrepare computes Prepare in float64 as [3][image][image]: bilinear interpolation with half-pixel centres,
// clamped edges and no antialiasing, out(i) at (i+0.5) in/out - 0.5; then (v/255 - mean)/std.
func refPrepare(s Shape, image []byte) []float64 {
	n, src, resized := s.Image, s.Source, s.resizedSide()
	out := make([]float64, 3*n*n)
	at := func(i int) (int, int, float64) {
		x := math.Max((float64(i+s.cropOffset())+0.5)*float64(src)/float64(resized)-0.5, 0)
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

// refConvAt computes one output of a convolution of x [in][size][size], before the batch norm:
//
//	sum over c, r, q of x[c, i s + r - k/2, j s + q - k/2] w[o, c, r, q]
//
// norace: one goroutine computes here, so the race detector would only cost time (see op.RefGemm).
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

// refPoolAt returns the maximum of the 3x3 window with stride 2 for output (i,j) of one plane.
func refPoolAt[F float32 | float64](x []F, size, i, j int) float64 {
	best := math.Inf(-1)
	for y := max(2*i-1, 0); y <= min(2*i+1, size-1); y++ {
		for at := max(2*j-1, 0); at <= min(2*j+1, size-1); at++ {
			best = math.Max(best, float64(x[y*size+at])) // max keeps NaN
		}
	}
	return best
}

// planes is an image's channels in float64, [channels][size][size].
type planes struct {
	channels, size int
	v              []float64
}

// refNetwork computes the logits of a prepared image [3][image][image] in float64. It follows the definition at Shape
// rather than Shape.layers, from which the launches are made, so that it also checks that list.
func refNetwork(s Shape, w *Weights, input []float64) Logits {
	rest := w.Layers
	next := func(x planes, out, k, stride int) planes {
		l := rest[0]
		rest = rest[1:]
		return refNormed(x, l, out, k, stride)
	}
	x := planes{3, s.Image, input}
	if s.Image > largeImage {
		x = refPool(refRelu(next(x, s.Width, 7, 2)))
	} else {
		x = refRelu(next(x, s.Width, 3, 1))
	}
	for stage, blocks := range s.Blocks {
		for b := range blocks {
			wide, stride := s.Width<<stage, 1
			if stage > 0 && b == 0 {
				stride = 2
			}
			y, short := refRelu(next(x, wide, 3, stride)), x
			if stride != 1 || x.channels != wide {
				short = next(x, wide, 1, stride)
			}
			y = next(y, wide, 3, 1)
			for i, v := range short.v {
				y.v[i] += v
			}
			x = refRelu(y)
		}
	}
	mean := planes{x.channels, 1, make([]float64, x.channels)}
	for i, v := range x.v {
		mean.v[i/(x.size*x.size)] += v / float64(x.size*x.size)
	}
	terms := refTerms(rest[0].Weight, mean.v)
	return Logits{next(mean, s.Classes, 1, 1).v, terms}
}

// refTerms returns the sum of squares of all terms in the linear layer's sums, for weights w [out][in].
func refTerms[F float32 | float64](w []float32, x []F) float64 {
	sum := 0.0
	for i, v := range w {
		term := float64(v) * float64(x[i%len(x)])
		sum += term * term
	}
	return sum
}

// Logits are the outputs of the reference network, float64.
type Logits struct {
	Values []float64
	terms  float64 // see refTerms
}

// Apart returns ||got-l|| / max(||l||, T), where T is the norm of all terms that the linear layer sums. The terms of a
// logit can cancel, but that does not reduce its rounding error.
func (l Logits) Apart(got []float32) float64 {
	var e op.ErrorNorm
	e.Add(got, l.Values)
	e.Ref = max(e.Ref, l.terms)
	return e.Relative()
}

// refNormed is a convolution with its batch norm, or the linear layer.
//
//go:norace
func refNormed(x planes, l Layer, out, k, stride int) planes {
	c := newConv("", x.channels, out, k, stride, x.size, 0, 0)
	y := planes{out, c.outSize, make([]float64, out*c.pixels())}
	for o := range out {
		plane := y.v[o*c.pixels() : (o+1)*c.pixels()]
		refPlane(c, x.v, l.Weight[o*c.depth():(o+1)*c.depth()], plane)
		scale, shift := l.normOf(o)
		for p, v := range plane {
			plane[p] = v*scale + shift
		}
	}
	return y
}

func refRelu(x planes) planes {
	for i, v := range x.v {
		x.v[i] = math.Max(v, 0)
	}
	return x
}

func refPool(x planes) planes {
	y := planes{x.channels, (x.size-1)/2 + 1, nil}
	for ch := range x.channels {
		for i := range y.size * y.size {
			y.v = append(y.v, refPoolAt(x.v[ch*x.size*x.size:][:x.size*x.size], x.size, i/y.size, i%y.size))
		}
	}
	return y
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
