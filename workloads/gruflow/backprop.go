package gruflow

import (
	"errors"
	"fmt"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/optim"
)

// Backward runs a multi-layer GRU and its backward pass through time, in float32, without the rest of a gruflow step.
// Test vectors with gradients and benchmarks against other programs use it.
type Backward struct {
	*program
	mem         op.Arena
	u           *unroll
	x, dx, dout device.Buffer
	groups      []group
	adam        *optim.Adam // nil without an optimizer step
	step        *op.Bound
}

// NewBackward allocates and binds a GRU and its backward pass on dev; Close releases them. It ignores
// c.Precision and c.Impl: our own kernels compute everything, with cuBLAS's products where the device has them.
func NewBackward(dev device.Device, c ForwardConfig) (*Backward, error) {
	s := shape{T: c.TimeSteps, B: c.Batch, I: c.Input, H: c.Hidden, L: len(c.Layers)}
	f := &Backward{mem: op.Arena{Dev: dev}}
	stream, err := dev.NewStream("gru")
	if err != nil {
		return nil, err
	}
	f.program = newProgram(dev, stream)
	f.u = newUnroll(&gru{program: f.program, s: s, cores: dev.Info().Cores, vendor: dev.Info().Facts["cublas"] != ""}, 1)
	rows := int64(s.T) * int64(s.B)
	f.u.open(&f.mem, f.u.outerShapes()...)
	allocateAll(&f.mem, append(f.u.gradients(),
		request{"the input", rows * int64(s.I), &f.x}, request{"the input's cotangent", rows * int64(s.I), &f.dx}, request{"the output's cotangent", rows * int64(s.H), &f.dout}))
	if err = f.mem.Err; err == nil {
		err = f.sendLayers(c.Layers)
	}
	if err == nil {
		f.bindBackward()
		deriveLives(f.groups)
		err = f.Err
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (u *unroll) gradients() (list []request) {
	for l := range u.layers {
		g, n := &u.layers[l].g, int64(u.net.s.gates())
		list = append(list, request{"gradients", n * int64(u.net.s.inputWidth(l)), &g.wi}, request{"gradients", n * int64(u.net.s.H), &g.wh},
			request{"gradients", n, &g.bi}, request{"gradients", n, &g.bh})
	}
	return list
}

func (f *Backward) sendLayers(layers []Layer) error {
	var err error
	for l, p := range layers {
		to := f.u.layers[l].p
		err = errors.Join(err, op.Send(f.mem.Dev, f.stream, to.wi, p.WeightIH), op.Send(f.mem.Dev, f.stream, to.wh, p.WeightHH),
			op.Send(f.mem.Dev, f.stream, to.bi, p.BiasIH), op.Send(f.mem.Dev, f.stream, to.bh, p.BiasHH))
	}
	return err
}

// bindBackward makes the launches: they convert the weights to the products' formats, run the layers forward, then
// backward.
func (f *Backward) bindBackward() {
	u, s := f.u, f.u.net.s
	x := source{arg: op.From(f.x, 0)}
	for l := range s.L {
		f.groups = append(f.groups, u.weightGroup(l))
	}
	for l := range s.L {
		f.groups = append(f.groups, u.forwardGroup(l, 0, x, op.From(f.x, 0)))
	}
	dout := op.From(f.dout, 0)
	for l := s.L - 1; l >= 0; l-- {
		w := backwardArgs{x: x, level: f.dx, dout: dout}
		if l == 0 {
			w.dx = f.dx
		}
		chain, grads := u.layerBackward(l, w)
		dout = chain.dx
		// The cotangent of the last states is dh + chain. Set writes it to dh, so chain begins as 0.
		clears := u.net.Bind(&fillKernel, s.B*s.H, fillCost(s.B*s.H), gruFillArgs{
			out: u.layers[l].chain, n: s.B * s.H, value: float32(0),
		})
		chain.once = append(chain.once, clears)
		f.groups = append(f.groups, chain, grads)
	}
}

// Set uploads the input x [T,B,I] and the state h0 [L,B,H]. It also uploads the cotangents dout [T,B,H] of the top
// layer's output, and dhn [L,B,H] of the last states.
func (f *Backward) Set(x, h0, dout, dhn []float32) error {
	row := f.u.net.s.B * f.u.net.s.H
	err := errors.Join(op.Send(f.mem.Dev, f.stream, f.x, x), op.Send(f.mem.Dev, f.stream, f.dout, dout))
	for l := range f.u.layers {
		b := &f.u.layers[l]
		err = errors.Join(err, op.Send(f.mem.Dev, f.stream, b.states, h0[l*row:(l+1)*row]), op.Send(f.mem.Dev, f.stream, b.dh, dhn[l*row:(l+1)*row]))
	}
	return err
}

// Adam adds an Adam step on all layers' parameters to the end of every Run.
func (f *Backward) Adam(rate float64) (err error) {
	s := f.u.net.s
	var all []optim.Tensor
	for l, b := range f.u.layers {
		all = append(all, optim.Tensor{Name: fmt.Sprint("weight_ih_l", l), N: s.gates() * s.inputWidth(l), P: b.p.wi, G: b.g.wi},
			optim.Tensor{Name: fmt.Sprint("weight_hh_l", l), N: s.gates() * s.H, P: b.p.wh, G: b.g.wh},
			optim.Tensor{Name: fmt.Sprint("bias_ih_l", l), N: s.gates(), P: b.p.bi, G: b.g.bi},
			optim.Tensor{Name: fmt.Sprint("bias_hh_l", l), N: s.gates(), P: b.p.bh, G: b.g.bh})
	}
	f.adam = &optim.Adam{Impl: optim.Fused, Rate: rate}
	if err = f.adam.Open(&f.mem, f.stream, all); err == nil {
		f.step, err = f.adam.BindStep()
	}
	return err
}

// Parameters reads the layers' parameters from the device.
func (f *Backward) Parameters() (all []Layer, err error) {
	c := op.Checker{Mem: &f.mem, Stream: f.stream}
	for l := range f.u.layers {
		all = append(all, f.u.readLayer(&c, l, f.u.layers[l].p))
	}
	return all, c.Err
}

// readLayer reads b, which holds the parameters of layer l or values of the same shapes.
func (u *unroll) readLayer(c *op.Checker, l int, b layerBuffers) Layer {
	s := u.net.s
	return Layer{c.Read(b.wi, 0, s.gates()*s.inputWidth(l)), c.Read(b.wh, 0, s.gates()*s.H), c.Read(b.bi, 0, s.gates()), c.Read(b.bh, 0, s.gates())}
}

// Run computes all time steps forward and backward, and waits. It overwrites dhn with the cotangents of h0, from
// which the next Run starts.
func (f *Backward) Run() error {
	for i := range f.groups {
		if err := f.run(&f.groups[i]); err != nil {
			return err
		}
	}
	if f.step != nil {
		if err := f.step.Enqueue(f.stream); err != nil {
			return err
		}
	}
	return f.stream.Sync()
}

// Gradients holds a Backward's results: dx [T,B,I], dh0 [L,B,H], and each layer's gradients, shaped like its
// parameters.
type Gradients struct {
	DX, DH0 []float32
	Layers  []Layer
}

// Gradients reads the gradients of the last Run from the device.
func (f *Backward) Gradients() (g Gradients, err error) {
	c, s := op.Checker{Mem: &f.mem, Stream: f.stream}, f.u.net.s
	for l, b := range f.u.layers {
		dh := c.Read(b.dh, 0, s.B*s.H)
		addTo(dh, c.Read(b.chain, 0, s.B*s.H))
		g.DH0 = append(g.DH0, dh...)
		g.Layers = append(g.Layers, f.u.readLayer(&c, l, b.g))
	}
	g.DX = c.Read(f.dx, 0, s.T*s.B*s.I)
	return g, c.Err
}

// Close waits for work in flight and frees the device memory.
func (f *Backward) Close() error {
	var step error
	if f.step != nil {
		step = f.step.Close()
	}
	return errors.Join(step, f.stream.Sync(), f.stream.Close(), f.segments.Free(), f.mem.Free())
}
