package history

import (
	"math"
	"testing"

	"github.com/gpuprof/gpuprof"
)

func TestAnswers(t *testing.T) {
	nan := gpuprof.Number(math.NaN())
	none := [2]gpuprof.Number{nan, nan}
	a, b := Commit{ID: "aaaaaaa"}, Commit{ID: "bbbbbbb"}
	sessions := make([]At, 12)
	sessions[0].LeftOut = "its commit is unknown"
	rise := Change{At: 6, Before: a, After: b, Old: 0.01, New: 0.01285, Ratio: 1.285, CI95: [2]gpuprof.Number{1.251, 1.32}, Worse: true, Cause: FromCode}
	alarm := Alarm{At: 6, Before: a, After: b, Old: 0.01, Now: 0.01285, Ratio: 1.285}
	of := func(m ...Metric) *Report {
		return &Report{Threshold: 0.05, Watched: true, Trends: []Trend{{Benchmark: "e3nn", Sessions: sessions, Metrics: m}}}
	}
	later := alarm
	later.Now, later.Ratio = 0.02, 2
	counter := Metric{Name: "launches", Unit: "count", Exact: true, Alarms: []Alarm{{At: 6, Before: a, After: b, Old: 0, Now: 12345, Ratio: nan}}}
	seen := Metric{Name: "step", Unit: "s", Total: true, Changes: []Change{rise}, Seen: []Seen{{At: 6, After: b, Ratio: 1.285, P: 0.008, Sessions: 6}}}
	never := seen
	never.Seen = []Seen{{At: 6, After: b, Ratio: 1.285, P: 0.008}}
	machine := rise
	machine.Cause = FromMachine
	short := of(Metric{Name: "step", Unjudged: "3 sessions of this class that can be analysed; 8 are needed"})
	half := of(Metric{Name: "step", Unit: "s"})
	half.Trends = append(half.Trends, short.Trends...)
	shown := of(Metric{Name: "step", Unit: "s", Changes: []Change{rise}})
	shown.Watched = false
	by := of(Metric{Name: "step", Unit: "s", Changes: []Change{machine}})
	by.Watched = false
	quiet := of(Metric{Name: "step", Unit: "s"})
	quiet.Watched = false

	for name, c := range map[string]struct {
		r       *Report
		verdict string
		tone    gpuprof.Tone
		text    string
		command string
	}{
		"alarm": {of(Metric{Name: "step/gemm", Unit: "s", Alarms: []Alarm{later}}, Metric{Name: "step", Unit: "s", Total: true, Changes: []Change{rise}, Alarms: []Alarm{alarm}}),
			"worse", gpuprof.ToneBad, "step of e3nn is worse since bbbbbbb: 12.8 ms, was 10.0 ms, +28.5 % (95 % +25.1 % to +32.0 %); the cause is code; 1 more alarm.", "gpuprof bisect aaaaaaa..bbbbbbb -- COMMAND"},
		"alarm over two changes": {of(Metric{Name: "step", Unit: "s", Total: true, Changes: []Change{rise}, Alarms: []Alarm{later}}),
			"worse", gpuprof.ToneBad, "step of e3nn is worse since bbbbbbb: 20.0 ms, was 10.0 ms, x2.000.", "gpuprof bisect aaaaaaa..bbbbbbb -- COMMAND"},
		"a counter from zero": {of(counter), "worse", gpuprof.ToneBad, "launches of e3nn is worse since bbbbbbb: 12,345, was 0.", "gpuprof bisect aaaaaaa..bbbbbbb -- COMMAND"},
		"seen": {of(seen), "seen, not certain", gpuprof.ToneUnsure,
			"step of e3nn is worse since bbbbbbb by +28.5 % (95 % +25.1 % to +32.0 %), seen and not certain yet: about 6 more sessions like those since would decide.", "gpuprof history check --confirm -- COMMAND"},
		"seen for long": {of(never), "seen, not certain", gpuprof.ToneUnsure,
			"step of e3nn is worse since bbbbbbb by +28.5 % (95 % +25.1 % to +32.0 %), seen and not certain yet: more than 15 further sessions are needed.", "gpuprof history check --confirm -- COMMAND"},
		"no alarm":        {of(Metric{Name: "step", Unit: "s"}), "no alarm", gpuprof.ToneGood, "No level was found to be worse by 5 % or more, in 11 sessions of 1 trend.", ""},
		"half judged":     {half, "no alarm", gpuprof.ToneGood, "No level was found to be worse by 5 % or more, in 22 sessions of 2 trends; 1 of 2 trends not judged.", ""},
		"too few":         {short, "too few sessions", gpuprof.ToneUnsure, "Nothing is judged yet: e3nn has 3 sessions of this class that can be analysed; 8 are needed.", "gpuprof history add RESULT"},
		"empty":           {&Report{Watched: true}, "empty", gpuprof.ToneUnsure, "The store holds no session, so there is nothing to judge.", "gpuprof history add RESULT"},
		"shown":           {shown, "1 change", gpuprof.ToneBad, "step of e3nn changed at bbbbbbb: 12.8 ms, was 10.0 ms, +28.5 % (95 % +25.1 % to +32.0 %); the cause is code.", "gpuprof bisect aaaaaaa..bbbbbbb -- COMMAND"},
		"by the machine":  {by, "1 change", gpuprof.TonePlain, "step of e3nn changed at bbbbbbb: 12.8 ms, was 10.0 ms, +28.5 % (95 % +25.1 % to +32.0 %); the cause is machine.", ""},
		"nothing changed": {quiet, "no change found", gpuprof.TonePlain, "No metric was found to change its level, in 11 sessions of 1 trend.", ""},
	} {
		got := c.r.Answer()
		command := ""
		if got.Action != nil {
			command = got.Action.Command
		}
		if got.Verdict != c.verdict || got.Tone != c.tone || got.Sentence != c.text || command != c.command {
			t.Errorf("%s: got %s (%s): %s %q", name, got.Verdict, got.Tone, got.Sentence, command)
		}
	}
	if text := changeText(nan, none); text != "" {
		t.Errorf("no ratio prints %q", text)
	}
}
