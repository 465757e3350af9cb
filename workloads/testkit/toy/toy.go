// Package toy is a fourth workload for tests: it squares numbers. No other folder uses its name, its stages or its
// knobs.
package toy

import (
	"context"
	"errors"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
)

// Workload is the toy. It has no state.
type Workload struct{}

// Name implements workloads.Workload.
func (Workload) Name() string { return "squares" }

// Doc implements workloads.Workload.
func (Workload) Doc() string { return "squares of numbers" }

// Presets implements workloads.Workload.
func (Workload) Presets() []workloads.Preset {
	return []workloads.Preset{
		{Name: "vast", Doc: "a million numbers", Set: gpuprof.Settings{"count": "1000000"}, DefaultOn: []string{"cuda"}},
		{Name: "tiny", Doc: "some thousand numbers", DefaultOn: []string{"host"}},
	}
}

// pieces is the number of launches of way=pieces.
const pieces = 8

// Knobs implements workloads.Workload.
func (Workload) Knobs() []workloads.Knob {
	count := workloads.IntKnob("count", "numbers per step", 8192, pieces, 1<<24).AsModel()
	count.Scales = true
	halt := workloads.EveryKnob("halt", "when the host thread waits for the device", "never", "never", "step")
	halt.Try, halt.Acts = []string{"step", "every:5"}, []string{"halted", "fetch", gpuprof.StageLaunch}
	halt.Answers = []workloads.Answer{{Remedy: workloads.SkipSync, To: "never", Waits: func(s gpuprof.Settings, _ map[string]float64) float64 {
		return workloads.CountPerStep(s.Every("halt"))
	}}}
	halt.Advice = map[string]string{"never": "leave torch.cuda.synchronize() out"}
	halt.PyTorch = map[string]string{workloads.AnyValue: "# wait: %s"}
	way := workloads.Choice("way", "launches: one, or one per piece", "whole", "pieces")
	way.Acts = []string{"squaring"}
	way.Answers = []workloads.Answer{{Remedy: workloads.Fuse, To: "whole", When: gpuprof.Settings{"way": "pieces"}, Targets: []workloads.Target{{Stage: "squaring"}}}}
	way.Advice = map[string]string{"whole": "x = x * x, once"}
	way.PyTorch = map[string]string{"whole": "x = x * x", "pieces": "x = torch.cat([p * p for p in x.chunk(8)])"}
	return []workloads.Knob{count, halt, way}
}

// The stages, in the order of the step.
const (
	stFetch = iota
	stUp
	stSquare
	stDown
	stHalted
	stFull
)

// Stages implements workloads.Workload.
func (Workload) Stages() []gpuprof.Stage {
	return []gpuprof.Stage{
		{Name: "fetch", Kind: gpuprof.HostStage, Role: gpuprof.RoleCollate, Try: "gpuprof run squares --set count=16384", PyTorch: "fetch in a worker"},
		{Name: "up", Role: gpuprof.RoleTransfer}, {Name: "squaring"}, {Name: "down", Role: gpuprof.RoleResult},
		{Name: "halted", Kind: gpuprof.WaitStage, Role: gpuprof.RoleSync}, {Name: "full", Kind: gpuprof.WaitStage, Role: gpuprof.RoleSlot},
	}
}

// Refuse implements workloads.Workload.
func (Workload) Refuse(d device.Info, _ gpuprof.Settings) error {
	if d.Kind != "host" {
		return gpuprof.Errorf(gpuprof.ErrUsage, "running squares on device %s: it has no kernel for it", d.Name).WithFix("use --device host")
	}
	return nil
}

func squareHost(a *device.Args, lo, hi int) {
	in, out, first := a.Floats(0), a.Floats(1), a.Int(2)
	for i := first + lo; i < first+hi; i++ {
		out[i] = in[i] * in[i]
	}
}

// slot is one batch in flight.
type slot struct {
	in, out, from, to device.Buffer
	args              [pieces]device.Args
	loop.Events
}

type session struct {
	loop.Pace
	n, parts int
	stages   []gpuprof.Stage
	square   device.Func
	kernel   device.Kernel
	slots    [2]slot
	bufs     []device.Buffer
}

// Open implements workloads.Workload.
func (w Workload) Open(_ context.Context, d device.Device, c workloads.Config) (workloads.Session, error) {
	s := &session{Pace: loop.Pace{Every: c.Knobs.Every("halt"), SyncAt: stHalted, SlotAt: stFull}, n: c.Knobs.Int("count") / pieces * pieces, parts: 1, stages: w.Stages()}
	if c.Knobs["way"] == "pieces" {
		s.parts = pieces
	}
	for i := range s.stages {
		s.stages[i].MaxSpans = 1
	}
	bytes := int64(4 * s.n)
	cost := gpuprof.Cost{Flops: int64(s.n), BytesRead: bytes, BytesWritten: bytes, Launches: int64(s.parts)}
	s.stages[stSquare].Minimum, s.stages[stSquare].Parts = cost, []gpuprof.Part{{Kernel: "square", Cost: cost}}
	if err := s.allocateBuffers(d); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *session) allocateBuffers(d device.Device) (err error) {
	if err := s.Pace.Open(d); err != nil {
		return err
	}
	s.kernel = device.Kernel{Name: "square", Sig: "bbi", Host: squareHost, Grain: 1024}
	if s.square, err = d.Load(&s.kernel); err != nil {
		return err
	}
	for k := range s.slots {
		sl := &s.slots[k]
		for _, b := range []struct {
			to *device.Buffer
			at device.Place
		}{{&sl.in, device.Pinned}, {&sl.out, device.Pinned}, {&sl.from, device.OnDevice}, {&sl.to, device.OnDevice}} {
			if *b.to, err = d.Alloc(4*s.n, b.at); err != nil {
				return err
			}
			s.bufs = append(s.bufs, *b.to)
		}
		for p := range s.parts {
			sl.args[p].SetBuf(0, sl.from)
			sl.args[p].SetBuf(1, sl.to)
			sl.args[p].SetInt(2, p*s.n/s.parts)
		}
		if err := sl.Events.Open(d); err != nil {
			return err
		}
	}
	return nil
}

// Stages implements workloads.Session.
func (s *session) Stages() []gpuprof.Stage { return s.stages }

// Main implements workloads.Session.
func (s *session) Main() device.Stream { return s.Compute }

// Depth implements workloads.Session.
func (s *session) Depth() int { return len(s.slots) }

// Work implements workloads.Session.
func (s *session) Work() (float64, string) { return float64(s.n), "numbers" }

// Input implements workloads.Session.
func (s *session) Input() map[string]any { return map[string]any{"numbers": s.n} }

// Step implements workloads.Session.
func (s *session) Step(i int, p workloads.Probe) error {
	if err := p.Start(i); err != nil {
		return err
	}
	sl := &s.slots[i%len(s.slots)]
	if err := s.WaitForSlot(&sl.Events, p); err != nil {
		return err
	}
	sp := p.Begin(stFetch, nil)
	x := device.Floats(sl.in)
	for j := range x {
		x[j] = float32((i + j) % 97)
	}
	p.End(sp)
	sp = p.Begin(stUp, s.Copies)
	err := s.Copies.Copy(sl.from, 0, sl.in, 0, 4*s.n)
	p.End(sp)
	if err == nil {
		err = s.WaitForCopy(&sl.Events, p)
	}
	if err != nil {
		return err
	}
	sp = p.Begin(stSquare, s.Compute)
	for k := range s.parts {
		if err := s.Compute.Launch(s.square, s.n/s.parts, &sl.args[k]); err != nil {
			return err
		}
	}
	p.End(sp)
	sp = p.Begin(stDown, s.Compute)
	err = s.Compute.Copy(sl.out, 0, sl.to, 0, 4*s.n)
	p.End(sp)
	if err != nil {
		return err
	}
	if err := s.RecordFree(&sl.Events); err != nil {
		return err
	}
	return s.Wait(i, sl.to, s.n, p)
}

// Check implements workloads.Session.
func (s *session) Check(context.Context) ([]gpuprof.Check, error) {
	if err := errors.Join(s.Step(0, loop.Silent{}), s.Compute.Sync()); err != nil {
		return nil, err
	}
	wrong := 0.0
	in, out := device.Floats(s.slots[0].in), device.Floats(s.slots[0].out)
	for i, v := range in {
		if out[i] != v*v {
			wrong = 1
		}
	}
	return []gpuprof.Check{loop.CheckOf("squaring", wrong, 0, s.n, s.n)}, nil
}

// Close implements workloads.Session.
func (s *session) Close() error {
	errs := []error{s.CloseStreams()}
	for _, b := range s.bufs {
		errs = append(errs, b.Free())
	}
	return errors.Join(errs...)
}
