package resnet

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"unsafe"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

const (
	// tolerance is the largest relative error of a batch norm and of the mean, which round to float32.
	tolerance = 1e-5
	// prepareTolerance is the largest relative error of preprocessed pixels; a pixel takes two products and a sum of
	// bytes.
	prepareTolerance = 1e-6
	// sampledRows is the number of outputs of a convolution that are checked where all of them take too long.
	sampledRows = 64
	// wholeMultiplyAdds is the number of multiply-adds up to which all outputs are checked: half a second on one core.
	wholeMultiplyAdds = 3e8
)

// checker runs one batch of images through a slot, one group of launches at a time. It compares each output with
// float64 results from the group's own inputs. Errs has an element per kind of group.
type checker struct {
	op.Checker
	n    *Net
	slot int
	ids  []int
	rng  *rand.Rand
	rows [kindCount][2]int // per kind: number of outputs compared, and of all outputs
}

func (n *Net) newChecker(s device.Stream, slot int, ids []int) *checker {
	return &checker{
		Checker: op.Checker{Mem: &n.mem, Stream: s, Errs: make([]op.ErrorNorm, kindCount)},
		n:       n, slot: slot, ids: ids, rng: rand.New(rand.NewPCG(n.o.Seed, 11)),
	}
}

// Check fills a slot with the images ids and compares every group with float64 results. It also compares the logits of
// the first image with the float64 network. It returns one check for each kind of group. The stream must be idle.
func (n *Net) Check(ctx context.Context, s device.Stream, slot int, ids []int) ([]gpuprof.Check, error) {
	if slot < 0 || slot >= len(n.slots) || len(ids) < 1 || len(ids) > n.o.MaxBatch {
		return nil, unknownSlot(slot, len(ids), n.o)
	}
	c := n.newChecker(s, slot, ids)
	if c.fillSlot(); n.o.Preprocess == OnHost { // the images arrive preprocessed
		c.checkPrepared()
	}
	if c.Err != nil {
		return nil, c.Err
	}
	for g := range n.groups {
		if c.checkGroup(&n.groups[g], g); c.Err != nil {
			return c.stageChecks(), fmt.Errorf("checking %s: %w", n.groups[g].Name, c.Err)
		}
		if err := ctx.Err(); err != nil {
			return c.stageChecks(), err
		}
	}
	got := c.Read(n.Logits(slot), 0, n.o.Classes)
	want, err := n.Reference(ctx, ids[0])
	if c.Stops(err) {
		return c.stageChecks(), c.Err
	}
	return append(c.stageChecks(), loop.CheckOf("logits", want.Apart(got), n.Tolerance(), 1, len(ids))), nil
}

// fillSlot sends the images to the slot. It fills all other memory of the slot with NaN, so that the check finds an
// output that a group does not write.
func (c *checker) fillSlot() {
	sl, size := &c.n.slots[c.slot], c.n.InputBytes()
	c.Stops(op.Poison(c.n.dev, c.Stream, append(sl.act[:], sl.raw, sl.cols, sl.sums)...))
	in := make([]float32, (len(c.ids)*size+3)/4)
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(in))), 4*len(in))
	for i, id := range c.ids {
		c.n.Fill(bytes[i*size:(i+1)*size], id)
	}
	c.Stops(op.Send(c.n.dev, c.Stream, c.n.Input(c.slot), in))
}

// checkGroup launches group number g and compares its output.
func (c *checker) checkGroup(gr *group, g int) {
	var raw [][]float32
	if gr.Kind == Norm { // works in place
		raw = c.readImages(gr.layer.conv.dst, gr.layer.conv.out, gr.layer.conv.pixels())
	}
	if c.Stops(c.n.Enqueue(c.Stream, c.slot, g, len(c.ids))) || c.Stops(c.Stream.Sync()) {
		return
	}
	switch gr.Kind {
	case Prepare:
		c.checkPrepared()
	case Conv, Linear:
		c.checkConv(gr)
	case Norm:
		c.checkNorm(gr, raw)
	default:
		c.checkSimple(gr.layer)
	}
}

// readImages reads an activation of every image as [channels][size][size]. It returns nil for the images of a residual
// that the layer does not have (act < 0).
func (c *checker) readImages(act, channels, pixels int) [][]float32 {
	out, n := make([][]float32, len(c.ids)), channels*pixels
	if act < 0 {
		return out
	}
	v := c.Read(c.n.slots[c.slot].act[act], 0, len(c.ids)*n)
	for i := range out {
		out[i] = v[i*n : (i+1)*n]
		if c.n.o.Layout == NCHW {
			continue
		}
		planes := make([]float32, n)
		for at, v := range out[i] {
			planes[at%channels*pixels+at/channels] = v
		}
		out[i] = planes
	}
	return out
}

// compareAll compares an activation of every image with ref(image).
func (c *checker) compareAll(kind Kind, act, channels, pixels int, ref func(image int) []float64) {
	for image, v := range c.readImages(act, channels, pixels) {
		c.Errs[kind].Add(v, ref(image))
	}
	c.rows[kind][0] += len(c.ids) * pixels
	c.rows[kind][1] += len(c.ids) * pixels
}

func (c *checker) checkPrepared() {
	s := c.n.o.Shape
	c.compareAll(Prepare, actInput, 3, s.Image*s.Image, func(image int) []float64 {
		return refPrepare(s, c.n.Image(c.ids[image]))
	})
}

// pickOutputs returns all outputs of the checked images, or a random sample that includes the corners of the first
// image and two corners of the last. An output is given as image*pixels+pixel.
func (c *checker) pickOutputs(kind Kind, cv conv) []int {
	n, side := len(c.ids)*cv.pixels(), cv.outSize
	c.rows[kind][1] += n
	var out []int
	if int64(len(c.ids))*cv.multiplyAddsOne <= wholeMultiplyAdds {
		for i := range n {
			out = append(out, i)
		}
	} else {
		out = []int{0, side - 1, cv.pixels() - side, cv.pixels() - 1, n - cv.pixels(), n - 1}
		for range sampledRows {
			out = append(out, c.rng.IntN(n))
		}
	}
	c.rows[kind][0] += len(out)
	return out
}

// endOfLayer applies the norm, the residual and the relu of a layer to output at of an image, [channels][size][size].
// res is nil if the layer has no residual.
func (c *checker) endOfLayer(gr *group, v float64, res []float32, at int) float64 {
	cv := gr.layer.conv
	scale, shift := c.n.w.Layers[gr.index].normOf(at / cv.pixels())
	v = v*scale + shift
	if res != nil {
		v += float64(res[at])
	}
	if cv.relu {
		v = math.Max(v, 0)
	}
	return v
}

func (c *checker) checkConv(gr *group) {
	cv := gr.layer.conv
	w, n, e := c.n.w.Layers[gr.index].Weight, cv.pixels(), &c.Errs[gr.Kind]
	x := c.readImages(cv.src, cv.in, cv.size*cv.size)
	res, out := c.readImages(cv.res, cv.out, n), c.readImages(cv.dst, cv.out, n)
	for _, row := range c.pickOutputs(gr.Kind, cv) {
		image, p := row/n, row%n
		for o := range cv.out {
			v, at := refConvAt(cv, x[image], w, o, p/cv.outSize, p%cv.outSize), o*n+p
			if c.n.o.BN != Apart || cv.isLinear {
				v = c.endOfLayer(gr, v, res[image], at)
			}
			e.Add(out[image][at:at+1], []float64{v})
		}
	}
	if cv.isLinear { // see Logits.Apart
		terms := 0.0
		for _, x := range x {
			terms += refTerms(w, x)
		}
		e.Ref = max(e.Ref, terms)
	}
}

// checkNorm compares a norm's output; raw is its input by image.
func (c *checker) checkNorm(gr *group, raw [][]float32) {
	cv := gr.layer.conv
	res := c.readImages(cv.res, cv.out, cv.pixels())
	c.compareAll(Norm, cv.dst, cv.out, cv.pixels(), func(image int) []float64 {
		want := make([]float64, len(raw[image]))
		for i, v := range raw[image] {
			want[i] = c.endOfLayer(gr, float64(v), res[image], i)
		}
		return want
	})
}

func (c *checker) checkSimple(l layer) {
	in, n := l.size*l.size, l.outSize*l.outSize
	x := c.readImages(l.src, l.channels, in)
	c.compareAll(l.kind, l.dst, l.channels, n, func(image int) []float64 {
		want := make([]float64, l.channels*n)
		for at := range want {
			plane := x[image][at/n*in:][:in]
			if l.kind == Pool {
				want[at] = refPoolAt(plane, l.size, at%n/l.outSize, at%l.outSize)
				continue
			}
			for _, v := range plane {
				want[at] += float64(v) / float64(in)
			}
		}
		return want
	})
}

// Tolerance returns the largest allowed distance of logits from Reference, measured as in Logits.Apart. It is the
// tolerance of one convolution times the square root of the number of layers, since the errors of layers are
// independent.
func (n *Net) Tolerance() float64 {
	return n.o.tolerance() * math.Sqrt(float64(len(n.params)))
}

type refKey struct {
	shape string
	seed  uint64
	image int
}

var references = loop.Kept[refKey, Logits]{Most: 4 * Period}

// Reference returns the logits of image i by the float64 network. The process computes them once.
func (n *Net) Reference(ctx context.Context, i int) (Logits, error) {
	if err := ctx.Err(); err != nil {
		return Logits{}, err
	}
	compute := func() (Logits, error) { return n.ReferenceOf(n.Image(i)), nil }
	if n.o.Weights != nil {
		return compute()
	}
	return references.Of(refKey{fmt.Sprint(n.o.Shape), n.o.Seed, i % Period}, compute)
}

// ReferenceOf returns the logits of any image [source,source,3] by the float64 network.
func (n *Net) ReferenceOf(image []byte) Logits {
	return refNetwork(n.o.Shape, n.w, refPrepare(n.o.Shape, image))
}

func (c *checker) stageChecks() []gpuprof.Check {
	var out []gpuprof.Check
	for kind, e := range c.Errs {
		if !e.Used {
			continue
		}
		tol := tolerance
		switch {
		case Kind(kind) == Prepare:
			tol = prepareTolerance
		case Kind(kind) == Pool:
			tol = 0 // a maximum is one of its inputs
		case Kind(kind) == Conv || Kind(kind) == Linear:
			tol = c.n.o.tolerance()
		}
		out = append(out, loop.CheckOf(Kind(kind).String(), e.Relative(), tol, c.rows[kind][0], c.rows[kind][1]))
	}
	return out
}
