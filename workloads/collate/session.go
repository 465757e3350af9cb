package collate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/structure"
)

const depth = loop.Depth

// session is the opened workload: everything is allocated.
type session struct {
	ctx     context.Context
	dev     device.Device
	k       settings
	r       *recipe
	ignored int    // files of the folder that hold no structure
	survey  survey // sizes of the batches
	first   *source

	loop.Pace
	mem     op.Arena
	lanes   [depth]lane
	pool    *pool   // nil without workers
	maker   *maker  // the caller's maker, without workers
	own     []*slot // the caller's slots, without workers
	consume device.Func
	watch   watch
	hook    func(int) // for tests, see maker
}

// lane is one batch in flight: staging memory, the device's copy, the result, and the events that order the copies.
type lane struct {
	host   device.Buffer // staging memory; nil before its first use
	staged frame         // layout of host
	dev    device.Buffer
	placed frame // layout of dev
	out    device.Buffer
	from   batch         // the copied batch and its layout
	buf    device.Buffer // buffer that holds from
	loop.Events
	args [2]device.Args // for atom edges and for probe edges
}

func open(ctx context.Context, d device.Device, c workloads.Config) (*session, error) {
	return openHooked(ctx, d, c, nil)
}

func openHooked(ctx context.Context, d device.Device, c workloads.Config, hook func(int)) (*session, error) {
	s := &session{
		ctx: ctx, dev: d, k: readSettings(c.Knobs), mem: op.Arena{Dev: d}, Pace: workloads.Read[loop.Pace](c.Knobs), hook: hook,
	}
	s.watch.began = time.Now()
	var err error
	if s.r, s.ignored, err = newRecipe(c, s.k.Structures); err != nil {
		return nil, err
	}
	if err := s.estimateSizes(ctx); err != nil {
		return nil, err
	}
	if err := s.allocate(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// estimateSizes estimates the size of batches and refuses batches that exceed memory. Of a folder it reads only the
// first file: the others are read when needed, and a broken file fails its own batch.
func (s *session) estimateSizes(ctx context.Context) error {
	crystal := structure.HfO2()
	if len(s.r.Files) > 0 {
		var err error
		if crystal, err = structure.ReadFound(s.r.Files[0]); err != nil {
			crystal = structure.HfO2() // for the estimate; the broken file fails batch 0
		}
	}
	var err error
	if s.first, err = openSource(crystal, s.r); err != nil {
		return gpuprof.Errorf(gpuprof.ErrInput, "%w", err)
	}
	s.survey = s.r.estimate(s.first)
	if need, left := s.memoryNeed(), s.dev.Memory().Available; need > 2*left {
		return s.tooLarge(need, left)
	}
	if len(s.r.Files) == 0 {
		if s.survey, err = s.r.countDrawn(ctx, s.first); err != nil {
			return err
		}
	}
	if need, left := s.memoryNeed(), s.dev.Memory().Available; need > left {
		return s.tooLarge(need, left)
	}
	s.r.Room = int(float64(s.dev.Memory().Available) / s.copiesHeld() / 4)
	// Indices and offsets inside a batch have 32 bits.
	if f := frameOf(s.survey.most); f.words > math.MaxInt32 {
		return s.tooLarge(s.memoryNeed(), 4*math.MaxInt32)
	}
	return nil
}

// slotsEach returns the slots per worker: the slots that a worker fills ahead, and its share of the slots that the
// caller holds.
func (s *session) slotsEach() int {
	return s.k.Prefetch + (held+s.k.Workers-1)/max(s.k.Workers, 1)
}

// copiesHeld returns how many copies of a batch are in memory at the same time, fitted to measured peaks with batches
// of 90 and 290 MB. Memory of Go's heap counts twice: the garbage may become as large as the live memory.
func (s *session) copiesHeld() float64 {
	const (
		grown    = 1.25 // lists that grew by appending
		boxed    = 6    // a list of boxed numbers relative to an array, with its growth
		readBack = 1.5  // copies by the check
	)
	makers := float64(max(s.k.Workers, 1))
	alive := makers*grown + readBack
	if s.r.Impl == implNaive {
		alive += makers * 2 * boxed // lists of the samples and of the batch
	}
	if s.k.Workers == 0 {
		alive += depth
	} else {
		alive += float64(s.k.Workers * s.slotsEach())
	}
	n := 2*depth + 2*alive // 2*depth: staging memory and device memory
	if len(s.r.Files) > 0 {
		n *= grown // see frame.grownTo
	}
	return n
}

// memoryNeed returns the bytes of all copies of batches in the pipeline.
func (s *session) memoryNeed() int64 {
	f := frameOf(s.survey.most)
	return 4 * (int64(s.copiesHeld()*float64(f.words)) + depth*int64(s.survey.most[uEdge]+s.survey.most[uReach]))
}

func (s *session) tooLarge(need, left int64) error {
	return device.Short(s.dev, gpuprof.Errorf(gpuprof.ErrMemory, "batches of %d samples with %d probes each need %s for %d workers that make %d ahead, and %s are left", s.r.Batch, s.r.Probes, gpuprof.FormatBytes(float64(need)), s.k.Workers, s.k.Prefetch, gpuprof.FormatBytes(float64(left))).WithFix("use a smaller --set batch, probes, cutoff, workers or prefetch"))
}

func (s *session) allocate() error {
	if err := s.Open(s.dev); err != nil {
		return err
	}
	var err error
	if s.consume, err = s.dev.Load(&consumeKernel); err != nil {
		return err
	}
	for i := range s.lanes {
		if err := s.lanes[i].allocate(s); err != nil {
			return err
		}
	}
	s.Item = s.mem.Bytes("the item buffer", 4, device.Pageable)
	if s.mem.Err != nil {
		return s.mem.Err
	}
	s.describeStages()
	if s.k.Workers == 0 {
		return s.makeAlone()
	}
	return s.hireAll()
}

func (l *lane) allocate(s *session) error {
	if s.k.Pinned == pinnedOn {
		l.staged = frameOf(s.survey.most)
		l.host = s.mem.Bytes("staging memory", 4*l.staged.words, device.Pinned)
	}
	if err := l.placeBuffers(s, s.survey.most); err != nil {
		return err
	}
	return l.Open(s.dev)
}

// placeBuffers allocates a lane's device memory for batches of up to caps rows.
func (l *lane) placeBuffers(s *session, caps sizes) error {
	if err := errors.Join(s.mem.Drop(l.dev), s.mem.Drop(l.out)); err != nil {
		return err
	}
	l.placed = frameOf(caps)
	l.dev = s.mem.Bytes("the batch", 4*l.placed.words, device.OnDevice)
	l.out = s.mem.Bytes("the result", 4*(caps[uEdge]+caps[uReach]), device.OnDevice)
	if s.mem.Err != nil {
		return s.mem.Err
	}
	at := &l.placed.at
	for i, f := range [2][2]int{{fESrc, fEVec}, {fPSrc, fPVec}} {
		a := device.View[consumeView](&l.args[i])
		a.out.Set(l.out, 0)
		a.block.Set(l.dev, 0)
		a.species.Set(at[fSpecies])
		a.src.Set(at[f[0]])
		a.vec.Set(at[f[1]])
		a.passes.Set(s.k.Consume)
		a.cutoff.Set(float32(s.r.Cutoff))
	}
	return nil
}

// newSlot makes a slot in memory that the device can copy from or, if heap is set, on Go's heap.
func (s *session) newSlot(heap bool) (*slot, error) {
	sl := &slot{frame: frameOf(s.survey.most)}
	if heap {
		sl.home = make([]byte, 4*sl.frame.words)
	} else {
		if sl.buf = s.mem.Bytes("a batch", 4*sl.frame.words, device.Pageable); s.mem.Err != nil {
			return nil, s.mem.Err
		}
		sl.home = sl.buf.Bytes()
	}
	poison(sl.home)
	return sl, nil
}

// poison fills memory with a pattern that no batch contains: -2 as an index, NaN as a coordinate. The pattern differs
// from the -1 of padding, which the batch must write.
func poison(mem []byte) {
	for i := range mem {
		mem[i] = 0xff
		if i%4 == 0 { // lowest byte: all supported CPUs are little-endian
			mem[i] = 0xfe
		}
	}
}

func (s *session) makeAlone() error {
	for range depth {
		sl, err := s.newSlot(s.k.Pinned != pinnedOff)
		if err != nil {
			return err
		}
		s.own = append(s.own, sl)
	}
	var err error
	if s.maker, err = newMaker(s.r); err == nil {
		s.maker.hook = s.hook
	}
	return err
}

func (s *session) hireAll() error {
	p := &pool{ctx: s.ctx, ahead: s.k.Workers * s.k.Prefetch, waitDevice: s.quiesce}
	if s.k.Restarts {
		p.epoch = s.k.Epoch
	}
	processes := s.k.WorkerKind == kindProcess
	for range s.k.Workers {
		slots := make([]*slot, s.slotsEach())
		for i := range slots {
			if processes { // the process provides the memory
				slots[i] = &slot{frame: frameOf(s.survey.most)}
				continue
			}
			var err error
			if slots[i], err = s.newSlot(s.k.Pinned != pinnedOff); err != nil {
				return err
			}
		}
		p.slots = append(p.slots, slots)
	}
	p.startWorker = func(w int) (worker, error) {
		if processes {
			return hireProcess(s.r, p.slots[w], &p.ready)
		}
		return hireLocal(s.r, len(p.slots[w]), &p.ready, s.hook)
	}
	s.pool = p
	return p.begin(0)
}

// quiesce waits until the device has read every batch that it was given.
func (s *session) quiesce() error {
	for i := range s.lanes {
		if l := &s.lanes[i]; l.Used {
			if err := l.Free.Wait(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Pause implements workloads.Pauser: it waits for the requested batches and discards them, so that the next step
// begins a round with no batch made ahead.
func (s *session) Pause() (lead int, err error) {
	if s.pool == nil {
		return 0, nil
	}
	return s.pool.ahead, errors.Join(s.pool.settle(), s.quiesce())
}

// Work implements workloads.Session.
func (s *session) Work() (float64, string) { return float64(s.r.Batch), "samples" }

// Input implements workloads.Session.
func (s *session) Input() map[string]any {
	kind := "the host thread"
	if s.k.Workers > 0 {
		kind = s.k.WorkerKind
	}
	in := map[string]any{
		"structure": s.first.crystal.Name, "batch": s.r.Batch, "samples_total": s.r.Items, "cutoff_angstrom": s.r.Cutoff,
		"workers": s.k.Workers, "worker_kind": kind, "collated_by": fmt.Sprintf("%d x %s", max(s.k.Workers, 1), kind),
	}
	if n := len(s.r.Files); n > 0 {
		in["structure"], in["files"], in["files_ignored"] = s.k.Structures, n, s.ignored
	}
	if s.survey.exact {
		for u := uAtom; u < unitCount; u++ {
			in[unitNames[u]+"_mean"], in[unitNames[u]+"_max"] = s.survey.mean[u], s.survey.most[u]
		}
	}
	if s.k.Workers > 0 {
		in["batches_ahead"] = s.k.Workers * s.k.Prefetch
	}
	return in
}

// Close implements workloads.Session. It waits for the batches in flight and ends the workers.
func (s *session) Close() error {
	errs := []error{s.CloseStreams()}
	if s.pool != nil {
		errs = append(errs, s.pool.stopWorkers())
		s.pool = nil
	}
	return errors.Join(append(errs, s.mem.Free())...)
}
