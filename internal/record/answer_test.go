package record

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
)

// A view of a recording opens with the GPU that waits longest, and judges nothing; a command is there once it works.
func TestAnswerLive(t *testing.T) {
	busy := Live{Over: 30 * time.Second, Steps: 311, StepNS: 96_300_000, Devices: []LiveDevice{{ID: 0, Busy: 1}}}
	waits := Live{Over: 30 * time.Second, Devices: []LiveDevice{{ID: 3, Busy: 0.5, Starved: 0.25}}}
	some := &Hook{Processes: []Process{{Began: true}, {Began: true}, {File: "t", Began: true}, {Aside: "not rank 0"}, {}}}
	for name, c := range map[string]struct {
		live     []Live
		h        *Hook
		gone     bool
		sentence string
		parts    int
		command  bool
	}{
		"two processes": {[]Live{busy, waits}, &Hook{}, false, "GPU 3 works for 50.0 % of the last 30.0 s and waits for launches for 25.0 %; no step is found yet.", 3, false},
		"steps":         {[]Live{busy}, &Hook{}, true, "GPU 0 works for 100 % of the last 30.0 s and waits for launches for 0 %; a step takes 96.3 ms (median of 311).", 3, true},
		"no GPU":        {[]Live{{Over: time.Second}}, &Hook{}, false, "No GPU has worked in the last 1.00 s; no step is found yet.", 0, false},
		"nothing":       {nil, &Hook{}, false, "No process is recorded yet.", 0, false},
		"hook":          {nil, some, false, "2 processes are recorded, 1 process has its recording, 1 process waits for steady steps and 1 process is not recorded.", 0, false},
	} {
		a := AnswerLive("a job", c.live, c.h, c.gone)
		if a.Tone != gpuprof.TonePlain || a.Sentence != c.sentence || !strings.HasPrefix(a.Verdict, "recording") {
			t.Errorf("%s: %+v", name, a)
		}
		if got := a.Bar != nil && len(a.Bar.Parts) == c.parts && a.Bar.Drawable(); got != (c.parts > 0) {
			t.Errorf("%s: bar %+v", name, a.Bar)
		}
		if got := a.Action.Command == "gpuprof analyze 'a job'"; got != c.command {
			t.Errorf("%s: action %+v", name, a.Action)
		}
	}
}

// What a program left says how it ended, and why nothing was recorded; a program that failed is named first.
func TestAnswerOfARecording(t *testing.T) {
	of := func(change func(*Result)) *Result {
		r := &Result{Command: []string{"/usr/bin/python3", "train.py"}, WallS: 12.3}
		change(r)
		return r
	}
	none := []gpuprof.Warning{{Code: "no-python", Text: "this is no Python program", Fix: "record it with --cuda"}}
	for name, c := range map[string]struct {
		of               *Result
		verdict          string
		tone             gpuprof.Tone
		sentence, action string
	}{
		"recorded": {of(func(r *Result) { r.Traces = []string{"a", "b"}; r.Warnings = none }), "recorded", gpuprof.TonePlain,
			"python3 ended with exit code 0 after 12.3 s, and left 2 recordings.", "Give the folder of this file to gpuprof analyze."},
		"no recorder": {of(func(r *Result) { r.Warnings = none }), "not recorded", gpuprof.ToneUnsure,
			"python3 ended with exit code 0 after 12.3 s: this is no Python program.", "Record it with --cuda."},
		"no reason": {of(func(*Result) {}), "not recorded", gpuprof.ToneUnsure,
			"python3 ended with exit code 0 after 12.3 s, and nothing of it was recorded.", ""},
		"failed": {of(func(r *Result) { r.ExitCode = 3 }), "program failed", gpuprof.ToneBad,
			"python3 ended with exit code 3 after 12.3 s, and nothing of it was recorded.", "Correct the program's own failure, then record it again."},
		"failed, with a warning": {of(func(r *Result) { r.ExitCode, r.Warnings = 3, none }), "program failed", gpuprof.ToneBad,
			"python3 ended with exit code 3 after 12.3 s: this is no Python program.", "Correct the program's own failure, then record it again."},
		"ended by the user": {of(func(r *Result) { r.ExitCode, r.Signal = 130, "interrupt"; r.Traces = []string{"a"} }), "recorded", gpuprof.TonePlain,
			"python3 was ended by a signal (interrupt) after 12.3 s, and left 1 recording.", "Give the folder of this file to gpuprof analyze."},
		"signal": {of(func(r *Result) { r.ExitCode, r.Signal = 137, "killed"; r.Traces = []string{"a"} }), "program failed", gpuprof.ToneBad,
			"python3 was ended by a signal (killed) after 12.3 s, and left 1 recording.", "Give the folder of this file to gpuprof analyze."},
		"stopped": {of(func(r *Result) { r.ExitCode, r.Stopped = 143, true; r.Traces = []string{"a"} }), "recorded", gpuprof.TonePlain,
			"python3 was ended because its steps are recorded (--stop-after) after 12.3 s, and left 1 recording.", "Give the folder of this file to gpuprof analyze."},
	} {
		a, action := c.of.Answer(), ""
		if a.Action != nil {
			action = a.Action.Text
		}
		if a.Verdict != c.verdict || a.Tone != c.tone || a.Sentence != c.sentence || action != c.action {
			t.Errorf("%s: [%s] %s %q, action %q", name, a.Verdict, a.Tone, a.Sentence, action)
		}
	}
}

// A proposed command is one line, so an argument of several lines is a placeholder in it.
func TestStoredCommandIsOneLine(t *testing.T) {
	r := newResult(&Options{Args: []string{"python", "-c", "import time\ntime.sleep(1)", "a b"}})
	if got := strings.Join(r.Command, "|"); got != "python|-c|YOUR CODE|a b" {
		t.Errorf("the command is %q", got)
	}
}
