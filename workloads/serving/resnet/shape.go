// Package resnet is the network of an inference service: images are resized and cropped, and a residual network
// classifies them. A Net takes batches in slots; it has neither a queue nor a clock.
//
// Read top down: shape.go defines the network, weights.go and image.go draw its data, options.go chooses the
// implementation, net.go allocates and enqueues, plan.go lists the launches, describe.go describes a run, check.go
// compares with the float64 formulas of reference.go.
package resnet

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Shape defines the network. Width is the number of channels in the first stage. Stage s has Width<<s channels and
// Blocks[s] basic blocks; the first block of each stage after the first has stride 2. For images above 64 pixels the
// stem is 7x7 with stride 2 and a 3x3 max pooling with stride 2, else 3x3 with stride 1.
type Shape struct {
	Source  int `knob:"source"`
	Image   int `knob:"image"`
	Width   int `knob:"width"`
	Blocks  []int
	Classes int `knob:"classes"`
}

// Small is a network for a machine of two cores.
func Small() Shape {
	return Shape{Source: 32, Image: 16, Width: 8, Blocks: []int{1, 1, 1}, Classes: 10}
}

// Cifar is a residual network of 20 layers for images of 32 pixels.
func Cifar() Shape {
	return Shape{Source: 40, Image: 32, Width: 16, Blocks: []int{3, 3, 3}, Classes: 10}
}

// RxVision is ResNet-18.
func RxVision() Shape {
	return Shape{Source: 256, Image: 224, Width: 64, Blocks: []int{2, 2, 2, 2}, Classes: 1000}
}

// The largest value of each size. With these, every index into the arrays of a batch of one is below 2^31;
// Options.Refuse checks larger batches.
const (
	MostSide    = 1024
	MostWidth   = 1024
	mostStages  = 6
	mostBlocks  = 64
	MostClasses = 1 << 16
	largeImage  = 64 // largest image, in pixels a side, with the small stem
)

// Check returns an error for an impossible shape.
func (s Shape) Check() error {
	for _, v := range []struct {
		name        string
		value, most int
	}{{"source", s.Source, MostSide}, {"image", s.Image, MostSide}, {"width", s.Width, MostWidth}, {"classes", s.Classes, MostClasses}} {
		if v.value < 1 || v.value > v.most {
			return refuse(fmt.Sprintf("use 1 to %d", v.most), "setting %s=%d: it is out of range", v.name, v.value)
		}
	}
	if len(s.Blocks) < 1 || len(s.Blocks) > mostStages || slices.Min(s.Blocks) < 1 || slices.Max(s.Blocks) > mostBlocks {
		return refuse(fmt.Sprintf("use 1 to %d numbers from 1 to %d, such as 2-2-2-2", mostStages, mostBlocks), "setting blocks=%s: a network has blocks in each of its stages", s.BlocksText())
	}
	if last := s.Width << (len(s.Blocks) - 1); last > 1<<14 {
		return refuse("use a smaller width or fewer stages", "setting width=%d with blocks=%s: the last stage has %d channels, more than %d", s.Width, s.BlocksText(), last, 1<<14)
	}
	return nil
}

func refuse(fix, format string, args ...any) error {
	return gpuprof.Errorf(gpuprof.ErrUsage, format, args...).WithFix("%s", fix)
}

// BlocksText returns Blocks in the form that ParseBlocks reads.
func (s Shape) BlocksText() string {
	var b []string
	for _, n := range s.Blocks {
		b = append(b, strconv.Itoa(n))
	}
	return strings.Join(b, "-")
}

// ParseBlocks reads numbers separated by hyphens, such as 2-2-2-2.
func ParseBlocks(text string) ([]int, error) {
	var out []int
	for _, part := range strings.Split(text, "-") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 || n > mostBlocks || len(out) == mostStages {
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading blocks %q: it is no list of at most %d numbers from 1 to %d", text, mostStages, mostBlocks).WithFix("write for example 2-2-2-2")
		}
		out = append(out, n)
	}
	return out, nil
}

// conv is a convolution with a batch norm after it, or the linear layer: a 1x1 convolution of one pixel with a bias.
type conv struct {
	name            string
	in, out         int // channels
	k, stride       int
	size, outSize   int // pixels a side
	src, dst, res   int // indices of the activations read, written and added (-1 for none)
	relu, isLinear  bool
	multiplyAddsOne int64
}

// depth returns the number of weights for one output channel.
func (c conv) depth() int { return c.in * c.k * c.k }

func (c conv) pixels() int { return c.outSize * c.outSize }

type layer struct {
	kind Kind
	conv conv // Conv, Linear
	// Set for Pool and Mean.
	src, dst, channels, size, outSize int
}

// Indices of a slot's activations. The blocks use indices 0 to 3 in turn.
const (
	actInput = 4 // the prepared image
	actStem  = 5 // the stem's output before a pooling
	actMean  = 6
	actLogit = 7
	actCount = 8
)

// Kind is the kind of a group of launches.
type Kind int

// Kinds of groups, in the order of a batch.
const (
	Prepare Kind = iota
	Conv
	Norm
	Pool
	Mean
	Linear
	kindCount
)

func (k Kind) String() string {
	return [kindCount]string{"prepare", "conv", "norm", "pool", "mean", "linear"}[k]
}

func (s Shape) isLarge() bool { return s.Image > largeImage }

func newConv(name string, in, out, k, stride, size, src, dst int) conv {
	c := conv{name: name, in: in, out: out, k: k, stride: stride, size: size, outSize: (size-1)/stride + 1, src: src, dst: dst, res: -1}
	c.multiplyAddsOne = int64(c.pixels()) * int64(out) * int64(c.depth())
	return c
}

// layers lists the layers of the network. The input of a block is the activation with index x; its intermediate
// results use the other three of the indices 0 to 3.
func (s Shape) layers() []layer {
	var out []layer
	add := func(c conv) { out = append(out, layer{kind: Conv, conv: c}) }
	x, size, channels := 0, s.Image, s.Width
	stem := newConv("stem", 3, s.Width, 3, 1, size, actInput, x)
	if s.isLarge() {
		stem = newConv("stem", 3, s.Width, 7, 2, size, actInput, actStem)
	}
	stem.relu = true
	add(stem)
	size = stem.outSize
	if s.isLarge() {
		out = append(out, layer{kind: Pool, src: actStem, dst: x, channels: channels, size: size, outSize: (size-1)/2 + 1})
		size = (size-1)/2 + 1
	}
	for stage, blocks := range s.Blocks {
		for b := range blocks {
			wide, stride := s.Width<<stage, 1
			if stage > 0 && b == 0 {
				stride = 2
			}
			name := fmt.Sprintf("stage%d.%d.", stage+1, b)
			mid, side, next := (x+1)%4, (x+2)%4, (x+3)%4
			first := newConv(name+"conv1", channels, wide, 3, stride, size, x, mid)
			first.relu = true
			add(first)
			res := x
			if stride != 1 || channels != wide {
				add(newConv(name+"shortcut", channels, wide, 1, stride, size, x, side))
				res = side
			}
			second := newConv(name+"conv2", wide, wide, 3, 1, first.outSize, mid, next)
			second.res, second.relu = res, true
			add(second)
			x, size, channels = next, first.outSize, wide
		}
	}
	out = append(out, layer{kind: Mean, src: x, dst: actMean, channels: channels, size: size, outSize: 1})
	lin := newConv("linear", channels, s.Classes, 1, 1, 1, actMean, actLogit)
	lin.isLinear = true
	return append(out, layer{kind: Linear, conv: lin})
}

func (s Shape) convolutions() []conv {
	var out []conv
	for _, l := range s.layers() {
		if l.kind == Conv || l.kind == Linear {
			out = append(out, l.conv)
		}
	}
	return out
}

// MultiplyAdds returns the number of multiply-adds for one image.
func (s Shape) MultiplyAdds() int64 {
	var n int64
	for _, c := range s.convolutions() {
		n += c.multiplyAddsOne
	}
	return n
}

// Parameters counts the weights, the scale and shift of every batch norm, and the bias of the linear layer.
func (s Shape) Parameters() int64 {
	var n int64
	for _, c := range s.convolutions() {
		n += int64(c.out) * int64(c.depth())
		if c.isLinear {
			n += int64(c.out)
		} else {
			n += 2 * int64(c.out)
		}
	}
	return n
}

// Activations returns the number of values that the convolutions produce for one image.
func (s Shape) Activations() int64 {
	var n int64
	for _, c := range s.convolutions() {
		if !c.isLinear {
			n += int64(c.out) * int64(c.pixels())
		}
	}
	return n
}

// actWords returns, for each activation, the number of values of one image.
func (s Shape) actWords() [actCount]int {
	var n [actCount]int
	n[actInput] = 3 * s.Image * s.Image
	for _, l := range s.layers() {
		switch l.kind {
		case Conv, Linear:
			n[l.conv.dst] = max(n[l.conv.dst], l.conv.out*l.conv.pixels())
		default:
			n[l.dst] = max(n[l.dst], l.channels*l.outSize*l.outSize)
		}
	}
	return n
}

// resizedSide returns the shorter side after resizing: 8/7 of the crop, rounded to the nearest pixel.
func (s Shape) resizedSide() int { return (16*s.Image + 7) / 14 }

func (s Shape) cropOffset() int { return (s.resizedSide() - s.Image) / 2 }

const normEps = 1e-5

var inf32 = float32(math.Inf(1))
