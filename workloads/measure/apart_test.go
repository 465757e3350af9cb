package measure

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/workloads/device"
)

func TestTooDear(t *testing.T) {
	const limit = 0.005
	for name, c := range map[string]struct {
		lo, hi, calibrated float64
		want               bool
	}{
		"within the limit":                         {-0.001, 0.004, 0.1, false},
		"above the limit":                          {0.01, 0.02, 0.1, true},
		"above, whatever was calibrated":           {0.01, 0.02, 0.001, true},
		"too wide, calibrated within":              {-0.12, 0.51, 0.0004, false},
		"too wide, calibrated above":               {-0.12, 0.51, 0.08, true},
		"too wide, nothing calibrated":             {-0.12, 0.51, math.Inf(1), true},
		"faster with the probe, calibrated above":  {-0.3, -0.1, 0.08, false},
		"the upper end on the limit is within it":  {-0.01, limit, 0.08, false},
		"the lower end on the limit is not above ": {limit, 0.02, 0.001, false},
	} {
		o := gpuprof.Ratio{Ratio: 1 + (c.lo+c.hi)/2, CI95: [2]float64{1 + c.lo, 1 + c.hi}}
		if got := tooDear(o, limit, c.calibrated); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// slowEvents is a device whose event records take the stream a while, as if
// reading a clock were dear there.
type slowEvents struct {
	device.Device
	cost time.Duration
}

type slowEventStream struct {
	device.Stream
	cost time.Duration
}

func (d slowEvents) NewStream(name string) (device.Stream, error) {
	s, err := d.Device.NewStream(name)
	return slowEventStream{s, d.cost}, err
}

func (s slowEventStream) Record(e device.Event) error {
	spinFor(s.cost)
	return s.Stream.Record(e)
}

// TestDearProbeIsNotInTheStep: six events of 200 us around stages of 25 us or
// less. Before, the step was printed with them, several times as long as it is.
func TestDearProbeIsNotInTheStep(t *testing.T) {
	p := fake{spin: 20 * time.Microsecond}.plan()
	p.Samples = 60
	// It has to show that the limit is passed. On a busy machine the interval may be too wide for that: measure again.
	var r *gpuprof.Run
	for try := 0; r == nil || r.Overhead == nil || r.Overhead.Ratio < 1.5 || r.Overhead.CI95[0]-1 <= r.Device.ProbeLimit(); try++ {
		if try == 10 {
			t.Fatalf("overhead %+v: the planted one is several times the step", r.Overhead)
		}
		var err error
		if r, err = Run(context.Background(), slowEvents{openHost(t), 200 * time.Microsecond}, p); err != nil {
			t.Fatal(err)
		}
	}
	if r.ProbedStep == nil || r.BareStep != nil || r.Step.N() != 60 {
		t.Fatalf("%d samples of the step, probed step %v, bare step %v", r.Step.N(), r.ProbedStep, r.BareStep)
	}
	if got := r.ProbedStep.Median / r.Step.Median; math.Abs(got/r.Overhead.Ratio-1) > 1e-9 {
		t.Errorf("the probed step is %.3f of the step, the overhead says %.3f", got, r.Overhead.Ratio)
	}
	addsUp(t, r)
	if len(r.Order) != 60 || len(r.Flags) != 60 || slices.ContainsFunc(r.Order, func(o gpuprof.Order) bool { return o.Side != gpuprof.SideProbed }) {
		t.Errorf("%d entries in the order, %d flags", len(r.Order), len(r.Flags))
	}
	ofTheStep(t, r)
	named := 0
	for _, w := range r.Warnings {
		if w.Code == "stages-apart" || w.Code == "overhead-unmeasured" {
			named++
		}
	}
	if named != 1 {
		t.Errorf("%d warnings name it: %+v", named, r.Warnings)
	}
	if c := r.ProbeCost; c == nil || c.Spans != 5 || c.DeviceSpans != 3 || c.Seconds < 6*200e-6 {
		t.Errorf("calibrated cost %+v, want 5 spans, 3 of them of 400 us", c)
	}
}

// ofTheStep: ten values per step, and every block's rate is between the rates of the fastest and the slowest step.
func ofTheStep(t *testing.T, r *gpuprof.Run) {
	t.Helper()
	steps := slices.Concat(r.Step.Runs...)
	for _, v := range slices.Concat(r.Throughput.Series.Runs...) {
		if v < 10/slices.Max(steps)*(1-1e-9) || v > 10/slices.Min(steps)*(1+1e-9) {
			t.Fatalf("a rate of %v a second, steps take %v to %v s", v, slices.Min(steps), slices.Max(steps))
		}
	}
}

// bothSides is a finished run with steps of both sides, two blocks of each.
func bothSides(step, bare float64, o gpuprof.Ratio) *gpuprof.Run {
	run := &gpuprof.Run{Workload: "w", Overhead: &o, Device: gpuprof.Env{Kind: "host"}}
	list := func(v float64) (x []float64) {
		for i := range 12 {
			x = append(x, v*(1+0.001*float64(i%3)))
		}
		return x
	}
	run.Step, run.BareStep = stats.Summarise("s", list(step)), stats.Summarise("s", list(bare))
	for block := range 4 {
		for range 6 {
			run.Order, run.Flags = append(run.Order, gpuprof.Order{Block: block, Side: block % 2}), append(run.Flags, nil)
		}
	}
	run.Throughput = &gpuprof.Throughput{Unit: "things/s", Series: stats.Summarise("things/s", []float64{10 / (step * 1.001), 10 / (step * 1.001)})}
	return run
}

// TestMergeKeepsOneKindOfStep: a process whose interval was too wide to tell is
// not mixed, with its probed step, among those that have the bare one.
func TestMergeKeepsOneKindOfStep(t *testing.T) {
	clear, wide := gpuprof.Ratio{Ratio: 1.58, CI95: [2]float64{1.5, 1.66}}, gpuprof.Ratio{Ratio: 1.58, CI95: [2]float64{0.9, 2.7}}
	apart, ok := stats.PreferBareStep(bothSides(6.12e-6, 3.86e-6, clear))
	if !ok {
		t.Fatal("the bare side was not taken")
	}
	for name, runs := range map[string][]*gpuprof.Run{
		"one knows":              {apart, bothSides(6.12e-6, 3.86e-6, wide)},
		"one knows, the second":  {bothSides(6.12e-6, 3.86e-6, wide), apart},
		"only all together know": {bothSides(6.12e-6, 3.86e-6, wide), bothSides(6.12e-6, 3.86e-6, wide), bothSides(6.13e-6, 3.87e-6, wide)},
	} {
		m, err := Merge(runs)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Step.Runs) != len(runs) || m.Step.Median > 4e-6 || m.ProbedStep == nil || m.ProbedStep.Median < 6e-6 || m.BareStep != nil {
			t.Errorf("%s: step %v of %d processes, probed %v", name, m.Step.Median, len(m.Step.Runs), m.ProbedStep)
		}
		if len(m.Order) != m.Step.N() {
			t.Errorf("%s: %d entries in the order for %d samples", name, len(m.Order), m.Step.N())
		}
		ofTheStep(t, m)
	}
	// Cheap in all of them: nothing changes.
	cheap := gpuprof.Ratio{Ratio: 1.001, CI95: [2]float64{0.999, 1.003}}
	m, err := Merge([]*gpuprof.Run{bothSides(1.001e-3, 1e-3, cheap), bothSides(1.001e-3, 1e-3, cheap)})
	if err != nil || m.ProbedStep != nil || m.BareStep == nil || m.Step.Median < 1.001e-3 {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestLooksAreBounded: however long sampling goes on, what the stopping rule
// computes intervals of adds up to some times the samples of the run.
func TestLooksAreBounded(t *testing.T) {
	r := newRunner(context.Background(), openHost(t), Plan{MaxTime: time.Hour})
	r.run = &gpuprof.Run{Device: gpuprof.Env{Kind: "host"}}
	r.samples = newSamples(nil)
	r.apart, r.stepNS = true, 1
	for block := range 4000 {
		for i := range 5 { // never decided: a step of its own for every block
			r.samples.step = append(r.samples.step, float64(1+block%2)+float64(i)*1e-3)
		}
		if r.isDecided(time.Second) {
			t.Fatalf("decided after %d samples", len(r.samples.step))
		}
	}
	if n := len(r.samples.step); r.looked > 25*n || r.looked < n {
		t.Errorf("intervals of %d samples in all, for %d", r.looked, n)
	}
}
