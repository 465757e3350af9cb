package page

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/loadtest"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

func TestWorstCheckIsTheOneNearestItsTolerance(t *testing.T) {
	r := &gpuprof.Run{Checks: []gpuprof.Check{
		{Stage: "loose", RelativeError: 1e-3, Tolerance: 1e-2, Pass: true},
		{Stage: "tight", RelativeError: 5e-6, Tolerance: 1e-5, Pass: true}}}
	if got := checkSummary(r); !strings.Contains(got, "tight") || !strings.Contains(got, "2 of 2 passed") {
		t.Error(got)
	}
	r.Checks = append(r.Checks, gpuprof.Check{Stage: "nan", RelativeError: gpuprof.Number(math.NaN()), Tolerance: 1e-5})
	if got := checkSummary(r); !strings.Contains(got, "not a number in nan") {
		t.Error(got)
	}
}

// The least latency is printed with the step's figures, on a GPU without its copies.
func TestLeastLatency(t *testing.T) {
	for kind, want := range map[string]string{"host": "copied and answered", "cuda": "without its copies"} {
		r := fixture.One()
		r.Requests = &loadtest.Requests{FloorS: 3.4e-3}
		r.Device.Kind = kind
		if !slices.ContainsFunc(summaryLines(r), func(l Line) bool {
			return l.Label == "least latency" && l.Value == "3.40 ms" && strings.Contains(l.Note, want)
		}) {
			t.Errorf("%s: %+v", kind, summaryLines(r))
		}
	}
}

// What a simulation is off by is no error of the run's numbers, unless it fails.
func TestVirtualChecksAreNotTheWorst(t *testing.T) {
	r := &gpuprof.Run{Checks: []gpuprof.Check{
		{Stage: "conv", RelativeError: 5e-7, Tolerance: 1e-5, Pass: true},
		{Stage: "M/D/1", RelativeError: 5e-3, Tolerance: 1e-2, Pass: true, Virtual: true}}}
	if got := checkSummary(r); !strings.Contains(got, "2 of 2 passed") || !strings.Contains(got, "5e-07 in conv") {
		t.Error(got)
	}
	r.Checks[1].RelativeError, r.Checks[1].Pass = 2e-2, false
	if got := checkSummary(r); !strings.Contains(got, "1 of 2 passed") || !strings.Contains(got, "0.02 in M/D/1") {
		t.Error(got)
	}
}

// TestExactStagesAreNotTheWorst: no error where none is allowed is nothing.
func TestExactStagesAreNotTheWorst(t *testing.T) {
	r := &gpuprof.Run{Checks: []gpuprof.Check{
		{Stage: "collate", Pass: true},
		{Stage: "tensor_product", RelativeError: 3.6e-7, Tolerance: 1e-5, Pass: true},
		{Stage: "d2h", Pass: true}}}
	if got := checkSummary(r); !strings.Contains(got, "worst relative error 3.6e-07 in tensor_product, tolerance 1e-05") {
		t.Error(got)
	}
	r.Checks = r.Checks[:1]
	if got := checkSummary(r); !strings.Contains(got, "no error in any") {
		t.Error(got)
	}
	r.Checks[0].RelativeError = 1e-9
	if got := checkSummary(r); !strings.Contains(got, "1e-09 in collate, tolerance 0") {
		t.Error(got)
	}
}

// TestBlockedHostTime comes from the device's meter when it is there, from
// the wait stages otherwise.
func TestBlockedHostTime(t *testing.T) {
	r := fixture.One()
	find := func() Line {
		for _, l := range summaryLines(r) {
			if l.Label == "blocked host" {
				return l
			}
		}
		return Line{}
	}
	if got, want := find(), gpuprof.FormatSeconds(r.Stage("sync").Host.Median)+" per step"; got.Value != want || got.Note != "in sync; 1 sync point per step" {
		t.Errorf("%v, want %s", got, want)
	}
	r.Counters["blocked_ns"], r.Counters["sync_points"] = 2e6, 16.5
	if got := find(); got.Value != "2.00 ms per step" || got.Note != "in sync; 16.5 sync points per step" {
		t.Errorf("%v", got)
	}
}

func TestOverheadReadsAsABound(t *testing.T) {
	for name, c := range map[string]struct {
		ratio       gpuprof.Ratio
		value, note string
	}{
		"about zero": {gpuprof.Ratio{Ratio: 0.999, CI95: [2]float64{0.9835, 1.0202}}, "at most 2.0 %", "95 % -1.6 to +2.0 %, against bare steps"},
		"above":      {gpuprof.Ratio{Ratio: 1.0175, CI95: [2]float64{1.0087, 1.0263}}, "+1.8 %", "95 % +0.87 to +2.6 %, against bare steps"},
		"below":      {gpuprof.Ratio{Ratio: 0.97, CI95: [2]float64{0.96, 0.98}}, "-3.0 %", "95 % -4.0 to -2.0 %, against bare steps, which were the slower ones"},
	} {
		r := &gpuprof.Run{Status: gpuprof.Complete, Step: &gpuprof.Series{Median: 1, Runs: [][]float64{{1}}}, Overhead: &c.ratio}
		for _, l := range summaryLines(r) {
			if l.Label == "probe overhead" && (l.Value != c.value || l.Note != c.note) {
				t.Errorf("%s: %q, %q", name, l.Value, l.Note)
			}
		}
	}
}

// An interval too wide to tell is not printed as a bound: the calibrated cost of
// the spans is, where it bounds the overhead and is below the interval's end.
func TestOverheadByCalibration(t *testing.T) {
	wide := gpuprof.Ratio{Ratio: 1.1, CI95: [2]float64{0.88, 1.51}}
	cost := &gpuprof.ProbeCost{Spans: 14, DeviceSpans: 9, Seconds: 3.2e-6}
	for name, c := range map[string]struct {
		kind        string
		ratio       gpuprof.Ratio
		cost        *gpuprof.ProbeCost
		value, note string
	}{
		"calibrated":          {"host", wide, cost, "at most 0.040 % by calibration", "14 spans per step take 3.20 us in all; 95 % -12 to +51 %, against bare steps"},
		"an old file":         {"host", wide, nil, "not measurable", "95 % -12 to +51 %, against bare steps"},
		"a GPU":               {"cuda", wide, cost, "not measurable", "95 % -12 to +51 %, against bare steps"},
		"narrow enough":       {"host", gpuprof.Ratio{Ratio: 1, CI95: [2]float64{0.998, 1.003}}, cost, "at most 0.30 %", "95 % -0.20 to +0.30 %, against bare steps"},
		"measured":            {"host", gpuprof.Ratio{Ratio: 1.02, CI95: [2]float64{1.01, 1.03}}, cost, "+2.0 %", "95 % +1.0 to +3.0 %, against bare steps"},
		"calibrated is wider": {"host", gpuprof.Ratio{Ratio: 1, CI95: [2]float64{0.98, 1.02}}, &gpuprof.ProbeCost{Spans: 5, Seconds: 1e-3}, "at most 2.0 %", "95 % -2.0 to +2.0 %, against bare steps"},
	} {
		r := &gpuprof.Run{Status: gpuprof.Complete, Device: gpuprof.Env{Kind: c.kind}, Overhead: &c.ratio, ProbeCost: c.cost,
			Step: &gpuprof.Series{Median: 8.2e-3, Runs: [][]float64{{8.2e-3}}}, BareStep: &gpuprof.Series{Median: 8e-3, Runs: [][]float64{{8e-3}}}}
		for _, l := range summaryLines(r) {
			if l.Label == "probe overhead" && (l.Value != c.value || l.Note != c.note) {
				t.Errorf("%s: %q, %q", name, l.Value, l.Note)
			}
		}
	}
}

// The interval of one process does not stand alone: beside it stands how far
// another may differ, or that this is unknown and how to learn it.
func TestAnotherProcessIsSaid(t *testing.T) {
	one := &gpuprof.Series{Median: 1, CI95: [2]float64{0.9, 1.1}, Runs: [][]float64{{1, 1, 1, 1, 1, 1}}}
	for want, a := range map[string]*gpuprof.Another{
		"within one process; how far another process may differ is unknown: --runs 6 measures it":               nil,
		"within one process; another process may differ by about 3.6 % (6 earlier processes)":                   {Share: 0.0362, Processes: 6, Same: true},
		"within one process; another process may differ by about 41 % (12 earlier processes of other settings)": {Share: 0.41, Processes: 12},
	} {
		r := &gpuprof.Run{Status: gpuprof.Complete, Step: one, Another: a}
		if got := summaryLines(r)[0].Note; !strings.HasSuffix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	several := &gpuprof.Run{Status: gpuprof.Complete, Step: &gpuprof.Series{Median: 1, CI95: [2]float64{0.9, 1.1}, Runs: [][]float64{{1}, {1}}}, Another: &gpuprof.Another{Share: 0.1, Processes: 6}}
	if got := summaryLines(several)[0].Note; !strings.HasSuffix(got, ", between processes") {
		t.Errorf("several processes: %q", got)
	}
}

// TestLinesOfAGPU: what only some runs have is said where they have it.
func TestLinesOfAGPU(t *testing.T) {
	lines := func(r *gpuprof.Run) map[string]string {
		out := map[string]string{}
		for _, l := range summaryLines(r) {
			out[l.Label] = l.Value + "  (" + l.Note + ")"
		}
		return out
	}
	r := fixture.Apart()
	got := lines(r)
	for label, want := range map[string]string{
		"probed step": view.Median(r.ProbedStep) + "  (of the pass that timed the stages", "probe overhead": "the step was timed without it",
		"cost of probes": "step events: at most 0.17 %; stage events: +3.1 %, kept apart; telemetry: +0.20 %", "short kernels": "gate ",
		"energy": "73.3 mJ per step  (gross, 301 W by the energy counter and 299 W by instant power over 2.04 s and 8410 steps; 54.9 mJ without the 75.1 W of an idle device",
	} {
		if !strings.Contains(got[label], want) {
			t.Errorf("%s: %q, want %q", label, got[label], want)
		}
	}
	r.EnergyStep, r.Energy.Valid, r.Energy.Reason = nil, false, "the counter and the instant power are 12 % apart"
	r.Energy.IdleW, r.Energy.NetStepJ = gpuprof.Number(math.NaN()), gpuprof.Number(math.NaN())
	if got := lines(r)["energy"]; got != "unknown  (the counter and the instant power are 12 % apart)" {
		t.Error(got)
	}
	r.Energy, r.EnergyStep = nil, stats.Summarise("J", []float64{1, 1.1, 1.2, 1.1, 1, 1.1, 1})
	if got := lines(r)["energy"]; !strings.Contains(got, "1.10 J per step  (95 % 922 mJ to 1.31 J, within one process)") {
		t.Error(got)
	}
	for _, label := range []string{"probed step", "cost of probes", "short kernels", "energy"} {
		if text, has := lines(fixture.One())[label]; has {
			t.Errorf("a run without it has %s: %s", label, text)
		}
	}
}
