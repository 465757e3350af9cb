package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/dynlib"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// convSig is the signature of the convolutions in vendor libraries. Buffers: x [n, in, size, size], w [out, in, k, k],
// y [n, out, outSize, outSize]. Integers: in, out, k, stride, size, outSize, and 1 for channels-last arrays ([n, size,
// size, in] and so on), else 0. Padding is k/2 zeros. One item is one image. Values are float32, or 16 bits wide for
// bf16 and fp16; sums are float32.
const convSig = "bbbiiiiiii"

const convPrefix = "conv_" // the prefix of Kernel.Lib, before the precision

// Constants of cudnn_cnn.h (cudnn_cnn_infer.h in version 8) and cudnn_ops.h.
const (
	dnnNCHW, dnnNHWC    = 0, 1 // CUDNN_TENSOR_...
	dnnCrossCorrelation = 1    // CUDNN_CROSS_CORRELATION
)

// convAlgorithms are the names of cudnnConvolutionFwdAlgo_t, in its order.
var convAlgorithms = [...]string{
	"implicit_gemm", "implicit_precomp_gemm", "gemm", "direct", "fft", "fft_tiling", "winograd", "winograd_nonfused",
}

// convPerf is cudnnConvolutionFwdAlgoPerf_t.
type convPerf struct {
	algo, status int32
	_            float32 // estimated time in ms
	_            uintptr // bytes of workspace, from cudnnGetConvolutionForwardWorkspaceSize
	_            int32   // determinism
	math         int32
	_            [3]int32
}

// convWorkspace is the maximum workspace of an algorithm in bytes. Faster algorithms need more memory; without a limit
// a workload would fail on a GPU whose memory is in use.
const convWorkspace = 512 << 20

// dnnConv holds the convolution functions that cuDNN 8 and 9 both have, and the plans made with them.
type dnnConv struct {
	createFilter, createConv   func(d *uintptr) int32
	destroyFilter, destroyConv func(d uintptr) int32

	setTensor  func(d uintptr, format, dataType, n, c, h, w int32) int32
	setFilter  func(d uintptr, dataType, format, k, c, h, w int32) int32
	setConv    func(d uintptr, padH, padW, strideH, strideW, dilationH, dilationW, mode, compute int32) int32
	setMath    func(d uintptr, math int32) int32
	algorithms func(h, x, w, conv, y uintptr, most int32, got *int32, perf *convPerf) int32
	workspace  func(h, x, w, conv, y uintptr, algo int32, bytes *uintptr) int32
	forward    uintptr

	plans map[convShape]*convPlan
}

// dnnMemory is the workspace of the cuDNN calls on one stream.
type dnnMemory struct {
	p    devicePtr
	n    uintptr
	free []func() error
}

type convShape struct {
	kind                                string
	n, in, out, k, stride, size, outSiz int
	last                                bool // channels last
}

// convPlan holds the cuDNN descriptors of a shape and its usable algorithms.
type convPlan struct {
	x, w, y, conv uintptr
	usable        []convChoice // fastest first, by cuDNN's estimate
	ran           bool         // the first of usable has run once, so cuDNN does support it
}

type convChoice struct {
	algo, math int32
	memory     uintptr
}

// needConv loads cuDNN's convolution functions once.
func (d *Device) needConv() error {
	if err := d.needDNN(); err != nil {
		return err
	}
	n := d.dnn
	if n.conv != nil {
		return nil
	}
	c := &dnnConv{plans: map[convShape]*convPlan{}}
	if err := n.bindMore([]symbol{
		{"cudnnCreateFilterDescriptor", &c.createFilter, false}, {"cudnnDestroyFilterDescriptor", &c.destroyFilter, false},
		{"cudnnCreateConvolutionDescriptor", &c.createConv, false}, {"cudnnDestroyConvolutionDescriptor", &c.destroyConv, false},
		{"cudnnSetTensor4dDescriptor", &c.setTensor, false}, {"cudnnSetFilter4dDescriptor", &c.setFilter, false},
		{"cudnnSetConvolution2dDescriptor", &c.setConv, false}, {"cudnnSetConvolutionMathType", &c.setMath, false},
		{"cudnnGetConvolutionForwardAlgorithm_v7", &c.algorithms, false},
		{"cudnnGetConvolutionForwardWorkspaceSize", &c.workspace, false}, {"cudnnConvolutionForward", &c.forward, false},
	}); err != nil {
		return err
	}
	n.conv = c
	d.closers = append(d.closers, n.closeConv)
	return nil
}

func (n *dnn) closeConv() error {
	var errs []error
	for _, p := range n.conv.plans {
		errs = append(errs, n.destroyPlan(p))
	}
	return errors.Join(errs...)
}

// releaseStream frees the workspace of a stream that is being closed.
func (n *dnn) releaseStream(s streamHandle) error {
	if n == nil || n.work[s] == nil {
		return nil
	}
	var errs []error
	for _, free := range n.work[s].free {
		errs = append(errs, free())
	}
	delete(n.work, s)
	return errors.Join(errs...)
}

func (n *dnn) destroyPlan(p *convPlan) error {
	var errs []error
	for _, d := range []struct {
		h       uintptr
		destroy func(uintptr) int32
	}{{p.x, n.destroyTensor}, {p.y, n.destroyTensor}, {p.w, n.conv.destroyFilter}, {p.conv, n.conv.destroyConv}} {
		if d.h != 0 {
			errs = append(errs, n.check("destroying a descriptor of a convolution", d.destroy(d.h)))
		}
	}
	return errors.Join(errs...)
}

// convolution is the library routine of one precision. cuDNN reads the memory at factors during the call.
type convolution struct {
	n       *dnn
	name    string
	kind    string       // key in dnnTypes: the precision
	factors *[2]float32  // 1 and 0
	args    *[13]uintptr // of the current call; kept here so that a call allocates nothing
	last    *convPlan    // the plan of the most recent launch
	shape   convShape    // the shape to which last belongs
}

// newConvolution makes the routine named by k.Lib.
func (d *Device) newConvolution(k *device.Kernel) (libRoutine, error) {
	kind := strings.TrimPrefix(k.Lib, convPrefix)
	if _, ok := dnnTypes[kind]; !ok {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "no library routine is called %q", k.Lib).WithFix("use conv_fp32, conv_tf32, conv_bf16 or conv_fp16")
	}
	if k.Sig != convSig {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "library routine %s has signature %q, not %q", k.Lib, convSig, k.Sig)
	}
	if err := d.needConv(); err != nil {
		return nil, err
	}
	return &convolution{n: d.dnn, name: k.Lib, kind: kind, factors: &[2]float32{1, 0}, args: new([13]uintptr)}, nil
}

func (c *convolution) libraryName() string { return "cudnn " + c.n.dev.libraries["cudnn"] }

func (c *convolution) shapeOf(n int, a *device.Args) convShape {
	return convShape{c.kind, n, a.Int(3), a.Int(4), a.Int(5), a.Int(6), a.Int(7), a.Int(8), a.Int(9) != 0}
}

// findPlan returns the plan of a shape, making it at the first use.
func (c *convolution) findPlan(s convShape) (*convPlan, error) {
	if c.last != nil && c.shape == s {
		return c.last, nil
	}
	p := c.n.conv.plans[s]
	if p == nil {
		var err error
		if p, err = c.n.newPlan(s); err != nil {
			return nil, fmt.Errorf("%s: %w", s, err)
		}
		c.n.conv.plans[s] = p
	}
	c.last, c.shape = p, s
	return p, nil
}

// streamWorkspace returns workspace of at least the given bytes for a call on stream s, or 0 if bytes is 0.
func (n *dnn) streamWorkspace(s streamHandle, bytes uintptr) (devicePtr, error) {
	if bytes == 0 {
		return 0, nil
	}
	if s == n.dev.own && n.captureStream != 0 {
		s = n.captureStream
	}
	m := n.work[s]
	if m == nil {
		m = &dnnMemory{}
		n.work[s] = m
	}
	if m.n < bytes {
		size := uintptr(1) << 20
		for size < bytes {
			size *= 2 // doubling: the abandoned workspaces together are no larger than the new one
		}
		p, free, err := n.dev.libraryMemory(size, "allocating cuDNN's workspace")
		if err != nil {
			return 0, err
		}
		m.p, m.n, m.free = p, size, append(m.free, free)
	}
	return m.p, nil
}

// enqueue computes n images. It skips an algorithm that cuDNN listed but refuses at the first use.
func (c *convolution) enqueue(s streamHandle, n int, a *device.Args) Result {
	return c.n.dev.callVendor(func() error { return c.convolve(s, n, a) })
}

func (c *convolution) convolve(s streamHandle, n int, a *device.Args) error {
	p, err := c.findPlan(c.shapeOf(n, a))
	if err == nil {
		err = c.checkSizes(n, a)
	}
	if err != nil {
		return err
	}
	c.args[0], c.args[1] = c.n.h, uintptr(s)
	if code := int32(uint32(dynlib.Call(c.n.setStream, c.args[:2]))); code != 0 {
		return c.n.statusError("cudnnSetStream", code)
	}
	for {
		code, err := c.callForward(p, s, a)
		if err == nil && code == 0 {
			p.ran = true
			return nil
		}
		if err == nil && !p.ran && len(p.usable) > 1 && dnnNumber(code)/dnnKind*dnnKind == dnnNotSupported {
			p.usable = p.usable[1:]
			if err = c.n.setArithmetic(p, p.usable[0]); err == nil {
				continue
			}
		}
		if err == nil {
			err = c.n.statusError(fmt.Sprintf("%s: cudnnConvolutionForward by %s", c.shape, convAlgorithm(p.usable[0].algo)), code)
		}
		return err
	}
}

func (c *convolution) callForward(p *convPlan, s streamHandle, a *device.Args) (int32, error) {
	way := &p.usable[0]
	work, err := c.n.streamWorkspace(s, way.memory)
	if err != nil {
		return 0, err
	}
	*c.args = [...]uintptr{c.n.h, uintptr(unsafe.Pointer(&c.factors[0])), p.x, uintptr(a[0].Bits), p.w, uintptr(a[1].Bits), p.conv,
		uintptr(way.algo), uintptr(work), way.memory, uintptr(unsafe.Pointer(&c.factors[1])), p.y, uintptr(a[2].Bits)}
	code := int32(uint32(dynlib.Call(c.n.conv.forward, c.args[:])))
	runtime.KeepAlive(c.factors)
	return code, nil
}

// checkSizes returns an error if a buffer is smaller than its operand: the library would silently exceed it.
func (c *convolution) checkSizes(n int, a *device.Args) error {
	s, bytes := &c.shape, dnnTypes[c.kind].bytes
	for i, need := range [3]int{n * s.in * s.size * s.size * bytes, s.out * s.in * s.k * s.k * bytes, n * s.out * s.outSiz * s.outSiz * bytes} {
		if b := a[i].Buf; b != nil && b.Len() < need {
			return gpuprof.Errorf(gpuprof.ErrDevice, "%s: argument %d has %d bytes and needs %d", s, i, b.Len(), need).WithFix("allocate it for the convolution")
		}
	}
	return nil
}

// prepareCapture prepares a launch for a capture on the device's own stream. It makes the plan and allocates the
// workspace of s, the stream on which the graph will run, because nothing can be allocated during a capture.
func (c *convolution) prepareCapture(s streamHandle, n int, a *device.Args) error {
	p, err := c.findPlan(c.shapeOf(n, a))
	if err != nil {
		return err
	}
	c.n.captureStream = s
	_, err = c.n.streamWorkspace(s, p.usable[0].memory)
	return err
}

func (c *convolution) endCapture() error {
	c.n.captureStream = 0
	return nil
}

// Algorithm names the algorithm that the library uses for a launch of n items of f, such as "implicit_precomp_gemm".
// It is empty for other kernels and for a convolution that has not run.
func (f *kernelFunc) Algorithm(n int, a *device.Args) string {
	c, ok := f.lib.(*convolution)
	if !ok {
		return ""
	}
	p := c.n.conv.plans[c.shapeOf(n, a)]
	if p == nil || !p.ran {
		return "" // before the first run cuDNN may still choose another
	}
	return convAlgorithm(p.usable[0].algo)
}
