package gruflow

import (
	"context"
	"errors"
	"math"
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
	*program
	k     settings
	seed  uint64
	shape shape
	prec  precision
	impl  string // the resolved value of knob impl

	loop.Pace // its Compute is the program's stream, its Pool the session's pools
	mem       op.Arena
	net       *gru // of the first slot; the other slot may use its state in the opposite direction
	slots     [depth]slot
	graphs    loop.Graphs

	inputs  device.Buffer // pinned: the inputs of all batches, [batches,T,B,I]
	batches int

	devPool device.Pool // the device's own pool, from which the workload's pool allocates
	params  params
	flow    flowBuffers
	tuned   *tuning
	rec     *recording // nil unless a pass records its forward computation
	train   *training  // nil unless pass=train
}

// flowBuffers is the device memory of carriers and projection, which persists between steps.
type flowBuffers struct {
	energy, level, place, source device.Buffer
	proj, bias                   device.Buffer
	record                       device.Buffer // [B,outputs]
	metrics                      device.Buffer // [M]
}

// slot is one step in flight: its input on the device, its results on the host, and the events that order the copies.
type slot struct {
	x            device.Buffer // [T,B,I]
	net          *gru          // its h is the state after the step
	out, metrics device.Buffer // pinned: [B,outputs], [M]
	loop.Events
	groups []group
}

func open(ctx context.Context, d device.Device, c workloads.Config) (*session, error) {
	s := newSession(d, c)
	if err := s.checkMemory(ctx, d, c); err != nil {
		return nil, err
	}
	if err := s.allocate(ctx, d); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// newSession plans a session; it allocates no device memory.
func newSession(d device.Device, c workloads.Config) *session {
	k := readSettings(c.Knobs)
	s := &session{
		k: k, seed: c.Seed, shape: k.shape, prec: parsePrecision(k.Precision), impl: chooseImpl(d.Info(), k),
		mem: op.Arena{Dev: d}, Pace: workloads.Read[loop.Pace](c.Knobs),
	}
	if _, ok := d.(device.GRUMaker); !ok && s.k.Impl == implAuto && s.impl == implCuDNN {
		s.impl = implFused // the library is present, but the device type does not offer its GRU
	}
	if recordsForward(s.k) {
		s.rec = newRecording(s.k, s.newNet(d.Info()))
	}
	if s.k.Trains() {
		s.train = newTraining(s.k, s.rec)
	}
	s.batches = 1
	if c.Mode != gpuprof.Hot {
		s.batches = s.batchRotation(d.Info().CacheBytes)
	}
	return s
}

// batchRotation returns the number of input batches through which a run rotates, so that no batch is still in the cache
// when its turn comes. It is five cache sizes divided by the bytes that a step touches, rounded up, plus one. The limit
// is 4,096: drawing more would take minutes for a tiny step.
func (s *session) batchRotation(cache int64) int {
	words := int64(s.shape.T)*int64(s.shape.B)*int64(s.shape.I+s.shape.gates()) + s.parameterWords() + s.stateWords()
	return min(1<<12, int(math.Ceil(5*float64(cache)/float64(4*words)))+1)
}

func (s *session) allocate(ctx context.Context, d device.Device) error {
	if err := s.Open(d); err != nil {
		return err
	}
	s.program, s.Pool = newProgram(d, s.Compute), pools{s}
	s.fill = s.k.Fill
	for i := range s.slots {
		if err := s.slots[i].allocate(s); err != nil {
			return err
		}
	}
	s.allocateDevice()
	s.drawBatches()
	if s.mem.Err != nil {
		return s.mem.Err
	}
	if err := s.restoreStart(); err != nil {
		return err
	}
	if s.Reset != "off" || s.Trims > 0 {
		s.devPool = loop.DevicePool(d)
	}
	if s.k.Autotune {
		began := time.Now()
		if err := s.tuneTiles(ctx); err != nil {
			return err
		}
		s.tuned.seconds = time.Since(began).Seconds()
	}
	return s.bindSlots(ctx)
}

func (sl *slot) allocate(s *session) error {
	sl.x = s.mem.Words("the input", s.inputWords(), device.OnDevice)
	sl.out = s.mem.Words("the result", outputs*int64(s.shape.B), device.Pinned)
	sl.metrics = s.mem.Words("the metrics", int64(s.metricWords()), device.Pinned)
	if s.mem.Err != nil {
		return s.mem.Err
	}
	return sl.Open(s.mem.Dev)
}

func (s *session) allocateDevice() {
	sh := s.shape
	b := int64(sh.B)
	on := func(what string, n int64) device.Buffer { return s.mem.Words(what, n, device.OnDevice) }
	s.params = drawParams(sh, s.seed, !op.Counts(s.mem.Dev))
	s.allocateNet()
	proj := s.params.proj
	if s.net.impl == implPlain { // the matrix product reads the transpose
		proj = transpose(proj, outputs)
	}
	s.flow = flowBuffers{
		energy: on("energies", b), level: on("levels", b), place: on("places", 2*b),
		source: s.mem.Upload(s.stream, "sources", drawSources(sh, s.seed)),
		proj:   s.mem.Upload(s.stream, "projection", proj), bias: s.mem.Upload(s.stream, "projection bias", s.params.bias),
		record: on("carriers' records", outputs*b), metrics: on("metrics", int64(s.metricWords())),
	}
	switch {
	case s.mem.Err != nil:
	case s.train != nil:
		s.openTraining()
	case s.rec != nil:
		s.openRecording()
	}
	s.Item = s.mem.Words("the item buffer", 1, device.Pageable)
}

// allocateNet makes the GRU of each slot (step in flight). A library's GRU reads the state from one buffer and writes
// it to another. So the GRUs of the two slots use the two buffers in opposite directions.
func (s *session) allocateNet() {
	sh, info := s.shape, s.mem.Dev.Info()
	state := func() device.Buffer {
		return s.mem.Words("hidden states", int64(sh.L)*int64(sh.B)*int64(sh.H), device.OnDevice)
	}
	s.net = s.newNet(info)
	if s.rec != nil {
		s.net = s.rec.u.net
	}
	s.net.program, s.net.h = s.program, state()
	for k := range s.slots {
		s.slots[k].net = s.net
	}
	if s.train != nil { // in training, every step makes the weights from the parameters
		return
	}
	if s.net.impl != implCuDNN {
		s.net.layers = nil // replaces the entries of an unrolled GRU, which have no buffers
		for _, p := range s.params.layers {
			s.net.layers = append(s.net.layers, uploadLayer(&s.mem, s.stream, p, sh.H, s.prec))
		}
		return
	}
	maker, ok := s.mem.Dev.(device.GRUMaker)
	if !ok {
		s.mem.Err = gpuprof.Errorf(gpuprof.ErrUsage, "setting impl=cudnn on device %s: it does not offer the library's GRU", info.Name).WithFix("use fused or plain")
		return
	}
	other := *s.net
	other.h = state()
	s.net.lib = newLibrary(&s.mem, s.stream, maker, sh, s.k.Precision, s.params, other.h)
	if s.mem.Err == nil {
		other.lib = s.net.lib.sibling(s.net.h)
		s.slots[1].net = &other
	}
}

func (s *session) newNet(info device.Info) *gru {
	return &gru{s: s.shape, impl: s.impl, prec: s.prec, cores: info.Cores, vendor: chooseVendor(info, s.k, s.impl)}
}

func (s *session) drawBatches() {
	n := s.inputWords()
	s.inputs = s.mem.Words("the inputs", int64(s.batches)*n, device.Pinned)
	if s.mem.Err != nil || op.Counts(s.mem.Dev) {
		return
	}
	x := device.Floats(s.inputs)
	for i := range s.batches {
		drawInputs(s.shape, s.seed, i, x[int64(i)*n:int64(i+1)*n])
	}
}

// restoreStart restores the carriers' initial state, and in training also the initial parameters.
func (s *session) restoreStart() error {
	if op.Counts(s.mem.Dev) {
		return nil
	}
	st := drawState(s.shape, s.seed)
	for _, part := range []struct {
		to   device.Buffer
		from []float32
	}{{s.slots[0].net.h, st.h}, {s.slots[1].net.h, st.h}, {s.flow.energy, st.energy}, {s.flow.level, floatView(st.level)}, {s.flow.place, st.place}} {
		if err := op.Send(s.mem.Dev, s.stream, part.to, part.from); err != nil {
			return err
		}
	}
	if s.train != nil {
		s.train.done = 0
		return s.train.step.Restart(s.stream)
	}
	return nil
}

// Work implements workloads.Session: carriers times time steps.
func (s *session) Work() (float64, string) {
	return float64(windowOf(s.k)*s.k.Micro()) * float64(s.shape.B) * float64(s.shape.T), "flow steps"
}

// Input implements workloads.Session.
func (s *session) Input() map[string]any {
	in := map[string]any{
		"flows": s.shape.B, "time_steps": s.shape.T, "input_batches": s.batches,
		"parameters":         s.parameterWords(),
		"leaving_per_step":   float64(s.shape.B) / float64(s.shape.D),
		"metrics_per_step":   s.shape.metrics(),
		"scratch_reserved_b": s.memory.Stats().PeakReserved,
		"impl":               s.net.impl, "products": s.productLibrary(),
	}
	if s.rec != nil {
		in[gpuprof.InputRecorded], in[gpuprof.InputRecordedWindow] = s.rec.bytes()
	}
	if s.tuned != nil {
		in["autotune_s"], in["autotune_tile"] = s.tuned.seconds, s.net.tile // tile 0 is the library's product
	}
	return in
}

func (s *session) productLibrary() string {
	facts := s.mem.Dev.Info().Facts
	switch {
	case s.net.lib != nil:
		return "cuDNN " + facts["cudnn"]
	case s.net.vendor:
		return "cuBLAS " + facts["cublas"]
	}
	return "own kernels"
}

// Close implements workloads.Session. It waits for the steps in flight.
func (s *session) Close() error {
	errs := []error{s.CloseStreams()}
	if s.train != nil {
		errs = append(errs, s.train.close())
	}
	if s.program != nil {
		errs = append(errs, s.segments.Free())
	}
	return errors.Join(append(errs, s.mem.Free())...)
}
