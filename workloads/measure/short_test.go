package measure

import (
	"context"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device/host"
)

// Theil-Sen finds a line exactly, whatever one point of seven says.
func TestTheilSen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Float64Range(-10, 10).Draw(t, "a"), rapid.Float64Range(-10, 10).Draw(t, "b")
		var x, y []float64
		for i := range 7 {
			x, y = append(x, float64(i)), append(y, a+b*float64(i))
		}
		y[rapid.IntRange(0, 6).Draw(t, "wild")] += rapid.Float64Range(-1e3, 1e3).Draw(t, "by")
		if got := theilSen(x, y); math.Abs(got-b) > 1e-9 {
			t.Fatalf("slope %v, want %v", got, b)
		}
	})
	if got := theilSen([]float64{1, 1}, []float64{2, 3}); !math.IsNaN(got) {
		t.Errorf("a vertical line has slope %v", got)
	}
}

// A kernel too short for a pair of events is replayed, and the slope is its
// time a step: 2 spins of 30 us.
func TestShortKernels(t *testing.T) {
	p := fake{spin: 30 * time.Microsecond}.plan()
	p.Samples = minSamples
	r := newRunner(context.Background(), openHost(t), p)
	if err := r.setup(); err != nil {
		t.Fatal(err)
	}
	defer r.sess.Close()
	for _, phase := range []func() error{r.checkStages, r.prepareProbes, r.warmUp, r.sampleSteps, r.kernelPass} {
		if err := phase(); err != nil {
			t.Fatal(err)
		}
	}
	r.run.Calibration["empty_event_pair"] = 20e-6 // so that 400 us is short
	if err := r.shortPass(); err != nil {
		t.Fatal(err)
	}
	r.summarise(nil)
	found := 0
	for _, s := range r.run.Stages {
		if s.Parent == "step" || s.Method == "" {
			continue
		}
		found++
		want := map[string]float64{"spin": 60e-6, "last": 7.5e-6}[s.Name]
		// Other work that slows the shorter replays lowers the slope; twice is a replay too many or too few.
		if s.Method != gpuprof.MethodSlope || s.Device.N() != slopeRounds || s.Device.Median < want/1.5 {
			t.Errorf("%s: %s, %d rounds, %v; it spins %v", s.Name, s.Method, s.Device.N(), s.Device.Median, want)
		}
	}
	if found != 2 {
		t.Errorf("%d kernels were replayed, want spin and last", found)
	}
}

// What does not grow in proportion is reported, and noise is not.
func TestNonLinearIsReported(t *testing.T) {
	r := &runner{run: &gpuprof.Run{}, slopes: map[kernelKey]slope{
		{0, "straight"}: {nonLinear: 0.004, error: 0.001},
		{0, "noisy"}:    {nonLinear: 0.05, error: 0.04},
		{0, "nothing"}:  {nonLinear: math.NaN()},
	}}
	if r.nonLinearWarning(); len(r.run.Warnings) != 0 {
		t.Errorf("%v", r.run.Warnings)
	}
	r.slopes[kernelKey{1, "bent"}] = slope{nonLinear: 0.03, error: 0.001}
	if r.nonLinearWarning(); !warned(r.run, "kernel-nonlinear") {
		t.Errorf("%v", r.run.Warnings)
	}
}

func TestSmallestStep(t *testing.T) {
	for _, c := range []struct {
		times []float64
		want  float64
	}{
		{nil, 0}, {[]float64{0, 0}, 0}, {[]float64{2e-6, 2.5e-6, 2e-6}, 0.5e-6}, {[]float64{3e-6}, 3e-6}, {[]float64{2e-6, 2.0000001e-6}, 2e-6},
	} {
		if got := smallestStep(c.times); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v: %v, want %v", c.times, got, c.want)
		}
	}
}

// A device that refuses memory half way through set-up leaves a partial result
// with the reason; one that is refused before anything was asked leaves none.
func TestSetupFailure(t *testing.T) {
	d, err := host.Open(host.Options{MemoryLimit: 2000, LargestCopy: 1 << 20, CeilingTries: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	r, err := Run(context.Background(), d, fake{}.plan())
	if err == nil || r == nil || r.Status != gpuprof.Partial || r.Reason != reasonOf(err) || r.Step != nil {
		t.Errorf("%+v, %v", r, err)
	}
}
