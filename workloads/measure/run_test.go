package measure

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/probes/events"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
)

// openHost opens the host device with peak rates that are not measured, which would take
// most of runs as short as these; TestCompleteRun has them measured.
func openHost(t *testing.T) device.Device {
	t.Helper()
	return unrated{openRated(t)}
}

type unrated struct{ *host.Device }

func (unrated) Ceilings(context.Context) (gpuprof.Ceilings, error) {
	return gpuprof.Ceilings{CopyBytesPerS: 1e9, FlopsPerS: 1e9}, nil
}

func openRated(t *testing.T) *host.Device {
	t.Helper()
	d, err := host.Open(host.Options{LargestCopy: 1 << 20, CeilingTries: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestCompleteRun(t *testing.T) {
	p := fake{spin: time.Millisecond}.plan()
	p.MaxTime, p.Samples = time.Hour, 300 // at least four pairs of blocks, whose steps are fewer on a slower machine
	r, err := Run(context.Background(), openRated(t), p)
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != gpuprof.Complete || r.Step.N() < minSamples || r.BareStep.N()+r.ProbedStep.N() == 0 || r.Overhead == nil {
		t.Fatalf("status %s, %d samples, %d bare, overhead %v", r.Status, r.Step.N(), r.BareStep.N(), r.Overhead)
	}
	addsUp(t, r)
	n := r.Step.N()
	if len(r.Flags) != len(r.Order) || len(r.Order) != n+r.BareStep.N() {
		t.Errorf("%d flags and %d order entries for %d probed and %d bare samples", len(r.Flags), len(r.Order), n, r.BareStep.N())
	}
	for i := 1; i < len(r.Order); i++ {
		if r.Order[i].StartS < r.Order[i-1].StartS || r.Order[i].Block < r.Order[i-1].Block {
			t.Fatalf("samples out of order at %d: %+v %+v", i, r.Order[i-1], r.Order[i])
		}
	}
	// Two spins of 1 ms and one of 0.25: the device times must say so.
	first, second := r.Stage("first"), r.Stage("second")
	if first.Device.P05 < 2e-3 || second.Device.P05 < 0.25e-3 || r.Step.P05 < 2.25e-3 {
		t.Errorf("first %v second %v step %v: shorter than the spins", first.Device.P05, second.Device.P05, r.Step.P05)
	}
	if s := r.Stage("sync"); s.Device != nil || s.Host.Median < 2e-3 {
		t.Errorf("sync: %+v", s)
	}
	want := map[string]float64{"launches": 3, "copies_h2d": 1, "bytes_h2d": 100, "bytes_h2d_pageable": 100, "sync_points": 1, "flops": 2007}
	for k, v := range want {
		if r.Counters[k] != v {
			t.Errorf("counter %s is %v a step, want %v", k, r.Counters[k], v)
		}
	}
	if first.Counters["launches"] != 2 || second.Counters["bytes_h2d"] != 100 || first.BoundS != 2000/r.Ceilings.FlopsPerS {
		t.Errorf("first %v bound %v, second %v", first.Counters, first.BoundS, second.Counters)
	}
	kernels := map[string]bool{}
	for _, s := range r.Stages {
		if s.Parent != "step" {
			kernels[s.Parent+">"+s.Name] = s.Device.Median > 0
		}
	}
	for _, k := range []string{"first>spin", "second>last", "second>copy pageable to device"} {
		if !kernels[k] {
			t.Errorf("no kernel %s in %v", k, kernels)
		}
	}
	// Ten things a step: every block's rate lies between its fastest and slowest step's.
	fast, slow := slices.Min(r.Step.Runs[0]), slices.Max(r.Step.Runs[0])
	rate := r.Throughput.Series
	if len(r.ExampleStep) == 0 || r.Throughput.Unit != "things/s" || rate.N() == 0 || rate.Median > 10/fast || rate.Median < 10/slow {
		t.Errorf("example %d spans, throughput %+v for steps of %v to %v", len(r.ExampleStep), rate, fast, slow)
	}
}

// addsUp checks the reconciliation: in every sample the exposed times of the
// step's stages, gap among them, are the period.
func addsUp(t *testing.T, r *gpuprof.Run) {
	t.Helper()
	step := r.Step
	if r.ProbedStep != nil {
		step = r.ProbedStep
	}
	for p, samples := range step.Runs {
		for i, period := range samples {
			var sum float64
			for _, s := range r.Stages {
				if s.Parent == "step" {
					sum += s.Exposed.Runs[p][i]
				}
			}
			if math.Abs(sum-period) > 1e-9*period+1e-12 {
				t.Fatalf("sample %d: exposed times add up to %v, the period is %v", i, sum, period)
			}
		}
	}
}

func TestFailedCheckHasNoTimes(t *testing.T) {
	f := fake{spin: time.Millisecond, checks: []gpuprof.Check{{Stage: "first", RelativeError: gpuprof.Number(math.NaN()), Tolerance: 1e-5}}}
	r, err := Run(context.Background(), openHost(t), f.plan())
	if !errors.Is(err, gpuprof.ErrCheck) || !strings.Contains(err.Error(), "stage first differs") {
		t.Fatalf("error %v", err)
	}
	if r.Status != gpuprof.Invalid || r.Step != nil || len(r.Stages) != 0 || len(r.Checks) != 1 {
		t.Errorf("status %s step %v stages %d checks %d", r.Status, r.Step, len(r.Stages), len(r.Checks))
	}
}

func TestInterruptKeepsWhatWasMeasured(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	f := fake{spin: time.Millisecond, cancel: cancel, cancelAt: 120}
	p := f.plan()
	p.MaxTime, p.Samples = time.Minute, 2000
	r, err := Run(ctx, openHost(t), p)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	if r.Status != gpuprof.Partial || r.Reason != "interrupted" || r.Step.N() == 0 {
		t.Fatalf("status %s reason %q, %d samples", r.Status, r.Reason, r.Step.N())
	}
	addsUp(t, r)
}

func TestDeviceFailureKeepsWhatWasMeasured(t *testing.T) {
	f := fake{spin: time.Millisecond, failAt: 200}
	p := f.plan()
	p.MaxTime, p.Samples = time.Minute, 2000
	r, err := Run(context.Background(), openHost(t), p)
	if err == nil || !strings.Contains(err.Error(), "last") || !strings.Contains(err.Error(), "planted") {
		t.Fatalf("error %v does not name kernel and cause", err)
	}
	if r.Status != gpuprof.Partial || r.Step.N() == 0 || !strings.Contains(r.Reason, "planted") {
		t.Errorf("status %s reason %q, %d samples", r.Status, r.Reason, r.Step.N())
	}
}

func TestSamplesAreExact(t *testing.T) {
	p := fake{spin: 200 * time.Microsecond}.plan()
	p.Samples = 23
	r, err := Run(context.Background(), openHost(t), p)
	if err != nil || r.Step.N() != 23 {
		t.Errorf("%d samples, %v; want 23", r.Step.N(), err)
	}
}

// An explicit number of samples or warm-up steps stays inside an explicit
// budget, and the result says what it lacks.
func TestBudgetBoundsEverything(t *testing.T) {
	for name, change := range map[string]func(*Plan){
		"time-budget": func(p *Plan) { p.Samples = 1 << 30 },
		"warm-up-cut": func(p *Plan) { p.Warmup, p.Samples = Warmup{Time: time.Hour}, 10 },
	} {
		p := fake{spin: 100 * time.Microsecond}.plan()
		p.MaxTime = 300 * time.Millisecond
		change(&p)
		r, err := Run(context.Background(), openHost(t), p)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(r.Warnings, func(w gpuprof.Warning) bool { return w.Code == name }) || r.Step.N() == 0 {
			t.Errorf("%s: %d samples, warnings %v", name, r.Step.N(), r.Warnings)
		}
	}
}

// The step's counters are the sum of its stages'.
func TestCountersAddUp(t *testing.T) {
	p := fake{spin: 100 * time.Microsecond}.plan()
	p.Samples = minSamples
	r, err := Run(context.Background(), openHost(t), p)
	if err != nil {
		t.Fatal(err)
	}
	for name, total := range r.Counters {
		sum := 0.0
		for _, s := range r.Stages {
			if s.Parent == "step" {
				sum += s.Counters[name]
			}
		}
		if math.Abs(sum-total) > 1e-9*math.Max(total, 1) {
			t.Errorf("%s: %v in total, %v over the stages", name, total, sum)
		}
	}
}

func TestHostClockMode(t *testing.T) {
	p := fake{spin: time.Millisecond}.plan()
	p.Mode, p.Samples = gpuprof.HostClock, 20
	r, err := Run(context.Background(), openHost(t), p)
	if err != nil {
		t.Fatal(err)
	}
	addsUp(t, r)
	if r.Step.P05 < 2.25e-3 {
		t.Errorf("step %v is shorter than its spins", r.Step.P05)
	}
}

func TestColdIsRefusedOnTheHost(t *testing.T) {
	p := fake{}.plan()
	p.Mode = gpuprof.Cold
	if _, err := Run(context.Background(), openHost(t), p); !errors.Is(err, gpuprof.ErrUsage) {
		t.Errorf("error %v", err)
	}
}

// The timed loop, recorder included, allocates nothing.
func TestTimedLoopAllocatesNothing(t *testing.T) {
	dev := events.NewTracer(openHost(t))
	sess, err := fake{}.Open(context.Background(), dev, workloads.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer sess.Close()
	rec, err := events.NewRecorder(dev, sess.Main(), sess.Stages(), 64, dev)
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{ctx: context.Background(), sess: sess, rec: rec}
	for _, pass := range []events.Pass{events.Probed, events.Bare} {
		n := testing.AllocsPerRun(20, func() {
			if _, _, err := rec.Reset(pass); err != nil {
				t.Fatal(err)
			}
			if _, err := r.runSteps(50); err != nil {
				t.Fatal(err)
			}
		})
		if n != 0 {
			t.Errorf("pass %d: %v allocations in 50 steps", pass, n)
		}
	}
}

func TestCheckCache(t *testing.T) {
	p := fake{}.plan()
	p.CacheDir, p.Build = t.TempDir(), "build-1"
	d := openHost(t)
	path := cachePath(d.Info(), p, "")
	if filepath.Dir(path) != filepath.Join(p.CacheDir, "checks") {
		t.Fatalf("cache path %s", path)
	}
	want := []gpuprof.Check{{Stage: "first", RelativeError: 1e-7, Tolerance: 1e-5, Pass: true}}
	writeCache(path, want)
	if got, ok := readCache(path); !ok || len(got) != 1 || got[0] != want[0] {
		t.Errorf("read %v %t", got, ok)
	}
	writeCache(path, []gpuprof.Check{{}}) // damaged, or no pass
	if got, ok := readCache(path); ok {
		t.Errorf("a damaged entry was taken: %v", got)
	}
	q := p
	q.Build = "build-2"
	r := p
	r.Knobs = gpuprof.Settings{"size": "2"}
	arch := d.Info()
	arch.Arch = "sm_90"
	if cachePath(d.Info(), q, "") == path || cachePath(d.Info(), r, "") == path || cachePath(arch, p, "") == path || cachePath(d.Info(), p, "0123") == path {
		t.Error("another build, knob, architecture or PTX shares the key")
	}
}

func TestParseWarmup(t *testing.T) {
	for s, want := range map[string]Warmup{"auto": {Auto: true}, "20": {Steps: 20}, "2s": {Time: 2 * time.Second}, "0": {}} {
		if got, err := ParseWarmup(s); err != nil || got != want {
			t.Errorf("%s: %+v %v", s, got, err)
		}
	}
	for _, s := range []string{"", "-1", "-2s", "soon"} {
		if _, err := ParseWarmup(s); !errors.Is(err, gpuprof.ErrUsage) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestMerge(t *testing.T) {
	var runs []*gpuprof.Run
	for range 3 {
		p := fake{spin: 200 * time.Microsecond}.plan()
		p.Samples = 12
		r, err := Run(context.Background(), openHost(t), p)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, r)
	}
	m, err := Merge(runs)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Step.Runs) != 3 || m.Step.N() != 36 || len(m.Flags) != len(m.Order) || len(m.Stages) != len(runs[0].Stages) {
		t.Errorf("%d processes, %d samples, %d flags, %d stages", len(m.Step.Runs), m.Step.N(), len(m.Flags), len(m.Stages))
	}
	addsUp(t, m)
	other := *runs[1]
	other.Knobs = gpuprof.Settings{"size": "2"}
	if _, err := Merge([]*gpuprof.Run{runs[0], &other}); !errors.Is(err, gpuprof.ErrInput) {
		t.Errorf("merging different settings: %v", err)
	}
}

// The processes of a run follow one another, and so do their readings.
func TestMergeTelemetry(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	process := func(after time.Duration, rss ...gpuprof.Number) *gpuprof.Run {
		tr := gpuprof.Track{Unit: "B", Value: rss}
		for i := range rss {
			tr.TimeS = append(tr.TimeS, 0.5*float64(i))
		}
		return &gpuprof.Run{Workload: "w", Preset: "small", Started: began.Add(after), Telemetry: map[string]gpuprof.Track{"rss": tr}}
	}
	first, second := process(0, 1, 2), process(10*time.Second, 3)
	m, err := Merge([]*gpuprof.Run{first, second})
	if err != nil {
		t.Fatal(err)
	}
	got := m.Telemetry["rss"]
	if want := []float64{0, 0.5, 10, 10}; !slices.Equal(got.TimeS, want) || got.Unit != "B" || len(got.Value) != 4 {
		t.Fatalf("readings %v at %v %s, want them at %v", got.Value, got.TimeS, got.Unit, want)
	}
	if !math.IsNaN(float64(got.Value[2])) || got.Value[3] != 3 {
		t.Errorf("between the processes %v stands, then %v; want nothing known, then 3", got.Value[2], got.Value[3])
	}
	if len(first.Telemetry["rss"].Value) != 2 {
		t.Error("merging changed the first process's result")
	}
}

// fastClock is a device whose events run fast.
type fastClock struct {
	device.Device
	factor float64
}

func (d fastClock) ElapsedNS(from, to device.Event) (int64, error) {
	ns, err := d.Device.ElapsedNS(from, to)
	return int64(d.factor * float64(ns)), err
}

// A device clock that runs wrong is seen by the caller's; one late wake-up of
// the caller is not such a clock.
func TestClockMismatch(t *testing.T) {
	p := fake{spin: time.Millisecond}.plan()
	p.Samples = 60
	r, err := Run(context.Background(), fastClock{openHost(t), 1.1}, p)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(r.Warnings, func(w gpuprof.Warning) bool { return w.Code == "clock-mismatch" }) {
		t.Errorf("a clock 10 %% too fast was believed: %+v", r.Warnings)
	}
	for _, c := range []struct {
		blocks []float64
		want   bool
	}{{nil, false}, {[]float64{0, 0, 0.5}, false}, {[]float64{0.02}, true}, {[]float64{0.02, 0, 0.03}, true}} {
		s := newSamples(nil)
		s.mismatches = c.blocks
		if d, got := s.clocksDiffer(); got != c.want {
			t.Errorf("blocks that differ by %v: %v (%v), want %v", c.blocks, got, d, c.want)
		}
	}
}

// replaced is a workload whose session computes by other means than it was asked to.
type replaced struct{ fake }

type replacedSession struct{ *fakeSession }

func (r replaced) Open(ctx context.Context, d device.Device, c workloads.Config) (workloads.Session, error) {
	in, err := r.fake.Open(ctx, d, c)
	if err != nil {
		return nil, err
	}
	return replacedSession{in.(*fakeSession)}, nil
}

func (replacedSession) Substituted() string {
	return "our own kernels compute it, since the library failed"
}

// What a session does instead of what it was asked to is a warning of the run and a note of the check.
func TestSubstituted(t *testing.T) {
	w := replaced{fake{spin: 100 * time.Microsecond}}
	p := w.plan()
	p.Workload, p.Samples = w, 10
	r, err := Run(context.Background(), openHost(t), p)
	if err != nil || !hasWarning(r, "library-failed") {
		t.Errorf("%v, %+v", err, r.Warnings)
	}
	var noted string
	p.Note = func(text string) { noted = text }
	if _, err := Check(context.Background(), openHost(t), p); err != nil || noted != (replacedSession{}).Substituted() {
		t.Errorf("%v, noted %q", err, noted)
	}
}
