package html_test

import (
	"math"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
)

// watched is a made-up run on a device with instruments: telemetry, throttled
// samples, a ladder, an energy pass, and probes that were kept out of the
// timing passes.
func watched() *gpuprof.Run {
	r := fixture.Three()
	r.Device.Kind = "cuda"
	r.ProbedStep = r.Step
	bare := *r.Step
	bare.Median, bare.CI95 = 0.97*bare.Median, [2]float64{0.97 * bare.CI95[0], 0.97 * bare.CI95[1]}
	r.Step = &bare
	last := r.Order[len(r.Order)-1].StartS
	r.Telemetry = map[string]gpuprof.Track{}
	track := func(name, unit string, f func(x float64) float64) {
		t := gpuprof.Track{Unit: unit}
		for i := range 200 {
			x := float64(i) / 199
			t.TimeS, t.Value = append(t.TimeS, x*last), append(t.Value, gpuprof.Number(f(x)))
		}
		r.Telemetry[name] = t
	}
	track("gpu_power", "W", func(x float64) float64 { return 310 + 40*math.Sin(9*x) })
	track("gpu_sm_clock", "Hz", func(x float64) float64 {
		if x > 0.5 && x < 0.6 {
			return math.NaN()
		}
		return 1.98e9 - 2e8*math.Round(x)
	})
	track("gpu_temperature", "C", func(x float64) float64 { return 48 + 20*x })
	track("gpu_memory_used", "B", func(float64) float64 { return 3 << 30 })
	track("gpu_throttled_hw_thermal", "s", func(x float64) float64 { return math.Max(0, x-0.7) })
	for i := range r.Flags {
		if r.Order[i].StartS > 0.7*last && i%3 == 0 {
			r.Flags[i] = []string{"throttled"}
		}
	}
	r.Ladder = []gpuprof.Rung{{Probe: "step events", Over: "nothing", Ratio: gpuprof.Ratio{Ratio: 1.0004, CI95: [2]float64{0.9998, 1.001}}},
		{Probe: "stage events", Over: "step events", Ratio: gpuprof.Ratio{Ratio: 1.031, CI95: [2]float64{1.028, 1.034}}, Apart: true}}
	r.Energy = &gpuprof.Energy{GrossStepJ: 4.1, NetStepJ: 2.9, CounterW: 335, InstantW: 331, IdleW: gpuprof.Number(math.NaN()), Seconds: 4.2, Updates: 91, Steps: 342, Valid: true}
	for i := range r.Stages {
		if s := &r.Stages[i]; s.Parent == "sph" {
			s.Method, s.Counters = gpuprof.MethodSlope, map[string]float64{"flops": 2.2e6, "bytes_read": 5e5, "bytes_written": 9e5, "launches": 1}
		}
	}
	return r
}

func TestWhatAWatchedRunSays(t *testing.T) {
	r := watched()
	says(t, "watched", render(t, r), []string{"Telemetry during the run", "power (W)", "SM clock (MHz)", "temperature (°C)", "device memory in use (MiB)", "time since the run began (s)", "flagged sample: throttled",
		"block 0, with probes: 10 samples", "bare samples were taken", "throttled from", "their exposed times add up to the step there: 12.2 ms", "Probe overhead", "x1.0310", "1.0280 to 1.0340",
		"a pass of its own", "4.10 J", "2.90 J", "unknown", "(replayed)", "slope over replays", "kernel sph_l2: 5", "small ones their kernels"}, []string{"not valid:"})
	r.Energy.Valid, r.Energy.Reason = false, "counter and instant power differ by 9 %"
	r.Telemetry = nil
	says(t, "without telemetry", render(t, r), []string{"not valid: counter and instant power differ"}, []string{"4.10 J", "Telemetry during the run"})
}

// endless is a run whose names are 10 kB long, some of them right to left.
func endless() *gpuprof.Run {
	r := watched()
	long, arabic := strings.Repeat("endless-", 1280), strings.Repeat("\u0645\u0631\u062d\u0628\u0627 ", 1000)
	r.Workload, r.Preset, r.Device.Name, r.Device.CPU = long, arabic, arabic, long
	r.Stages[0].Name, r.Stages[2].Name = arabic, long
	for i := range r.Stages {
		if r.Stages[i].Parent == "radial" {
			r.Stages[i].Parent, r.Stages[i].Name = long, arabic+r.Stages[i].Name
		}
	}
	for i := range r.ExampleStep {
		r.ExampleStep[i].Stage, r.ExampleStep[i].Lane = long, r.ExampleStep[i].Lane+arabic
	}
	r.Knobs[long], r.Knobs["impl"], r.Counters[long], r.Calibration[arabic] = arabic, long, 1, 1
	r.Telemetry[long] = gpuprof.Track{Unit: long, TimeS: []float64{0, 1}, Value: []gpuprof.Number{1, 2}}
	r.Checks[0].Stage, r.Checks[1].Rows = long, arabic
	r.Warnings = append(r.Warnings, gpuprof.Warning{Code: long, Text: long, Fix: arabic})
	r.Findings[0].Command, r.Findings[1].Stage = long, arabic
	r.Ladder[0].Probe, r.Energy.Reason, r.Energy.Valid = long, arabic, false
	for i := range r.Flags {
		r.Flags[i] = []string{long}
	}
	return r
}

// TestEndlessNames: a name is cut where it would push the figures away.
func TestEndlessNames(t *testing.T) {
	text := scripts.ReplaceAllString(render(t, endless()), "")
	if strings.Contains(text, strings.Repeat("endless-", 80)) || len(text) > 600_000 {
		t.Errorf("the page holds names at full length: %d bytes", len(text))
	}
}
