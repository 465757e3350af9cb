package gridsim

import (
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// checkGraphs compares every graph's results with the results of single launches. There is one graph for each buffer
// that can hold the state, with and without a frame.
func (c *checker) checkGraphs() {
	s := c.s
	s.phase = (s.phase + 1) % (s.k.History + 2) // the step before these replays rotated the buffers
	for _, frame := range []bool{false, true} {
		for range s.k.History + 2 {
			if c.checkReplay(frame); c.Err != nil || c.Stops(s.rotateStates(loop.Silent{})) {
				return
			}
		}
	}
}

// checkReplay compares a step of single launches with the graph for the same buffers. Both begin with memory full of
// NaN.
func (c *checker) checkReplay(frame bool) {
	s := c.s
	graphs := s.graphs
	var left [2][][]float32
	for k, by := range [2]*loop.Graphs{nil, graphs} {
		if k > 0 {
			if c.Stops(s.fillNaN(s.blocks[bNext])) || c.Stops(s.memory.give(s.blocks[bNext])) { // so that the graph takes the same block
				return
			}
		}
		if c.Stops(op.Poison(s.Dev, s.Compute, s.maps)) {
			return
		}
		s.graphs = by
		c.Stops(s.compute(frame, loop.Silent{}))
		s.graphs = graphs
		if c.Err != nil {
			return
		}
		for _, b := range []block{s.blocks[bNext], {buf: s.maps, words: int64(s.maps.Len() / 4)}} {
			left[k] = append(left[k], c.receive(b, b.words))
		}
	}
	e := c.resultOf("graph", 0)
	for i, v := range left[1] {
		if i == 0 || frame { // without a frame nothing writes the maps
			e.Same(v, left[0][i])
		}
	}
}
