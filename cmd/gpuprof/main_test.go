package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/testkit"
	"github.com/gpuprof/gpuprof/internal/testkit/sim"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/testkit/toy"
)

// wired is gpuprof as these tests start it.
var wired wiring

// workloadNamed is a workload of these tests, nil for none.
func (w *wiring) workloadNamed(name string) workloads.Workload {
	return (&cli.App{Tables: w.tables()}).WorkloadNamed(name)
}

func TestMain(m *testing.M) {
	// gpuprof starts itself by its file, to record a program for one: the file is this test,
	// and under its own name it would run every test again, and in them again.
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		os.Args[0] = "gpuprof"
	}
	// Many tests wait for processes, so twice as many as there are processors run at a time.
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	// Hundreds of short processes would each collect garbage a dozen times.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	// The race detector otherwise sleeps a second at every process's end.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")); err != nil {
		panic(err)
	}
	if runWorker() {
		return // this process was started as a worker of a workload that is measured here
	}
	// A script that names a simulated driver gets it in every process it starts.
	wired.driver = os.Getenv("GPUPROF_TEST_DRIVER")
	if root := os.Getenv("GPUPROF_TEST_ROOT"); root != "" {
		wired.root = root // with a kernel's log and lists of GPUs of its own
	}
	if os.Getenv("GPUPROF_TEST_WORKLOAD") != "" {
		wired.more = []workloads.Workload{toy.Workload{}}
	}
	// scripts/smoke.sh measures memory in full, as the tests of workloads/device/host do.
	wired.host = host.Options{LargestCopy: 1 << 20, CeilingTries: 1}
	// A gate lets a process end in any case, unless a script is about one that never does.
	wired.limit = testkit.GiveUp
	if d, err := time.ParseDuration(os.Getenv("GPUPROF_TEST_LIMIT")); err == nil {
		wired.limit = d
	}
	wired.recorder = strings.ReplaceAll(os.Getenv("GPUPROF_TEST_RECORDER"), ",", "\n")
	wired.clock = tickingClock(os.Getenv("GPUPROF_TEST_CLOCK"))
	testscript.Main(m, map[string]func(){"gpuprof": func() { os.Exit(runProcess(&wired)) }})
}

// tickingClock goes on by a tick whenever it is read, so that a budget is a number of
// measurements and not of seconds: it lasts as long on a busy machine.
func tickingClock(tick string) func() time.Time {
	d, err := time.ParseDuration(tick)
	if err != nil {
		return nil
	}
	var reads atomic.Int64
	began := time.Now()
	return func() time.Time { return began.Add(time.Duration(reads.Add(1)) * d) }
}

// TestProcesses starts processes that are built as the test is, with the race detector where
// it has it: in them package main itself starts goroutines, passes signals on and waits.
func TestProcesses(t *testing.T) {
	t.Parallel() // like the help's examples: both mostly wait for processes
	runScripts(t, "testdata/processes")
}

func runScripts(t *testing.T, folder string) {
	t.Helper()
	vectors, err := filepath.Abs("../../testdata/e3nn/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	traces, err := filepath.Abs("../../testdata/traces")
	if err != nil {
		t.Fatal(err)
	}
	driver := sim.Library(t)
	testscript.Run(t, testscript.Params{
		Dir:                 folder,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("XDG_CACHE_HOME", filepath.Join(e.WorkDir, "cache"))
			e.Setenv("VECTORS", vectors)
			e.Setenv("SERVING_VECTORS", filepath.Join(filepath.Dir(traces), "serving", "vectors.json"))
			e.Setenv("TRACES", traces)
			e.Setenv("MEMORY", filepath.Join(filepath.Dir(traces), "memory"))
			e.Setenv("DRIVER", driver)
			e.Setenv("DRIVER_LIBRARIES", filepath.Dir(driver)) // its cuBLAS and cuDNN
			e.Setenv("GORACE", os.Getenv("GORACE"))
			e.Values[testKey{}] = t
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":       exits,
			"exitsjson":   exitsJSON,
			"interrupt":   interrupt,
			"jsonfield":   jsonField,
			"verdict":     anyVerdict,
			"fits":        fits,
			"journal":     journal,
			"rocpd":       rocpd,
			"jobtraces":   jobtraces,
			"cudaprogram": cudaProgram,
			"await":       await,
		},
	})
}

// exits runs `exits CODE gpuprof ARG…`. Whatever the failure, standard error
// holds sentences of gpuprof's and no usage text.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARG…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	if got := codeOf(ts, err); got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
	checkSentences(ts, ts.ReadFile("stderr"))
}

// exitsJSON runs `exitsjson CODE gpuprof ARG…`: the last line of standard error is the error as
// an object that holds the code.
func exitsJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitsjson CODE COMMAND ARG…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := codeOf(ts, ts.Exec(args[1], args[2:]...)); got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
	lines := strings.Split(strings.TrimSpace(ts.ReadFile("stderr")), "\n")
	checkSentences(ts, strings.Join(lines[:len(lines)-1], "\n"))
	var v struct{ Error cli.Complaint }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &v); err != nil || v.Error.Message == "" || v.Error.ExitCode != want {
		ts.Fatalf("standard error ends with %q (%v)", lines[len(lines)-1], err)
	}
}

// anyVerdict runs `verdict gpuprof gate ARG…`, where noise decides which
// verdict it is: any of them is fine, a failure is not.
func anyVerdict(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: verdict COMMAND ARG…")
	}
	switch code := codeOf(ts, ts.Exec(args[0], args[1:]...)); code {
	case cli.ExitOK, cli.ExitRegression, cli.ExitInconclusive:
	default:
		ts.Fatalf("exit code %d is no verdict", code)
	}
}

func codeOf(ts *testscript.TestScript, err error) int {
	if err == nil {
		return 0
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		ts.Fatalf("%v", err)
	}
	return exit.ExitCode()
}

func checkSentences(ts *testscript.TestScript, stderr string) {
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, "gpuprof: ") {
			ts.Fatalf("standard error holds %q, which does not begin with gpuprof:", line)
		}
	}
}

// interrupt runs `interrupt GLOB gpuprof ARG…`: it waits until a file matches
// GLOB (the cache of a passed check: sampling comes soon), sends SIGINT a while
// later and wants exit code 130. Where sampling had not begun by then, which is
// another case, it begins again and waits longer, so that no machine is too slow.
// The output lands in stdout.txt and stderr.txt.
func interrupt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: interrupt GLOB COMMAND ARG…")
	}
	for delay := 500 * time.Millisecond; ; delay *= 2 {
		stdout, stderr := interruptOnce(ts, args, delay)
		if strings.Contains(stderr, "before anything was measured") && delay < testkit.GiveUp {
			found, _ := filepath.Glob(ts.MkAbs(args[0]))
			for _, f := range found {
				ts.Check(os.Remove(f))
			}
			continue
		}
		checkSentences(ts, stderr)
		ts.Check(os.WriteFile(ts.MkAbs("stdout.txt"), []byte(stdout), 0o600))
		ts.Check(os.WriteFile(ts.MkAbs("stderr.txt"), []byte(stderr), 0o600))
		return
	}
}

func interruptOnce(ts *testscript.TestScript, args []string, delay time.Duration) (out, errOut string) {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(commandPath(ts, args[1]), args[2:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), &stdout, &stderr
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+ts.Getenv("XDG_CACHE_HOME"))
	ts.Check(cmd.Start())
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if found, _ := filepath.Glob(ts.MkAbs(args[0])); len(found) > 0 {
			break
		}
		if time.Since(begin) > testkit.GiveUp {
			_ = cmd.Process.Kill()
			ts.Fatalf("no file matched %s; stderr: %s", args[0], &stderr)
		}
	}
	time.Sleep(delay)
	ts.Check(cmd.Process.Signal(syscall.SIGINT))
	if got := codeOf(ts, cmd.Wait()); got != cli.ExitInterrupted {
		ts.Fatalf("exit code %d, want %d; stderr: %s", got, cli.ExitInterrupted, &stderr)
	}
	return stdout.String(), stderr.String()
}

// commandPath is the program that exec would start: the script's PATH decides, not this process's.
func commandPath(ts *testscript.TestScript, name string) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path
		}
	}
	ts.Fatalf("no %s in the script's PATH", name)
	return ""
}

// jsonField runs `jsonfield FILE PATH WANT`: PATH is dotted, a number indexes a
// list, and a last "len" counts it. FILE may be stdout.
func jsonField(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: jsonfield FILE PATH WANT")
	}
	var v any
	if err := json.Unmarshal([]byte(ts.ReadFile(args[0])), &v); err != nil {
		ts.Fatalf("%s is not JSON: %v", args[0], err)
	}
	for _, key := range strings.Split(args[1], ".") {
		list, isList := v.([]any)
		object, _ := v.(map[string]any)
		i, err := strconv.Atoi(key)
		switch {
		case key == "len" && isList:
			v = float64(len(list))
		case isList && err == nil && i < len(list):
			v = list[i]
		case object[key] != nil:
			v = object[key]
		default:
			ts.Fatalf("%s has nothing at %s of %s", args[0], key, args[1])
		}
	}
	got, err := json.Marshal(v)
	ts.Check(err)
	if strings.Trim(string(got), `"`) != args[2] {
		ts.Fatalf("%s is %s, want %s", args[1], got, args[2])
	}
}
