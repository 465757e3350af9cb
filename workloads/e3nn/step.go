package e3nn

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/structure"
)

// Step implements gpuprof.Session: one batch through the whole pipeline.
func (s *session) Step(i int, p gpuprof.Probe) error {
	if err := p.Start(i); err != nil {
		return err
	}
	k := i % depth
	sl := &s.slots[k]
	if sl.used {
		sp := p.Begin(s.at(stBackpressure), nil)
		err := sl.free.Wait()
		p.End(sp)
		if err != nil {
			return err
		}
	}
	sp := p.Begin(s.at(stCollate), nil)
	edges := s.collate(sl, i%len(s.in.batches))
	p.End(sp)
	if err := s.send(sl, edges, p); err != nil {
		return err
	}
	s.setEdges(k, edges)
	for j := range s.plan {
		so := &s.plan[j]
		sp := p.Begin(s.at(so.stage), s.main)
		for _, b := range so.ops[k] {
			if err := b.Enqueue(s.main); err != nil {
				return err
			}
		}
		p.End(sp)
	}
	if err := s.receive(sl, p); err != nil {
		return err
	}
	return s.wait(i, p)
}

// collate finds the neighbours of a batch's points and lays them out as rows.
func (s *session) collate(sl *slot, batch int) int {
	limit := s.in.edges[batch]
	rowptr, dst := gpuprof.Ints(sl.host.rowptr), gpuprof.Ints(sl.host.dst)
	e := structure.Edges{Src: gpuprof.Ints(sl.host.src)[:0], Vec: gpuprof.Floats(sl.host.vec)[:0]}
	rowptr[0] = 0
	for r, point := range s.in.batches[batch] {
		if at := len(e.Src); at < limit {
			s.in.finder.Append(&e, s.in.point(point), s.in.atoms)
			for j := at; j < min(len(e.Src), limit); j++ {
				dst[j] = int32(r)
			}
		}
		rowptr[r+1] = int32(min(len(e.Src), limit))
	}
	return limit
}

// send copies a batch to the device beside whatever runs there.
func (s *session) send(sl *slot, edges int, p gpuprof.Probe) error {
	sp := p.Begin(s.at(stH2D), s.copies)
	h, d := &sl.host, &sl.dev
	if err := s.copies.Copy(d.src, 0, h.src, 0, 4*edges); err != nil {
		return err
	}
	if err := s.copies.Copy(d.dst, 0, h.dst, 0, 4*edges); err != nil {
		return err
	}
	if err := s.copies.Copy(d.rowptr, 0, h.rowptr, 0, 4*(s.rows+1)); err != nil {
		return err
	}
	if err := s.copies.Copy(d.vec, 0, h.vec, 0, 12*edges); err != nil {
		return err
	}
	p.End(sp)
	if err := s.copies.Record(sl.ready); err != nil {
		return err
	}
	return s.main.WaitFor(sl.ready)
}

// receive copies the result back and hands the slot over.
func (s *session) receive(sl *slot, p gpuprof.Probe) error {
	sp := p.Begin(s.at(stD2H), s.main)
	err := s.main.Copy(sl.out, 0, s.result(), 0, sl.out.Len())
	p.End(sp)
	if err != nil {
		return err
	}
	sl.used = true
	return s.main.Record(sl.free)
}

// result is the last layer's output on the device.
func (s *session) result() gpuprof.Buffer { return s.layers[len(s.layers)-1].out }

// wait does what the knobs item_reads and sync ask for.
func (s *session) wait(i int, p gpuprof.Probe) error {
	words := s.result().Len() / 4
	for j := range s.items {
		sp := p.Begin(s.at(stSync), nil)
		err := s.main.Copy(s.item, 0, s.result(), 4*(j%words), 4)
		if err == nil {
			err = s.main.Sync()
		}
		p.End(sp)
		if err != nil {
			return err
		}
	}
	if s.every == 0 || (i+1)%s.every != 0 {
		return nil
	}
	sp := p.Begin(s.at(stSync), nil)
	err := s.main.Sync()
	p.End(sp)
	return err
}
