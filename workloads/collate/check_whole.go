package collate

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/structure"
)

// wholeRows is the number of rows per batch that are compared from the structure to the result.
const wholeRows = 16

// checkWholeSteps runs steps as a measurement does, with batches that Check has not used yet. It compares the batch in
// device memory with the structures and probes of the batch's number. It compares the kernel's result with float64
// values from a brute-force neighbour search.
func (c *checker) checkWholeSteps() error {
	s := c.s
	for i := depth; i < 2*depth; i++ {
		if err := s.Step(i, loop.Silent{}); err != nil {
			return err
		}
	}
	if err := s.Compute.Sync(); err != nil {
		return err
	}
	for i := depth; i < 2*depth; i++ {
		if err := c.checkWholeStep(i, &s.lanes[i%depth]); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) checkWholeStep(i int, l *lane) error {
	v := &c.whole
	dev, err := c.read(l.dev, 0, 4*l.placed.words)
	if err != nil {
		return err
	}
	out, err := c.read(l.out, 0, 4*(l.from.rows[uEdge]+l.from.rows[uReach]))
	if err != nil {
		return err
	}
	there := &slot{batch: batch{index: i, rows: l.from.rows, at: l.placed.at, mem: dev}}
	parts, ok := partition(there, c.s.r)
	if !ok {
		v.Diff = math.Inf(1)
		v.rows++
		return nil
	}
	rows := 0
	for _, p := range parts {
		rows += p.n[uAtom] + p.n[uProbe]
	}
	chosen := op.PickRows(c.rng, rows, wholeRows-2, 0, rows-1)
	v.compared, v.rows = v.compared+len(chosen), v.rows+rows
	return c.sampleRows(there, parts, chosen, v, func(p *part, r int, crystal *structure.Crystal) {
		probe, index, lo, _ := p.rowAt(there, r)
		points, at := crystal.Positions, lo
		if probe { // results of probe edges follow those for atom edges
			points, at = p.points, l.from.rows[uEdge]+lo
		}
		want := structure.BruteForce(crystal, c.s.r.Cutoff, points[index], !probe)
		for k, src := range want.Src {
			ref := consumeRef(speciesCode(crystal.Species[src]), want.Vec[3*k:3*k+3], c.s.k.Consume, c.s.r.Cutoff)
			d := float64(floatsOf(out)[at+k]) - ref
			v.Diff += d * d
			v.Ref += ref * ref
		}
	})
}
