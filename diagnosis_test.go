package gpuprof_test

import (
	"math"
	"testing"

	"github.com/gpuprof/gpuprof"
)

func TestDiagnosisAnswers(t *testing.T) {
	host := gpuprof.CheckLine{Name: "device host", State: gpuprof.OK, Vital: true}
	load := gpuprof.CheckLine{Name: "load", State: gpuprof.Limited, Found: "3.5", Reason: "other programs use the CPUs", Fix: "stop them"}
	driver := gpuprof.CheckLine{Name: "gpu driver", State: gpuprof.Missing, Reason: "it is not installed", Fix: "install it"}
	library := gpuprof.CheckLine{Name: "cuBLAS", State: gpuprof.Missing, Because: "gpu driver"}
	dead := host
	dead.State, dead.Reason, dead.Fix = gpuprof.Missing, "no memory", "give it some"
	for name, c := range map[string]struct {
		lines         []gpuprof.CheckLine
		verdict       string
		tone          gpuprof.Tone
		text, command string
	}{
		"all ok":        {[]gpuprof.CheckLine{host}, "ready", gpuprof.ToneGood, "Everything that was looked at is ok: 1 thing.", ""},
		"no GPU":        {[]gpuprof.CheckLine{host, load, driver, library}, "no GPU", gpuprof.ToneUnsure, "This machine measures the CPU and no GPU, for want of the gpu driver: it is not installed.", "Install it."},
		"limited":       {[]gpuprof.CheckLine{host, load}, "limited", gpuprof.ToneUnsure, "1 of 2 things ok; load: other programs use the CPUs.", "Stop them."},
		"missing first": {[]gpuprof.CheckLine{load, driver}, "limited", gpuprof.ToneUnsure, "None of 2 things ok; gpu driver: it is not installed.", "Install it."},
		"nothing":       {[]gpuprof.CheckLine{dead, driver, library}, "nothing to measure with", gpuprof.ToneBad, "No measurement is possible here: device host: no memory.", "Give it some."},
		"empty":         {nil, "not looked at", gpuprof.ToneUnsure, "Nothing was looked at.", ""},
	} {
		a := (&gpuprof.Diagnosis{Checks: c.lines}).Answer()
		do := ""
		if a.Action != nil {
			do = a.Action.Text
		}
		if a.Verdict != c.verdict || a.Tone != c.tone || a.Sentence != c.text || do != c.command {
			t.Errorf("%s: got %+v, %q", name, a, do)
		}
	}
}

func TestCheckAnswers(t *testing.T) {
	good, bad := gpuprof.Check{Stage: "gemm", RelativeError: 1e-7, Tolerance: 1e-5, Pass: true}, gpuprof.Check{Stage: "gate", RelativeError: 3e-4, Tolerance: 1e-5}
	nan := gpuprof.CaseResult{Kind: "tensor product", Index: 3, RelativeError: gpuprof.Number(math.NaN()), Tolerance: 1e-5}
	for name, c := range map[string]struct {
		r       gpuprof.CheckReport
		verdict string
		tone    gpuprof.Tone
		text    string
	}{
		"one":          {gpuprof.CheckReport{Stages: []gpuprof.Check{good}}, "passed", gpuprof.ToneGood, "gemm agrees with its reference: relative error 1e-07, tolerance 1e-05."},
		"all":          {gpuprof.CheckReport{Stages: []gpuprof.Check{good, good}}, "passed", gpuprof.ToneGood, "All 2 comparisons with the reference agree; the nearest to its tolerance is gemm: relative error 1e-07, tolerance 1e-05."},
		"one failed":   {gpuprof.CheckReport{Stages: []gpuprof.Check{good, bad}}, "failed", gpuprof.ToneBad, "1 of 2 comparisons with the reference disagree; the worst is gate: relative error 0.0003, tolerance 1e-05."},
		"not a number": {gpuprof.CheckReport{Stages: []gpuprof.Check{bad}, Cases: []gpuprof.CaseResult{nan}}, "failed", gpuprof.ToneBad, "2 of 2 comparisons with the reference disagree; the worst is tensor product, case 3: the result is not a number, tolerance 1e-05."},
		"empty":        {gpuprof.CheckReport{}, "nothing checked", gpuprof.ToneUnsure, "No result was compared with a reference."},
	} {
		if a := c.r.Answer(); a.Verdict != c.verdict || a.Tone != c.tone || a.Sentence != c.text {
			t.Errorf("%s: got %+v", name, a)
		}
	}
}
