package record

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The history of a program's memory is on from its first use of a device to the last
// recorded step, and is kept at its end and at an out-of-memory error; its output and exit
// code are its own.
func TestMemory(t *testing.T) {
	for _, c := range []struct {
		args     string
		exit     int
		recorded int  // steps; -1: no snapshot
		oom      bool // in the snapshot
		note     string
		stdout   string
		stderr   string
	}{
		{"device 40", 0, 5, false, "", "trained 40\nhistory [['all', 'python'], [None, 'all']] [False, False]\n", ""},
		{"device 4", 0, 0, false, "", "trained 4\nhistory [['all', 'python']] [True, True]\n", ""},
		{"device-oom 4", 1, 0, true, "", "history [['all', 'python']]", "OutOfMemoryError: CUDA out of memory"},
		{"device-oom-copes 4", 0, 5, true, "", "trained 30\n", ""},
		{"device-oom-exits 4", 9, 0, true, "", "", ""},
		{"device-own 30", 0, -1, false, "records the history of its memory itself, so gpuprof stood back; give the snapshot", "trained 30\nhistory [['all', 'all']] [False, False]\n", ""},
		{"device-none 30", 0, -1, false, "used no GPU, so there is no memory of one to record; move the model", "trained 30\n", ""},
		{"device-none 4", 0, -1, false, "used no GPU", "trained 4\n", ""},
		{"no-torch", 0, -1, false, "no import of torch was seen in the Python process of the program, so there is no snapshot; leave out --memory", "plain\n", "plain error\n"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			b := newTestbed(t, strings.Fields(c.args)...)
			b.options.Memory = true
			r := b.run()
			if r.ExitCode != c.exit {
				t.Errorf("exit code %d, want %d; stderr: %s", r.ExitCode, c.exit, b.err)
			}
			if !strings.HasPrefix(b.out, c.stdout) || !strings.Contains(b.err, c.stderr) || c.stderr == "" && b.err != "" {
				t.Errorf("the program wrote %q and %q, want %q and %q", b.out, b.err, c.stdout, c.stderr)
			}
			notes := ""
			for _, w := range r.Warnings {
				notes += w.Sentence() + "\n"
			}
			if !strings.Contains(notes, c.note) || c.note == "" && notes != "" {
				t.Errorf("notes %q, want %q", notes, c.note)
			}
			if left, _ := filepath.Glob(filepath.Join(b.dir, "*.part*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if c.recorded < 0 {
				if len(r.Traces) > 0 {
					t.Errorf("recorded %v", r.Traces)
				}
				return
			}
			if len(r.Traces) != 1 || !strings.HasPrefix(filepath.Base(r.Traces[0]), "snapshot-") {
				t.Fatalf("recorded %v, want one snapshot; %+v", r.Traces, r.Hook)
			}
			if p := r.Hook.Processes[0]; p.Recorded != c.recorded {
				t.Errorf("%d recorded steps, want %d", p.Recorded, c.recorded)
			}
			text, err := os.ReadFile(r.Traces[0])
			if err != nil {
				t.Fatal(err)
			}
			if got := bytes.Contains(text, []byte("oom")); got != c.oom {
				t.Errorf("an out-of-memory error in the snapshot: %v, want %v", got, c.oom)
			}
		})
	}
}

// Only the steps after the recording ran without the history, so those alone are compared.
func TestMemoryCost(t *testing.T) {
	b := newTestbed(t, "device", "40")
	b.options.Memory = true
	r := b.run()
	if o := r.Overhead; o == nil || o.BeforeS != 0 || o.DuringS <= 0 || o.AfterS <= 0 || o.Ratio <= 0 {
		t.Errorf("overhead %+v, want recorded steps compared with those after", o)
	}
}
