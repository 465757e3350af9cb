package resnet

import (
	"math"
	"math/rand/v2"

	"github.com/gpuprof/gpuprof"
)

// Weights are a network's parameters: one Layer for each name in Shape.Names.
type Weights struct{ Layers []Layer }

// Layer holds the parameters of a convolution (Weight [out,in,k,k] and the batch norm after it) or of the linear
// layer (Weight and Bias).
type Layer struct {
	Weight                  []float32
	Scale, Shift, Mean, Var []float32 // of the batch norm, [out]
	Bias                    []float32 // of the linear layer, [out]
}

// Names returns the names of the convolutions and of the linear layer, in the order of Weights.
func (s Shape) Names() []string {
	var out []string
	for _, c := range s.convolutions() {
		out = append(out, c.name)
	}
	return out
}

// DrawWeights draws normal weights with variance 2/(in k k). Batch norms have normal means and shifts with deviation
// 0.1, variances from 0.5 to 2 and scales from 0.5 to 1.5.
func (s Shape) DrawWeights(seed uint64) *Weights {
	rng := rand.New(rand.NewPCG(seed, 0x7265736e6574))
	normal := func(n int, deviation float64) []float32 {
		out := make([]float32, n)
		for i := range out {
			out[i] = float32(deviation * rng.NormFloat64())
		}
		return out
	}
	uniform := func(n int, lo, hi float64) []float32 {
		out := make([]float32, n)
		for i := range out {
			out[i] = float32(lo + (hi-lo)*rng.Float64())
		}
		return out
	}
	w := &Weights{}
	for _, c := range s.convolutions() {
		l := Layer{Weight: normal(c.out*c.depth(), math.Sqrt(2/float64(c.depth())))}
		if c.isLinear {
			l.Bias = normal(c.out, 0.1)
		} else {
			l.Scale, l.Shift = uniform(c.out, 0.5, 1.5), normal(c.out, 0.1)
			l.Mean, l.Var = normal(c.out, 0.1), uniform(c.out, 0.5, 2)
		}
		w.Layers = append(w.Layers, l)
	}
	return w
}

func (w *Weights) checkSizes(s Shape) error {
	convs := s.convolutions()
	if len(w.Layers) != len(convs) {
		return gpuprof.Errorf(gpuprof.ErrInput, "opening the network: %d layers have weights, it has %d", len(w.Layers), len(convs)).WithFix("give weights of the shape")
	}
	for i, c := range convs {
		l := w.Layers[i]
		arrays := map[string][2]int{"weight": {len(l.Weight), c.out * c.depth()}}
		if c.isLinear {
			arrays["bias"] = [2]int{len(l.Bias), c.out}
		} else {
			arrays["scale"], arrays["shift"] = [2]int{len(l.Scale), c.out}, [2]int{len(l.Shift), c.out}
			arrays["mean"], arrays["variance"] = [2]int{len(l.Mean), c.out}, [2]int{len(l.Var), c.out}
		}
		for _, name := range []string{"weight", "bias", "scale", "shift", "mean", "variance"} {
			if a, used := arrays[name]; used && a[0] != a[1] {
				return gpuprof.Errorf(gpuprof.ErrInput, "opening the network: the %s of %s has %d values, it needs %d", name, c.name, a[0], a[1]).WithFix("give arrays of the shape's sizes")
			}
		}
	}
	return nil
}

// normOf returns the batch norm of a layer's output channel o in float64, as y = scale x + shift. scale is
// Scale/sqrt(var+eps) and shift is Shift - mean Scale/sqrt(var+eps). The linear layer has scale 1, and its bias as
// shift.
func (l Layer) normOf(o int) (scale, shift float64) {
	if l.Bias != nil {
		return 1, float64(l.Bias[o])
	}
	return affine(float64(l.Scale[o]), float64(l.Shift[o]), float64(l.Mean[o]), float64(l.Var[o]))
}

func affine(scale, shift, mean, variance float64) (factor, summand float64) {
	factor = scale / math.Sqrt(variance+normEps)
	return factor, shift - mean*factor
}

// prepared holds a layer's parameters in the form that kernels take.
type prepared struct {
	weight       []float32 // [out][in][k][k], with the norm folded in if requested
	scale, shift []float32 // for the epilogue or the norm's own kernel
}

// foldNorm folds the norm into the weights in float64 if fold is set; otherwise it returns the norm as scale and shift.
func (l Layer) foldNorm(c conv, fold bool) prepared {
	p := prepared{weight: l.Weight, scale: make([]float32, c.out), shift: make([]float32, c.out)}
	depth := c.depth()
	if fold {
		p.weight = make([]float32, len(l.Weight))
	}
	for o := range c.out {
		scale, shift := l.normOf(o)
		p.scale[o], p.shift[o] = float32(scale), float32(shift)
		if !fold {
			continue
		}
		p.scale[o] = 1
		for i, v := range l.Weight[o*depth : (o+1)*depth] {
			p.weight[o*depth+i] = float32(float64(v) * scale)
		}
	}
	return p
}

// panelOf returns the number of adjacent output channels in a panel of packed weights.
func panelOf(out int) int {
	if out <= 8 {
		return 8
	}
	return 16
}

// paddedChannels returns out rounded up to whole panels.
func paddedChannels(out int) int {
	p := panelOf(out)
	return (out + p - 1) / p * p
}

// columnOrder lists, for each position in a column of the matrix product's operand, the index in [in][k][k]. The order
// is (c,r,q) for nchw, (r,q,c) for nhwc.
func (c conv) columnOrder(nhwc bool) []int {
	out := make([]int, 0, c.depth())
	if !nhwc {
		for i := range c.depth() {
			out = append(out, i)
		}
		return out
	}
	for tap := range c.k * c.k {
		for ch := range c.in {
			out = append(out, ch*c.k*c.k+tap)
		}
	}
	return out
}

// arrangeWeights reorders weights [out][in][k][k] for an implementation. By form these are panels [out/P][K][P], rows
// [out][K], or columns [K][out].
func arrangeWeights(w []float32, c conv, form int, nhwc bool) []float32 {
	order := c.columnOrder(nhwc)
	depth := len(order)
	channels, place := c.out, func(o, k int) int { return o*depth + k }
	switch form {
	case formPanels:
		p := panelOf(c.out)
		channels, place = paddedChannels(c.out), func(o, k int) int { return (o/p*depth+k)*p + o%p }
	case formColumns:
		place = func(o, k int) int { return k*c.out + o }
	}
	out := make([]float32, channels*depth)
	for o := range c.out {
		for k, at := range order {
			out[place(o, k)] = w[o*depth+at]
		}
	}
	return out
}

// Memory orders of weights.
const (
	formPanels  = iota // nhwc: our own product
	formRows           // nchw
	formColumns        // nhwc: a library's product, or direct
)
