package resnet

import (
	"math"
	"unsafe"

	"github.com/gpuprof/gpuprof/workloads/op"
)

// int8 compares a convolution over bytes: the batch's scale, the bytes and their sums of products exactly, and the
// conversion to float32 from those sums.
func (c *checker) int8(gr *group) error {
	cv, sl := gr.layer.conv, &c.n.slots[c.slot]
	given, err := c.readOutputs(cv)
	if err != nil {
		return err
	}
	in, n := cv.in*cv.size*cv.size, cv.pixels()
	words, err := op.Receive(c.n.dev, c.s, sl.q, 0, (len(c.ids)*in+3)/4)
	if err != nil {
		return err
	}
	sums, err := op.Receive(c.n.dev, c.s, sl.sums, 0, len(c.ids)*cv.out*n)
	if err != nil {
		return err
	}
	most, err := op.Receive(c.n.dev, c.s, sl.most, 0, 1)
	if err != nil {
		return err
	}
	q := unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(words))), len(c.ids)*in)
	e := &c.errs[gr.Kind]
	if !quantisedRight(given.x, most[0], c.planesOf(q, cv.in, cv.size*cv.size)) {
		e.Diff = math.Inf(1)
	}
	bytes, integers := c.planesOf(q, cv.in, cv.size*cv.size), c.planesOfSums(sums, cv)
	_, steps := quantiseWeights(c.n.w.Layers[gr.index].foldNorm(cv, c.n.o.BN == Fold).weight, cv)
	for _, row := range c.pickOutputs(gr.Kind, cv) {
		image, p := row/n, row%n
		for o := range cv.out {
			got := integers[image][o*n+p]
			if got != c.sum(gr.index, cv, bytes[image], o, p) {
				e.Diff = math.Inf(1)
			}
			v := float64(got) * float64(most[0]) / 127 * float64(steps[o])
			e.Add(given.out[image][o*n+p:][:1], []float64{c.endInt8(gr, v, o, image, p, given)})
		}
	}
	return nil
}

// endInt8 computes the end of a layer in float64; with bn=fold the weights already include the norm's scale.
func (c *checker) endInt8(gr *group, v float64, o, image, p int, given outputs) float64 {
	cv := gr.layer.conv
	if !c.endsLayer(cv) {
		return v
	}
	scale, shift := c.n.w.Layers[gr.index].normOf(o)
	if c.n.o.BN == Fold {
		scale = 1
	}
	v = v*scale + shift
	if cv.res >= 0 {
		v += float64(given.res[image][o*cv.pixels()+p])
	}
	if cv.relu {
		v = math.Max(v, 0)
	}
	return v
}

// quantisedRight reports whether most is the largest |x| and every byte is x rounded by it.
func quantisedRight(x [][]float32, most float32, q [][]int8) bool {
	largest := float32(0)
	for _, image := range x {
		for _, v := range image {
			largest = max(largest, float32(math.Abs(float64(v))))
		}
	}
	if largest != most { // not a number is never equal
		return false
	}
	inverse := inverseOf(most)
	for i, image := range x {
		for k, v := range image {
			if q[i][k] != quantise(float32(v*inverse)) {
				return false
			}
		}
	}
	return true
}

// planesOf cuts bytes into images in planes.
func (c *checker) planesOf(q []int8, channels, pixels int) [][]int8 {
	var out [][]int8
	for i := range c.ids {
		v := q[i*channels*pixels:][:channels*pixels]
		if c.n.o.Layout == NHWC {
			turned := make([]int8, len(v))
			for p := range pixels {
				for ch := range channels {
					turned[ch*pixels+p] = v[p*channels+ch]
				}
			}
			v = turned
		}
		out = append(out, v)
	}
	return out
}

// planesOfSums cuts integers, read as words, into images in planes.
func (c *checker) planesOfSums(sums []float32, cv conv) [][]int32 {
	var out [][]int32
	for i := range c.ids {
		planes := c.imagePlanes(sums, i, cv.out, cv.pixels())
		out = append(out, unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(planes))), len(planes)))
	}
	return out
}

// sum computes one output's integer by the formula.
func (c *checker) sum(index int, cv conv, x []int8, o, p int) int32 {
	g := geometry{batch: 1, in: cv.in, out: cv.out, k: cv.k, stride: cv.stride, size: cv.size, outSize: cv.outSize, flags: flagNCHW}
	return directSum(g, x, c.n.kept[index], 0, o, p/cv.outSize, p%cv.outSize)
}
