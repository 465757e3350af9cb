package gruflow

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// depth is how many steps are in flight: while the device works on one, the
// next one's input is on its way.
const depth = 2

// session is the workload with everything allocated and bound.
type session struct {
	*program
	set   gpuprof.Settings
	seed  uint64
	shape shape
	prec  precision
	impl  string // what knob impl means here

	loop.Pace // its Compute is the program's stream, its Pool the session's pools
	mem       op.Arena
	net       *gru // of the first slot; the others share all but the state's direction
	slots     [depth]slot
	stages    []gpuprof.Stage
	index     [stageCount]int // of each stage in stages
	graphs    [depth]gpuprof.Op

	inputs  gpuprof.Buffer // pinned: x of every batch, [batches,T,B,I]
	batches int

	devPool gpuprof.Pool // the device's own, below the workload's
	params  params
	flow    flowBuffers
	tuned   *tuning
	rec     *recording // of passes that keep their way down, else nil
	train   *training  // of pass=train, else nil
}

// flowBuffers is what stays on the device from step to step.
type flowBuffers struct {
	energy, level, place, source gpuprof.Buffer
	proj, bias                   gpuprof.Buffer
	record                       gpuprof.Buffer // [B,outputs]
	metrics                      gpuprof.Buffer // [M]
}

// slot is one step in flight: its input on the device, where its results land
// on the host, and the events that hand it over.
type slot struct {
	x            gpuprof.Buffer // [T,B,I]
	net          *gru           // its h is the state after the step
	out, metrics gpuprof.Buffer // pinned: [B,outputs], [M]
	loop.Events
	groups []group
}

func open(ctx context.Context, d gpuprof.Device, c gpuprof.Config) (*session, error) {
	s := &session{
		set: c.Knobs, seed: c.Seed, shape: shapeOf(c.Knobs), prec: parsePrecision(c.Knobs["precision"]),
		mem: op.Arena{Dev: d}, Pace: loop.PaceOf(c.Knobs),
	}
	s.impl = chooseImpl(d.Info(), c.Knobs)
	if _, ok := d.(gpuprof.GRUMaker); !ok && s.set["impl"] == implAuto && s.impl == implCuDNN {
		s.impl = implFused // the library is there, but nothing hands it out
	}
	if records(s.set) {
		s.rec = newRecording(s.set, s.newNet(d.Info()))
	}
	if trains(s.set) {
		s.train = newTraining(s.set, s.rec)
	}
	s.batches = 1
	if c.Mode != gpuprof.Hot {
		s.batches = s.rotation(d.Info().CacheBytes)
	}
	if err := s.fits(d); err != nil {
		return nil, err
	}
	if err := s.allocate(ctx, d); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// rotation is ceil(5 caches / bytes a step touches) + 1 batches of input, at
// most 4,096: a tiny step's input would otherwise be drawn for minutes.
func (s *session) rotation(cache int64) int {
	words := int64(s.shape.T)*int64(s.shape.B)*int64(s.shape.I+s.shape.gates()) + s.parameterWords() + s.stateWords()
	return min(1<<12, int(math.Ceil(5*float64(cache)/float64(4*words)))+1)
}

func (s *session) inputWords() int64 {
	return int64(windowOf(s.set)*microOf(s.set)) * int64(s.shape.T) * int64(s.shape.B) * int64(s.shape.I)
}

// metricWords are those of every level, and in training the loss.
func (s *session) metricWords() int {
	if s.train != nil {
		return s.train.window*s.shape.metrics() + 1
	}
	return s.shape.metrics()
}

func (s *session) parameterWords() int64 {
	var n int64
	for l := range s.shape.L {
		n += int64(s.shape.gates()) * int64(s.shape.width(l)+s.shape.H+2)
	}
	return n + outputs*int64(s.shape.H+1)
}

func (s *session) stateWords() int64 {
	b := int64(s.shape.B)
	return int64(s.shape.L)*b*int64(s.shape.H) + 5*b + outputs*b + int64(s.metricWords())
}

// scratchWords is an upper bound of the scratch memory in use at one time.
func (s *session) scratchWords() int64 {
	sh := s.shape
	if s.train != nil {
		kind := s.mem.Dev.Info().Kind
		return s.train.u.scratchWords(kind, s.train.shapes()...) + int64(sh.B)*int64(sh.H) + int64(ceilDiv(sh.B, metricBlock))*int64(sh.metrics())
	}
	rows, b, h := int64(sh.T)*int64(sh.B), int64(sh.B), int64(sh.H)
	wide := int64(max(sh.I, sh.H))
	n := rows*3*h + b*3*h
	switch s.impl {
	case implCuDNN:
		n = 0
	case implPersistent:
		n = b * (6*h + wide)
	case implPlain:
		n += 3 * b * h
	}
	if s.impl != implCuDNN && s.prec != fp32 {
		n += s.prec.words(rows*wide) + s.prec.words(b*h)
	}
	if s.impl != implCuDNN && sh.T > 1 {
		n += 2 * rows * h
	}
	return max(n, int64(ceilDiv(sh.B, metricBlock))*int64(sh.metrics()))
}

// reserved is what the allocator reserves at most for words of scratch memory: requests of
// up to 1 MiB share segments of 2 MiB, those of up to 10 MiB segments of 20 MiB, and larger
// ones, of which a step has up to eight at a time, are rounded up to 2 MiB.
func reserved(words int64) int64 {
	const mib = 1 << 20
	if 4*words <= mib {
		return 4 * mib
	}
	return 4*words + (2+20+8*2)*mib
}

// weightWords are the parameters as they are kept, and in training all that it adds.
func (s *session) weightWords() int64 {
	if s.train != nil {
		return outputs*int64(s.shape.H+1) + s.train.words(s.mem.Dev.Info().Kind)
	}
	if s.rec != nil {
		return s.parameterWords() + s.rec.words()
	}
	return s.parameterWords()
}

// libraryWords is what impl=cudnn allocates besides; cuDNN's own workspace is
// not known before it is asked.
func (s *session) libraryWords() int64 {
	if s.impl != implCuDNN {
		return 0
	}
	state := int64(s.shape.L) * int64(s.shape.B) * int64(s.shape.H)
	n := state + int64(s.shape.T)*int64(s.shape.B)*int64(s.shape.H)
	if s.prec.narrow() {
		n += s.inputWords() + 2*state
	}
	return n
}

// fits refuses what 32-bit indices cannot name or the device cannot hold,
// before anything is allocated.
func (s *session) fits(d gpuprof.Device) error {
	sh := s.shape
	largest := max(int64(sh.T)*int64(sh.B)*int64(max(sh.gates(), sh.I)), int64(sh.L)*int64(sh.B)*int64(sh.H), int64(ceilDiv(sh.B, metricBlock))*int64(sh.metrics()))
	if s.rec != nil {
		largest = max(largest, s.inputWords(), int64(s.rec.every*sh.T+1)*int64(sh.B)*int64(sh.H))
	}
	if largest > math.MaxInt32 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "opening gruflow: its largest array would have %d elements, more than 32 bits index", largest).WithFix("use a smaller --set flows, steps, hidden or input")
	}
	input := int64(depth+s.batches) * s.inputWords()
	out := depth * (outputs*int64(sh.B) + int64(s.metricWords()))
	need := 4*(input+out+s.weightWords()+s.stateWords()+s.libraryWords()) + reserved(s.scratchWords())
	if left := d.Memory().Available; need > left {
		if s.rec != nil && s.rec.windows() > 1 {
			return gpuprof.Short(d, gpuprof.Errorf(gpuprof.ErrMemory, "keeping %d windows of %d flows of %d layers of %d units needs %s, and the device has %s left", s.rec.windows(), sh.B, sh.L, sh.H, gpuprof.FormatBytes(float64(need)), gpuprof.FormatBytes(float64(left))).WithFix("use windows_kept=1, as a program that detaches does, or checkpoint=%d, a smaller window, or a smaller batch, --set flows", leastCheckpoint(s.rec.window)))
		}
		if s.train != nil {
			return gpuprof.Short(d, gpuprof.Errorf(gpuprof.ErrMemory, "training %d flows of %d layers of %d units over %d levels needs %s, and the device has %s left", sh.B, sh.L, sh.H, s.train.window, gpuprof.FormatBytes(float64(need)), gpuprof.FormatBytes(float64(left))).WithFix("use checkpoint=%d, a smaller window, or a smaller batch, --set flows", leastCheckpoint(s.train.window)))
		}
		return gpuprof.Short(d, gpuprof.Errorf(gpuprof.ErrMemory, "%d flows of %d layers of %d units need %s, and the device has %s left", sh.B, sh.L, sh.H, gpuprof.FormatBytes(float64(need)), gpuprof.FormatBytes(float64(left))).WithFix("use a smaller --set flows, hidden or steps, or impl=persistent, which keeps one time step's gates"))
	}
	return nil
}

// allocate makes streams, events, buffers and parameters, and binds.
func (s *session) allocate(ctx context.Context, d gpuprof.Device) error {
	if err := s.Open(d, s.set); err != nil {
		return err
	}
	s.program, s.Pool = newProgram(d, s.Compute), pools{s}
	s.fill = s.set.On("fill")
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
	if err := s.restore(); err != nil {
		return err
	}
	if s.Reset != "off" || s.Trims > 0 {
		s.devPool = loop.DevicePool(d)
	}
	if s.set.On("autotune") {
		began := time.Now()
		if err := s.tune(ctx); err != nil {
			return err
		}
		s.tuned.seconds = time.Since(began).Seconds()
	}
	return s.bind()
}

func (sl *slot) allocate(s *session) error {
	sl.x = s.mem.Words("the input", s.inputWords(), gpuprof.OnDevice)
	sl.out = s.mem.Words("the result", outputs*int64(s.shape.B), gpuprof.Pinned)
	sl.metrics = s.mem.Words("the metrics", int64(s.metricWords()), gpuprof.Pinned)
	if s.mem.Err != nil {
		return s.mem.Err
	}
	return sl.Open(s.mem.Dev)
}

func (s *session) allocateDevice() {
	sh := s.shape
	b := int64(sh.B)
	on := func(what string, n int64) gpuprof.Buffer { return s.mem.Words(what, n, gpuprof.OnDevice) }
	s.params = drawParams(sh, s.seed)
	s.allocateNet()
	proj := s.params.proj
	if s.net.impl == implPlain { // a matrix product reads it the other way
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
	s.Item = s.mem.Words("the item buffer", 1, gpuprof.Pageable)
}

// allocateNet makes the GRU. A library's reads the state from one buffer and
// writes it to another, so that the slots, which take turns, hand it to and fro.
func (s *session) allocateNet() {
	sh, info := s.shape, s.mem.Dev.Info()
	state := func() gpuprof.Buffer {
		return s.mem.Words("hidden states", int64(sh.L)*int64(sh.B)*int64(sh.H), gpuprof.OnDevice)
	}
	s.net = s.newNet(info)
	if s.rec != nil {
		s.net = s.rec.u.net
	}
	s.net.program, s.net.h = s.program, state()
	for k := range s.slots {
		s.slots[k].net = s.net
	}
	if s.train != nil { // its weights are made from the parameters in every step
		return
	}
	if s.net.impl != implCuDNN {
		s.net.layers = nil // of an unrolled GRU they are there, and empty
		for _, p := range s.params.layers {
			s.net.layers = append(s.net.layers, uploadLayer(&s.mem, s.stream, p, sh.H, s.prec))
		}
		return
	}
	maker, ok := s.mem.Dev.(gpuprof.GRUMaker)
	if !ok {
		s.mem.Err = gpuprof.Errorf(gpuprof.ErrUsage, "setting impl=cudnn on device %s: it does not offer the library's GRU", info.Name).WithFix("use fused, plain or persistent")
		return
	}
	other := *s.net
	other.h = state()
	s.net.lib = newLibrary(&s.mem, s.stream, maker, sh, s.set["precision"], s.params, other.h)
	if s.mem.Err == nil {
		other.lib = s.net.lib.sibling(s.net.h)
		s.slots[1].net = &other
	}
}

// newNet is the GRU without its memory.
func (s *session) newNet(info gpuprof.Info) *gru {
	return &gru{s: s.shape, impl: s.impl, prec: s.prec, cores: info.Cores, vendor: chooseVendor(info, s.set, s.impl)}
}

// drawBatches draws the inputs the steps take in turn.
func (s *session) drawBatches() {
	n := s.inputWords()
	s.inputs = s.mem.Words("the inputs", int64(s.batches)*n, gpuprof.Pinned)
	if s.mem.Err != nil {
		return
	}
	x := gpuprof.Floats(s.inputs)
	for i := range s.batches {
		drawInputs(s.shape, s.seed, i, x[int64(i)*n:int64(i+1)*n])
	}
}

// restore puts the carriers where they start, and in training the parameters.
func (s *session) restore() error {
	st := drawState(s.shape, s.seed)
	for _, part := range []struct {
		to   gpuprof.Buffer
		from []float32
	}{{s.slots[0].net.h, st.h}, {s.slots[1].net.h, st.h}, {s.flow.energy, st.energy}, {s.flow.level, asFloats(st.level)}, {s.flow.place, st.place}} {
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

// Main implements gpuprof.Session.
func (s *session) Main() gpuprof.Stream { return s.Compute }

// Depth implements gpuprof.Session.
func (s *session) Depth() int { return depth }

// Stages implements gpuprof.Session.
func (s *session) Stages() []gpuprof.Stage { return s.stages }

// Work implements gpuprof.Session: carriers times time steps.
func (s *session) Work() (float64, string) {
	return float64(windowOf(s.set)*microOf(s.set)) * float64(s.shape.B) * float64(s.shape.T), "flow steps"
}

// Input implements gpuprof.Session.
func (s *session) Input() map[string]any {
	in := map[string]any{
		"flows": s.shape.B, "time_steps": s.shape.T, "input_batches": s.batches,
		"parameters":         s.parameterWords(),
		"leaving_per_step":   float64(s.shape.B) / float64(s.shape.D),
		"metrics_per_step":   s.shape.metrics(),
		"scratch_reserved_b": s.memory.Stats().PeakReserved,
		"impl":               s.net.impl, "products": s.products(),
	}
	if s.rec != nil {
		in[gpuprof.InputRecorded], in[gpuprof.InputRecordedWindow] = s.rec.bytes()
	}
	if s.tuned != nil {
		in["autotune_s"], in["autotune_tile"] = s.tuned.seconds, s.net.tile // tile 0 is the library's product
	}
	return in
}

// products names what computes the matrix products.
func (s *session) products() string {
	facts := s.mem.Dev.Info().Facts
	switch {
	case s.net.lib != nil:
		return "cuDNN " + facts["cudnn"]
	case s.net.vendor:
		return "cuBLAS " + facts["cublas"]
	}
	return "own kernels"
}

// Close implements gpuprof.Session. It waits for work in flight.
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
