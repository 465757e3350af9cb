package tune_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/tune"
)

// TestDecodeProgram: the runs of a program come back as they were written, and figures that no run has are refused.
func TestDecodeProgram(t *testing.T) {
	good := tune.ProgramRun{Key: "threads=1", Plan: [2]int{8, 20}, Cost: 0.01, Seconds: 3, Losses: []string{"0x1p+00"}, Hook: &tune.HookReport{Steps: 20}}
	for _, c := range []struct {
		name string
		run  tune.ProgramRun
		fine bool
	}{
		{"measured", good, true},
		{"failed", tune.ProgramRun{Failed: "it ended with exit status 1"}, true},
		{"stopped", tune.ProgramRun{Seconds: 40, Stopped: tune.StopBudget, AtLeast: 0.5, EndS: 100}, true},
		{"negative energy", tune.ProgramRun{Cost: 1, Joules: -1}, false},
		{"neither", tune.ProgramRun{Seconds: 1}, false},
		{"negative", tune.ProgramRun{Cost: -1}, false},
		{"a thousand years", tune.ProgramRun{Cost: 1, Seconds: 3e10}, false},
	} {
		r := &tune.Result{Head: document.NewHead(document.Tune, gpuprof.Tool{}), Goal: tune.Throughput, Program: &tune.Program{Command: []string{"python", "a b.py"}, Runs: []tune.ProgramRun{c.run}}}
		var text bytes.Buffer
		if err := document.Encode(&text, r); err != nil {
			t.Fatal(err)
		}
		got, err := tune.Decode(text.Bytes(), "t.json")
		switch {
		case c.fine && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.fine && got.Program.Runs[0].Cost != c.run.Cost:
			t.Errorf("%s: read %+v", c.name, got.Program.Runs[0])
		case !c.fine && (err == nil || !strings.Contains(err.Error(), "damaged")):
			t.Errorf("%s: %v", c.name, err)
		}
		if c.fine && got.Program.CommandText() != "python 'a b.py'" {
			t.Errorf("the command is %s", got.Program.CommandText())
		}
	}
}

func TestLossText(t *testing.T) {
	var none *tune.LossCheck
	for want, l := range map[string]*tune.LossCheck{"": none, "same bits": {Verdict: tune.SameBits}, "within limit (2.0e-06)": {Verdict: tune.Within, Deviation: 2e-6}, "changed": {Verdict: tune.Changed, Deviation: -1}} {
		if got := l.Text(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
