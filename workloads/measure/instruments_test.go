package measure

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/probes/machine"
)

// meters are instruments of a made-up device that draws idleW, and busyW while
// it is told that steps run.
type meters struct {
	mu       sync.Mutex
	began    time.Time
	joules   float64
	last     time.Time
	watts    float64
	instant  float64 // power by the instant reading, over watts
	throttle map[string]float64
	foreign  int
	paused   bool
	pauses   int
	started  bool
}

func newMeters() *meters {
	now := time.Now()
	return &meters{began: now, last: now, watts: 100, instant: 1, throttle: map[string]float64{"power-cap": 0, "hw-thermal": 3}}
}

func (m *meters) Start(context.Context, time.Duration) { m.started = true }
func (m *meters) Stop() map[string]gpuprof.Track {
	m.started = false
	return map[string]gpuprof.Track{"gpu_power": {Unit: "W", TimeS: []float64{0}, Value: []gpuprof.Number{100}}}
}
func (m *meters) Pause()  { m.mu.Lock(); m.paused, m.pauses = true, m.pauses+1; m.mu.Unlock() }
func (m *meters) Resume() { m.mu.Lock(); m.paused = false; m.mu.Unlock() }

// EnergyJ moves every 20 ms.
func (m *meters) EnergyJ() (float64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); now.Sub(m.last) >= 20*time.Millisecond {
		m.joules += m.watts * now.Sub(m.last).Seconds()
		m.last = now
	}
	return m.joules, true
}
func (m *meters) PowerW() (float64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.watts * m.instant, true
}
func (m *meters) ClockHz() (float64, bool) { return 1.98e9, true }
func (m *meters) Throttles() map[string]float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]float64{}
	for k, v := range m.throttle {
		out[k] = v
	}
	return out
}
func (m *meters) Foreign() (int, bool)           { m.mu.Lock(); defer m.mu.Unlock(); return m.foreign, true }
func (m *meters) Latency() (time.Duration, bool) { return 3 * time.Microsecond, true }
func (m *meters) Facts() map[string]string {
	return map[string]string{"power_limit_w": "700", "driver": "1.2"}
}

func (m *meters) set(f func()) { m.mu.Lock(); f(); m.mu.Unlock() }

// A run with instruments has their telemetry, facts, latency and energy. The counter is
// watched until it has moved often enough: that takes a second.
func TestRunWithInstruments(t *testing.T) {
	m := newMeters()
	p := fake{spin: time.Millisecond}.plan()
	p.Instruments, p.Samples = m, 20
	run := newRunner(context.Background(), openHost(t), p)
	run.idleFor, run.energyFor = 0, 0
	r, err := run.execute()
	if err != nil {
		t.Fatal(err)
	}
	if m.started || m.paused || r.Telemetry["gpu_power"].Unit != "W" || r.Telemetry["rss"].Unit != "B" || r.Telemetry["gpu_power"].TimeS[0] <= 0 {
		t.Errorf("running %t, paused %t, telemetry %v", m.started, m.paused, r.Telemetry["gpu_power"])
	}
	if r.Device.DeviceInfo["power_limit_w"] != "700" || r.Calibration["nvml_call"] != 3e-6 {
		t.Errorf("facts %v, calibration %v", r.Device.DeviceInfo, r.Calibration)
	}
	e := r.Energy
	if e == nil || !e.Valid || e.Updates < energyUpdates || e.Seconds < 1 || e.Steps == 0 {
		t.Fatalf("energy %+v, warnings %v", e, r.Warnings)
	}
	// 100 W throughout: a step costs 100 W times its length, and nothing beyond idle.
	if math.Abs(e.CounterW-100) > 1 || math.Abs(float64(e.IdleW)-100) > 1 || math.Abs(float64(e.NetStepJ)) > 0.02*e.GrossStepJ {
		t.Errorf("energy %+v", e)
	}
	if s := e.GrossStepJ / 100; s < 2.25e-3 || r.EnergyStep.N() != energyParts || math.Abs(r.EnergyStep.Median/e.GrossStepJ-1) > 0.05 {
		t.Errorf("gross %v J a step of at least 2.25 ms at 100 W, series %+v", e.GrossStepJ, r.EnergyStep)
	}
}

// The plan can leave the energy pass out.
func TestNoEnergy(t *testing.T) {
	p := fake{spin: 200 * time.Microsecond}.plan()
	p.Instruments, p.NoEnergy, p.Samples = newMeters(), true, 10
	r, err := Run(context.Background(), openHost(t), p)
	if err != nil || r.Energy != nil || r.EnergyStep != nil {
		t.Errorf("energy %v, %v", r.Energy, err)
	}
}

// The counter is watched for a time and for so many moves, or until the most time has passed.
func TestEnergyIsWatchedLongEnough(t *testing.T) {
	for name, c := range map[string]struct {
		began time.Duration // ago
		moves int
		want  bool
	}{
		"moves too soon":  {energyTime / 2, 2 * energyUpdates, false},
		"too few moves":   {2 * energyTime, energyUpdates, false},
		"enough of both":  {2 * energyTime, energyUpdates + 1, true},
		"it moves rarely": {energyCap + time.Second, 1, true},
	} {
		w := &wattmeter{begin: time.Now().Add(-c.began), moves: make([]reading, c.moves)}
		if got := w.isLongEnough(energyTime, energyCap, energyUpdates); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if r := newRunner(context.Background(), openHost(t), fake{}.plan()); r.idleFor != idleTime || r.energyFor != energyTime {
		t.Errorf("a run watches for %v and %v", r.idleFor, r.energyFor)
	}
}

// Energy is reported only where the counter moved often enough and the instant
// power agrees with it.
func TestEnergyIsChecked(t *testing.T) {
	row := func(n int, watts, instant float64) *wattmeter {
		w := &wattmeter{}
		for i := range n {
			at := float64(i) * 0.1
			w.moves = append(w.moves, reading{at, watts * at})
			if instant > 0 {
				w.power = append(w.power, reading{at, instant})
			}
		}
		return w
	}
	for name, c := range map[string]struct {
		w     *wattmeter
		idle  float64
		valid bool
		warns string
	}{
		"agrees":       {row(60, 300, 310), 80, true, ""},
		"idle unknown": {row(60, 300, 300), math.NaN(), true, ""},
		"apart":        {row(60, 300, 330), 80, false, "energy-invalid"},
		"few moves":    {row(20, 300, 300), 80, false, "energy-invalid"},
		"no power":     {row(60, 300, 0), 80, false, "energy-invalid"},
		"no moves":     {row(1, 300, 300), 80, false, "energy-unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &runner{run: &gpuprof.Run{}}
			r.addEnergy(c.w, c.idle, 0.01, 590)
			if c.warns != "" {
				if !warned(r.run, c.warns) || r.run.EnergyStep != nil {
					t.Errorf("warnings %v, series %v", r.run.Warnings, r.run.EnergyStep)
				}
				return
			}
			e := r.run.Energy
			if !e.Valid || len(r.run.Warnings) > 0 || math.Abs(e.GrossStepJ-3) > 1e-9 || math.Abs(r.run.EnergyStep.Median-3) > 1e-9 {
				t.Errorf("%+v, %v", e, r.run.Warnings)
			}
			if known := !math.IsNaN(c.idle); known && math.Abs(float64(e.NetStepJ)-2.2) > 1e-9 || !known && !math.IsNaN(float64(e.NetStepJ)) {
				t.Errorf("net %v", e.NetStepJ)
			}
		})
	}
}

// A cumulative counter that moved flags the block, whatever it says in between.
func TestDisturbances(t *testing.T) {
	m := newMeters()
	r := &runner{plan: Plan{Instruments: m}}
	r.machine = machine.This()
	before := r.disturbances()
	if got := r.disturbances().since(before); slices.Contains(got, "hw-thermal") {
		t.Errorf("throttling of before the block counts: %v", got)
	}
	m.set(func() { m.throttle["power-cap"], m.throttle["hw-thermal"], m.foreign = 0.001, 3.5, 1 })
	got := slices.DeleteFunc(r.disturbances().since(before), func(c string) bool { return c == causeQuota })
	if d := cmp.Diff([]string{"hw-thermal", "power-cap", "foreign-process"}, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"throttled", "power-capped", "foreign-process"}, flagsOf(append(got, causeQuota))); d != "" {
		t.Error(d)
	}
	// A counter that was unknown before the block says nothing about it.
	delete(before.throttles, "power-cap")
	if got := r.disturbances().since(before); slices.Contains(got, "power-cap") {
		t.Errorf("%v", got)
	}
}

// Every sample of a block in which something acted carries its codes.
func TestFlaggedRun(t *testing.T) {
	m := newMeters()
	m.foreign = 2
	p := fake{spin: 200 * time.Microsecond}.plan()
	p.Instruments, p.NoEnergy, p.Samples = m, true, 12
	r, err := Run(context.Background(), openHost(t), p)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range r.Flags {
		if !slices.Contains(f, flagForeign) {
			t.Fatalf("sample %d: %v", i, f)
		}
	}
	if !warned(r, "foreign-process") {
		t.Errorf("%v", r.Warnings)
	}
}

// The warm-up goes on while clock or power still move, though steps agree.
func TestWarmUpWaitsForClockAndPower(t *testing.T) {
	settled := func(values ...float64) level {
		l := level{name: "it", limit: settlePower}
		for _, v := range values {
			l.add([]float64{v, v, v})
		}
		return l
	}
	for name, c := range map[string]struct {
		l    level
		want bool
	}{
		"unknown":    {settled(), true},
		"too few":    {settled(700, 700, 700), false},
		"rising":     {settled(500, 550, 600, 650, 700), false},
		"has risen":  {settled(300, 500, 700, 701, 699, 703, 700), true},
		"within 2 %": {settled(700, 705, 695, 702, 698), true},
		"by 3 %":     {settled(700, 721, 700, 700, 700), false},
	} {
		if open, _, _ := unsettledLevel([]*level{&c.l}); (open == nil) != c.want {
			t.Errorf("%s: open %v", name, open)
		}
	}
}

// The ladder's decisions: what may cost more than 1 % leaves the timing passes.
func TestLadderDecides(t *testing.T) {
	times := func(stage, tel float64) map[string][]float64 {
		out := map[string][]float64{}
		for i := range 6 {
			jitter := 1 + 1e-4*float64(i%3)
			out[probeNone] = append(out[probeNone], jitter)
			out[probeSteps] = append(out[probeSteps], 1.001)
			out[probeStages] = append(out[probeStages], 1.001*stage*jitter)
			out[probeKernels] = append(out[probeKernels], 1.2*stage)
			out[probeTelemetry] = append(out[probeTelemetry], 1.001*stage*tel)
		}
		return out
	}
	for name, c := range map[string]struct {
		stage, tel   float64
		apart, quiet bool
	}{
		"cheap":            {1.002, 1.001, false, false},
		"stages are dear":  {1.03, 1.001, true, false},
		"so is telemetry":  {1.002, 1.02, false, true},
		"both":             {1.05, 1.05, true, true},
		"just over":        {1.0101, 1, true, false},
		"faster with them": {0.99, 1, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := &runner{run: &gpuprof.Run{Device: gpuprof.Env{Kind: "cuda"}}, plan: Plan{Instruments: newMeters()}}
			r.judgeRungs(r.rungs(), times(c.stage, c.tel))
			if r.apart != c.apart || r.quiet != c.quiet || len(r.run.Ladder) != 4 {
				t.Errorf("apart %t, quiet %t, %+v", r.apart, r.quiet, r.run.Ladder)
			}
			if warned(r.run, "stages-apart") != c.apart || warned(r.run, "telemetry-apart") != c.quiet {
				t.Errorf("%v", r.run.Warnings)
			}
			if got := r.stageRung().Ratio; math.Abs(got/c.stage-1) > 1e-3 {
				t.Errorf("stage events %v, want %v", got, c.stage)
			}
		})
	}
	r := &runner{run: &gpuprof.Run{Device: gpuprof.Env{Kind: "cuda"}}}
	short := times(1, 1)
	for k := range short {
		short[k] = short[k][:2]
	}
	if r.judgeRungs(r.rungs(), short); r.run.Ladder != nil || !warned(r.run, "ladder-unmeasured") || r.apart {
		t.Errorf("two rounds decided: %+v", r.run)
	}
}

// Where stage events are kept apart, the step is timed without them and the
// exposed times add up to the periods of their own pass.
func TestStagesApart(t *testing.T) {
	ctx := context.Background()
	p := fake{spin: 300 * time.Microsecond}.plan()
	p.Samples = 12
	r := newRunner(ctx, openHost(t), p)
	if err := r.setup(); err != nil {
		t.Fatal(err)
	}
	defer r.sess.Close()
	r.apart = true
	for _, phase := range []func() error{r.checkStages, r.prepareProbes, r.warmUp, r.breakdown, r.sampleSteps, r.kernelPass} {
		if err := phase(); err != nil {
			t.Fatal(err)
		}
	}
	r.run.Ladder = []gpuprof.Rung{{Probe: probeStages, Over: probeSteps, Ratio: gpuprof.Ratio{Ratio: 1.1}, Apart: true}}
	r.summarise(nil)
	if r.run.Step.N() != 12 || r.run.BareStep != nil || r.run.ProbedStep.N() < minSamples || r.run.Overhead.Ratio != 1.1 {
		t.Errorf("%d samples, bare %v, %d probed, overhead %v", r.run.Step.N(), r.run.BareStep, r.run.ProbedStep.N(), r.run.Overhead)
	}
	if len(r.run.Order) != 12 || len(r.run.Flags) != 12 || r.run.Order[0].Side != gpuprof.SideProbed {
		t.Errorf("order %v, %d flags", r.run.Order, len(r.run.Flags))
	}
	addsUp(t, r.run)
	m, err := Merge([]*gpuprof.Run{r.run, r.run})
	if err != nil || m.ProbedStep.N() != 2*r.run.ProbedStep.N() {
		t.Errorf("merged %v %v", m, err)
	}
	addsUp(t, m)
}
