package resnet

import (
	"strings"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// NormKernel is the kernel of a batch norm that is neither folded nor fused.
const NormKernel = "resnet_norm"

// The kernels of the network. A convolution's integers are batch, in, out, k, stride, size,
// outSize, flags; scale, shift and the weights of formPanels are filled up to whole panels
// of output channels. One item of a convolution is a row of outputs of an image on the host
// device, a tile of 64 outputs by 64 channels on CUDA.
var (
	// out = relu(scale sum + shift + res), as the flags select. The kernel gathers the product's operand while it
	// reads. Buffers: x, w, scale, shift, res, out.
	convKernel = newKernel("resnet_conv", "bbbbbbiiiiiiii", convHost, 1)
	// The same without tiles: each output sums by itself.
	directKernel = newKernel("resnet_direct", "bbbbbbiiiiiiii", directHost, 1)
	// The operand written out: cols [batch,pixels,K] in nhwc, [batch,K,pixels] in nchw.
	// Buffers: x, cols.
	im2colKernel = newKernel("resnet_im2col", "bbiiiiiiii", im2colHost, 1)

	// y = relu(scale x + shift + res) in place. Buffers: x, scale, shift, res; channels,
	// pixels, flags. One item is one value, as in the kernels below.
	normKernel = newKernel(NormKernel, "bbbbiii", normHost, 2048)
	// y = relu(scale y16 + shift + res) from a library's result in 16 bits; on CUDA alone. Buffers: y16, scale, shift,
	// res, out; channels, pixels, flags.
	widenKernel = newKernel("resnet_widen", "bbbbbiii", nil, 2048)
	// The maximum of 3x3 with stride 2. Buffers: x, out; channels, size, outSize, flags.
	poolKernel = newKernel("resnet_pool", "bbiiii", poolHost, 256)
	// The mean over an image's plane. Buffers: x, out; channels, pixels, flags. One item is
	// one channel of an image.
	meanKernel = newKernel("resnet_mean", "bbiii", meanHost, 64)
	// Bytes [batch,source,source,3] to float32. Buffers: images, out; source, image,
	// resized, crop, flags. One item is one row of a crop.
	prepareKernel = newKernel("resnet_prepare", "bbiiiii", prepareHost, 8)
	// Fills with a word. Buffers: out; the word. One item is four bytes.
	fillKernel = newKernel("resnet_fill", "bi", fillHost, 4096)
)

func newKernel(name, sig string, host func(*device.Args, int, int), grain int) device.Kernel {
	k := device.Kernel{Name: name, Sig: sig, Host: host, Grain: grain, PTX: networkPTX, Threads: 256, PerBlock: 256}
	switch {
	case strings.HasPrefix(name, "resnet_conv"), strings.HasPrefix(name, "resnet_prepare"), strings.HasPrefix(name, "resnet_im2col"):
		k.PerBlock = 1
	}
	return k
}

// Flags of a kernel.
const (
	flagRelu = 1 << iota
	flagRes
	flagNCHW
	flagPrecision // times the precision
)

// geometry is the shape of a convolution, from its kernel's integers.
type geometry struct {
	batch, in, out, k, stride, size, outSize, flags int
}

func readGeometry(a *device.Args, at int) geometry {
	return geometry{a.Int(at), a.Int(at + 1), a.Int(at + 2), a.Int(at + 3), a.Int(at + 4), a.Int(at + 5), a.Int(at + 6), a.Int(at + 7)}
}

func (g geometry) isNCHW() bool { return g.flags&flagNCHW != 0 }
func (g geometry) depth() int   { return g.in * g.k * g.k }
func (g geometry) pad() int     { return g.k / 2 }
func (g geometry) pixels() int  { return g.outSize * g.outSize }

// isFlat reports whether the pixels of all images are rows of one product.
func (g geometry) isFlat() bool { return g.k == 1 && g.stride == 1 && !g.isNCHW() }
func (g geometry) rounds() int  { return g.flags / flagPrecision }
func (g geometry) least() float32 {
	if g.flags&flagRelu != 0 {
		return 0
	}
	return -inf32
}

// residual returns the buffer at i where the flags add it, else nil.
func residual(a *device.Args, i, flags int) []float32 {
	if flags&flagRes == 0 {
		return nil
	}
	return a.Floats(i)
}
