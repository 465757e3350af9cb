package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/dynlib"
	"github.com/gpuprof/gpuprof/workloads/device"
)

const gruPrefix = "gru_" // the prefix of Kernel.Lib, before routine and precision

// gruSigs are the signatures of the routines that train a GRU. Each has, after its arrays, the integers time steps,
// batch, inputs, hidden units and layers; gru_weights has two more. An item is one row of the batch. Arrays are
// float32, with the shapes of device.GRUMaker. w and dw hold weights and gradients in cuDNN's layout; kept holds the
// values that forward saves for backward. GRUSpace returns the sizes of w and kept.
//
//	gru_weights    weight_ih, weight_hh, bias_ih, bias_hh -> w, of one layer, whose number is the last integer but one;
//	               with 1 as the last integer it copies in the other direction
//	gru_forward    x, h0, w -> y, hn, kept
//	gru_backward   y, dy, h0, dhn, w, kept -> dx, dh0, kept
//	gru_gradients  x, h0, y, kept -> added to dw
var gruSigs = map[string]string{
	"weights": "bbbbb" + gruInts + "ii", "forward": "bbbbbb" + gruInts, "backward": "bbbbbbbb" + gruInts, "gradients": "bbbbb" + gruInts,
}

const gruInts = "iiiii"

// dnnTraining holds cuDNN's functions for training a GRU, and a plan for each stack of layers used so far.
type dnnTraining struct {
	backward, gradients uintptr
	plans               map[device.GRUSpec]*gruPlan
}

// gruPlan is a stack of layers. places has, for each layer, the byte offsets of six matrices and six biases in the
// weight space; it is nil until findGates has run.
type gruPlan struct {
	layers
	places [][6]gruPlace
}

type gruPlace struct{ matrix, bias devicePtr }

// needTraining loads cuDNN's training functions once.
func (d *Device) needTraining() error {
	if err := d.needDNN(); err != nil {
		return err
	}
	n := d.dnn
	if n.training != nil {
		return nil
	}
	t := &dnnTraining{plans: map[device.GRUSpec]*gruPlan{}}
	if err := n.bindMore([]symbol{{"cudnnRNNBackwardData_v8", &t.backward, false}, {"cudnnRNNBackwardWeights_v8", &t.gradients, false}}); err != nil {
		return err
	}
	n.training = t
	d.closers = append(d.closers, func() error {
		var errs []error
		for _, p := range t.plans {
			errs = append(errs, p.release())
		}
		return errors.Join(errs...)
	})
	return nil
}

// findGRUPlan returns the plan of a stack of layers, which it makes at the first use.
func (n *dnn) findGRUPlan(s device.GRUSpec) (*gruPlan, error) {
	if p := n.training.plans[s]; p != nil {
		return p, nil
	}
	p := &gruPlan{layers: layers{dev: n.dev, n: n, spec: s}}
	if err := checkSpec("training a GRU", s); err != nil {
		return nil, err
	}
	if err := p.describeStack(dnnTrain); err != nil {
		return nil, errors.Join(err, p.release())
	}
	n.training.plans[s] = p
	return p, nil
}

// GRUSpace implements device.GRUTrainer.
func (d *Device) GRUSpace(spec device.GRUSpec) (weights, kept int64, err error) {
	const doing = "sizing a GRU to train"
	if err := d.enter(doing); err != nil {
		return 0, 0, err
	}
	defer d.leave()
	if err := d.needTraining(); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", doing, err)
	}
	p, err := d.dnn.findGRUPlan(spec)
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", doing, err)
	}
	return int64(p.weightBytes), int64(p.reserveBytes), nil
}

// gruRoutine is one routine of gruSigs.
type gruRoutine struct {
	n              *dnn
	name, op, kind string
	bufs           int
	args           *[22]uintptr // of the current call; kept here so that a call allocates nothing
	last           *gruPlan     // the most recent plan
}

func (d *Device) newGRURoutine(k *device.Kernel) (libRoutine, error) {
	name, kind, _ := strings.Cut(strings.TrimPrefix(k.Lib, gruPrefix), "_")
	sig, ok := gruSigs[name]
	if !ok || kind != "fp32" && kind != "tf32" {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "no library routine is called %q", k.Lib).WithFix("use gru_weights, gru_forward, gru_backward or gru_gradients with _fp32 or _tf32")
	}
	if k.Sig != sig {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "library routine %s has signature %q, not %q", k.Lib, sig, k.Sig)
	}
	if err := d.needTraining(); err != nil {
		return nil, err
	}
	return &gruRoutine{n: d.dnn, name: k.Lib, op: name, kind: kind, bufs: strings.Count(sig, "b"), args: new([22]uintptr)}, nil
}

func (g *gruRoutine) libraryName() string { return "cudnn " + g.n.dev.libraries["cudnn"] }

// findPlan checks the buffers of a launch and returns the plan for the sizes in its arguments.
func (g *gruRoutine) findPlan(a *device.Args) (*gruPlan, error) {
	i := g.bufs
	s := device.GRUSpec{Steps: a.Int(i), Batch: a.Int(i + 1), Input: a.Int(i + 2), Hidden: a.Int(i + 3), Layers: a.Int(i + 4), Precision: g.kind}
	if g.last == nil || g.last.spec != s {
		p, err := g.n.findGRUPlan(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g.name, err)
		}
		g.last = p
	}
	if err := g.checkSizes(g.last, a); err != nil {
		return nil, err
	}
	if g.op == "weights" && g.last.places == nil {
		return g.last, g.last.findGates(devicePtr(a[4].Bits))
	}
	return g.last, nil
}

// bufferSizes returns the least size of each buffer of a launch, in bytes.
func (g *gruRoutine) bufferSizes(p *gruPlan, a *device.Args) []int {
	n, w, kept, s := gruSizes(p.spec), int(p.weightBytes), int(p.reserveBytes), p.spec
	x, state, y := 4*n[0], 4*n[1], 4*n[3]
	switch g.op {
	case "weights":
		gates, in := 12*s.Hidden, s.Hidden // bytes of a row of r, z and n: three gates of four-byte values
		if a.Int(g.bufs+5) == 0 {
			in = s.Input
		}
		return []int{gates * in, gates * s.Hidden, gates, gates, w}
	case "forward":
		return []int{x, state, w, y, state, kept}
	case "backward":
		return []int{y, y, state, state, w, kept, x, state}
	}
	return []int{x, state, y, kept, w}
}

// checkSizes returns an error if a buffer is smaller than its operand: the library would silently exceed it.
func (g *gruRoutine) checkSizes(p *gruPlan, a *device.Args) error {
	if l := a.Int(g.bufs + 5); g.op == "weights" && (l < 0 || l >= p.spec.Layers) {
		return gpuprof.Errorf(gpuprof.ErrDevice, "%s: there is no layer %d among %d", g.name, l, p.spec.Layers).WithFix("report it as a defect of the workload")
	}
	for i, need := range g.bufferSizes(p, a) {
		if b := a[i].Buf; b != nil && b.Len()-int(a[i].Bits-b.Addr()) < need {
			return gpuprof.Errorf(gpuprof.ErrDevice, "%s: argument %d has %d bytes and needs %d", g.name, i, b.Len()-int(a[i].Bits-b.Addr()), need).WithFix("give it a buffer of at least that size")
		}
	}
	return nil
}

func (p *gruPlan) findGates(space devicePtr) error {
	places := make([][6]gruPlace, p.spec.Layers)
	for l := range places {
		for gate := range 6 {
			matrix, bias := p.gateBytes(l, gate)
			m, b, err := p.findGate(space, int32(l), int32(gate), matrix, bias)
			if err != nil {
				return err
			}
			places[l][gate] = gruPlace{m - space, b - space}
		}
	}
	p.places = places
	return nil
}

// gateBytes returns the number of bytes of a gate's matrix and bias; see layer.placeWeights for the gates' numbers.
func (p *gruPlan) gateBytes(layer, gate int) (matrix, bias uintptr) {
	h, in := uintptr(p.spec.Hidden), uintptr(p.spec.Hidden)
	if layer == 0 && gate < 3 {
		in = uintptr(p.spec.Input)
	}
	return 4 * h * in, 4 * h
}

func (g *gruRoutine) enqueue(s streamHandle, _ int, a *device.Args) Result {
	d := g.n.dev
	runtime.LockOSThread() // see Device.enter
	defer runtime.UnlockOSThread()
	if r := d.drv.CtxSet(d.ctx); r != success { // cuDNN works in the thread's context
		return r
	}
	p, err := g.findPlan(a)
	if err == nil && g.op == "weights" {
		return p.copyGates(s, a)
	}
	if err == nil {
		err = g.callLibrary(p, s, a)
	}
	if err != nil {
		d.libFault = err
		return errLibrary
	}
	return success
}

// copyGates copies a layer's weights to each gate's place in cuDNN's layout, or back.
func (p *gruPlan) copyGates(s streamHandle, a *device.Args) Result {
	layer, back := a.Int(10), a.Int(11) != 0
	for gate := range 6 {
		side, part := gate/3, devicePtr(gate%3)
		place := p.places[layer][gate]
		matrix, bias := p.gateBytes(layer, gate)
		for _, c := range []struct {
			own, placed devicePtr
			n           uintptr
		}{{devicePtr(a[side].Bits) + part*devicePtr(matrix), place.matrix, matrix}, {devicePtr(a[2+side].Bits) + part*devicePtr(bias), place.bias, bias}} {
			to, from := devicePtr(a[4].Bits)+c.placed, c.own
			if back {
				to, from = from, to
			}
			if r := p.dev.drv.CopyOnDev(to, from, c.n, s); r != success {
				return r
			}
		}
	}
	return success
}

func (g *gruRoutine) callLibrary(p *gruPlan, s streamHandle, a *device.Args) error {
	n := g.n
	work, err := n.streamWorkspace(s, max(p.workBytes, 1))
	if err != nil {
		return err
	}
	g.args[0], g.args[1] = n.h, uintptr(s)
	if code := int32(uint32(dynlib.Call(n.setStream, g.args[:2]))); code != 0 {
		return n.statusError("cudnnSetStream", code)
	}
	b := func(i int) uintptr { return uintptr(a[i].Bits) }
	lengths, space, kept := uintptr(p.lengths), p.weightBytes, p.reserveBytes
	var code uintptr
	var name string
	switch g.op {
	case "forward":
		name = "cudnnRNNForward"
		*g.args = [...]uintptr{n.h, p.rnn, dnnTrain, lengths, p.xData, b(0), p.yData, b(3), p.hDesc, b(1), b(4), p.hDesc, 0, 0,
			space, b(2), p.workBytes, uintptr(work), kept, b(5), 0, 0}
		code = dynlib.Call(n.forward, g.args[:20])
	case "backward":
		name = "cudnnRNNBackwardData_v8"
		*g.args = [...]uintptr{n.h, p.rnn, lengths, p.yData, b(0), b(1), p.xData, b(6), p.hDesc, b(2), b(3), b(7), p.hDesc, 0, 0, 0,
			space, b(4), p.workBytes, uintptr(work), kept, b(5)}
		code = dynlib.Call(n.training.backward, g.args[:])
	default:
		name = "cudnnRNNBackwardWeights_v8"
		*g.args = [...]uintptr{n.h, p.rnn, dnnAdd, lengths, p.xData, b(0), p.hDesc, b(1), p.yData, b(2), space, b(4),
			p.workBytes, uintptr(work), kept, b(3), 0, 0, 0, 0, 0, 0}
		code = dynlib.Call(n.training.gradients, g.args[:16])
	}
	if status := int32(uint32(code)); status != 0 {
		return n.statusError(g.name+": "+name, status)
	}
	return nil
}

// prepareCapture makes the plan of a launch for a graph on s; see convolution.prepareCapture.
func (g *gruRoutine) prepareCapture(s streamHandle, _ int, a *device.Args) error {
	p, err := g.findPlan(a)
	if err != nil {
		return err
	}
	g.n.captureStream = s
	_, err = g.n.streamWorkspace(s, max(p.workBytes, 1))
	return err
}

func (g *gruRoutine) endCapture() error {
	g.n.captureStream = 0
	return nil
}
