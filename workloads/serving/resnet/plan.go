package resnet

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// Group is a part of the network's work that a profile records as one span.
type Group struct {
	Name string
	Kind Kind
}

// group holds a Group's launches in each slot, and the facts for its check.
type group struct {
	Group
	launches [][]launch // by slot
	layer    layer
	index    int // index of the layer's parameters
	minimum  rate
}

// rate is a cost that grows with the batch size: fixed, plus image times the batch size.
type rate struct{ fixed, image gpuprof.Cost }

func (r rate) forBatch(batch int) gpuprof.Cost { return r.fixed.Add(r.image.Times(int64(batch))) }

type launch struct {
	op.Call
	items items // number of items for a batch
	each  bool  // one launch per image instead of one per batch
	cost  rate
}

// items gives the number of a launch's items for a batch: fixed + batch*image or, if tile > 0, ceil(batch*image/tile) *
// across.
type items struct{ image, fixed, tile, across int }

func (it items) forBatch(batch int) int {
	if it.tile > 0 {
		return (batch*it.image + it.tile - 1) / it.tile * it.across
	}
	return it.fixed + batch*it.image
}

type planner struct {
	n    *Net
	slot *slot
	list []launch
}

// batchCount is a placeholder for the argument that holds the number of images in a batch.
var batchCount = op.Num{Count: op.Batch}

func (p *planner) add(k *device.Kernel, it items, cost rate, args any) *launch {
	p.list = append(p.list, launch{Call: p.n.binder.Bind(k, 0, gpuprof.Cost{}, args), items: it, cost: cost})
	return &p.list[len(p.list)-1]
}

// wordCost returns the cost of one image: flops, and four bytes for each value that is read or written.
func wordCost(flops, reads, writes int) rate {
	return rate{image: gpuprof.Cost{Flops: int64(flops), BytesRead: 4 * int64(reads), BytesWritten: 4 * int64(writes)}}
}

// epilogue is the scale and shift of a convolution's result, with flags for the layer's residual and relu.
type epilogue struct {
	scale, shift device.Buffer
	flags        int
	res          device.Buffer
}

// epilogues returns the epilogues of the convolution's own launch and of the norm's launch. With bn=apart the first is
// the identity; otherwise both are equal.
func (p *planner) epilogues(c conv, w layerBuffers) (first, last epilogue) {
	last = epilogue{scale: w.scale, shift: w.shift, res: w.shift}
	if c.relu {
		last.flags |= flagRelu
	}
	if c.res >= 0 {
		last.flags |= flagRes
		last.res = p.slot.act[c.res]
	}
	if !p.n.o.isNHWC(c) {
		last.flags |= flagNCHW
	}
	if p.n.o.BN != Apart || c.isLinear {
		return last, last
	}
	return epilogue{scale: w.ones, shift: w.zeros, res: w.zeros, flags: last.flags & flagNCHW}, last
}

func (p *planner) convolve(c conv, w layerBuffers) {
	o := p.n.o
	first, last := p.epilogues(c, w)
	x, out := p.slot.act[c.src], p.slot.act[c.dst]
	cost := convCost(c, 4)
	cost.image.BytesWritten += 4 * int64(c.out*c.pixels())
	if first.flags&flagRes != 0 {
		cost.image.BytesRead += 4 * int64(c.out*c.pixels())
	}
	kernel, product := p.n.kernelOf(c, &convKernel), c
	switch {
	case o.wayOf(c) == Implicit:
	case o.wayOf(c) == CuDNN:
		p.addCuDNN(c, w, first, last, x, out)
		return
	case o.wayOf(c) == Direct:
		kernel = p.n.kernelOf(c, &directKernel)
	default:
		product = c.afterIm2col()
		p.add(&im2colKernel, items{image: c.outSize}, wordCost(0, c.in*c.size*c.size, c.depth()*c.pixels()), resnetIm2colArgs{
			x: x, cols: p.slot.cols, batch: batchCount, in: c.in, channels: c.out, k: c.k, stride: c.stride, size: c.size, outSize: c.outSize, flags: first.flags,
		})
		x = p.slot.cols
		cost.image.BytesRead += 4 * int64(c.depth()*c.pixels()-c.in*c.size*c.size)
		if o.usesVendor(c, p.n.info) {
			p.addVendor(c, w, first, last, x, out)
			return
		}
	}
	p.add(kernel, p.n.convItems(c), cost, resnetConvArgs{
		x: x, w: w.weight, scale: first.scale, shift: first.shift, res: first.res, out: out,
		batch: batchCount, in: product.in, channels: product.out, k: product.k, stride: product.stride, size: product.size, outSize: product.outSize, flags: first.flags | o.precisionFlag(),
	})
}

// afterIm2col returns the 1x1 convolution over the operand that im2col wrote. Its input channels are the values of one
// column.
func (c conv) afterIm2col() conv {
	c.in, c.k, c.stride, c.size = c.depth(), 1, 1, c.outSize
	return c
}

// convCost returns the cost of a convolution's product, except for writing the result. The product reads weights and
// input once, width bytes per value.
func convCost(c conv, width int) rate {
	return rate{
		fixed: gpuprof.Cost{BytesRead: int64(width)*int64(c.out*c.depth()) + 8*int64(c.out)},
		image: gpuprof.Cost{Flops: 2 * c.multiplyAddsOne, BytesRead: int64(width) * int64(c.in*c.size*c.size)},
	}
}

// addVendor adds the library's product over cols, and our kernel for the epilogue, which the library lacks.
func (p *planner) addVendor(c conv, w layerBuffers, first, last epilogue, cols, out device.Buffer) {
	cost := rate{
		fixed: gpuprof.Cost{BytesRead: 4 * int64(c.out*c.depth())},
		image: gpuprof.Cost{Flops: 2 * c.multiplyAddsOne, BytesRead: 4 * int64(c.depth()*c.pixels()), BytesWritten: 4 * int64(c.out*c.pixels())}.In(p.n.o.Precision, 2*c.multiplyAddsOne),
	}
	k := vendorKernels[0]
	if p.n.o.Precision == TF32 {
		k = vendorKernels[1]
	}
	if p.n.o.isNHWC(c) {
		p.add(k, items{image: c.pixels()}, cost, device.ProductArgs{A: cols, B: w.weight, Out: out, K: c.depth(), N: c.out, Scale: float32(1)})
	} else { // one product per image: out [out,pixels] = w [out,K] cols [K,pixels]
		b, to := op.Ref{Buf: cols, By: 4 * int64(c.depth()*c.pixels())}, op.Ref{Buf: out, By: 4 * int64(c.out*c.pixels())}
		p.add(k, items{fixed: c.out}, cost, device.ProductArgs{A: w.weight, B: b, Out: to, K: c.depth(), N: c.pixels(), Scale: float32(1)}).each = true
	}
	if p.n.o.BN != Apart {
		p.addNorm(c, last, out)
	}
}

// addCuDNN adds the library's convolution, and our kernel for the epilogue, which the library lacks. For 16-bit
// precision it adds a kernel that rounds the operand and one that converts the result to float32.
func (p *planner) addCuDNN(c conv, w layerBuffers, first, last epilogue, x, out device.Buffer) {
	o := p.n.o
	in, n, width, y := c.in*c.size*c.size, c.out*c.pixels(), 4, out
	if o.isNarrow() {
		cast, args := op.Cast(o.Precision, x, p.slot.cols)
		p.add(cast, items{image: in}, rate{image: gpuprof.Cost{BytesRead: 4 * int64(in), BytesWritten: 2 * int64(in)}}, args)
		x, y, width = p.slot.cols, p.slot.sums, 2
	}
	cost := convCost(c, width)
	cost.fixed.BytesRead = int64(width) * int64(c.out*c.depth())
	cost.image.BytesWritten = int64(width) * int64(n)
	cost.image = cost.image.In(o.Precision, cost.image.Flops)
	p.add(cudnnKernels[o.Precision], items{image: 1}, cost, libraryConvArgs{
		x: x, w: w.weight, y: y, in: c.in, out: c.out, k: c.k, stride: c.stride, size: c.size, outSize: c.outSize, nhwc: o.isNHWC(c),
	})
	switch {
	case o.isNarrow():
		p.addWiden(c, first, y, out)
	case o.BN != Apart:
		p.addNorm(c, last, out)
	}
}

// addWiden adds the conversion of a 16-bit result to float32, with the convolution's epilogue.
func (p *planner) addWiden(c conv, e epilogue, y, out device.Buffer) {
	n := c.out * c.pixels()
	reads := int64(2 * n)
	if e.flags&flagRes != 0 {
		reads += 4 * int64(n)
	}
	cost := rate{fixed: gpuprof.Cost{BytesRead: 8 * int64(c.out)}, image: gpuprof.Cost{Flops: 2 * int64(n), BytesRead: reads, BytesWritten: 4 * int64(n)}}
	p.add(&widenKernel, items{image: n}, cost, resnetWidenArgs{
		y: y, scale: e.scale, shift: e.shift, res: e.res, out: out, channels: c.out, pixels: c.pixels(),
		flags: e.flags | p.n.o.precisionFlag(),
	})
}

// cudnnKernels are the library's convolutions by precision. One item is one image.
var cudnnKernels = map[string]*device.Kernel{
	FP32: libraryConv(FP32), TF32: libraryConv(TF32), BF16: libraryConv(BF16), FP16: libraryConv(FP16),
}

type libraryConvArgs struct {
	x, w, y                                 device.Ref
	in, out, k, stride, size, outSize, nhwc device.Num
}

func libraryConv(precision string) *device.Kernel {
	k := device.Typed[libraryConvArgs](device.Kernel{Name: "conv_cudnn_" + precision, Lib: "conv_" + precision})
	return &k
}

func (p *planner) addNorm(c conv, e epilogue, x device.Buffer) {
	n := c.out * c.pixels()
	reads := n
	if e.flags&flagRes != 0 {
		reads += n
	}
	cost := wordCost(2*n, reads, n)
	cost.fixed.BytesRead = 8 * int64(c.out)
	p.add(&normKernel, items{image: n}, cost, resnetNormArgs{
		x: x, scale: e.scale, shift: e.shift, res: e.res, channels: c.out, pixels: c.pixels(), flags: e.flags,
	})
}

var vendorKernels = [...]*device.Kernel{device.LibraryProduct(FP32), device.LibraryProduct(TF32)}

func (p *planner) addSimple(l layer) {
	flags := 0
	if p.n.o.Layout == NCHW {
		flags = flagNCHW
	}
	x, out := p.slot.act[l.src], p.slot.act[l.dst]
	in, n := l.channels*l.size*l.size, l.channels*l.outSize*l.outSize
	if l.kind == Pool {
		p.add(&poolKernel, items{image: n}, wordCost(8*n, in, n), resnetPoolArgs{
			x: x, out: out, channels: l.channels, size: l.size, outSize: l.outSize, flags: flags,
		})
		return
	}
	p.add(&meanKernel, items{image: l.channels}, wordCost(in, in, l.channels), resnetMeanArgs{
		x: x, out: out, channels: l.channels, pixels: l.size * l.size, flags: flags,
	})
}

func (p *planner) addPrepare() {
	o, flags := p.n.o, 0
	if o.Layout == NCHW {
		flags = flagNCHW
	}
	p.add(&prepareKernel, items{image: o.Image}, o.prepareCost(), resnetPrepareArgs{
		images: p.slot.raw, out: p.slot.act[actInput], source: o.Source, size: o.Image, resized: o.resizedSide(),
		crop: o.cropOffset(), flags: flags,
	})
}

// prepareCost counts eleven operations per value: three interpolations of a difference, a product and a sum, and two
// for the normalisation.
func (s Shape) prepareCost() rate {
	n := int64(3 * s.Image * s.Image)
	return rate{image: gpuprof.Cost{Flops: 11 * n, BytesRead: int64(3 * s.Source * s.Source), BytesWritten: 4 * n}}
}

func (l *launch) enqueue(s device.Stream, batch int) error {
	l.N = l.items.forBatch(batch)
	times := 1
	if l.each {
		times = batch
	}
	for image := range times {
		(*op.Binder)(nil).Set(&l.Call, image, batch)
		if err := s.Launch(l.Func, l.N, &l.Args); err != nil {
			return err
		}
	}
	return nil
}

func (l *launch) partsOf(batch int) []gpuprof.Part {
	launches, images := 1, batch
	if l.each {
		launches, images = batch, 1
	}
	var out []gpuprof.Part
	for range launches {
		c := l.cost.forBatch(images)
		c.Launches = 1
		out = append(out, gpuprof.Part{Kernel: l.Kernel, Cost: c})
	}
	return out
}
