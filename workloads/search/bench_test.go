package search

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
)

// sleeper is a workload whose step takes a time that its knob gives, on a clock
// that only its launches move.
type sleeper struct{}

func (sleeper) Name() string                { return "sleeper" }
func (sleeper) Doc() string                 { return "waits" }
func (sleeper) Stages() []gpuprof.Stage     { return nil }
func (sleeper) Presets() []workloads.Preset { return []workloads.Preset{{Name: "small"}} }
func (sleeper) Knobs() []workloads.Knob {
	return []workloads.Knob{workloads.IntKnob("us", "wait", 2000, 1, 1e6), workloads.IntKnob("batch", "items", 1, 1, 8), workloads.Choice("fail", "when", "never", "refuse", "open", "check", "step")}
}
func (sleeper) Refuse(_ device.Info, s gpuprof.Settings) error {
	if s["fail"] == "refuse" {
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting fail=refuse: this device cannot; use never")
	}
	return nil
}

func (sleeper) Open(_ context.Context, d device.Device, c workloads.Config) (workloads.Session, error) {
	if c.Knobs["fail"] == "open" {
		return nil, gpuprof.Errorf(gpuprof.ErrMemory, "allocating 10 GiB: too much; lower batch")
	}
	buf, err := d.Alloc(1000*c.Knobs.Int("batch"), device.OnDevice)
	if err != nil {
		return nil, err
	}
	stream, err := d.NewStream("main")
	if err != nil {
		return nil, err
	}
	f, err := d.Load(&device.Kernel{Name: "wait", Sig: "i", Serial: true, Host: func(*device.Args, int, int) {}})
	return &sleeperSession{dev: d, stream: stream, kernel: f, buf: buf, set: c.Knobs, fast: os.Getenv(fastVariable) != ""}, err
}

type sleeperSession struct {
	dev    device.Device
	stream device.Stream
	kernel device.Func
	buf    device.Buffer
	set    gpuprof.Settings
	args   device.Args
	steps  int
	fast   bool
}

func (s *sleeperSession) Stages() []gpuprof.Stage {
	return []gpuprof.Stage{{Name: "wait", MaxSpans: 1}}
}
func (s *sleeperSession) Main() device.Stream     { return s.stream }
func (s *sleeperSession) Depth() int              { return 2 }
func (s *sleeperSession) Cycle() int              { return 1 }
func (s *sleeperSession) Work() (float64, string) { return s.set.Float("batch"), "items" }
func (s *sleeperSession) Input() map[string]any   { return map[string]any{"autotune_s": 0.25} }
func (s *sleeperSession) Close() error            { return errors.Join(s.stream.Close(), s.buf.Free()) }
func (s *sleeperSession) Check(context.Context) ([]gpuprof.Check, error) {
	return []gpuprof.Check{{Stage: "wait", RelativeError: 1e-6, Tolerance: 1e-5, Pass: s.set["fail"] != "check"},
		{Stage: "M/D/1", RelativeError: 5e-3, Tolerance: 1e-2, Pass: true, Virtual: true}}, nil
}
func (s *sleeperSession) Step(i int, p workloads.Probe) error {
	if s.steps++; s.set["fail"] == "step" && s.steps > 12 {
		return gpuprof.Errorf(gpuprof.ErrDevice, "launching kernel wait: the device is lost; run again")
	}
	if err := p.Start(i); err != nil {
		return err
	}
	span := p.Begin(0, s.stream)
	defer p.End(span)
	us := s.set.Int("us")
	if s.fast && os.Getenv(fastVariable) != "" { // as it was opened, and still
		us /= 4
	}
	s.args.SetInt(0, us)
	return s.stream.Launch(s.kernel, 1, &s.args)
}

const fastVariable = "SLEEPER_FAST"

// clocked is the host device with a clock of its own: a launch moves it by its
// first argument, in microseconds, and nothing else does. What is measured on it
// is the same on a busy machine.
type clocked struct {
	device.Device
	ns int64
}

type clockedStream struct {
	device.Stream
	d *clocked
}

type clockedEvent struct {
	device.Event
	at int64
}

func openClocked() (device.Device, error) {
	d, err := host.Open(host.Options{LargestCopy: 1 << 20, CeilingTries: 2})
	return &clocked{Device: d}, err
}

func (d *clocked) NewStream(name string) (device.Stream, error) {
	s, err := d.Device.NewStream(name)
	return &clockedStream{s, d}, err
}

func (d *clocked) NewEvent() (device.Event, error) {
	e, err := d.Device.NewEvent()
	return &clockedEvent{Event: e}, err
}

func (d *clocked) ElapsedNS(from, to device.Event) (int64, error) {
	return to.(*clockedEvent).at - from.(*clockedEvent).at, nil
}

func (s *clockedStream) Record(e device.Event) error {
	e.(*clockedEvent).at = s.d.ns
	return nil
}

func (s *clockedStream) Launch(f device.Func, n int, a *device.Args) error {
	s.d.ns += 1000 * int64(a.Int(0))
	return s.Stream.Launch(f, n, a)
}

func sleeperSide(t *testing.T, set gpuprof.Settings) Side {
	t.Helper()
	full, err := workloads.Resolve(sleeper{}, "small", set)
	if err != nil {
		t.Fatal(err)
	}
	return Side{Workload: sleeper{}, Preset: "small", Knobs: full}
}

func newBench(t *testing.T) *InProcess {
	t.Helper()
	b := &InProcess{Open: openClocked, Now: stopped}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// stopped is a clock by which no limit is ever reached: the blocks decide when a
// comparison ends, on a slow machine as on a fast one.
func stopped() time.Time { return time.Time{} }

func compareSides(t *testing.T, b *InProcess, x, y Side, l Limits) *tune.Outcome {
	t.Helper()
	o, err := b.Compare(t.Context(), x, y, l)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// A comparison ends by the clock it is given, after as few blocks as tell anything,
// or after one pair where even those are beyond what it may take.
func TestCompareKeepsItsTime(t *testing.T) {
	for _, c := range []struct {
		tick  time.Duration // of the clock, each time it is read
		pairs int
	}{{time.Second, 1}, {time.Millisecond, leastPairs}, {0, decidePairs}} {
		b := newBench(t)
		at := time.Time{}
		b.Now = func() time.Time { at = at.Add(c.tick); return at }
		l := Limits{Goal: tune.Time, Time: 2 * time.Millisecond, Most: 500 * time.Millisecond, Seed: 1}
		o := compareSides(t, b, sleeperSide(t, nil), sleeperSide(t, gpuprof.Settings{"us": "2050"}), l)
		if len(o.A) != c.pairs || len(o.B) != c.pairs || o.Seconds != float64(c.pairs+1)*c.tick.Seconds() {
			t.Errorf("a clock of %v: %d and %d blocks, %g s", c.tick, len(o.A), len(o.B), o.Seconds)
		}
	}
}

// Cost is per unit of work, so that batches compare, and memory and one-time
// costs are those of each side.
func TestInProcess(t *testing.T) {
	b := newBench(t)
	l := Limits{Goal: tune.Time, Time: 3 * time.Second, Seed: 1}
	e := &engine{Options: Options{Goal: tune.Time}}
	base := sleeperSide(t, gpuprof.Settings{"us": "5000"})
	o := compareSides(t, b, base, sleeperSide(t, gpuprof.Settings{"us": "5000", "batch": "4"}), l)
	// The same wait for four items as for one.
	if d := ratioOf(o.A, o.B); !d.ok || d.ratio != 0.25 {
		t.Errorf("%+v", d)
	}
	if o.MemoryA != 1000 || o.MemoryB != 4000 || o.Unit != "items" || o.WorkB != 4 || o.Error != 1e-6 {
		t.Errorf("%+v", o)
	}
	if o.CountB["launches"] != 1 || o.OneTime["autotune_s"] != 0 {
		t.Errorf("counts %v, one-time %v", o.CountB, o.OneTime)
	}
	l.Goal = tune.Memory
	e.Goal = tune.Memory
	if a := e.weighChange(Change{}, compareSides(t, b, base, sleeperSide(t, gpuprof.Settings{"batch": "2"}), l)); a.v != tune.More || a.d.ratio != 2 {
		t.Errorf("memory: %s %v", a.v, a.d)
	}
}

func TestInProcessFailures(t *testing.T) {
	b := newBench(t)
	l := Limits{Goal: tune.Time, Time: 100 * time.Millisecond, Seed: 1, MaxError: 1, MaxMemory: 2000}
	base := sleeperSide(t, nil)
	for fail, want := range map[string]tune.Verdict{"refuse": tune.Refused, "open": tune.Failed, "check": tune.Failed, "step": tune.Failed} {
		if o := compareSides(t, b, base, sleeperSide(t, gpuprof.Settings{"fail": fail}), l); o.Verdict != want || o.Reason == "" || o.A != nil {
			t.Errorf("%s: %s %q", fail, o.Verdict, o.Reason)
		}
	}
	if o := compareSides(t, b, base, sleeperSide(t, gpuprof.Settings{"batch": "4"}), l); o.Verdict != tune.Refused {
		t.Errorf("too much memory: %s", o.Verdict)
	}
	// A side that cannot be opened as the base is an error, and so is energy without a counter.
	if _, err := b.Compare(t.Context(), sleeperSide(t, gpuprof.Settings{"fail": "open"}), base, l); !errors.Is(err, gpuprof.ErrMemory) {
		t.Errorf("base: %v", err)
	}
	l.Goal = tune.Energy
	if _, err := b.Compare(t.Context(), base, base, l); !errors.Is(err, gpuprof.ErrDevice) {
		t.Errorf("energy without a counter: %v", err)
	}
}

// A side's variables hold while it is opened and run, and no longer.
func TestEnvironmentOfASide(t *testing.T) {
	b := newBench(t)
	slow := gpuprof.Settings{"us": "5000"}
	fast := sleeperSide(t, slow)
	fast.Env = map[string]string{fastVariable: "1"}
	o := compareSides(t, b, sleeperSide(t, slow), fast, Limits{Goal: tune.Time, Time: 3 * time.Second, Seed: 1})
	if d := ratioOf(o.A, o.B); !d.ok || d.ratio != 0.25 {
		t.Errorf("ratio %v", d.ratio)
	}
	if os.Getenv(fastVariable) != "" {
		t.Error("the variable is still set")
	}
}

// Energy is joules per unit of work, over all the steps of a block.
func TestEnergy(t *testing.T) {
	var devices []device.Device
	b := &InProcess{Now: stopped, energyBlock: time.Millisecond, Open: func() (device.Device, error) {
		d, err := openClocked()
		devices = append(devices, d)
		return d, err
	}}
	defer b.Close()
	b.EnergyJ = func() (joules float64, ok bool) { // three joules a launch
		for _, d := range devices {
			joules += 3 * float64(d.Meter().Launches)
		}
		return joules, true
	}
	o := compareSides(t, b, sleeperSide(t, nil), sleeperSide(t, gpuprof.Settings{"batch": "4"}), Limits{Goal: tune.Energy, Time: time.Second, Seed: 1})
	e := &engine{Options: Options{Goal: tune.Energy}}
	if a := e.weighChange(Change{}, o); a.v != tune.Less || a.d.ratio != 0.25 || o.A[0][0] != 3 {
		t.Errorf("%s %+v, %v against %v", a.v, a.d, o.B, o.A)
	}
	b.EnergyJ = func() (float64, bool) { return 7, true } // a counter that stands still is none
	if _, err := b.Compare(t.Context(), sleeperSide(t, nil), sleeperSide(t, nil), Limits{Goal: tune.Energy, Time: time.Millisecond}); !errors.Is(err, gpuprof.ErrDevice) {
		t.Errorf("%v", err)
	}
}
