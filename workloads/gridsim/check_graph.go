package gridsim

import (
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// checkGraphs compares every graph's results with the results of single launches. There is one graph for each buffer
// that can hold the state, with and without a frame.
func (c *checker) checkGraphs() error {
	s := c.s
	s.phase = (s.phase + 1) % (s.k.History + 2) // the step before these replays rotated the buffers
	for _, frame := range []bool{false, true} {
		for range s.k.History + 2 {
			if err := c.checkReplay(frame); err != nil {
				return err
			}
			if err := s.rotateStates(loop.Silent{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkReplay compares a step of single launches with the graph for the same buffers, both on poisoned memory.
func (c *checker) checkReplay(frame bool) error {
	s := c.s
	graphs := s.graphs
	var left [2][][]float32
	for k, by := range [2]*loop.Graphs{nil, graphs} {
		if k > 0 {
			if err := s.fillNaN(s.blocks[bNext]); err != nil {
				return err
			}
			if err := s.memory.give(s.blocks[bNext]); err != nil { // so that the graph takes the same block
				return err
			}
		}
		if err := op.Poison(s.Dev, s.Compute, s.maps); err != nil {
			return err
		}
		s.graphs = by
		err := s.compute(frame, loop.Silent{})
		s.graphs = graphs
		if err != nil {
			return err
		}
		for _, b := range []block{s.blocks[bNext], {buf: s.maps, words: int64(s.maps.Len() / 4)}} {
			v, err := s.receive(b, b.words)
			if err != nil {
				return err
			}
			left[k] = append(left[k], v)
		}
	}
	e := c.resultOf("graph", 0)
	for i, v := range left[1] {
		if i == 0 || frame { // without a frame the maps stay poisoned
			e.Same(v, left[0][i])
		}
	}
	return nil
}
