package gridsim

import (
	"context"

	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
)

// Step implements workloads.Session: one step of the law and, if it is due, a frame.
func (s *session) Step(i int, p workloads.Probe) error {
	if err := p.Start(i); err != nil {
		return err
	}
	sl := &s.slots[i%depth]
	if err := s.WaitForSlot(&sl.Events, p); err != nil {
		return err
	}
	s.showFrame(sl, p)
	shown := s.k.Live > 0 && (i+1)%s.k.Live == 0
	sl.pending, sl.shown = shown || s.k.ViewWhen == whenEager, shown
	if err := s.compute(sl.pending, p); err != nil {
		return err
	}
	if err := s.rotateStates(p); err != nil {
		return err
	}
	if sl.pending {
		if err := s.copyFrame(sl, p); err != nil {
			return err
		}
	}
	if err := s.RecordFree(&sl.Events); err != nil {
		return err
	}
	if err := s.readCounters(p); err != nil {
		return err
	}
	if err := s.Wait(i, s.maps, s.maps.Len()/4, p); err != nil {
		return err
	}
	s.steps++
	s.watch.recordPoint(s.memory)
	return nil
}

// compute enqueues the law and the maps, as launches or as a graph.
func (s *session) compute(frame bool, p workloads.Probe) error {
	if s.graphs != nil {
		return s.replayGraph(frame, p)
	}
	for i := range s.ops {
		if err := s.runOperation(&s.ops[i], p); err != nil {
			return err
		}
	}
	if err := s.endTape(p); err != nil {
		return err
	}
	if s.spill { // the host has a copy of the old state
		if err := s.giveBlock(bState, p); err != nil {
			return err
		}
	}
	if frame {
		if err := s.makeMaps(p); err != nil {
			return err
		}
	}
	if s.k.ROI {
		return s.cutRegion(p)
	}
	return nil
}

// runOperation takes an operation's blocks, launches it and returns the blocks that no later operation needs.
func (s *session) runOperation(o *operation, p workloads.Probe) error {
	for _, id := range o.take {
		if err := s.takeBlock(id, s.wordsOf(id, o.cells), p); err != nil {
			return err
		}
	}
	sp := p.Begin(s.Span[stLaw], s.Compute)
	err := s.Enqueue(s.Compute, &o.Call, 0)
	p.End(sp)
	if err != nil {
		return err
	}
	if s.tape.level != "off" {
		s.tape.recordOperation(o)
	}
	for _, id := range o.give {
		if s.tape.level == tapeSaved {
			s.saved = append(s.saved, s.blocks[id])
			continue
		}
		if err := s.giveBlock(id, p); err != nil {
			return err
		}
	}
	return nil
}

// endTape discards the step's record and releases the blocks that it kept.
func (s *session) endTape(p workloads.Probe) error {
	if s.tape.level == "off" {
		return nil
	}
	s.tape.forget()
	sp := s.beginAlloc(p)
	for _, b := range s.saved {
		if err := s.memory.give(b); err != nil {
			return err
		}
	}
	s.saved = s.saved[:0]
	s.endAlloc(sp, p)
	return nil
}

// beginAlloc opens a span of stage alloc if the step takes blocks from an allocator.
func (s *session) beginAlloc(p workloads.Probe) int {
	if !s.timed {
		return -1
	}
	return p.Begin(s.Span[stAlloc], nil)
}

func (s *session) endAlloc(span int, p workloads.Probe) {
	if s.timed {
		p.End(span)
	}
}

func (s *session) takeBlock(id blockID, words int64, p workloads.Probe) error {
	sp := s.beginAlloc(p)
	b, err := s.memory.take(id, words)
	s.endAlloc(sp, p)
	if err != nil {
		return err
	}
	s.blocks[id] = b
	if s.poisons {
		return s.fillNaN(b)
	}
	return nil
}

func (s *session) giveBlock(id blockID, p workloads.Probe) error { return s.giveBack(s.blocks[id], p) }

func (s *session) giveBack(b block, p workloads.Probe) error {
	sp := s.beginAlloc(p)
	err := s.memory.give(b)
	s.endAlloc(sp, p)
	return err
}

// makeMaps enqueues a frame's maps. The map of changes may need the previous state copied back from the host.
func (s *session) makeMaps(p workloads.Probe) error {
	fetch := s.spill && s.k.Maps > 1
	if s.spill && !fetch {
		s.blocks[bState] = s.blocks[bNext] // the maps do not read it
	}
	if fetch {
		if err := s.takeBlock(bState, s.shape.stateWords(), p); err != nil {
			return err
		}
		b := s.blocks[bState]
		sp := p.Begin(s.Span[stKeep], s.Compute)
		err := s.Compute.Copy(b.buf, 4*b.at, s.kept[s.steps%len(s.kept)], 0, int(4*b.words))
		p.End(sp)
		if err != nil {
			return err
		}
	}
	sp := p.Begin(s.Span[stView], s.Compute)
	err := s.Enqueue(s.Compute, &s.view, 0)
	p.End(sp)
	if err == nil && fetch {
		err = s.giveBlock(bState, p)
	}
	return err
}

// cutRegion copies a region of random size from the new state, and drops the oldest kept region.
func (s *session) cutRegion(p workloads.Probe) error {
	n := s.shape.N
	draw := func() int { return n/8 + s.rng.IntN(n-n/8+1) }
	w, h := max(draw(), 1), max(draw(), 1)
	if err := s.takeBlock(bRegion, int64(s.shape.C)*int64(w)*int64(h), p); err != nil {
		return err
	}
	s.crop.N = w * h
	a := device.View[gridCropView](&s.crop.Args)
	a.width.Set(w)
	a.height.Set(h)
	sp := p.Begin(s.Span[stView], s.Compute)
	err := s.Enqueue(s.Compute, &s.crop, 0)
	p.End(sp)
	if err != nil {
		return err
	}
	if len(s.regions) < regions {
		s.regions = append(s.regions, s.blocks[bRegion])
		return nil
	}
	oldest := s.regions[0]
	copy(s.regions, s.regions[1:])
	s.regions[regions-1] = s.blocks[bRegion]
	return s.giveBack(oldest, p)
}

// rotateStates makes the new state the current one, keeps the previous states and drops the oldest.
func (s *session) rotateStates(p workloads.Probe) error {
	old := s.blocks[bState]
	s.blocks[bState] = s.blocks[bNext]
	switch {
	case s.spill:
		b := s.blocks[bState]
		sp := p.Begin(s.Span[stKeep], s.Compute)
		err := s.Compute.Copy(s.kept[(s.steps+1)%len(s.kept)], 0, b.buf, 4*b.at, int(4*b.words))
		p.End(sp)
		return err
	case s.k.History == 0:
		return s.giveBack(old, p)
	case len(s.past) < s.k.History:
		s.past = append(s.past, block{})
	default:
		if err := s.giveBack(s.past[s.k.History-1], p); err != nil {
			return err
		}
	}
	copy(s.past[1:], s.past)
	s.past[0] = old
	return nil
}

func (s *session) copyFrame(sl *slot, p workloads.Probe) error {
	pieces := 1
	if s.k.ViewCopy == copyEach {
		pieces = s.k.Maps
	}
	n := sl.frame.Len() / pieces
	for k := range pieces {
		sp := p.Begin(s.Span[stD2H], s.Compute)
		err := s.Compute.Copy(sl.frame, k*n, s.maps, k*n, n)
		p.End(sp)
		if err == nil && s.k.ViewCopy == copyEach {
			err = s.Sync(s.Compute, p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// showFrame completes the slot's last frame: if full maps were copied, the host averages them to pixels. A frame that
// is not shown is dropped afterwards.
func (s *session) showFrame(sl *slot, p workloads.Probe) {
	if !sl.pending {
		return
	}
	full := device.Floats(sl.frame)
	if s.k.PoolWhere == whereHost {
		sp := p.Begin(s.Span[stReduce], nil)
		averagePixels(sl.picture, full, s.k.Maps, s.shape.N, s.k.Scale)
		p.End(sp)
	} else if sl.shown {
		copy(sl.picture, full)
	}
	if sl.shown {
		s.shownAll++
	}
	sl.pending = false
}

func averagePixels(out, full []float32, maps, n, scale int) {
	side := n / scale
	part := 1 / float32(scale*scale)
	for m := range maps {
		for y := range side {
			row := out[(m*side+y)*side:][:side]
			clear(row)
			for dy := range scale {
				from := full[(m*n+y*scale+dy)*n:][:n]
				for x := range row {
					for _, v := range from[x*scale : (x+1)*scale] {
						row[x] += v
					}
				}
			}
			for x := range row {
				row[x] *= part
			}
		}
	}
}

// readCounters reads the allocator's counters as the knob stats requires.
func (s *session) readCounters(p workloads.Probe) error {
	if s.k.Stats == "off" {
		return nil
	}
	if s.k.Stats == statsSync {
		if err := s.Sync(s.Compute, p); err != nil {
			return err
		}
	}
	sp := p.Begin(s.Span[stStats], nil)
	s.read = s.memory.counts()
	s.read.peakInUse = max(s.read.peakInUse, s.Dev.Memory().Peak)
	p.End(sp)
	return nil
}

// captureGraphs captures a step's device work for each buffer that can hold the state, without and with a frame.
func (s *session) captureGraphs(ctx context.Context) error {
	for len(s.past) < s.k.History { // so that buffers rotate in the same order from here on
		b, err := s.memory.take(bState, s.shape.stateWords())
		if err != nil {
			return err
		}
		s.past = append(s.past, b)
	}
	var graphs loop.Graphs // steps use single launches until all graphs are captured
	for turn := range s.k.History + 2 {
		for _, frame := range []bool{false, true} {
			graphs.Capture(ctx, s.Dev, s.Compute, loop.GraphKey{Turn: turn, Optional: frame}, func() error { return s.compute(frame, loop.Silent{}) })
			if graphs.Err != nil {
				return graphs.Err
			}
			if !frame { // so that the next capture takes the same block
				if err := s.memory.give(s.blocks[bNext]); err != nil {
					return err
				}
			}
		}
		if err := s.rotateStates(loop.Silent{}); err != nil {
			return err
		}
	}
	s.graphs = &graphs
	return s.restoreFirst()
}

// replayGraph enqueues the graph for the buffer that holds the state.
func (s *session) replayGraph(frame bool, p workloads.Probe) error {
	b, err := s.memory.take(bNext, s.shape.stateWords())
	if err != nil {
		return err
	}
	s.blocks[bNext] = b
	_, err = s.graphs.Replay(loop.GraphKey{Turn: s.phase, Optional: frame}, s.Compute, s.Span[stGraph], p)
	s.phase = (s.phase + 1) % (s.k.History + 2)
	return err
}

// pools combines the allocator's blocks and, if there is one, the device's pool below it.
type pools struct{ s *session }

// ResetPeak implements device.Pool: it resets the peaks of both.
func (p pools) ResetPeak() error {
	p.s.memory.resetPeak()
	if p.s.below != nil {
		return p.s.below.ResetPeak()
	}
	return nil
}

// Reserved implements device.Pool.
func (p pools) Reserved() int64 { return p.s.memory.counts().reserved }

// TrimPool implements device.Pool as the knobs pool_trim and trim_sync require.
func (p pools) TrimPool() error {
	if err := p.s.memory.trim(); err != nil {
		return err
	}
	if p.s.k.TrimSync {
		return p.s.Compute.Sync()
	}
	return nil
}
