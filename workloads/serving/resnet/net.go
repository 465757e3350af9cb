package resnet

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"time"
	"unsafe"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

//go:embed network.ptx.zst
var networkPTX string

// Net is a network opened on a device: weights, and each slot's activations. One goroutine at a time calls it.
type Net struct {
	o      Options
	info   device.Info
	dev    device.Device
	mem    op.Arena
	binder op.Binder
	params []layerBuffers
	slots  []slot
	groups []group
	w      *Weights
	images [Period][]byte

	kernels map[shared]*device.Kernel
	found   time.Duration // spent looking for libraries
}

// shared is the key of Net.kernels: the name of a convolution, and the kernel that was copied for it.
type shared struct {
	conv string
	k    *device.Kernel
}

type layerBuffers struct {
	weight, scale, shift, ones, zeros device.Buffer
}

type slot struct {
	act             [actCount]device.Buffer
	raw, cols, sums device.Buffer
}

// librarian is a device that loads its vendor's libraries on demand.
type librarian interface{ Libraries() map[string]string }

// Open allocates the network, uploads its weights on the stream and waits for the upload. It refuses a network that
// exceeds the device's memory before it allocates anything.
func Open(ctx context.Context, d device.Device, s device.Stream, o Options) (*Net, error) {
	began := time.Now()
	if l, ok := d.(librarian); ok && o.Library != "off" {
		l.Libraries()
	}
	found := time.Since(began)
	info := d.Info()
	if err := o.Refuse(info); err != nil {
		return nil, err
	}
	o = o.resolved(info)
	w := o.Weights
	if w == nil {
		w = o.DrawWeights(o.Seed)
	}
	if err := w.checkSizes(o.Shape); err != nil {
		return nil, err
	}
	if err := o.checkMemory(d); err != nil {
		return nil, err
	}
	n := &Net{o: o, info: info, dev: d, kernels: map[shared]*device.Kernel{}, mem: op.Arena{Dev: d}, binder: op.Binder{Dev: d}, w: w, found: found}
	n.uploadParameters(s)
	n.allocateSlots()
	if n.mem.Err == nil {
		n.planGroups()
	}
	err := cmp.Or(n.mem.Err, n.binder.Err, ctx.Err())
	if err != nil {
		_ = n.mem.Free() // err is the error to report
		return nil, err
	}
	return n, nil
}

func (n *Net) uploadParameters(s device.Stream) {
	for i, c := range n.o.convolutions() {
		p := n.w.Layers[i].foldNorm(c, n.o.BN == Fold)
		form, nhwc := n.o.weightForm(c, n.info), n.o.isNHWC(c)
		padded := func(v []float32) []float32 {
			return append(append([]float32(nil), v...), make([]float32, paddedChannels(c.out)-c.out)...)
		}
		b := layerBuffers{scale: n.mem.Upload(s, "scales of "+c.name, padded(p.scale)), shift: n.mem.Upload(s, "shifts of "+c.name, padded(p.shift))}
		if n.o.BN == Apart && !c.isLinear {
			ones := make([]float32, paddedChannels(c.out))
			b.zeros = n.mem.Upload(s, "zeros of "+c.name, ones)
			for i := range ones {
				ones[i] = 1
			}
			b.ones = n.mem.Upload(s, "ones of "+c.name, ones)
		}
		w := arrangeWeights(p.weight, c, form, nhwc)
		if n.o.Precision != FP32 {
			w = append([]float32(nil), w...)
			op.RoundTo(n.o.Precision, w)
		}
		if n.o.wayOf(c) == CuDNN && n.o.isNarrow() {
			w = op.Pack16(n.o.Precision, w)
		}
		b.weight = n.mem.Upload(s, "weights of "+c.name, w)
		n.params = append(n.params, b)
	}
}

func (n *Net) allocateSlots() {
	sp := n.o.slotSpace()
	on := func(what string, bytes int) device.Buffer {
		if bytes == 0 {
			return nil
		}
		return n.mem.Bytes(what, bytes, device.OnDevice)
	}
	for range n.o.Slots {
		var s slot
		for i, bytes := range sp.act {
			s.act[i] = on("activations", bytes)
		}
		s.raw, s.cols, s.sums = on("images", sp.raw), on("the operand of a convolution", sp.cols), on("a library's result in 16 bits", sp.sums)
		n.slots = append(n.slots, s)
	}
}

func (n *Net) planGroups() {
	add := func(g group, launches func(p *planner)) {
		for i := range n.slots {
			p := &planner{n: n, slot: &n.slots[i]}
			launches(p)
			g.launches = append(g.launches, p.list)
		}
		n.groups = append(n.groups, g)
	}
	if n.o.Preprocess == OnDevice {
		add(group{Group: Group{"prepare", Prepare}, minimum: n.o.prepareCost()}, (*planner).addPrepare)
	}
	at := 0
	for _, l := range n.o.layers() {
		switch l.kind {
		case Conv, Linear:
			c, w := l.conv, n.params[at]
			add(group{Group: Group{c.name, l.kind}, layer: l, index: at, minimum: n.o.convMinimum(c)}, func(p *planner) { p.convolve(c, w) })
			if n.o.BN == Apart && l.kind == Conv {
				add(group{Group: Group{c.name + ".norm", Norm}, layer: l, index: at, minimum: n.o.normMinimum(c)}, func(p *planner) {
					_, last := p.epilogues(c, w)
					p.addNorm(c, last, p.slot.act[c.dst])
				})
			}
			at++
		default:
			in, out := l.channels*l.size*l.size, l.channels*l.outSize*l.outSize
			add(group{Group: Group{l.kind.String(), l.kind}, layer: l, minimum: wordCost(in, in, out)}, func(p *planner) { p.addSimple(l) })
		}
	}
}

// convMinimum returns the least work of a convolution: weights, input and residual read once, output written once.
func (o Options) convMinimum(c conv) rate {
	r := convCost(c, 4)
	out := 4 * int64(c.out*c.pixels())
	r.image.BytesWritten = out
	if c.res >= 0 && o.BN != Apart {
		r.image.BytesRead += out
	}
	return r
}

func (o Options) normMinimum(c conv) rate {
	n := c.out * c.pixels()
	reads := n
	if c.res >= 0 {
		reads += n
	}
	return wordCost(2*n, reads, n)
}

// kernelOf returns the kernel for a convolution. On the host device it is a copy of k whose grain gives a thread about
// 2^17 multiply-adds at a time.
func (n *Net) kernelOf(c conv, k *device.Kernel) *device.Kernel {
	if n.info.Kind != "host" {
		return k
	}
	key := shared{c.name, k}
	if own := n.kernels[key]; own != nil {
		return own
	}
	own := *k
	n.kernels[key] = &own
	own.Grain = int(max(1, 1<<17/max(1, c.multiplyAddsOne/int64(c.outSize))))
	return &own
}

// convItems returns the number of items of a convolution: rows of outputs on the host device; on CUDA tiles, or single
// outputs for the direct kernel.
func (n *Net) convItems(c conv) items {
	switch {
	case n.info.Kind == "host":
		return items{image: c.outSize}
	case n.o.wayOf(c) == Direct:
		return items{image: c.out * c.pixels()}
	}
	return items{image: c.pixels(), tile: tileSide, across: (c.out + tileSide - 1) / tileSide}
}

// tileSide is the number of outputs, and of channels, that one thread block computes.
const tileSide = 64

// Groups returns the groups of launches of a batch, in order.
func (n *Net) Groups() []Group {
	var out []Group
	for _, g := range n.groups {
		out = append(out, g.Group)
	}
	return out
}

// Enqueue launches one group for the first batch images of a slot. It neither allocates nor waits.
func (n *Net) Enqueue(s device.Stream, slot, group, batch int) error {
	if group < 0 || group >= len(n.groups) {
		return unknownGroup(group, len(n.groups))
	}
	if slot < 0 || slot >= len(n.slots) || batch < 1 || batch > n.o.MaxBatch {
		return unknownSlot(slot, batch, n.o)
	}
	launches := n.groups[group].launches[slot]
	for i := range launches {
		if err := launches[i].enqueue(s, batch); err != nil {
			return fmt.Errorf("enqueuing %s: %w", n.groups[group].Name, err)
		}
	}
	return nil
}

// EnqueueAll launches all groups, for example into a graph.
func (n *Net) EnqueueAll(s device.Stream, slot, batch int) error {
	for g := range n.groups {
		if err := n.Enqueue(s, slot, g, batch); err != nil {
			return err
		}
	}
	return nil
}

// Parts returns the launches of a group for a batch, each with its cost.
func (n *Net) Parts(group, batch int) []gpuprof.Part {
	var out []gpuprof.Part
	launches := n.groups[group].launches[0]
	for i := range launches {
		out = append(out, launches[i].partsOf(batch)...)
	}
	return out
}

// Minimum returns the least work and traffic of a group for a batch.
func (n *Net) Minimum(group, batch int) gpuprof.Cost {
	c := n.groups[group].minimum.forBatch(batch)
	c.Launches = 1
	return c
}

// Floor returns the least work of the network for a batch: two operations per multiply-add, parameters read once,
// activations written and read once.
func (s Shape) Floor(batch int) gpuprof.Cost {
	b, act := int64(batch), 4*s.Activations()
	return gpuprof.Cost{Flops: 2 * b * s.MultiplyAdds(), BytesRead: 4*s.Parameters() + b*act, BytesWritten: b * act, Launches: 1}
}

// Input returns the device buffer to which a batch is copied.
func (n *Net) Input(slot int) device.Buffer {
	if n.o.Preprocess == OnDevice {
		return n.slots[slot].raw
	}
	return n.slots[slot].act[actInput]
}

// Logits returns the device buffer of the result, float32 [batch,classes].
func (n *Net) Logits(slot int) device.Buffer { return n.slots[slot].act[actLogit] }

// InputBytes returns the number of bytes of one image in Input.
func (n *Net) InputBytes() int {
	if n.o.Preprocess == OnDevice {
		return 3 * n.o.Source * n.o.Source
	}
	return 4 * 3 * n.o.Image * n.o.Image
}

// Image returns the image of request i. Each of the Period images is drawn once.
func (n *Net) Image(i int) []byte {
	i %= Period
	if n.images[i] == nil {
		n.images[i] = Image(n.o.Source, n.o.Seed, i)
	}
	return n.images[i]
}

// Fill writes image i to dst in the form of Input: its bytes, or preprocessed by the host.
func (n *Net) Fill(dst []byte, i int) { n.FillImage(dst, n.Image(i)) }

// FillImage is Fill for any image [source,source,3].
func (n *Net) FillImage(dst, image []byte) {
	if n.o.Preprocess == OnDevice {
		copy(dst, image)
		return
	}
	n.o.Prepare(unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(dst))), len(dst)/4), image, n.o.Layout)
}

// Convolve launches every convolution once for a batch, in a slot that is not in use. It makes a library plan the
// convolutions and load its kernels before they are timed.
func (n *Net) Convolve(s device.Stream, slot, batch int) error {
	for g := range n.groups {
		if n.groups[g].Kind != Conv {
			continue
		}
		if err := n.Enqueue(s, slot, g, batch); err != nil {
			return err
		}
	}
	return s.Sync()
}

// Loading returns the time spent on loading libraries and kernels.
func (n *Net) Loading() time.Duration { return n.found + n.binder.Loading }

// Close frees the memory. Streams that ran batches must be idle.
func (n *Net) Close() error { return n.mem.Free() }
