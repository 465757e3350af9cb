package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// fake is a workload whose steps spin: a host stage, two device stages on one
// stream, and a wait. It fails, or ends the context, where a test tells it to.
type fake struct {
	spin     time.Duration
	checks   []gpuprof.Check
	failAt   int // step whose kernel panics; 0 is never
	cancelAt int
	cancel   func()
}

func (fake) Name() string                { return "fake" }
func (fake) Doc() string                 { return "spins" }
func (fake) Stages() []gpuprof.Stage     { return nil }
func (fake) Presets() []workloads.Preset { return []workloads.Preset{{Name: "small"}} }
func (fake) Knobs() []workloads.Knob {
	return []workloads.Knob{workloads.IntKnob("size", "", 1, 1, 9).AsModel()}
}
func (fake) Refuse(device.Info, gpuprof.Settings) error { return nil }
func (f fake) plan() Plan {
	return Plan{Workload: f, Preset: "small", Knobs: gpuprof.Settings{"size": "1"}, Seed: 1, Mode: gpuprof.Steady,
		MinTime: 50 * time.Millisecond, MaxTime: 10 * time.Second, Warmup: Warmup{Steps: 3}}
}

type fakeSession struct {
	f          fake
	dev        device.Device
	main       device.Stream
	spin, last device.Func
	args       device.Args
	free       [2]device.Event
	src, dst   device.Buffer
	stages     []gpuprof.Stage
	step       int
}

func spinFor(d time.Duration) {
	for t := time.Now(); time.Since(t) < d; {
	}
}

func (f fake) Open(_ context.Context, d device.Device, _ workloads.Config) (workloads.Session, error) {
	s := &fakeSession{f: f, dev: d}
	var errs [8]error
	s.main, errs[0] = d.NewStream("main")
	s.free[0], errs[1] = d.NewEvent()
	s.free[1], errs[2] = d.NewEvent()
	s.spin, errs[3] = d.Load(&device.Kernel{Name: "spin", Serial: true, Host: func(*device.Args, int, int) { spinFor(f.spin) }})
	s.last, errs[4] = d.Load(&device.Kernel{Name: "last", Sig: "i", Serial: true, Host: func(a *device.Args, _, _ int) {
		if f.failAt > 0 && a.Int(0) == f.failAt {
			panic("planted")
		}
		spinFor(f.spin / 4)
	}})
	s.src, errs[5] = d.Alloc(4096, device.Pageable)
	s.dst, errs[6] = d.Alloc(4096, device.OnDevice)
	part := func(name string, flops int64) gpuprof.Part {
		return gpuprof.Part{Kernel: name, Cost: gpuprof.Cost{Flops: flops, BytesRead: 10, Launches: 1}}
	}
	s.stages = []gpuprof.Stage{
		{Name: "prepare", Kind: gpuprof.HostStage, MaxSpans: 1},
		{Name: "first", MaxSpans: 2, Parts: []gpuprof.Part{part("spin", 1000), part("spin", 1000)}, Minimum: gpuprof.Cost{Flops: 2000}},
		{Name: "second", MaxSpans: 1, Parts: []gpuprof.Part{part("last", 7)}},
		{Name: "sync", Kind: gpuprof.WaitStage, MaxSpans: 1},
	}
	return s, errors.Join(errs[:]...)
}

func (s *fakeSession) Stages() []gpuprof.Stage { return s.stages }
func (s *fakeSession) Main() device.Stream     { return s.main }
func (s *fakeSession) Depth() int              { return 2 }
func (s *fakeSession) Cycle() int              { return 1 }
func (s *fakeSession) Work() (float64, string) { return 10, "things" }
func (s *fakeSession) Input() map[string]any   { return map[string]any{"size": 1} }
func (s *fakeSession) Close() error {
	return errors.Join(s.main.Sync(), s.main.Close(), s.src.Free(), s.dst.Free())
}

func (s *fakeSession) Check(context.Context) ([]gpuprof.Check, error) {
	if s.f.checks != nil {
		return s.f.checks, nil
	}
	return []gpuprof.Check{{Stage: "first", RelativeError: 1e-7, Tolerance: 1e-5, Pass: true}}, nil
}

func (s *fakeSession) Step(i int, p workloads.Probe) error {
	s.step++
	if s.f.cancel != nil && s.step == s.f.cancelAt {
		s.f.cancel()
	}
	if err := p.Start(i); err != nil {
		return err
	}
	sp := p.Begin(0, nil)
	spinFor(s.f.spin / 8)
	p.End(sp)
	for range 2 {
		sp = p.Begin(1, s.main)
		if err := s.main.Launch(s.spin, 1, &s.args); err != nil {
			return err
		}
		p.End(sp)
	}
	s.args.SetInt(0, s.step)
	sp = p.Begin(2, s.main)
	if err := s.main.Copy(s.dst, 0, s.src, 0, 100); err != nil {
		return err
	}
	if err := s.main.Launch(s.last, 1, &s.args); err != nil {
		return err
	}
	p.End(sp)
	sp = p.Begin(3, nil)
	err := s.main.Sync()
	p.End(sp)
	if err != nil {
		return fmt.Errorf("step %d: %w", i, err)
	}
	return nil
}
