package gruflow

import (
	"errors"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// Layer holds one GRU layer's parameters, named as in torch.nn.GRU: weight_ih [3H,K], weight_hh [3H,H], bias_ih and
// bias_hh [3H], row-major, rows in the order r, z, n.
type Layer struct{ WeightIH, WeightHH, BiasIH, BiasHH []float32 }

// ForwardConfig holds the sizes and the parameters of a GRU.
type ForwardConfig struct {
	TimeSteps, Batch, Input, Hidden int
	Layers                          []Layer
	// Impl is plain or fused; Precision fp32, tf32, bf16 or fp16.
	Impl, Precision string
}

// Forward is a GRU without carriers' moves. It computes the cases of vectors files, and benchmarks compare it with
// other programs.
type Forward struct {
	*program
	net    *gru
	mem    op.Arena
	x      device.Buffer
	groups []group
}

// NewForward allocates and binds a GRU on dev; Close releases it. The sizes must match the layers.
func NewForward(dev device.Device, c ForwardConfig) (*Forward, error) {
	f := &Forward{mem: op.Arena{Dev: dev}}
	stream, err := dev.NewStream("gru")
	if err != nil {
		return nil, err
	}
	f.program = newProgram(dev, stream)
	s := shape{T: c.TimeSteps, B: c.Batch, I: c.Input, H: c.Hidden, L: len(c.Layers), D: 1}
	f.net = &gru{program: f.program, s: s, impl: c.Impl, prec: parsePrecision(c.Precision), cores: dev.Info().Cores}
	f.net.h = f.mem.Words("hidden states", int64(s.L)*int64(s.B)*int64(s.H), device.OnDevice)
	f.x = f.mem.Words("the input", int64(s.T)*int64(s.B)*int64(s.I), device.OnDevice)
	for _, l := range c.Layers {
		f.net.layers = append(f.net.layers, uploadLayer(&f.mem, stream, layerParams{l.WeightIH, l.WeightHH, l.BiasIH, l.BiasHH}, s.H, f.net.prec))
	}
	err = f.mem.Err
	if err == nil {
		f.groups = f.net.bindLayers(f.x)
		deriveLives(f.groups)
		err = f.Err
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Set uploads the input x [T,B,I] and the state h0 [L,B,H].
func (f *Forward) Set(x, h0 []float32) error {
	if err := op.Send(f.mem.Dev, f.stream, f.x, x); err != nil {
		return err
	}
	return op.Send(f.mem.Dev, f.stream, f.net.h, h0)
}

// Run computes all time steps and waits for the result.
func (f *Forward) Run() error {
	for i := range f.groups {
		if err := f.run(&f.groups[i]); err != nil {
			return err
		}
	}
	return f.stream.Sync()
}

// Result returns the top layer's output [T,B,H] and every layer's last state [L,B,H]. Call it before the next Run.
func (f *Forward) Result() (out, hn []float32, err error) {
	s := f.net.s
	if hn, err = op.Receive(f.mem.Dev, f.stream, f.net.h, 0, s.L*s.B*s.H); err != nil {
		return nil, nil, err
	}
	if f.net.seq == nil {
		return hn[(s.L-1)*s.B*s.H:], hn, nil
	}
	buf, at := f.Place(f.net.seq[s.L-1].Block)
	out, err = op.Receive(f.mem.Dev, f.stream, buf, int(at/4), s.T*s.B*s.H)
	return out, hn, err
}

// Close waits for work in flight and frees the device memory.
func (f *Forward) Close() error {
	return errors.Join(f.stream.Sync(), f.stream.Close(), f.segments.Free(), f.mem.Free())
}
