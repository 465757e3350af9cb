package resnet

import (
	"strings"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// NormKernel is the name of the kernel for a batch norm that is neither folded nor fused.
const NormKernel = "resnet_norm"

// The kernels of the network. A convolution's integers are batch, in, out, k, stride, size, outSize, flags. Its scale
// and shift, and weights in the order formPanels, are padded to whole panels of output channels. One item of a
// convolution is one row of an image's outputs on the host device, and a tile of 64 outputs by 64 channels on CUDA.
var (
	// Computes out = relu(scale sum + shift + res), with relu and res as the flags select. The kernel gathers the operand
	// while it multiplies (implicit GEMM).
	convKernel = newKernel[resnetConvArgs]("resnet_conv", convHost, 1)
	// Computes the results of convKernel without tiles: each output has a sum of its own.
	directKernel = newKernel[resnetDirectArgs]("resnet_direct", directHost, 1)
	// Writes the operand: cols [batch,pixels,K] in nhwc, [batch,K,pixels] in nchw.
	im2colKernel = newKernel[resnetIm2colArgs]("resnet_im2col", im2colHost, 1)

	// Computes y = relu(scale x + shift + res) in place. One item is one value, here and in the kernels below.
	normKernel = newKernel[resnetNormArgs](NormKernel, normHost, 2048)
	// Computes y = relu(scale y16 + shift + res) from a library's 16-bit result y16, on CUDA only. Buffers: y16, scale,
	// shift, res, out. Integers: channels, pixels, flags.
	widenKernel = newKernel[resnetWidenArgs]("resnet_widen", nil, 2048)
	// 3x3 max pooling with stride 2. Buffers: x, out; channels, size, outSize, flags.
	poolKernel = newKernel[resnetPoolArgs]("resnet_pool", poolHost, 256)
	// Mean over a plane of an image. Buffers: x, out; channels, pixels, flags. One item is one channel of an image.
	meanKernel = newKernel[resnetMeanArgs]("resnet_mean", meanHost, 64)
	// Resizes, crops and normalises bytes [batch,source,source,3]. Buffers: images, out; source, image, resized,
	// crop, flags. One item is one row of a crop.
	prepareKernel = newKernel[resnetPrepareArgs]("resnet_prepare", prepareHost, 8)
)

func newKernel[T any](name string, host func(*device.Args, int, int), grain int) device.Kernel {
	k := device.Typed[T](device.Kernel{Name: name, Host: host, Grain: grain, PTX: networkPTX, Threads: 256, PerBlock: 256})
	switch {
	case strings.HasPrefix(name, "resnet_conv"), strings.HasPrefix(name, "resnet_prepare"), strings.HasPrefix(name, "resnet_im2col"):
		k.PerBlock = 1
	}
	return k
}

// Flags of the kernels.
const (
	flagRelu = 1 << iota
	flagRes
	flagNCHW
	flagPrecision // times the number of the precision
)

type geometry struct {
	batch, in, out, k, stride, size, outSize, flags int
}

func convGeometry(a *resnetConvView) geometry {
	return geometry{
		batch: a.batch.Int(), in: a.in.Int(), out: a.channels.Int(), k: a.k.Int(),
		stride: a.stride.Int(), size: a.size.Int(), outSize: a.outSize.Int(), flags: a.flags.Int(),
	}
}

func im2colGeometry(a *resnetIm2colView) geometry {
	return geometry{
		batch: a.batch.Int(), in: a.in.Int(), out: a.channels.Int(), k: a.k.Int(),
		stride: a.stride.Int(), size: a.size.Int(), outSize: a.outSize.Int(), flags: a.flags.Int(),
	}
}

func (g geometry) isNCHW() bool { return g.flags&flagNCHW != 0 }
func (g geometry) depth() int   { return g.in * g.k * g.k }
func (g geometry) pad() int     { return g.k / 2 }
func (g geometry) pixels() int  { return g.outSize * g.outSize }

// isFlat reports whether the pixels of all images form the rows of one matrix product.
func (g geometry) isFlat() bool { return g.k == 1 && g.stride == 1 && !g.isNCHW() }
func (g geometry) rounds() int  { return g.flags / flagPrecision }
func (g geometry) least() float32 {
	if g.flags&flagRelu != 0 {
		return 0
	}
	return -inf32
}

// residual returns the values of res if the flags contain flagRes, else nil.
func residual(res device.Mem, flags int) []float32 {
	if flags&flagRes == 0 {
		return nil
	}
	return res.Floats()
}
