package program

import (
	"testing"
	"time"

	"github.com/gpuprof/gpuprof/internal/record"
)

// A line on a terminal says what a recording waits for.
func TestStateOfRecording(t *testing.T) {
	t.Parallel()
	p := &program{Cmd: &Cmd{Steps: 5, TimeWindow: 2 * time.Second}, options: record.Options{Skip: 10}, dir: "profile"}
	for want, processes := range map[string][]record.Process{
		"waiting for the program to import torch": nil,
		"waiting for step 11":                     {{PID: 1}},
		"recording 5 steps":                       {{PID: 1}, {PID: 2, Began: true, Kind: "optimizer"}},
		"recording step 3 of 5":                   {{PID: 2, Began: true, Kind: "optimizer", Recorded: 2}},
		"recording 2s of time":                    {{PID: 1, Began: true, Kind: "window"}},
		"the steps are recorded in profile":       {{PID: 1, Began: true, Kind: "optimizer", File: "trace-1.json"}, {PID: 2}},
	} {
		if got := p.stateOf(&record.Hook{Processes: processes}); got != want {
			t.Errorf("%v: %q, want %q", processes, got, want)
		}
	}
}
