package resnet

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Values of the text options; the first of each group is the default.
const (
	Auto     = "auto"     // CuDNN if the device has it, else Implicit
	Implicit = "implicit" // tiled product that gathers the operand while it multiplies
	Im2col   = "im2col"   // writes the operand, then multiplies
	Direct   = "direct"   // each output has a sum of its own
	CuDNN    = "cudnn"    // the vendor's library, with the algorithm that it prefers

	NHWC = "nhwc"
	NCHW = "nchw"

	Fold  = "fold"  // norms are folded into the weights
	Fused = "fused" // norms are part of the convolution's epilogue
	Apart = "apart" // norms have kernels of their own

	FP32 = "fp32"
	TF32 = "tf32"
	BF16 = "bf16"
	FP16 = "fp16"

	OnHost   = "host"
	OnDevice = "device"
)

// Options choose the implementation of a Net. An empty text means the default.
type Options struct {
	Shape
	Impl       string `knob:"impl"`       // auto, implicit, im2col, direct or cudnn
	Layout     string `knob:"layout"`     // of activations: nhwc or nchw
	BN         string `knob:"bn"`         // batch norms: fold, fused or apart
	Precision  string `knob:"precision"`  // of convolution operands; sums are float32
	Preprocess string `knob:"preprocess"` // host or device
	Library    string `knob:"library"`    // auto, on or off: the vendor's convolutions and products
	MaxBatch   int    `knob:"max_batch"`
	Slots      int    `knob:"depth"` // batches in flight; each has its own activations
	Seed       uint64
	Weights    *Weights // nil: drawn from Seed

	// Ways maps a convolution's name (Shape.Names) to the implementation that replaces Impl for it, as Tune finds them. If
	// Ways is nil, Impl is used for all.
	Ways map[string]string
}

// wayOf returns the implementation of a convolution. The linear layer always uses Implicit.
func (o Options) wayOf(c conv) string {
	switch w := o.Ways[c.name]; {
	case c.isLinear:
		return Implicit
	case w != "":
		return w
	}
	return o.Impl
}

func (o Options) withDefaults() Options {
	for _, f := range []struct {
		text *string
		def  string
	}{{&o.Impl, Implicit}, {&o.Layout, NHWC}, {&o.BN, Fold}, {&o.Precision, FP32}, {&o.Preprocess, OnHost}, {&o.Library, "auto"}} {
		if *f.text == "" {
			*f.text = f.def
		}
	}
	return o
}

// resolved returns the options with defaults for empty texts, and with the device's implementation for Auto.
func (o Options) resolved(info device.Info) Options {
	o = o.withDefaults()
	if o.Impl == Auto {
		o.Impl = Implicit
		if o.offersCuDNN(info) {
			o.Impl = CuDNN
		}
	}
	return o
}

// By returns the implementation used on the device, with Auto replaced.
func (o Options) By(info device.Info) string { return o.resolved(info).Impl }

func (o Options) offersCuDNN(info device.Info) bool {
	return info.Facts["cudnn"] != "" && o.Library != "off"
}

// precisionFlag returns the precision's number in a kernel's flags.
func (o Options) precisionFlag() int {
	return slices.Index(precisionNames[:], o.Precision) * flagPrecision
}

// isNarrow reports whether the library's convolutions read and write 16-bit values.
func (o Options) isNarrow() bool { return o.Precision == BF16 || o.Precision == FP16 }

// Refuse returns an error for options that the device does not support. It allocates nothing.
func (o Options) Refuse(info device.Info) error {
	o = o.withDefaults()
	known := append([]string{Auto, CuDNN}, ownWays()...)
	o = o.resolved(info)
	if err := o.Shape.Check(); err != nil {
		return err
	}
	for _, v := range []struct {
		name, value string
		known       []string
	}{
		{"impl", o.Impl, known}, {"layout", o.Layout, []string{NHWC, NCHW}}, {"bn", o.BN, []string{Fold, Fused, Apart}},
		{"precision", o.Precision, precisionNames[:]}, {"preprocess", o.Preprocess, []string{OnHost, OnDevice}}, {"library", o.Library, []string{"auto", "on", "off"}},
	} {
		if !slices.Contains(v.known, v.value) {
			return refuse("use "+strings.Join(v.known, ", "), "setting %s=%s: it is none of its values", v.name, v.value)
		}
	}
	if o.MaxBatch < 1 || o.Slots < 1 {
		return refuse("use 1 or more of each", "setting max_batch=%d with depth=%d: no batch can be in flight", o.MaxBatch, o.Slots)
	}
	for _, c := range o.convolutions() {
		if words := int64(o.MaxBatch) * int64(max(c.in*c.size*c.size, c.out*c.pixels(), o.colWords(c))); words > math.MaxInt32 {
			return refuse("use a smaller max_batch or image", "setting max_batch=%d: an array of %s has %d values, more than 32 bits count", o.MaxBatch, c.name, words)
		}
	}
	return o.refuseLibrary(info)
}

// colWords returns the number of values of the operand that im2col writes for an image.
func (o Options) colWords(c conv) int {
	if o.wayOf(c) != Im2col {
		return 0
	}
	return c.depth() * c.pixels()
}

func (o Options) refuseLibrary(info device.Info) error {
	switch {
	case o.Impl == CuDNN && info.Kind == "host":
		return refuse("use impl=auto, implicit, im2col or direct", "setting impl=cudnn on device %s: cuDNN needs an NVIDIA GPU", info.Name)
	case o.Impl == CuDNN && info.Facts["cudnn"] == "":
		return refuse("install it where the loader finds it, or use impl=auto", "setting impl=cudnn on device %s: cuDNN was not found or does not start, and gpuprof doctor says why", info.Name)
	case o.Impl == CuDNN && o.Library == "off":
		return refuse("use library=auto, or impl=implicit", "setting library=off with impl=cudnn: it is a library")
	case o.Library != "on" || o.Impl == CuDNN:
		return nil
	case o.Impl != Im2col:
		return refuse("use library=auto, or impl=im2col", "setting library=on with impl=%s: it calls no library", o.Impl)
	case o.Precision != FP32 && o.Precision != TF32:
		return refuse("use library=auto, or precision=fp32 or tf32", "setting library=on with precision=%s: operands are stored as float32 and rounded as they are read", o.Precision)
	case info.Facts["cublas"] == "":
		return refuse("use library=auto or off", "setting library=on on device %s: cuBLAS was not found or does not start, and gpuprof doctor says why", info.Name)
	}
	return nil
}

// usesVendor reports whether the library computes the matrix product of a convolution.
func (o Options) usesVendor(c conv, info device.Info) bool {
	return o.wayOf(c) == Im2col && o.hasLibrary(info)
}

// hasLibrary reports whether the device has a library's matrix product in this precision.
func (o Options) hasLibrary(info device.Info) bool {
	return o.Library != "off" && info.Facts["cublas"] != "" && (o.Precision == FP32 || o.Precision == TF32)
}

// space holds the size of each of a slot's buffers, in bytes.
type space struct {
	act  [actCount]int
	raw  int // images as bytes
	cols int // operand that im2col writes, or a library's 16-bit operand
	sums int // a library's 16-bit result
}

func (o Options) slotSpace() space {
	var s space
	words := o.actWords()
	for i, n := range words {
		s.act[i] = 4 * n * o.MaxBatch
	}
	if o.Preprocess == OnDevice {
		s.raw = 3 * o.Source * o.Source * o.MaxBatch
	}
	for _, c := range o.convolutions() {
		if o.wayOf(c) == CuDNN && o.isNarrow() {
			s.cols = max(s.cols, 2*c.in*c.size*c.size*o.MaxBatch)
			s.sums = max(s.sums, 2*c.out*c.pixels()*o.MaxBatch)
		}
		s.cols = max(s.cols, 4*o.colWords(c)*o.MaxBatch)
	}
	for _, n := range []*int{&s.raw, &s.cols, &s.sums} {
		*n = (*n + 3) / 4 * 4 // a check fills and copies whole words
	}
	return s
}

func (s space) bufferSizes() []int {
	var out []int
	for _, n := range append(s.act[:], s.raw, s.cols, s.sums) {
		if n > 0 {
			out = append(out, n)
		}
	}
	return out
}

func (o Options) weightBytes(c conv, info device.Info) int {
	n := c.out * c.depth()
	if o.weightForm(c, info) == formPanels {
		n = paddedChannels(c.out) * c.depth()
	}
	if o.wayOf(c) == CuDNN && o.isNarrow() {
		n = (2*n + 3) / 4 * 4 // whole words
	} else {
		n *= 4
	}
	if o.BN == Apart && !c.isLinear {
		n += 2 * 4 * paddedChannels(c.out) // ones and zeros for the convolution's epilogue
	}
	return n + 2*4*paddedChannels(c.out)
}

// isNHWC reports whether a layer's operand has NHWC order. The linear layer's operand is the same in both orders.
func (o Options) isNHWC(c conv) bool { return o.Layout == NHWC || c.isLinear }

func (o Options) weightForm(c conv, info device.Info) int {
	switch {
	case !o.isNHWC(c), o.wayOf(c) == CuDNN:
		return formRows
	case o.wayOf(c) == Direct, o.usesVendor(c, info):
		return formColumns
	}
	return formPanels
}

// Memory returns the number of bytes of device memory that Open allocates.
func (o Options) Memory(info device.Info) int64 {
	o = o.resolved(info)
	var n int64
	for _, b := range o.slotSpace().bufferSizes() {
		n += int64(b)
	}
	n *= int64(o.Slots)
	for _, c := range o.convolutions() {
		n += int64(o.weightBytes(c, info))
	}
	return n
}

func (o Options) checkMemory(d device.Device) error {
	need, have := o.Memory(d.Info()), d.Memory().Available
	if need <= have {
		return nil
	}
	return gpuprof.Errorf(gpuprof.ErrMemory, "opening the network: max_batch=%d with depth=%d takes %d bytes on device %s, which has %d", o.MaxBatch, o.Slots, need, d.Info().Name, have).
		WithFix("use a smaller max_batch or depth")
}

// tolerance returns the largest allowed error of a convolution's result, relative to the norm of the float64 result.
func (o Options) tolerance() float64 {
	return map[string]float64{FP32: 1e-5, TF32: 2e-3, BF16: 2e-2, FP16: 5e-3}[o.withDefaults().Precision]
}

func unknownGroup(group, most int) error {
	return gpuprof.Errorf(gpuprof.ErrUsage, "enqueuing group %d of the network: it has %d", group, most).WithFix("use the groups of Groups")
}

func unknownSlot(slot, batch int, o Options) error {
	return gpuprof.Errorf(gpuprof.ErrUsage, "enqueuing a batch of %d in slot %d: the network has %d slots of %d images", batch, slot, o.Slots, o.MaxBatch).WithFix("use a slot and a batch that were opened")
}

func (o Options) String() string {
	return fmt.Sprintf("%s %s %s %s", o.Impl, o.Layout, o.BN, o.Precision)
}
