package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/dynlib"
)

// Constants of cudnn_graph.h and cudnn_adv.h.
const (
	dnnFloat, dnnHalf, dnnBF16 = 0, 2, 9 // CUDNN_DATA_...
	dnnDefaultMath             = 0       // CUDNN_DEFAULT_MATH: TF32 for float32
	dnnTensorMath              = 1       // CUDNN_TENSOR_OP_MATH
	dnnFMAMath                 = 3       // CUDNN_FMA_MATH: true float32
	dnnStandard                = 0       // CUDNN_RNN_ALGO_STANDARD
	dnnGRU                     = 3       // CUDNN_GRU
	dnnDoubleBias              = 2       // CUDNN_RNN_DOUBLE_BIAS: b_i and b_h separate, as in PyTorch
	dnnOneWay, dnnLinear       = 0, 0    // CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT
	dnnSeqMajorPacked          = 1       // CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED
	dnnInference               = 0       // CUDNN_FWD_MODE_INFERENCE
	dnnPaddedIO                = 0       // CUDNN_RNN_PADDED_IO_DISABLED
)

// dnnTypes maps the precisions of layers and convolutions to the storage type, the math type of the products and the
// bytes per value. Sums are always float32.
var dnnTypes = map[string]struct{ data, math, bytes int }{
	"fp32": {dnnFloat, dnnFMAMath, 4},
	"tf32": {dnnFloat, dnnDefaultMath, 4},
	"fp16": {dnnHalf, dnnTensorMath, 2},
	"bf16": {dnnBF16, dnnDefaultMath, 2},
}

// dnn is cuDNN 8 or 9 on one device; err is set if it cannot be used. Only functions that both versions have are used:
// the RNN functions of version 8, and the convolutions of conv.go.
type dnn struct {
	dev  *Device
	path string
	err  error
	h    uintptr

	version     func() uintptr
	create      func(h *uintptr) int32
	destroy     func(h uintptr) int32
	setStream   uintptr
	errorString func(status int32) string

	createTensor, createDropout, createRNN, createData     func(d *uintptr) int32
	destroyTensor, destroyDropout, destroyRNN, destroyData func(d uintptr) int32

	setTensor  func(d uintptr, dataType, dims int32, dim, stride *int32) int32
	getTensor  func(d uintptr, want int32, dataType, dims, dim, stride *int32) int32
	setDropout func(d, h uintptr, rate float32, states, size uintptr, seed uint64) int32
	setRNN     func(d uintptr, algo, cell, bias, direction, input, dataType, mathPrec, mathType, inputSize, hidden, projection, layers int32, dropout uintptr, aux uint32) int32
	setData    func(d uintptr, dataType, layout, steps, batch, width int32, lengths *int32, padding unsafe.Pointer) int32
	weightSize func(h, rnn uintptr, n *uintptr) int32
	tempSizes  func(h, rnn uintptr, mode int32, x uintptr, work, reserve *uintptr) int32
	weights    func(h, rnn uintptr, layer int32, n uintptr, space devicePtr, id int32, mDesc uintptr, m *devicePtr, bDesc uintptr, b *devicePtr) int32
	forward    uintptr

	lib       uintptr
	conv      *dnnConv                       // nil until the first convolution is loaded
	lastError func(text *byte, most uintptr) // nil before version 9

	// work holds one workspace per stream, because calls on two streams may run at once. When a call needs a larger one,
	// the old workspace stays until the stream is closed, since graphs may use it.
	work          map[streamHandle]*dnnMemory
	captureStream streamHandle // stream whose workspace the device's own stream uses during a capture; 0: its own
}

// needDNN loads cuDNN once and keeps the outcome.
func (d *Device) needDNN() error {
	if d.dnn != nil {
		return d.dnn.err
	}
	n := &dnn{dev: d, work: map[streamHandle]*dnnMemory{}}
	d.dnn = n
	// cuDNN finds cuBLAS by name only. Loading cuBLAS first lets it find a copy in a Python package.
	_ = d.needBlas()
	n.err = useVendor("cuDNN", []string{fileName("cudnn", 9), fileName("cudnn", 8)}, n.startLibrary)
	if d.lost != nil {
		n.err = d.reportLost()
	}
	return n.err
}

func (n *dnn) startLibrary(lib uintptr, path string) error {
	if err := bindSymbols(lib, path, []symbol{
		{"cudnnGetVersion", &n.version, false}, {"cudnnCreate", &n.create, false}, {"cudnnDestroy", &n.destroy, false},
		{"cudnnGetErrorString", &n.errorString, false},
		{"cudnnCreateTensorDescriptor", &n.createTensor, false}, {"cudnnDestroyTensorDescriptor", &n.destroyTensor, false},
		{"cudnnCreateDropoutDescriptor", &n.createDropout, false}, {"cudnnDestroyDropoutDescriptor", &n.destroyDropout, false},
		{"cudnnCreateRNNDescriptor", &n.createRNN, false}, {"cudnnDestroyRNNDescriptor", &n.destroyRNN, false},
		{"cudnnCreateRNNDataDescriptor", &n.createData, false}, {"cudnnDestroyRNNDataDescriptor", &n.destroyData, false},
		{"cudnnSetTensorNdDescriptor", &n.setTensor, false}, {"cudnnGetTensorNdDescriptor", &n.getTensor, false},
		{"cudnnSetDropoutDescriptor", &n.setDropout, false}, {"cudnnSetRNNDescriptor_v8", &n.setRNN, false},
		{"cudnnSetRNNDataDescriptor", &n.setData, false}, {"cudnnGetRNNWeightSpaceSize", &n.weightSize, false},
		{"cudnnGetRNNTempSpaceSizes", &n.tempSizes, false}, {"cudnnGetRNNWeightParams", &n.weights, false},
		{"cudnnSetStream", &n.setStream, false}, {"cudnnRNNForward", &n.forward, false},
	}); err != nil {
		return fmt.Errorf("%w and is older than cuDNN 8", err)
	}
	if status := n.create(&n.h); status != 0 {
		why := advice{cause: dnnAdvice(status).cause} // useVendor appends the fix
		return fmt.Errorf("%s does not start: %w", path, why.newError(gpuprof.ErrDevice, n.statusText("making a handle", status)))
	}
	if addr := dynlib.Symbol(lib, "cudnnGetLastErrorString"); addr != 0 {
		dynlib.Bind(&n.lastError, addr)
	}
	n.path, n.lib = path, lib
	n.dev.addLibrary("cudnn", dnnVersion(n.version()))
	n.dev.closers = append(n.dev.closers, func() error {
		var errs []error
		for s := range n.work { // of streams that are still open
			errs = append(errs, n.releaseStream(s))
		}
		return errors.Join(append(errs, n.check("destroying a handle", n.destroy(n.h)))...)
	})
	return nil
}

// bindMore binds functions that only some workloads call.
func (n *dnn) bindMore(list []symbol) error {
	if err := bindSymbols(n.lib, n.path, list); err != nil {
		return gpuprof.Errorf(gpuprof.ErrDevice, "%w", err).WithFix("install cuDNN 8 or 9 whole")
	}
	return nil
}

// dnnVersion formats 8907 as "8.9.7" and 90200 as "9.2.0".
func dnnVersion(v uintptr) string {
	if v < 10000 {
		return fmt.Sprintf("%d.%d.%d", v/1000, v/100%10, v%100)
	}
	return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100)
}

// statusText describes a status, and from cuDNN 9 on includes cuDNN's last error message. Call it in the thread of the
// failed call.
func (n *dnn) statusText(doing string, status int32) string {
	text := fmt.Sprintf("%s: cuDNN status %d (%s)", doing, status, n.errorString(status))
	if n.lastError == nil {
		return text
	}
	said := make([]byte, 512)
	n.lastError(&said[0], uintptr(len(said)-1))
	if line := strings.Join(strings.Fields(string(said[:bytes.IndexByte(said, 0)])), " "); line != "" {
		text += fmt.Sprintf(", which says %q", line)
	}
	return text
}

func (n *dnn) check(doing string, status int32) error {
	if status == 0 || n.dev.lost != nil { // after a fault the context is destroyed, so releasing fails for a known reason
		return nil
	}
	return n.statusError(doing, status)
}

// statusError turns a status into an error: a lost device's own error, ErrMemory if memory ran out, or ErrDevice.
func (n *dnn) statusError(doing string, status int32) error {
	if err := n.dev.checkWorking(doing); err != nil {
		return err
	}
	kind := gpuprof.ErrDevice
	switch dnnNumber(status) {
	case dnnHostMemory, dnnDeviceMemory:
		kind = gpuprof.ErrMemory
	}
	return dnnAdvice(status).newError(kind, n.statusText(doing, status))
}
