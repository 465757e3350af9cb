package gridsim

import (
	"context"
	"errors"
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
)

// Network holds the law's network: W1 [H,2C], B1 [H], W2 [C,H], B2 [C].
type Network struct{ W1, B1, W2, B2 []float32 }

// Forward computes steps of the grid, without the benchmark loop. It takes the network of the update law and the
// state from another program.
type Forward struct {
	s     *session
	steps int
}

// NewForward opens a session with the preset small, changed by the settings set, the network net and the given state
// [C,N,N]. The caller closes it. NewForward returns ErrInput if an array has another size.
func NewForward(d device.Device, set gpuprof.Settings, net Network, state []float32) (*Forward, error) {
	knobs, err := workloads.Resolve(Workload{}, "small", set)
	if err != nil {
		return nil, err
	}
	if err := (Workload{}).Refuse(d.Info(), knobs); err != nil {
		return nil, err
	}
	sh := shapeOf(workloads.Read[settings](knobs))
	for _, a := range []struct {
		name string
		have int
		want int
	}{
		{"W1", len(net.W1), 2 * sh.C * sh.H}, {"b1", len(net.B1), sh.H}, {"W2", len(net.W2), sh.C * sh.H}, {"b2", len(net.B2), sh.C},
		{"the state", len(state), sh.C * sh.cells()},
	} {
		if a.have != a.want {
			return nil, gpuprof.Errorf(gpuprof.ErrInput, "opening the law: %s has %d values, it needs %d", a.name, a.have, a.want).WithFix("give arrays of the settings' sizes")
		}
	}
	s, err := open(context.Background(), d, workloads.Config{Preset: "small", Knobs: knobs, Mode: gpuprof.Hot})
	if err != nil {
		return nil, err
	}
	s.params = weights{net.W1, net.B1, net.W2, net.B2}
	err = s.send(block{buf: s.weights}, s.params.packWeights(sh, s.k.Precision))
	if err == nil {
		err = s.send(s.blocks[bState], sh.permute(state, true))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("uploading the law: %w", err), s.Close())
	}
	return &Forward{s: s}, nil
}

// permute converts a state from planes [C,N,N] to the layout, or back.
func (s shape) permute(v []float32, fromPlanes bool) []float32 {
	n := s.cells()
	out := make([]float32, len(v))
	for c := range s.C {
		for i := range n {
			here, there := c*n+i, s.offset(c, i, s.C, n)
			if fromPlanes {
				here, there = there, here
			}
			out[here] = v[there]
		}
	}
	return out
}

// Run computes steps and waits for them.
func (f *Forward) Run(steps int) error {
	for range steps {
		if err := f.s.Step(f.steps, loop.Silent{}); err != nil {
			return err
		}
		f.steps++
	}
	return f.s.Compute.Sync()
}

// State returns the current state, [C,N,N].
func (f *Forward) State() ([]float32, error) {
	v, err := f.s.receive(f.s.blocks[bState], f.s.shape.stateWords())
	return f.s.shape.permute(v, false), err
}

// Close releases everything.
func (f *Forward) Close() error { return f.s.Close() }
