package analyze

import (
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

func TestComparisonAnswers(t *testing.T) {
	// stepped is a recording whose steps take these times, ns, all of them one class of work.
	stepped := func(times ...int64) *Analysis {
		a := &Analysis{}
		var sum int64
		for _, ns := range times {
			sum += ns
			a.Steps = append(a.Steps, StepTime{DurNS: ns, BusyNS: ns})
		}
		a.Step.Count, a.Step.NS = len(times), sum/int64(max(len(times), 1))
		a.Step.Parts.Classes = map[model.Class]int64{"gemm": a.Step.NS}
		return a
	}
	window := func(ns int64) *Analysis { a := &Analysis{}; a.Step.NS = ns; return a }
	for name, c := range map[string]struct {
		old, now *Analysis
		verdict  string
		tone     gpuprof.Tone
		text     string
		bar      bool
	}{
		"slower":              {stepped(10e6, 10.1e6, 9.9e6), stepped(20e6, 20.2e6, 19.8e6), "slower", gpuprof.ToneBad, "The mean step is 20.0 ms, was 10.0 ms: x2.000 (95 % x1.958 to x2.042); gemm changed most, by +10.0 ms.", true},
		"faster":              {stepped(20e6, 20e6, 20e6), stepped(10e6, 10e6, 10e6), "faster", gpuprof.ToneGood, "The mean step is 10.0 ms, was 20.0 ms: -50.0 % (95 % -51.0 % to -49.0 %); gemm changed most, by -10.0 ms.", true},
		"noise":               {stepped(10e6, 12e6, 8e6), stepped(10.2e6, 12e6, 9e6), "no change shown", gpuprof.ToneUnsure, "The mean step is 10.4 ms, was 10.0 ms: +4.0 % (95 % -37.4 % to +45.4 %); that is within the noise of the steps.", true},
		"one step":            {stepped(10e6), stepped(20e6), "not decided", gpuprof.ToneUnsure, "The mean step is 20.0 ms, was 10.0 ms: x2.000; one step on a side does not tell that from noise.", true},
		"alike":               {stepped(10e6), stepped(10e6), "no change", gpuprof.TonePlain, "The mean step is 10.0 ms on both sides.", false},
		"windows":             {window(1e9), window(2e9), "windows compared", gpuprof.TonePlain, "The recording window was 1.00 s and is 2.00 s; without steps a change is not judged.", true},
		"a step and a window": {stepped(10e6, 10e6), window(2e9), "not comparable", gpuprof.ToneUnsure, "A mean step of 10.0 ms before, a recording window of 2.00 s after: not comparable.", false},
		"empty":               {window(0), window(0), "not comparable", gpuprof.ToneUnsure, "A recording window of 0 ns before, a recording window of 0 ns after: not comparable.", false},
	} {
		a := CompareInOrder(c.old, c.now, nil).Answer()
		if a.Verdict != c.verdict || a.Tone != c.tone || a.Sentence != c.text || (a.Bar != nil) != c.bar {
			t.Errorf("%s: got %s (%s): %s %v", name, a.Verdict, a.Tone, a.Sentence, a.Bar)
		}
	}
}
