package cuda

import (
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/dynlib"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// layer is a stack of GRU layers with its cuDNN descriptors, bound to its buffers, as BindGRU returns it. It implements
// device.Op.
type layer struct {
	dev  *Device
	n    *dnn
	spec device.GRUSpec

	rnn, xData, yData, hDesc uintptr
	lengths                  devicePtr
	weightBytes, workBytes   uintptr
	undo                     []func() error

	fn            *kernelFunc // the cuDNN call's entry in the list of kernels in flight
	bufs          [4]*Buffer  // x, h0, y, hn
	weights, work devicePtr
	parts         []gpuprof.Part
	args          [20]uintptr // of the current call; kept here so that a call allocates nothing
}

// BindGRU implements device.GRUMaker with cuDNN's standard algorithm in inference mode. It copies the weights into
// cuDNN's layout, so later changes of them have no effect. The buffer h0 may be another layer's y or hn, but not this
// layer's hn.
func (d *Device) BindGRU(spec device.GRUSpec, x, h0, weights, y, hn device.Buffer) (device.Op, error) {
	const doing = "binding a GRU layer"
	if err := d.enter(doing); err != nil {
		return nil, err
	}
	defer d.leave()
	l := &layer{dev: d, spec: spec}
	w, err := l.checkBuffers(doing, x, h0, weights, y, hn)
	if err != nil {
		return nil, err
	}
	if err := d.needDNN(); err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	l.n = d.dnn
	if err := l.allocateLayer(w); err != nil {
		_ = l.release() // the first error matters more
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	k := &device.Kernel{Name: "gru_cudnn_" + spec.Precision}
	l.fn = &kernelFunc{dev: d, kernel: k}
	d.funcs = append(d.funcs, l.fn)
	d.closers = append(d.closers, l.release)
	l.parts = []gpuprof.Part{{Kernel: k.Name, Cost: gruCost(spec)}}
	return l, nil
}

// gruSizes returns the numbers of elements of x, h0, weights, y and hn.
func gruSizes(s device.GRUSpec) [5]int {
	weights := 0
	for i := range s.Layers {
		in := s.Hidden
		if i == 0 {
			in = s.Input
		}
		weights += 3 * s.Hidden * (in + s.Hidden + 2)
	}
	state := s.Layers * s.Batch * s.Hidden
	return [5]int{s.Steps * s.Batch * s.Input, state, weights, s.Steps * s.Batch * s.Hidden, state}
}

// gruCost counts two flops per matrix weight, batch row and step, and one read or write of every value. It counts no
// pointwise work.
func gruCost(s device.GRUSpec) gpuprof.Cost {
	n, bytes := gruSizes(s), dnnTypes[s.Precision].bytes
	matrices := n[2] - 6*s.Layers*s.Hidden
	return gpuprof.Cost{
		Flops:     2 * int64(matrices) * int64(s.Batch) * int64(s.Steps),
		BytesRead: int64(n[0]+n[1]+n[2]) * int64(bytes), BytesWritten: int64(n[3]+n[4]) * int64(bytes), Launches: 1,
	}
}

// checkBuffers checks the buffers' sizes and returns the weights' buffer.
func (l *layer) checkBuffers(doing string, bufs ...device.Buffer) (*Buffer, error) {
	s := l.spec
	if err := checkSpec(doing, s); err != nil {
		return nil, err
	}
	kind := dnnTypes[s.Precision]
	var mine [5]*Buffer
	for i, n := range gruSizes(s) {
		name := [...]string{"x", "h0", "weights", "y", "hn"}[i]
		b, fault := l.dev.checkBuffer(bufs[i])
		if fault != (gpuprof.Unfit{}) {
			return nil, fault.Of("%s: buffer %s", doing, name)
		}
		if b.place != device.OnDevice || b.size < n*kind.bytes {
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "%s: buffer %s is %s and has to be device memory of %d bytes", doing, name, b, n*kind.bytes)
		}
		mine[i] = b
	}
	if mine[1] == mine[4] {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "%s: h0 and hn are one buffer", doing).WithFix("give them one each")
	}
	l.bufs = [4]*Buffer{mine[0], mine[1], mine[3], mine[4]}
	return mine[2], nil
}

// checkSpec returns an error for a spec that no library supports.
func checkSpec(doing string, s device.GRUSpec) error {
	if _, ok := dnnTypes[s.Precision]; !ok {
		return gpuprof.Errorf(gpuprof.ErrUsage, "%s: unknown precision %q", doing, s.Precision).WithFix("use fp32, tf32, bf16 or fp16")
	}
	for _, v := range []int{s.Input, s.Hidden, s.Layers, s.Batch, s.Steps} {
		if v < 1 || v > math.MaxInt32 {
			return gpuprof.Errorf(gpuprof.ErrUsage, "%s of %d inputs, %d hidden, %d layers, batch %d, %d steps", doing, s.Input, s.Hidden, s.Layers, s.Batch, s.Steps).WithFix("give 1 or more of each")
		}
	}
	return nil
}

// allocateLayer makes the descriptors, allocates the memory and copies the weights.
func (l *layer) allocateLayer(weights *Buffer) error {
	if err := l.describeStack(); err != nil {
		return err
	}
	for _, m := range []struct {
		to *devicePtr
		n  uintptr
	}{{&l.weights, l.weightBytes}, {&l.work, max(l.workBytes, 1)}} {
		if err := l.allocateWork(m.to, m.n); err != nil {
			return err
		}
	}
	return l.placeWeights(weights)
}

func (l *layer) describeStack() error {
	n, s := l.n, l.spec
	kind := dnnTypes[s.Precision]
	var dropout, reserve uintptr // inference reserves nothing
	if err := l.createDescriptors(&dropout); err != nil {
		return err
	}
	hidden, deep := int32(s.Hidden), int32(s.Layers)
	lengths := make([]int32, s.Batch)
	for i := range lengths {
		lengths[i] = int32(s.Steps)
	}
	dims := [3]int32{deep, int32(s.Batch), hidden}
	strides := [3]int32{int32(s.Batch) * hidden, hidden, 1}
	data := int32(kind.data)
	for _, step := range []struct {
		doing string
		do    func() int32
	}{
		{"setting dropout", func() int32 { return n.setDropout(dropout, n.h, 0, 0, 0, 0) }},
		{"describing the layer", func() int32 {
			return n.setRNN(l.rnn, dnnStandard, dnnGRU, dnnDoubleBias, dnnOneWay, dnnLinear, data, dnnFloat, int32(kind.math),
				int32(s.Input), hidden, hidden, deep, dropout, dnnPaddedIO)
		}},
		{"describing x", func() int32 {
			return n.setData(l.xData, data, dnnSeqMajorPacked, int32(s.Steps), int32(s.Batch), int32(s.Input), &lengths[0], nil)
		}},
		{"describing y", func() int32 {
			return n.setData(l.yData, data, dnnSeqMajorPacked, int32(s.Steps), int32(s.Batch), hidden, &lengths[0], nil)
		}},
		{"describing h", func() int32 { return n.setTensor(l.hDesc, data, 3, &dims[0], &strides[0]) }},
		{"sizing the weights", func() int32 { return n.weightSize(n.h, l.rnn, &l.weightBytes) }},
		{"sizing the workspace", func() int32 { return n.tempSizes(n.h, l.rnn, dnnInference, l.xData, &l.workBytes, &reserve) }},
	} {
		if err := n.check(step.doing, step.do()); err != nil {
			return err
		}
	}
	return l.sendLengths(lengths)
}

// createDescriptors creates the descriptors; release destroys them.
func (l *layer) createDescriptors(dropout *uintptr) error {
	n := l.n
	for _, c := range []struct {
		to      *uintptr
		create  func(*uintptr) int32
		destroy func(uintptr) int32
	}{
		{&l.rnn, n.createRNN, n.destroyRNN}, {dropout, n.createDropout, n.destroyDropout},
		{&l.xData, n.createData, n.destroyData}, {&l.yData, n.createData, n.destroyData}, {&l.hDesc, n.createTensor, n.destroyTensor},
	} {
		if err := n.check("making a descriptor", c.create(c.to)); err != nil {
			return err
		}
		h := *c.to
		l.undo = append(l.undo, func() error { return n.check("destroying a descriptor", c.destroy(h)) })
	}
	return nil
}

func (l *layer) allocateWork(to *devicePtr, n uintptr) error {
	p, free, err := l.dev.allocateScratch(n, "allocating cuDNN's memory")
	if err != nil {
		return err
	}
	*to = p
	l.undo = append(l.undo, free)
	return nil
}

// sendLengths copies the sequence lengths to the device, where cuDNN before 8.9.1 reads them.
func (l *layer) sendLengths(lengths []int32) error {
	d := l.dev
	if err := l.allocateWork(&l.lengths, uintptr(4*len(lengths))); err != nil {
		return err
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&lengths[0])
	return d.check(firstFailure(d.drv.CopyToDev(l.lengths, unsafe.Pointer(&lengths[0]), uintptr(4*len(lengths)), d.own), d.drv.StreamSync(d.own)),
		"copying sequence lengths")
}

// placeWeights copies the weights from PyTorch's order to each gate's place in cuDNN's layout. Gates 0 to 2 are r, z
// and n for the input, gates 3 to 5 r, z and n for the state.
func (l *layer) placeWeights(weights *Buffer) error {
	d, s := l.dev, l.spec
	size := uintptr(dnnTypes[s.Precision].bytes)
	h := uintptr(s.Hidden)
	if err := d.check(d.drv.Memset8(l.weights, 0, l.weightBytes, d.own), "clearing weights"); err != nil {
		return err
	}
	from := weights.ptr
	for i := range s.Layers {
		in := h
		if i == 0 {
			in = uintptr(s.Input)
		}
		recurrent := from + devicePtr(3*h*in*size)
		biases := recurrent + devicePtr(3*h*h*size)
		for gate := range uintptr(6) {
			matrix, elements := from+devicePtr(gate*h*in*size), h*in
			if gate >= 3 {
				matrix, elements = recurrent+devicePtr((gate-3)*h*h*size), h*h
			}
			if err := l.placeGate(int32(i), int32(gate), matrix, elements*size, biases+devicePtr(gate*h*size), h*size); err != nil {
				return err
			}
		}
		from = biases + devicePtr(6*h*size)
	}
	return d.check(d.drv.StreamSync(d.own), "placing weights")
}

func (l *layer) placeGate(layer, gate int32, matrix devicePtr, matrixBytes uintptr, bias devicePtr, biasBytes uintptr) error {
	d := l.dev
	m, b, err := l.findGate(layer, gate, matrixBytes, biasBytes)
	if err != nil {
		return err
	}
	return d.check(firstFailure(d.drv.CopyOnDev(m, matrix, matrixBytes, d.own), d.drv.CopyOnDev(b, bias, biasBytes, d.own)), "placing weights")
}

// findGate returns the addresses of a gate's matrix and bias in cuDNN's weight space.
func (l *layer) findGate(layer, gate int32, matrixBytes, biasBytes uintptr) (m, b devicePtr, err error) {
	n := l.n
	var desc [2]uintptr
	defer func() {
		for _, t := range desc {
			if t != 0 {
				n.destroyTensor(t)
			}
		}
	}()
	for i := range desc {
		if err := n.check("making a descriptor", n.createTensor(&desc[i])); err != nil {
			return 0, 0, err
		}
	}
	if err := n.check("finding a gate's weights", n.weights(n.h, l.rnn, layer, l.weightBytes, l.weights, gate, desc[0], &m, desc[1], &b)); err != nil {
		return 0, 0, err
	}
	end := l.weights + devicePtr(l.weightBytes)
	if m < l.weights || b < l.weights || m+devicePtr(matrixBytes) > end || b+devicePtr(biasBytes) > end {
		return 0, 0, gpuprof.Errorf(gpuprof.ErrDevice, "cuDNN places gate %d of layer %d outside the weights it asked for", gate, layer).WithFix("install another version of it")
	}
	return m, b, nil
}

// release destroys descriptors and memory in reverse order of creation.
func (l *layer) release() error {
	var first error
	for i := len(l.undo) - 1; i >= 0; i-- {
		if err := l.undo[i](); err != nil && first == nil {
			first = err
		}
	}
	l.undo = nil
	return first
}

func (l *layer) checkAlive() error {
	for i, b := range l.bufs {
		if b.state != onDevice {
			return gpuprof.Errorf(gpuprof.ErrUsage, "running a GRU layer: its %s is %s, which is freed", [...]string{"x", "h0", "y", "hn"}[i], b).WithFix("free it after its last use")
		}
	}
	return nil
}

func (l *layer) enqueue(s streamHandle) Result {
	return l.dev.callVendor(func() error { return l.runForward(s) })
}

func (l *layer) runForward(s streamHandle) error {
	n := l.n
	l.args[0], l.args[1] = n.h, uintptr(s)
	call := "cudnnSetStream"
	status := dynlib.Call(n.setStream, l.args[:2])
	if int32(uint32(status)) == 0 {
		call = "cudnnRNNForward"
		l.args = [...]uintptr{n.h, l.rnn, dnnInference, uintptr(l.lengths), l.xData, uintptr(l.bufs[0].ptr),
			l.yData, uintptr(l.bufs[2].ptr), l.hDesc, uintptr(l.bufs[1].ptr), uintptr(l.bufs[3].ptr), l.hDesc, 0, 0,
			l.weightBytes, uintptr(l.weights), l.workBytes, uintptr(l.work), 0, 0}
		status = dynlib.Call(n.forward, l.args[:])
	}
	if code := int32(uint32(status)); code != 0 {
		return n.statusError(call, code)
	}
	return nil
}

// Enqueue implements device.Op.
func (l *layer) Enqueue(st device.Stream) error {
	s, ok := st.(*Stream)
	if !ok || s == nil || s.dev != l.dev {
		return gpuprof.Errorf(gpuprof.ErrUsage, "running a GRU layer on CUDA: the stream belongs to another device").WithFix("use one of this device")
	}
	if s.closed || s.dev.lost != nil {
		return s.checkUsable("running a GRU layer on stream " + s.name)
	}
	if err := l.checkAlive(); err != nil {
		return err
	}
	if s.rec != nil {
		s.rec.items = append(s.rec.items, item{kind: itemLayer, layer: l})
		return nil
	}
	if r := l.enqueue(s.h); r != success {
		if err := s.dev.retryWithContext(r, func() Result { return l.enqueue(s.h) }, "running a GRU layer on stream "+s.name); err != nil {
			return err
		}
	}
	s.launchedOn(l.fn)
	s.dev.meter.Launches++
	return nil
}

// Parts implements device.Op.
func (l *layer) Parts() []gpuprof.Part { return l.parts }
