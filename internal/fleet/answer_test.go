package fleet

import (
	"math"
	"testing"

	"github.com/gpuprof/gpuprof"
)

func TestAnswers(t *testing.T) {
	nan := gpuprof.Number(math.NaN())
	off := Off{Rank: 3, Node: "n1", Metric: "step", Unit: "s", Value: 0.013, Worse: 0.3, P: 0.0004, Siblings: 7, Cause: "it throttles", Evidence: true, Fix: "cool it"}
	fault := Off{Rank: 3, Device: "gpu1", Metric: "xid", Value: nan, Worse: nan, Cause: "XID 79"}
	second := off
	second.Rank = 5
	metrics := []Metric{{Name: "step", Unit: "s", Median: 0.01}}
	waiting := &Waiting{StepS: 0.1, Stragglers: []Straggler{{Ranks: []int{3}, CostS: 0.02, Share: 0.2, Cause: "its data loader", Fix: "add workers"}}}
	unbounded := &Waiting{StepS: nan, Stragglers: []Straggler{{Ranks: []int{3}, CostS: 0.02}}}
	for name, c := range map[string]struct {
		r       Report
		verdict string
		tone    gpuprof.Tone
		text    string
		bar     bool
		fix     string
	}{
		"even": {Report{Verdict: Even, Reason: "no rank of 8 is slower than its siblings"}, "even", gpuprof.ToneGood, "No rank of 8 is slower than its siblings.", false, ""},
		"uneven": {Report{Verdict: Uneven, Reason: "2 of 8", Off: []Off{off, second}, Metrics: metrics}, "uneven", gpuprof.ToneBad,
			"step of rank 3 on n1: 13.0 ms, 30 % worse than the median of 7 siblings (p <0.001); cause: it throttles; 1 more rank is off.", true, "Cool it."},
		"a fault":    {Report{Verdict: Uneven, Off: []Off{fault}, Metrics: metrics}, "uneven", gpuprof.ToneBad, "xid of gpu1 of rank 3; usual cause: XID 79.", false, ""},
		"waiting":    {Report{Verdict: Waited, Reason: "the others wait for rank 3", Waiting: waiting}, "waiting", gpuprof.ToneUnsure, "The others wait for rank 3; usual cause: its data loader.", true, "Add workers."},
		"no step":    {Report{Verdict: Waited, Reason: "the others wait for rank 3", Waiting: unbounded}, "waiting", gpuprof.ToneUnsure, "The others wait for rank 3.", false, ""},
		"too few":    {Report{Verdict: TooFew, Reason: "there is nothing to compare a rank with"}, "too few to compare", gpuprof.ToneUnsure, "There is nothing to compare a rank with.", false, ""},
		"broken":     {Report{Verdict: Broken, Reason: "1 rank failed", Problems: []string{"rank 2: exit 1"}}, "broken", gpuprof.ToneBad, "1 rank failed.", false, "Correct what was left out first: rank 2: exit 1."},
		"no reasons": {Report{Verdict: Broken}, "broken", gpuprof.ToneBad, "The reason was not recorded.", false, ""},
	} {
		a := c.r.Answer()
		fix := ""
		if a.Action != nil {
			fix = a.Action.Text
		}
		if a.Verdict != c.verdict || a.Tone != c.tone || a.Sentence != c.text || (a.Bar != nil) != c.bar || fix != c.fix {
			t.Errorf("%s: got %+v", name, a)
		}
	}
}
