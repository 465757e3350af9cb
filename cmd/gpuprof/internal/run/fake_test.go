package run

import (
	"context"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/formats"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/e3nn"
	"github.com/gpuprof/gpuprof/workloads/measure"
)

// fake is a workload that goes wrong as its knob says: ok, check (a stage
// disagrees with its reference), open (set-up fails) or step (a launch fails
// while sampling).
type fake struct{}

func (fake) Name() string                { return "fake" }
func (fake) Doc() string                 { return "goes wrong on request" }
func (fake) Stages() []gpuprof.Stage     { return nil }
func (fake) Presets() []workloads.Preset { return []workloads.Preset{{Name: "small"}} }
func (fake) Knobs() []workloads.Knob {
	return []workloads.Knob{workloads.Choice("fail", "what fails", "ok", "check", "open", "step")}
}
func (fake) Refuse(device.Info, gpuprof.Settings) error { return nil }

func (fake) Open(_ context.Context, d device.Device, c workloads.Config) (workloads.Session, error) {
	if c.Knobs["fail"] == "open" {
		return nil, gpuprof.Errorf(gpuprof.ErrMemory, "allocating 10 GiB for fake: too much; lower batch")
	}
	stream, err := d.NewStream("main")
	if err != nil {
		return nil, err
	}
	f, err := d.Load(&device.Kernel{Name: "wait", Serial: true, Host: func(*device.Args, int, int) {
		for begin := time.Now(); time.Since(begin) < 100*time.Microsecond; {
		}
	}})
	return &fakeSession{stream: stream, kernel: f, fail: c.Knobs["fail"]}, err
}

type fakeSession struct {
	stream device.Stream
	kernel device.Func
	fail   string
	steps  int
	args   device.Args
}

func (s *fakeSession) Stages() []gpuprof.Stage {
	return []gpuprof.Stage{{Name: "wait", MaxSpans: 1, Parts: []gpuprof.Part{{Kernel: "wait", Cost: gpuprof.Cost{Launches: 1}}}}}
}
func (s *fakeSession) Main() device.Stream     { return s.stream }
func (s *fakeSession) Depth() int              { return 1 }
func (s *fakeSession) Cycle() int              { return 1 }
func (s *fakeSession) Work() (float64, string) { return 1, "items" }
func (s *fakeSession) Input() map[string]any   { return nil }
func (s *fakeSession) Close() error            { return s.stream.Close() }

func (s *fakeSession) Check(context.Context) ([]gpuprof.Check, error) {
	return []gpuprof.Check{{Stage: "wait", Tolerance: 1e-5, Pass: s.fail != "check", RelativeError: 1}}, nil
}

func (s *fakeSession) Step(i int, p workloads.Probe) error {
	if s.steps++; s.fail == "step" && s.steps > 400 {
		return gpuprof.Errorf(gpuprof.ErrDevice, "launching kernel wait: the device is lost; run again")
	}
	if err := p.Start(i); err != nil {
		return err
	}
	span := p.Begin(0, s.stream)
	err := s.stream.Launch(s.kernel, 1, &s.args)
	p.End(span)
	if err != nil {
		return err
	}
	return s.stream.Sync()
}

// fakeRun is a checked command that measures fake at each value of fail.
func fakeRun(ctx context.Context, t *testing.T, stdout, stderr io.Writer, fails ...string) (s *session, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "run.json")
	a := &cli.App{Tables: testTables(), Ctx: ctx, Stdout: stdout, Stderr: stderr}
	outs, err := a.Documents.Run.Outputs([]string{file}, false)
	if err != nil {
		t.Fatal(err)
	}
	s = &session{Cmd: &Cmd{Runs: 1, Format: "table"}, app: a, outs: outs,
		aim: &cli.Target{Workload: fake{}, Preset: "small", Device: a.Devices()[0]}}
	for _, f := range fails {
		set := gpuprof.Settings{"fail": f}
		s.aim.Set = append(s.aim.Set, set)
		s.plans = append(s.plans, measure.Plan{Workload: fake{}, Preset: "small", Knobs: set, Mode: gpuprof.Steady,
			MinTime: 50 * time.Millisecond, MaxTime: time.Minute, Samples: 1000, Tool: a.Tool})
	}
	return s, file
}

// testTables are the host, a workload and the formats.
func testTables() *cli.Tables {
	onHost := cli.Device{Name: "host", Open: func() (device.Device, error) { return host.Open(host.Options{LargestCopy: 4 << 20}) }}
	return &cli.Tables{
		Workloads: func() []workloads.Workload { return []workloads.Workload{e3nn.New()} }, Devices: func() []cli.Device { return []cli.Device{onHost} },
		NoGPU: func() string { return "no GPU is used" }, Tool: gpuprof.Tool{Name: "gpuprof"}, Documents: formats.Documents(gpuprof.Tool{Name: "gpuprof"}),
		Instruments: func(device.Device) (measure.Instruments, func()) { return nil, func() {} },
	}
}
