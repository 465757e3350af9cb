package tune

import (
	"math"
	"testing"

	"github.com/gpuprof/gpuprof"
)

func TestAnswers(t *testing.T) {
	rec := &Recommended{Knobs: gpuprof.Settings{"impl": "csr", "batch": "64"}, Ratio: 0.81, CI95: [2]float64{0.78, 0.84}, Processes: 5}
	fast := &Recommended{Knobs: gpuprof.Settings{"num_workers": "8"}, Ratio: 2.1, CI95: [2]float64{1.9, 2.3}, Processes: 6}
	unknown := &Recommended{Knobs: gpuprof.Settings{"impl": "csr"}, Ratio: math.NaN(), Processes: 1}
	program := &Program{Patch: []string{"DataLoader(..., num_workers=8)"}, Losses: LossCheck{Verdict: SameBits}}
	conclude := func(verdict, text string) *Result {
		return &Result{Status: gpuprof.Complete, Goal: Time, Conclusion: Conclusion{Verdict: verdict, Text: text, Command: "gpuprof run e3nn"}}
	}
	with := func(r *Result, edit func(*Result)) *Result { edit(r); return r }
	claims := []ClaimRow{{ID: "A1", Verdict: ClaimConfirmed}, {ID: "A2", Verdict: ClaimOpposite}, {ID: "A3", Verdict: "not measurable here"}}
	for name, c := range map[string]struct {
		r       *Result
		verdict string
		tone    gpuprof.Tone
		text    string
		command string
		ratio   float64
	}{
		"recommended": {with(conclude(Recommends, "x"), func(r *Result) { r.Recommended = rec }), "recommended", gpuprof.ToneGood,
			"batch=64 impl=csr changes time by -19.0 % (95 % -22.0 % to -16.0 %) against the default, confirmed in 5 fresh processes.", "gpuprof run e3nn", 0.81},
		"cut short, and recommended": {with(conclude(Recommends, "x"), func(r *Result) { r.Recommended, r.Status = rec, gpuprof.Partial }), "recommended", gpuprof.ToneGood,
			"batch=64 impl=csr changes time by -19.0 % (95 % -22.0 % to -16.0 %) against the default, confirmed in 5 fresh processes; the search did not come to its end.", "gpuprof run e3nn", 0.81},
		"no figure": {with(conclude(Recommends, "x"), func(r *Result) { r.Recommended = unknown }), "recommended", gpuprof.ToneGood,
			"impl=csr changes time by an unknown amount against the default, confirmed in 1 fresh process.", "gpuprof run e3nn", 0},
		"a program": {with(conclude(Recommends, "x"), func(r *Result) { r.Recommended, r.Program = fast, program }), "recommended", gpuprof.ToneGood,
			"num_workers=8 makes the program 2.100 times as fast (95 % x1.900 to x2.300), confirmed in 6 fresh processes; losses: same bits.", "gpuprof run e3nn", 2.1},
		"default":         {conclude(DefaultBest, "the default is best: no change is better by 2 % or more; of 3 changes in the table: 3 slower; more"), "default is best", gpuprof.ToneGood, "The default is best: no change is better by 2 % or more; of 3 changes in the table: 3 slower.", "", 0},
		"nothing to tune": {with(conclude(DefaultBest, "nothing recommended: no setting applies"), func(r *Result) { r.Program = program }), "nothing to tune", gpuprof.TonePlain, "Nothing recommended: no setting applies.", "", 0},
		"undecided":       {conclude(Undecided, "no recommendation: not all could be decided"), "not decided", gpuprof.ToneUnsure, "No recommendation: not all could be decided.", "", 0},
		"unconfirmed":     {conclude(Unconfirmed, "no recommendation: impl=csr was not confirmed"), "not confirmed", gpuprof.ToneUnsure, "No recommendation: impl=csr was not confirmed.", "", 0},
		"nothing fits":    {conclude(NothingFits, "no recommendation: the default is above a limit"), "nothing fits", gpuprof.ToneUnsure, "No recommendation: the default is above a limit.", "", 0},
		"partial":         {&Result{Status: gpuprof.Partial, Reason: "interrupted"}, "not ended", gpuprof.ToneUnsure, "The search did not come to its end, so nothing is recommended: interrupted.", "", 0},
		"empty":           {&Result{}, "not ended", gpuprof.ToneUnsure, "The search did not come to its end, so nothing is recommended: it can be continued.", "", 0},
		"no words":        {conclude("", ""), "not decided", gpuprof.ToneUnsure, "No setting is recommended; the reason was not recorded.", "", 0},
		"claims": {&Result{Status: gpuprof.Complete, Claims: claims}, "1 of 3 confirmed", gpuprof.TonePlain,
			"3 claims of tuning guides were tested here: 1 confirmed, 1 not measurable here, 1 opposite; the opposite holds of A2.", "", 0},
		"claims, cut short": {&Result{Status: gpuprof.Partial, Reason: "the budget ended", Claims: claims[:1]}, "1 of 1 confirmed", gpuprof.ToneUnsure, "1 claim of tuning guides was tested here: 1 confirmed; the test did not come to its end: the budget ended.", "", 0},
	} {
		a := c.r.Answer()
		command, ratio := "", 0.0
		if a.Action != nil {
			command = a.Action.Command
		}
		if a.Bar != nil {
			ratio = a.Bar.Ratio.Value
		}
		if a.Verdict != c.verdict || a.Tone != c.tone || a.Sentence != c.text || command != c.command || ratio != c.ratio {
			t.Errorf("%s: got %s (%s): %s %q %g", name, a.Verdict, a.Tone, a.Sentence, command, ratio)
		}
	}
}
