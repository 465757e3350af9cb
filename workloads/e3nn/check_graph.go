package e3nn

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// checkGraph replays the batch's graph on outputs filled with NaN. It compares the results with those of the step's
// single launches.
func (c *checker) checkGraph() error {
	s := c.s
	launched, err := c.readResults()
	if err != nil {
		return err
	}
	if err := c.poisonAll(); err != nil {
		return err
	}
	if s.k.Trains() { // the checked step has changed the parameters
		if err := s.train.step.Checked(s.Compute); err != nil {
			return err
		}
	}
	if err := s.runDevice(c.slot, 0, c.edges, loop.Silent{}); err != nil {
		return err
	}
	if err := s.Compute.Sync(); err != nil {
		return err
	}
	for l := range s.layers {
		for i, r := range c.rows {
			if err := c.compareBuffer(stGraph, s.outputOf(c.slot, l), r*s.model.Layers[l].Out.Dim(), c.refs[i].layers[l].out); err != nil {
				return err
			}
		}
	}
	if s.computesForces() {
		for i := range c.rows {
			if err := c.edgeGradients(&c.errs[stGraph], i); err != nil {
				return err
			}
		}
	}
	replayed, err := c.readResults()
	if err != nil {
		return err
	}
	for i, want := range launched {
		var e op.ErrorNorm
		if e.Add(op.As[float32](replayed[i]), want); !(e.Relative() <= s.chainTolerance()) {
			c.errs[stGraph].Diff = math.Inf(1)
		}
	}
	return nil
}

// readResults returns the outputs of a step: the result, the energy or loss, and in training the first moments of the
// optimizer.
func (c *checker) readResults() (out [][]float64, err error) {
	s := c.s
	list := []device.Buffer{s.slots[c.slot].result}
	if s.goesBack() {
		list = append(list, s.back.energy)
	}
	for _, b := range list {
		v, err := c.readWide(b, 0, b.Len()/4)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	if !s.k.Trains() {
		return out, nil
	}
	now, err := s.train.step.Save(s.Compute)
	for i := range s.train.step.Params() {
		out = append(out, now.Moments(i))
	}
	return out, err
}
