package health

import (
	"math"
	"testing"

	"github.com/gpuprof/gpuprof"
)

func TestAnswers(t *testing.T) {
	nan := gpuprof.Number(math.NaN())
	cards := []Card{{Device: "gpu0"}, {Device: "gpu1", Metrics: []Metric{{Name: "copy"}}}}
	slow := Off{Device: "gpu1", Metric: "copy", Unit: "B/s", Value: 1.2e12, Expected: 2.2e12, Worse: 0.4545, Against: "siblings", Cause: "it throttles by heat", Evidence: true, Fix: "cool it"}
	guess := slow
	guess.Evidence = false
	lost := Off{Device: "gpu1", Metric: "xid", Unit: "1", Value: nan, Worse: nan, Against: "itself", Cause: "XID 79: the GPU fell off the bus", Fix: "reset it"}
	for name, c := range map[string]struct {
		r     Report
		tone  gpuprof.Tone
		text  string
		ratio float64
		fix   string
	}{
		"healthy":     {Report{Verdict: Healthy, Reason: "every figure is within its limits", Devices: cards}, gpuprof.ToneGood, "2 GPUs: every figure is within its limits.", 0, ""},
		"slow":        {Report{Verdict: Unhealthy, Devices: cards, Off: []Off{slow}}, gpuprof.ToneBad, "gpu1: copy is 1.20 TB/s, 45 % worse than the median of its siblings, 2.20 TB/s; it throttles by heat.", 1.2 / 2.2, "Cool it."},
		"cause usual": {Report{Verdict: Unhealthy, Devices: cards, Off: []Off{guess}}, gpuprof.ToneBad, "gpu1: copy is 1.20 TB/s, 45 % worse than the median of its siblings, 2.20 TB/s.", 1.2 / 2.2, "Cool it."},
		"a fault first": {Report{Verdict: Unhealthy, Devices: cards, Off: []Off{slow, lost}}, gpuprof.ToneBad,
			"gpu1: xid: XID 79: the GPU fell off the bus; 1 more figure is off.", 0, "Reset it."},
		"unknown":     {Report{Verdict: Unknown, Reason: "nothing to compare gpu0 with", Devices: cards[:1]}, gpuprof.ToneUnsure, "Nothing to compare gpu0 with.", 0, ""},
		"not checked": {Report{Verdict: NotChecked, Reason: "gpu0: NVML (no library)", Devices: []Card{{Device: AllGPUs}}}, gpuprof.ToneUnsure, "gpu0: NVML (no library).", 0, "Measure the GPUs and compare them with siblings."},
		"failed":      {Report{Verdict: Failed, Reason: "gpu0 could not be measured to the end", Devices: cards}, gpuprof.ToneBad, "gpu0 could not be measured to the end.", 0, ""},
		"no reason":   {Report{Verdict: Failed, Devices: cards}, gpuprof.ToneBad, "2 GPUs: the reason was not recorded.", 0, ""},
	} {
		a := c.r.Answer()
		ratio, fix := 0.0, ""
		if a.Bar != nil {
			ratio = a.Bar.Ratio.Value
		}
		if a.Action != nil {
			fix = a.Action.Text
		}
		if a.Verdict != string(c.r.Verdict) || a.Tone != c.tone || a.Sentence != c.text || math.Abs(ratio-c.ratio) > 1e-9 || fix != c.fix {
			t.Errorf("%s: got %+v", name, a)
		}
	}
}
