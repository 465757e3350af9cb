package gridsim

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

const depth = loop.Depth

// session is the opened workload: everything is allocated and bound.
type session struct {
	k     settings
	seed  uint64
	shape shape
	spill bool // copy earlier states to the host

	loop.Pace // Compute and Copies are the same stream
	op.Binder
	mem    op.Arena // memory that persists between steps, except blocks
	memory memory
	below  device.Pool // the device's own pool, or nil
	timed  bool        // the step takes and gives blocks from an allocator, and times it

	weights   device.Buffer
	params    weights
	packed    packedAt
	precision int // index in precisions
	vendor    bool
	tile      int
	tuned     float64 // seconds of the search for a tile; 0 without a search

	ops      []operation
	view     op.Call // computes the maps of a frame
	crop     op.Call
	poison   op.Call
	blocks   [blockCount]block
	poisons  bool    // fill blocks with NaN when they are taken, for a check
	past     []block // earlier states, newest first
	saved    []block // with tape=saved: intermediate blocks of this step
	tape     tape
	regions  []block // with roi=on: the kept regions
	rng      *rand.Rand
	steps    int // since the first state
	shownAll int // frames shown

	kept   []device.Buffer // pinned: states copied to the host
	maps   device.Buffer   // maps of a frame on the device
	slots  [depth]slot
	graphs *loop.Graphs // by the buffer that holds the state, each without and with a frame; nil before all are captured
	phase  int          // number of the buffer that holds the state, in the order of the rotation
	watch  watch
	read   counts // last counters read because of the knob stats
}

// sideOf returns the pixels per side of the frame that the device makes: N if the host reduces the maps to pixels, else
// N/scale.
func (k settings) sideOf(n int) int {
	if k.PoolWhere == whereHost {
		return n
	}
	return n / k.Scale
}

func (k settings) deviceScale() int {
	if k.PoolWhere == whereHost {
		return 1
	}
	return k.Scale
}

// slot is one step in flight: the memory of its frame, and the events that order the copies.
type slot struct {
	frame   device.Buffer // pinned: [maps,side,side]
	picture []float32     // the frame as shown: [maps,(N/scale)^2]
	pending bool          // a frame is being copied
	shown   bool          // the frame is to be shown
	loop.Events
}

func open(ctx context.Context, d device.Device, c workloads.Config) (*session, error) {
	s, err := newSession(d, c)
	if err == nil {
		err = s.startSession(ctx)
	}
	if err != nil {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
		return nil, err
	}
	return s, nil
}

// newSession allocates and binds all but the first state. If it returns both an error and a session, the caller closes
// the session.
func newSession(d device.Device, c workloads.Config) (*session, error) {
	s := planSession(d, c)
	if err := s.checkMemory(c); err != nil {
		return nil, err
	}
	err := s.allocate()
	return s, err
}

// planSession returns a session that has no memory yet.
func planSession(d device.Device, c workloads.Config) *session {
	k := workloads.Read[settings](c.Knobs)
	s := &session{
		k: k, seed: c.Seed, shape: shapeOf(k), mem: op.Arena{Dev: d}, Pace: workloads.Read[loop.Pace](c.Knobs),
		Binder: op.Binder{Dev: d}, tile: tiles[0], precision: slices.Index(precisions, k.Precision),
		timed: k.Allocator != allocArena, rng: rand.New(rand.NewPCG(c.Seed, 4)),
	}
	s.Place = func(id int) (device.Buffer, int64) { return s.blocks[id].buf, 4 * int64(s.blocks[id].at) }
	s.packed, s.tape.level = packedOf(s.shape.C, s.shape.H), k.Tape
	s.spill = s.spillsToHost()
	s.vendor = s.usesVendor(d.Info())
	return s
}

// usesVendor reports whether cuBLAS computes the law's products, which here needs float32 operands. With library=auto,
// a search over our own tiles (autotune=on) excludes cuBLAS.
func (s *session) usesVendor(d device.Info) bool {
	return d.Facts["cublas"] != "" && s.k.Library != "off" && s.k.Impl != implFused && s.shape.law == lawMLP &&
		vendorKernels[s.k.Precision] != nil && (!s.k.Autotune || s.k.Library == "on")
}

func (s *session) spillsToHost() bool {
	text, below := strings.CutPrefix(s.k.Keep, "below:")
	mib, _ := strconv.ParseInt(text, 10, 64)
	return s.k.Keep == keepHost || below && 4*s.shape.stateWords() >= mib<<20
}

// isTiled reports whether launches consist of thread blocks.
func (s *session) isTiled() bool { return s.Dev.Info().Kind != "host" }

// heldStates returns the number of states on the device between steps.
func (s *session) heldStates() int {
	if s.spill {
		return 1
	}
	return s.k.History + 1
}

// memoryNeed returns for each kind of block its largest number of elements, and how many exist at the same time.
func (s *session) memoryNeed() (words [blockCount]int64, count [blockCount]int) {
	words[bState], count[bState] = s.shape.stateWords(), s.heldStates()+1
	for i := range s.ops {
		o := &s.ops[i]
		for _, id := range o.take {
			if id != bNext {
				words[id], count[id] = max(words[id], s.wordsOf(id, o.cells)), count[id]+1
				if s.tape.level != tapeSaved {
					count[id] = 1
				}
			}
		}
	}
	if s.k.ROI {
		words[bRegion], count[bRegion] = s.shape.stateWords(), regions+1
	}
	return words, count
}

// checkMemory refuses sizes beyond the device's memory or 32-bit indices, before any allocation.
func (s *session) checkMemory(c workloads.Config) error {
	sh := s.shape
	rows := s.chunkRows()
	largest := max(sh.stateWords(), int64(max(2*sh.C, sh.H))*int64(rows)*int64(sh.N))
	if largest > math.MaxInt32 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "opening gridsim: its largest array would have %d elements, more than 32 bits index", largest).WithFix("use a smaller --set grid, hidden or channels, or chunk with impl=split or gemm")
	}
	need, err := op.Need(s.Dev, func(d device.Device) error { return planSession(d, c).allocate() })
	left := s.Dev.Memory().Available
	if need > left {
		return gpuprof.Errorf(gpuprof.ErrMemory, "a grid of %d x %d cells with %d channels and %d hidden units needs %s, and the device has %s left",
			sh.N, sh.N, sh.C, sh.H, gpuprof.FormatBytes(float64(need)), gpuprof.FormatBytes(float64(left))).WithFix("use a smaller --set grid, hidden or history, or chunk with impl=split or gemm")
	}
	return err
}

func (s *session) allocate() error {
	s.OneStream = true // a frame is copied after its step, on the same stream
	if err := s.Open(s.Dev); err != nil {
		return err
	}
	s.Pool = pools{s}
	s.params = drawWeights(s.shape, s.seed)
	s.weights = s.mem.Upload(s.Compute, "the network", s.params.packWeights(s.shape, s.k.Precision))
	s.Item = s.mem.Words("the item buffer", 1, device.Pageable)
	side := int64(s.k.sideOf(s.shape.N))
	s.maps = s.mem.Words("the maps of a frame", int64(s.k.Maps)*side*side, device.OnDevice)
	for k := range s.slots {
		sl := &s.slots[k]
		sl.frame = s.mem.Words("a frame", int64(s.k.Maps)*side*side, device.Pinned)
		if s.mem.Err != nil {
			return s.mem.Err
		}
		if err := sl.Open(s.Dev); err != nil {
			return err
		}
		pixels := s.shape.N / s.k.Scale
		sl.picture = make([]float32, s.k.Maps*pixels*pixels)
	}
	if s.spill {
		for range s.k.History + 1 {
			s.kept = append(s.kept, s.mem.Words("states on the host", s.shape.stateWords(), device.Pinned))
		}
	}
	if s.mem.Err != nil {
		return s.mem.Err
	}
	return s.bindAll()
}

// bindAll binds the step, takes the block of the first state and describes the stages.
func (s *session) bindAll() (err error) {
	s.bindLaw()
	if s.Err != nil {
		return s.Err
	}
	if s.k.Allocator == allocPool || s.Reset != "off" {
		s.below = loop.DevicePool(s.Dev)
	}
	if s.memory, err = s.newMemory(); err != nil {
		return err
	}
	if s.blocks[bState], err = s.memory.take(bState, s.shape.stateWords()); err != nil {
		return err
	}
	s.describeStages()
	s.watch.began = time.Now()
	return nil
}

// startSession writes the first state, then tunes and captures if the settings require it.
func (s *session) startSession(ctx context.Context) error {
	if err := s.restoreFirst(); err != nil {
		return err
	}
	if s.k.Autotune && !s.vendor {
		if err := s.tuneTiles(ctx); err != nil {
			return err
		}
	}
	if s.k.Graph {
		return s.captureGraphs(ctx)
	}
	return nil
}

func (s *session) bindLaw() {
	sh, f := s.shape, s.k
	s.ops = s.listOperations()
	deriveLives(s.ops)
	side := f.sideOf(sh.N)
	s.view = s.Bind(&mapsKernel, side*side, frameCost(sh, f.Maps, f.deviceScale()), gridMapsArgs{
		psi: bNext.ref(), before: bState.ref(), out: s.maps, psiAt: 0, beforeAt: 0, N: sh.N, C: sh.C,
		hwc: sh.hwc, maps: f.Maps, scale: f.deviceScale(),
	})
	s.crop = s.Bind(&cropKernel, 0, gpuprof.Cost{}, gridCropArgs{
		psi: bNext.ref(), out: bRegion.ref(), psiAt: 0, outAt: 0, N: sh.N, C: sh.C, width: 1,
		height: 1, hwc: sh.hwc,
	})
	s.poison = s.Bind(&poisonKernel, 0, gpuprof.Cost{}, gridPoisonArgs{
		out: bNext.ref(), at: 0, value: float32(math.NaN()),
	})
}

func (s *session) newMemory() (memory, error) {
	switch {
	case op.Counts(s.Dev): // the blocks of the arena are what a step of any allocator holds
	case s.k.Allocator == allocPool:
		return newPooled(s.Dev, s.below, int64(s.k.MaxSplit)<<20), nil
	case s.k.Allocator == allocDriver:
		return &direct{mem: op.Arena{Dev: s.Dev}}, nil
	}
	words, count := s.memoryNeed()
	return newArena(s.Dev, words, count)
}

// restoreFirst makes the first state the current one, and discards earlier states.
func (s *session) restoreFirst() error { return s.startFrom(drawState(s.shape, s.seed)) }

// startFrom makes first, a state in the session's layout, the current state and discards earlier states.
func (s *session) startFrom(first []float32) error {
	if err := s.Compute.Sync(); err != nil {
		return err
	}
	for len(s.past) > 0 && !s.k.Graph { // graphs keep using the same blocks in turn
		last := len(s.past) - 1
		if err := s.memory.give(s.past[last]); err != nil {
			return err
		}
		s.past = s.past[:last]
	}
	s.steps = 0
	if s.spill {
		copy(device.Floats(s.kept[0]), first)
	}
	return s.send(s.blocks[bState], first)
}

// send copies values to a block, and receive copies them from a block. Both wait for the copy.
func (s *session) send(b block, v []float32) error {
	return op.SendAt(s.Dev, s.Compute, b.buf, b.at, v)
}

func (s *session) receive(b block, words int64) ([]float32, error) {
	return op.Receive(s.Dev, s.Compute, b.buf, b.at, int(words))
}

// Work implements workloads.Session: the cells of a step.
func (s *session) Work() (float64, string) { return float64(s.shape.cells()), "cells" }

// Cycle implements workloads.Session. The work of steps also repeats with the period of frames.
func (s *session) Cycle() int {
	if s.k.Live == 0 || s.k.ViewWhen == whenEager {
		return s.Pace.Cycle()
	}
	return loop.Period(s.Pace.Cycle(), s.k.Live)
}

// Input implements workloads.Session.
func (s *session) Input() map[string]any {
	in := map[string]any{
		"cells": s.shape.cells(), "state_bytes": 4 * s.shape.stateWords(), "parameters": 3*s.shape.C*s.shape.H + s.shape.H + s.shape.C,
		"frame_bytes": 4 * s.k.Maps * (s.shape.N / s.k.Scale) * (s.shape.N / s.k.Scale), "frames_per_step": s.k.framesPerStep(),
		"launches_of_law": len(s.ops), "products": "none",
	}
	switch {
	case s.shape.law != lawMLP:
	case s.vendor:
		in["products"] = "cuBLAS " + s.Dev.Info().Facts["cublas"]
	default:
		in["products"] = "own kernels"
	}
	if s.tuned > 0 {
		in["autotune_s"], in["autotune_tile"] = s.tuned, s.tile
	}
	return in
}

// Close implements workloads.Session. It waits for the steps in flight.
func (s *session) Close() error {
	errs := []error{s.CloseStreams()}
	if s.memory != nil {
		errs = append(errs, s.memory.close())
	}
	return errors.Join(append(errs, s.mem.Free())...)
}
