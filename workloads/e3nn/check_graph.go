package e3nn

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// checkGraph replays the batch's graph on outputs filled with NaN, and compares the results with the results of the
// step's single launches.
func (c *checker) checkGraph() {
	s := c.s
	launched := c.readResults()
	if c.Stops(c.poisonAll()) || s.k.Trains() && c.Stops(s.train.step.Checked(s.Compute)) { // the step has changed the parameters
		return
	}
	if c.Stops(s.runDevice(c.slot, 0, c.edges, loop.Silent{})) || c.Stops(s.Compute.Sync()) {
		return
	}
	for l := range s.layers {
		for i, r := range c.rows {
			c.Compare(stGraph, s.outputOf(c.slot, l), r*s.model.Layers[l].Out.Dim(), c.refs[i].layers[l].out)
		}
	}
	if s.computesForces() {
		for i := range c.rows {
			c.edgeGradients(&c.Errs[stGraph], i)
		}
	}
	replayed := c.readResults()
	if c.Err != nil {
		return
	}
	for i, want := range launched {
		var e op.ErrorNorm
		if e.Add(op.As[float32](replayed[i]), want); !(e.Relative() <= s.chainTolerance()) {
			c.Errs[stGraph].Diff = math.Inf(1)
		}
	}
}

// readResults returns the outputs of a step: the result, the energy or loss, and in training the first moments of the
// optimizer.
func (c *checker) readResults() (out [][]float64) {
	s := c.s
	list := []device.Buffer{s.slots[c.slot].result}
	if s.goesBack() {
		list = append(list, s.back.energy)
	}
	for _, b := range list {
		out = append(out, c.Read64(b, 0, b.Len()/4))
	}
	if !s.k.Trains() {
		return out
	}
	now, err := s.train.step.Save(s.Compute)
	if c.Stops(err) {
		return out
	}
	for i := range s.train.step.Params() {
		out = append(out, now.Moments(i))
	}
	return out
}
