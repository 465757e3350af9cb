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
	// poisonWord is the bits of a NaN that a check writes to each output before the group of launches overwrites it.
	poisonWord = 0x7fc00000
)

// checker runs one batch of images through a slot, one group of launches at a time. It fills each output with NaN
// before the group runs. Afterwards it compares the output with float64 results from the group's own inputs.
type checker struct {
	n    *Net
	s    device.Stream
	slot int
	ids  []int
	rng  *rand.Rand
	errs [kindCount]op.ErrorNorm
	rows [kindCount][2]int // per kind: number of outputs compared, and of all outputs
	raw  []float32         // a norm's input: the norm works in place
}

// Check fills a slot with the images ids and compares every group with float64 results. It also compares the logits of
// the first image with the float64 network. It returns one check for each kind of group. The stream must be idle.
func (n *Net) Check(ctx context.Context, s device.Stream, slot int, ids []int) ([]gpuprof.Check, error) {
	if slot < 0 || slot >= len(n.slots) || len(ids) < 1 || len(ids) > n.o.MaxBatch {
		return nil, unknownSlot(slot, len(ids), n.o)
	}
	c := &checker{n: n, s: s, slot: slot, ids: ids, rng: rand.New(rand.NewPCG(n.o.Seed, 11))}
	if err := c.poisonSlot(); err != nil {
		return nil, err
	}
	if n.o.Preprocess == OnHost { // the images arrive preprocessed
		c.errs[Prepare].Used = true
		if err := c.checkPrepared(); err != nil {
			return nil, err
		}
	}
	for g := range n.groups {
		if err := c.checkGroup(g); err != nil {
			return c.stageChecks(), fmt.Errorf("checking %s: %w", n.groups[g].Name, err)
		}
		if err := ctx.Err(); err != nil {
			return c.stageChecks(), err
		}
	}
	logits, err := c.checkLogits(ctx)
	if err != nil {
		return c.stageChecks(), err
	}
	return append(c.stageChecks(), logits), nil
}

func (c *checker) poisonSlot() error {
	sl := &c.n.slots[c.slot]
	for _, b := range append(sl.act[:], sl.raw, sl.cols, sl.sums) {
		if b == nil {
			continue
		}
		fn, err := c.n.dev.Load(&fillKernel)
		if err != nil {
			return err
		}
		var a device.Args
		v := device.View[resnetFillView](&a)
		v.out.Set(b, 0)
		v.word.Set(poisonWord)
		if err := c.s.Launch(fn, b.Len()/4, &a); err != nil {
			return err
		}
	}
	size := c.n.InputBytes()
	in := make([]byte, (len(c.ids)*size+3)/4*4)
	for i, id := range c.ids {
		c.n.Fill(in[i*size:(i+1)*size], id)
	}
	return op.Send(c.n.dev, c.s, c.n.Input(c.slot), unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(in))), len(in)/4))
}

func (c *checker) read(act, words int) ([]float32, error) {
	return op.Receive(c.n.dev, c.s, c.n.slots[c.slot].act[act], 0, len(c.ids)*words)
}

func (c *checker) checkGroup(g int) error {
	gr := &c.n.groups[g]
	if gr.Kind == Norm {
		cv := gr.layer.conv
		var err error
		if c.raw, err = c.read(cv.dst, cv.out*cv.pixels()); err != nil {
			return err
		}
	}
	if err := c.n.Enqueue(c.s, c.slot, g, len(c.ids)); err != nil {
		return err
	}
	if err := c.s.Sync(); err != nil {
		return err
	}
	c.errs[gr.Kind].Used = true
	switch gr.Kind {
	case Prepare:
		return c.checkPrepared()
	case Conv, Linear:
		return c.checkConv(gr)
	case Norm:
		return c.checkNorm(gr)
	}
	return c.checkSimple(gr)
}

// imagePlanes returns one image of an activation as [channels][size][size].
func (c *checker) imagePlanes(v []float32, image, channels, pixels int) []float32 {
	v = v[image*channels*pixels:][:channels*pixels]
	if c.n.o.Layout == NCHW {
		return v
	}
	out := make([]float32, len(v))
	for p := range pixels {
		for ch := range channels {
			out[ch*pixels+p] = v[p*channels+ch]
		}
	}
	return out
}

func (c *checker) checkPrepared() error {
	s := c.n.o.Shape
	got, err := c.read(actInput, 3*s.Image*s.Image)
	if err != nil {
		return err
	}
	for i, id := range c.ids {
		c.errs[Prepare].Add(c.imagePlanes(got, i, 3, s.Image*s.Image), refPrepare(s, c.n.Image(id)))
	}
	c.rows[Prepare] = [2]int{len(c.ids) * s.Image * s.Image, len(c.ids) * s.Image * s.Image}
	return nil
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

// outputs are the inputs, residuals and results of a convolution, each by image as [channels][size][size].
type outputs struct{ x, res, out [][]float32 }

func (c *checker) readOutputs(cv conv) (outputs, error) {
	var o outputs
	for _, part := range []struct {
		to              *[][]float32
		act, ch, pixels int
	}{{&o.x, cv.src, cv.in, cv.size * cv.size}, {&o.res, cv.res, cv.out, cv.pixels()}, {&o.out, cv.dst, cv.out, cv.pixels()}} {
		if part.act < 0 {
			continue
		}
		v, err := c.read(part.act, part.ch*part.pixels)
		if err != nil {
			return o, err
		}
		for i := range c.ids {
			*part.to = append(*part.to, c.imagePlanes(v, i, part.ch, part.pixels))
		}
	}
	return o, nil
}

func (c *checker) endsLayer(cv conv) bool { return c.n.o.BN != Apart || cv.isLinear }

func (c *checker) endOfLayer(gr *group, v float64, o int, res float64) float64 {
	scale, shift := c.n.w.Layers[gr.index].normOf(o)
	v = v*scale + shift + res
	if gr.layer.conv.relu {
		v = math.Max(v, 0)
	}
	return v
}

func (c *checker) checkConv(gr *group) error {
	cv := gr.layer.conv
	given, err := c.readOutputs(cv)
	if err != nil {
		return err
	}
	w, n := c.n.w.Layers[gr.index].Weight, cv.pixels()
	for _, row := range c.pickOutputs(gr.Kind, cv) {
		image, p := row/n, row%n
		for o := range cv.out {
			v := refConvAt(cv, given.x[image], w, o, p/cv.outSize, p%cv.outSize)
			if c.endsLayer(cv) {
				res := 0.0
				if cv.res >= 0 {
					res = float64(given.res[image][o*n+p])
				}
				v = c.endOfLayer(gr, v, o, res)
			}
			c.errs[gr.Kind].Add(given.out[image][o*n+p:][:1], []float64{v})
		}
	}
	if cv.isLinear { // see Logits.Apart
		terms := 0.0
		for _, x := range given.x {
			terms += refTerms(w, x)
		}
		c.errs[gr.Kind].Ref = max(c.errs[gr.Kind].Ref, terms)
	}
	return nil
}

func (c *checker) checkNorm(gr *group) error {
	cv := gr.layer.conv
	given, err := c.readOutputs(cv)
	if err != nil {
		return err
	}
	n := cv.pixels()
	for image := range c.ids {
		raw := c.imagePlanes(c.raw, image, cv.out, n)
		want := make([]float64, len(raw))
		for i, v := range raw {
			res := 0.0
			if cv.res >= 0 {
				res = float64(given.res[image][i])
			}
			want[i] = c.endOfLayer(gr, float64(v), i/n, res)
		}
		c.errs[Norm].Add(given.out[image], want)
	}
	c.rows[Norm][0] += len(c.ids) * n
	c.rows[Norm][1] += len(c.ids) * n
	return nil
}

func (c *checker) checkSimple(gr *group) error {
	l := gr.layer
	x, err := c.read(l.src, l.channels*l.size*l.size)
	if err != nil {
		return err
	}
	got, err := c.read(l.dst, l.channels*l.outSize*l.outSize)
	if err != nil {
		return err
	}
	in, n := l.size*l.size, l.outSize*l.outSize
	for image := range c.ids {
		from, want := c.imagePlanes(x, image, l.channels, in), make([]float64, l.channels*n)
		for at := range want {
			plane := from[at/n*in:][:in]
			if l.kind == Pool {
				want[at] = refPoolAt(plane, l.size, at%n/l.outSize, at%l.outSize)
				continue
			}
			for _, v := range plane {
				want[at] += float64(v) / float64(in)
			}
		}
		c.errs[l.kind].Add(c.imagePlanes(got, image, l.channels, n), want)
	}
	c.rows[l.kind] = [2]int{len(c.ids) * n, len(c.ids) * n}
	return nil
}

func (c *checker) checkLogits(ctx context.Context) (gpuprof.Check, error) {
	got, err := c.read(actLogit, c.n.o.Classes)
	if err != nil {
		return gpuprof.Check{}, err
	}
	want, err := c.n.Reference(ctx, c.ids[0])
	if err != nil {
		return gpuprof.Check{}, err
	}
	return loop.CheckOf("logits", want.Apart(got), c.n.Tolerance(), 1, len(c.ids)), nil
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
	for kind, e := range c.errs {
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
