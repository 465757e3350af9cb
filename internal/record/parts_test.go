package record

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestReadStatus(t *testing.T) {
	path := filepath.Join(t.TempDir(), statusName)
	lines := []string{
		`{"event": "loaded", "pid": 7, "python": "3.12.1"}`,
		`{"event": "error", "pid": 8, "where": "install", "text": "OSError"}`,
		`{"event": "torch", "pid": 7, "version": "2.4.0", "rank": 1}`,
		`not JSON`,
		`{"event": "begin", "pid": 7, "kind": "module", "after": 10, "rank": null}`,
		`{"event": "trace", "pid": 7, "kind": "module", "file": "trace-rank1.json", "bytes": 5, "whole": true, "steps": 5, "complete": true}`,
		`{"event": "times", "pid": 7, "before": [1, 2], "during": [3], "after": [4, 5]}`,
		`{"event": "exit", "pid": 7, "kind": "module", "steps": 31}`,
		`{"event": "begin", "pid": 9, "kind": "window", "after": 0}`,
		`{"event": "step", "pid": 9, "recorded": 2}`,
		`{"event": "empty", "pid": 9}`,
		`{"event": "begin", "pid": 11, "kind": "optimizer", "after": 10}`,
		`{"event": "step", "pid": 11, "recorded": 3}`,
		`{"event": "nested", "pid": 10}`,
		`{"event": "tr`,
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	want := Hook{
		Loaded: 1, Python: "3.12.1", Nested: true, Errors: []string{"install: OSError"},
		Processes: []Process{
			{PID: 7, Torch: "2.4.0", Rank: 1, Kind: "module", Steps: 31, After: 10, Recorded: 5, Began: true, Complete: true,
				File: "trace-rank1.json", Bytes: 5, Whole: true, Before: []float64{1, 2}, During: []float64{3}, Later: []float64{4, 5}},
			{PID: 9, Torch: "2.4.0", Rank: -1},
			{PID: 11, Torch: "2.4.0", Rank: -1, Kind: "optimizer", After: 10, Recorded: 3, Began: true},
		},
	}
	if diff := cmp.Diff(want, readStatus(path), cmpopts.IgnoreUnexported(Hook{})); diff != "" {
		t.Error(diff)
	}
	if got := readStatus(path + ".no"); len(got.Processes) > 0 {
		t.Errorf("without a file: %+v", got)
	}
}

// The hook's file may hold anything: a full disk, another program's lines.
func FuzzReadStatus(f *testing.F) {
	f.Add([]byte(`{"event": "times", "pid": 7, "before": [1], "during": [], "after": [2]}` + "\n" + `{"event": "begin", "after": {}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), statusName)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		h := readStatus(path)
		for i := range h.Processes {
			if o := overheadOf(&h.Processes[i]); o != nil && len(h.Processes[i].During) == 0 {
				t.Error("an overhead of no recorded step")
			}
		}
	})
}

func TestOverhead(t *testing.T) {
	p := &Process{Before: []float64{9, 1, 1, 1, 1, 1}, During: []float64{5, 2, 2, 2, 2}, Later: []float64{1, 1, 1}, ExportS: 0.5}
	if diff := cmp.Diff(&Overhead{BeforeS: 1, DuringS: 2, AfterS: 1, Ratio: 2, ExportS: 0.5}, overheadOf(p)); diff != "" {
		t.Error(diff)
	}
	if o := overheadOf(&Process{During: []float64{1, 1}}); o.Ratio != 0 {
		t.Errorf("a ratio of %v to nothing", o.Ratio)
	}
	o := overheadOf(&Process{Before: []float64{1, 1, 1}, During: []float64{2, 2, 2}, Later: []float64{3, 3, 3}})
	if !o.Uneven || o.Ratio != 0 {
		t.Errorf("%+v of a program that changed its pace, want no ratio", o)
	}
	// A step that no one confirms: the first two recorded say nothing of the cost.
	if o := overheadOf(&Process{Before: []float64{1, 1, 1, 1}, During: []float64{1, 5142}}); o.Ratio != 0 {
		t.Errorf("a ratio of %v from two recorded steps", o.Ratio)
	}
	// An evaluation among five recorded steps is no cost of recording.
	if o := overheadOf(&Process{Before: []float64{1, 1, 1, 1}, During: []float64{1, 1, 1, 127, 1}, Later: []float64{1, 1, 1}}); o.Ratio != 1 {
		t.Errorf("a ratio of %v, with one long step of five", o.Ratio)
	}
	if overheadOf(&Process{Before: []float64{1}}) != nil {
		t.Error("an overhead without a recording")
	}
}

// The middle lies between the ends that are left out, and is no single step's where long
// and short ones take turns.
func TestMiddle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Float64Range(0, 1e6), 1, 50).Draw(t, "v")
		m := trimmedMean(v)
		below, above := 0, 0
		for _, x := range v {
			if x < m-1e-6 {
				below++
			}
			if x > m+1e-6 {
				above++
			}
		}
		if below > len(v)*4/5+1 || above > len(v)*4/5+1 {
			t.Fatalf("%v has %d below and %d above", m, below, above)
		}
	})
	long, short := 0.075, 0.006
	o := overheadOf(&Process{
		Before: []float64{long, short, long, short, long, short, long},
		During: []float64{long, short, long, short, long},
		Later:  []float64{short, long, short, long, short, long, short, long, short, long},
	})
	if o.Uneven || o.Ratio < 0.8 || o.Ratio > 1.25 {
		t.Errorf("%+v of steps whose batches come in pairs", o)
	}
}

func TestLooksPython(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct {
		args []string
		want bool
	}{
		{[]string{"python3", "x.py"}, true},
		{[]string{"/opt/venv/bin/python3.12"}, true},
		{[]string{"torchrun", "--nproc-per-node", "4", "train.py"}, true},
		{[]string{"accelerate", "launch", "x"}, true},
		{[]string{"env", "A=1", "python", "x"}, true},
		{[]string{"sh", "-c", "cd /x && python train.py"}, true},
		{[]string{"mpirun", "-n", "2", "python3", "a"}, true},
		{[]string{write("shebang", "#!/usr/bin/env python3\n")}, true},
		{[]string{"bash", write("job.sh", "set -e\nsrun torchrun x.py\n")}, true},
		{[]string{write("plain", "#!/bin/sh\n./simulate --steps 3\n")}, false},
		{[]string{"/bin/true"}, false},
		{[]string{"ls", "pythons"}, false},
		{[]string{"./cudaprog", "input.dat"}, false},
	} {
		if got := looksPython(c.args); got != c.want {
			t.Errorf("%v: %v, want %v", c.args, got, c.want)
		}
	}
	for text, want := range map[string]bool{
		"import jax\n":                        true,
		"import numpy\nfrom jax import jit\n": true,
		"import jax\nimport torch\n":          false,
		"import torch\n":                      false,
		"# import jax\n":                      false,
	} {
		if got := importsOtherFramework([]string{"python", write("s.py", text)}); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	h := &hook{dir: "/tmp/new"}
	for _, c := range []struct{ env, want string }{
		{"", "/tmp/new"},
		{"PYTHONPATH=", "/tmp/new"},
		{"PYTHONPATH=/a:/b", "/tmp/new:/a:/b"},
		{"PYTHONPATH=:/b", "/tmp/new::/b"},
		{envHook + "=/tmp/old PYTHONPATH=/tmp/old:/a", "/tmp/new:/a"},
		{envHook + "=/tmp/old PYTHONPATH=/tmp/old", "/tmp/new"},
	} {
		env := h.environWithHook(strings.Fields(c.env))
		if got := lookup(env, "PYTHONPATH"); got != c.want {
			t.Errorf("%q: PYTHONPATH %q, want %q", c.env, got, c.want)
		}
		if lookup(env, "KINETO_LOG_LEVEL") != "6" {
			t.Errorf("%q: PyTorch 2.15 prints its tracepoints to standard error", c.env)
		}
		if lookup(env, envHook) != "/tmp/new" {
			t.Errorf("%q: the hook is not named", c.env)
		}
	}
}

// The hook's parts in Python, with clocks of their own.
func TestHookParts(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "python3", "-B", "testdata/hook_test.py", "hook", "../../testdata/torchstub").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The tree is a shell and two processes below it, of which one has burned time
// and holds memory.
func TestTree(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `sleep 600 & python3 -c '
import sys, time
x = bytearray(50 << 20)
while time.process_time() < 0.3: pass
print("ready", flush=True)
sys.stdin.read()' <&3; kill $!`)
	in, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	hold, release, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close()
	cmd.Stdin, cmd.ExtraFiles = in, []*os.File{hold}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tr := startTree(context.Background(), cmd.Process.Pid, "")
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	// When it samples by itself depends on the machine: these are ours.
	tr.cancel()
	<-tr.done
	for range 2 {
		if !tr.sampleTree() {
			t.Fatal("the tree is gone")
		}
	}
	tracks, peak := tr.stopSampling()
	if err := errors.Join(release.Close(), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	most := map[string]float64{}
	for name, track := range tracks {
		if len(track.Value) != len(track.TimeS) || len(track.Value) < 2 {
			t.Errorf("%s has %d values at %d times", name, len(track.Value), len(track.TimeS))
		}
		for _, v := range track.Value {
			most[name] = math.Max(most[name], float64(v))
		}
	}
	if most["program_processes"] < 3 || most["program_cpu_time"] < 0.2 || peak < 50<<20 || float64(peak) != most["program_rss"] {
		t.Errorf("most of each: %v, peak %d; want three processes or more, some processor time and 50 MiB", most, peak)
	}
}

func TestTreeThins(t *testing.T) {
	tr := &tree{tracks: []treeTrack{{name: "a"}}}
	for i := range capacity {
		tr.times = append(tr.times, float64(i))
		tr.tracks[0].values = append(tr.tracks[0].values, 0)
	}
	tr.thinReadings()
	if len(tr.times) != capacity/2 || tr.times[1] != 2 || len(tr.tracks[0].values) != capacity/2 {
		t.Errorf("%d left, the second of %v", len(tr.times), tr.times[1])
	}
}

// Signals that come before there is a program wait for it.
func TestEarlySignals(t *testing.T) {
	s := &signals{}
	s.passSignal(os.Interrupt)
	if front, _ := foreground(); !front && len(s.early) != 1 {
		t.Errorf("kept %v", s.early)
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "240")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.early = []os.Signal{os.Interrupt}
	s.passTo(cmd.Process)
	err := cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGINT {
		t.Errorf("the program ended with %v, want an interrupt", err)
	}
}

// The pause between two samples follows from the processor time of a sample:
// one that waited long for a processor is no reason to sample less often.
func TestSampleCostIsProcessorTime(t *testing.T) {
	now := time.Duration(0)
	each := 3 * time.Microsecond
	tr := &tree{root: os.Getpid(), proc: "/proc", start: time.Now(), page: 4096, buf: make([]byte, 4096), tracks: make([]treeTrack, treeTracks),
		cpu: func() time.Duration { now += each; return now }}
	if cost, alive := tr.sampleTimed(); !alive || cost != each {
		t.Errorf("cost %v, alive %v; want %v of processor time", cost, alive, each)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if a, b := threadTime(), threadTime(); a <= 0 || b < a {
		t.Errorf("processor time %v, then %v", a, b)
	}
}

// A child that replaces PYTHONPATH loads no hook: it is named, and the program is not said to import no torch.
func TestUnhookedChildIsNamed(t *testing.T) {
	proc := t.TempDir()
	write := func(pid, name, environ string) {
		for file, text := range map[string]string{"stat": pid + " (" + name + ") S " + strings.Repeat("1 ", 40), "environ": environ} {
			path := filepath.Join(proc, pid, file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	const hooked = "HOME=/root\x00PYTHONPATH=/tmp/hook:/lib\x00"
	write("10", "python3", hooked)
	write("11", "python3.11", "PYTHONPATH=/lib\x00")
	write("12", "bash", "PYTHONPATH=/lib\x00")
	tr := &tree{proc: proc, buf: make([]byte, 4096), hook: "/tmp/hook", unhooked: map[int]string{}}
	var sum [treeTracks]float64
	for _, pid := range []int{10, 11, 12} {
		tr.readProcess(pid, &sum)
	}
	if diff := cmp.Diff(map[int]string{11: "python3.11"}, tr.unhooked); diff != "" {
		t.Error(diff)
	}
	r := &Result{Hook: &Hook{Loaded: 1}, unhooked: tr.unhooked}
	explainHook(&Options{Args: []string{"python3"}}, r)
	if len(r.Warnings) != 1 || r.Warnings[0].Code != "no-hook" || !strings.Contains(r.Warnings[0].Text, "process 11 (python3.11)") {
		t.Errorf("says %+v", r.Warnings)
	}
	write("11", "python3.11", hooked) // it had been seen between fork and exec
	if tr.readProcess(11, &sum); len(tr.unhooked) > 0 {
		t.Errorf("%v are said to lack the hook", tr.unhooked)
	}
}
