package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/read/kineto"
)

// helperEnv makes this test binary a gpuprof that runs one program, in a
// process that a test can send signals to.
const helperEnv = "GPUPROF_RECORD_HELPER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperEnv); dir != "" {
		r, err := Run(context.Background(), defaults(dir, os.Args[1:]...))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(99)
		}
		b, err := json.Marshal(r)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "result.json"), b, 0o600)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(99)
		}
		os.Exit(r.ExitCode)
	}
	os.Exit(m.Run())
}

// defaults wait long for steps: on a busy machine the window of time would
// otherwise come before them.
func defaults(dir string, args ...string) Options {
	return Options{Args: args, Dir: dir, Steps: 5, Skip: DefaultSkip, Window: 300 * time.Millisecond, WindowAfter: 4 * time.Minute}
}

// testbed is a place to run a program in.
type testbed struct {
	t        *testing.T
	work     string
	dir      string
	env      []string
	options  Options
	out, err string // what the program wrote
}

func newTestbed(t *testing.T, args ...string) *testbed {
	t.Helper()
	stub, err := filepath.Abs("../../testdata/torchstub")
	if err != nil {
		t.Fatal(err)
	}
	b := &testbed{t: t, work: t.TempDir(), dir: t.TempDir()}
	b.env = setEnviron(os.Environ(), map[string]string{"PYTHONPATH": stub, "PYTHONDONTWRITEBYTECODE": "1"})
	b.options = defaults(b.dir, b.command(args...)...)
	return b
}

func (b *testbed) command(args ...string) []string {
	script, err := filepath.Abs("testdata/program.py")
	if err != nil {
		b.t.Fatal(err)
	}
	return append([]string{"python3", script}, args...)
}

// file is a fresh one in the work folder, for the program to write to.
func (b *testbed) file(name string) *os.File {
	f, err := os.Create(filepath.Join(b.work, name))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { f.Close() })
	return f
}

func (b *testbed) read(name string) string {
	text, err := os.ReadFile(filepath.Join(b.work, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

func (b *testbed) run() *Result {
	b.t.Helper()
	b.options.Env = b.env
	b.options.Stdout, b.options.Stderr = b.file("stdout"), b.file("stderr")
	r, err := Run(b.t.Context(), b.options)
	if err != nil {
		b.t.Fatal(err)
	}
	b.out, b.err = b.read("stdout"), b.read("stderr")
	return r
}

// steps reads a trace with gpuprof's own reader and counts the recorded steps.
func (b *testbed) steps(path string) int {
	b.t.Helper()
	f, err := os.Open(path)
	if err != nil {
		b.t.Fatal(err)
	}
	defer f.Close()
	tr, err := kineto.Read(b.t.Context(), f, path, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	n := 0
	for i := range tr.Host {
		if strings.HasPrefix(tr.Name(tr.Host[i].Name), "ProfilerStep#") {
			n++
		}
	}
	return n
}

// Each way a program can have steps, and what the hook makes of it.
func TestWays(t *testing.T) {
	for _, c := range []struct {
		args   string
		exit   int
		kind   string // of the first trace; "" no trace at all
		traces int
		steps  int // in each trace; -1 not looked at
		note   string
		stdout string
		stderr string // "" silent
	}{
		{"train 30", 0, "optimizer", 1, 5, "", "trained 30\n", ""},
		{"train 15", 0, "optimizer", 1, 5, "", "trained 15\n", ""},
		{"train 13", 0, "optimizer", 1, 3, "ended after 3 of 5 steps to record; a lower --skip", "trained 13\n", ""},
		{"train 8", 0, "", 0, 0, "ended after 8 steps, before the recording began (--skip 10); try gpuprof run --skip 2", "trained 8\n", ""},
		{"gan 30", 0, "optimizer", 1, 5, "steps 2 optimizers, and each recorded step ends with number 1 of them to have stepped (SGD)", "trained 30\n", ""},
		{"wgan 30", 0, "optimizer", 1, 5, "steps 2 optimizers, and each recorded step ends with number 2 of them to have stepped (Adam)", "trained 30\n", ""},
		{"backward-optimizers 30", 0, "module", 1, 5, "", "trained 30\n", ""},
		{"two-stages 30", 0, "optimizer", 1, 5, "number 2 of them to have stepped (SGD)", "", ""},
		{"long-step", 0, "optimizer", 1, 0, "took longer than 10ms, so the trace ends within it", "trained 30\n", ""},
		{"long-steps 30", 0, "optimizer", 1, 1, "ended after 1 of 5 steps, since more would have taken it beyond 1ns", "trained 30\n", ""},
		{"prefetch 30", 0, "module", 1, 5, "", "inferred 30\n", ""},
		{"workers 30", 0, "optimizer", 1, 5, "", "trained 30\n", ""},
		{"spawn-workers 30", 0, "optimizer", 1, 5, "", "trained 30\n", ""},
		{"infer 30", 0, "module", 1, 5, "", "inferred 30\n", ""},
		{"compiled 30", 0, "module", 1, 5, "", "inferred 30\n", ""},
		{"bad-model 30", 0, "module", 1, 5, "", "coped 30\n", ""},
		{"loader 30", 0, "loader", 1, 5, "", "", ""},
		{"window", 0, "window", 1, 0, "shows no step", "", ""},
		{"window-cut-short", 0, "optimizer", 1, 5, "", "trained 30\n", ""},
		{"window-then-train 30", 0, "optimizer", 1, 5, "", "trained 30\n", ""},
		{"own-profiler 30", 0, "", 0, 0, "profiles itself, so gpuprof stood back", "trained 30\n", "UserWarning: the stand-in"},
		{"own-late 30", 0, "optimizer", 1, -1, "profiles itself", "trained 30\nown events", "UserWarning: the stand-in"},
		{"own-lower 30", 0, "", 0, 0, "profiles itself", "trained 30\n", ""},
		{"raise 13", 1, "optimizer", 1, -1, "of 5 steps", "", "RuntimeError: planted"},
		{"raise 30", 1, "optimizer", 1, 5, "", "", "RuntimeError: planted"},
		{"raise 4", 1, "", 0, 0, "before the recording began", "", "RuntimeError: planted"},
		{"exit-hard 20", 42, "optimizer", 1, 5, "", "", ""},
		{"exit-code 0", 0, "optimizer", 1, 5, "", "trained 30\n", ""},
		{"exit-code 1", 1, "optimizer", 1, 5, "", "trained 30\n", ""},
		{"exit-code 42", 42, "optimizer", 1, 5, "", "trained 30\n", ""},
		{"launch 2", 0, "optimizer", 2, 5, "", "trained 30\ntrained 30\n", ""},
		{"fork-ranks", 0, "optimizer", 2, 5, "", "trained 30\ntrained 30\n", ""},
		{"fork-short", 0, "optimizer", 2, 3, "ended after 3 of 5", "trained 13\ntrained 13\n", ""},
		{"spawn-ranks", 0, "optimizer", 2, 5, "", "trained 30\ntrained 30\n", ""},
		{"fork-while-recorded 30", 0, "optimizer", 1, 5, "", "trained 3\ntrained 30\n", ""},
		{"fork-and-train 30", 0, "optimizer", 1, 5, "was forked while its parent was recorded", "trained 30\ntrained 30\n", ""},
		{"late-end 13", 0, "optimizer", 1, 3, "ended after 3 of 5", "", ""},
		{"two-threads 60", 0, "optimizer", 1, 5, "and other threads trained too (1); train in one thread", "trained 60\ntrained 60\n", ""},
		{"no-torch", 0, "", 0, 0, "no import of torch was seen in the Python process", "plain\n", "plain error\n"},
		{"sampled", 0, "plain", 1, 0, "so there are samples of its main thread, and no operators", "sampled\n", ""},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			b := newTestbed(t, strings.Fields(c.args)...)
			b.options.Nsys = NsysNever
			if strings.HasPrefix(c.args, "window") {
				b.options.WindowAfter = 500 * time.Millisecond
			}
			switch c.args {
			case "long-step":
				b.options.Longest, b.options.SkipExact = time.Millisecond, true
			case "long-steps 30":
				b.options.Longest = time.Nanosecond
			}
			if c.args == "window-cut-short" {
				b.options.Window = 4 * time.Minute // the first step ends it
			}
			r := b.run()
			if r.ExitCode != c.exit {
				t.Errorf("exit code %d, want %d; stderr: %s", r.ExitCode, c.exit, b.err)
			}
			if len(r.Traces) != c.traces {
				t.Fatalf("traces %v, want %d; %+v; stderr: %s", r.Traces, c.traces, r.Hook, b.err)
			}
			for _, path := range r.Traces {
				if n := b.steps(path); c.steps >= 0 && n != c.steps {
					t.Errorf("%s holds %d steps, want %d", path, n, c.steps)
				}
			}
			if got := kindOf(r); c.kind != "" && got != c.kind {
				t.Errorf("steps by %q, want %q", got, c.kind)
			}
			notes := ""
			for _, w := range r.Warnings {
				if w.Code == "" || strings.Contains(w.Text, "; ") {
					t.Errorf("%+v: a code, and the fix apart", w)
				}
				notes += w.Sentence() + "\n"
			}
			if !strings.Contains(notes, c.note) || c.note == "" && notes != "" {
				t.Errorf("notes %q, want %q", notes, c.note)
			}
			if !strings.HasPrefix(b.out, c.stdout) {
				t.Errorf("standard output %q, want %q", b.out, c.stdout)
			}
			if !strings.Contains(b.err, c.stderr) || c.stderr == "" && b.err != "" {
				t.Errorf("standard error %q, want %q", b.err, c.stderr)
			}
			if left, _ := filepath.Glob(filepath.Join(b.dir, "*.part*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func kindOf(r *Result) string {
	for _, p := range r.Hook.Processes {
		if p.File != "" {
			return p.Kind
		}
	}
	return ""
}

func TestRanksAreNamed(t *testing.T) {
	b := newTestbed(t, "launch", "3")
	r := b.run()
	var names []string
	for _, p := range r.Traces {
		names = append(names, filepath.Base(p))
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "trace-rank0.json trace-rank1.json trace-rank2.json" {
		t.Errorf("traces %s", got)
	}
	if r.Overhead == nil || r.Overhead.Ratio <= 0 && !r.Overhead.Uneven || r.Overhead.BeforeS <= 0 || r.Overhead.DuringS <= 0 || r.Overhead.AfterS <= 0 {
		t.Errorf("overhead %+v, want all of it measured", r.Overhead)
	}
}

// Seen from inside the program nothing of the hook is left once it is done,
// and random numbers are what they were.
func TestLeavesNothingBehind(t *testing.T) {
	const steps = "2040" // 10 before the recording, 5 in it, 10 after it, and MOST_STEPS that are sampled
	b := newTestbed(t, "unchanged", steps)
	b.run()
	cmd := exec.CommandContext(t.Context(), "python3", b.command("unchanged", steps)[1:]...)
	cmd.Env = b.env
	bare, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if string(bare) != b.out {
		t.Errorf("with gpuprof:\n%s\nwithout:\n%s", b.out, bare)
	}
}

func TestOptionsReachTheProfiler(t *testing.T) {
	b := newTestbed(t, "train", "30")
	b.options.Shapes, b.options.Stacks, b.options.Steps, b.options.Skip = true, true, 3, 0
	r := b.run()
	text, err := os.ReadFile(r.Traces[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"record_shapes": 1`, `"with_stack": 1`} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the trace does not say %s", want)
		}
	}
	if n := b.steps(r.Traces[0]); n != 3 {
		t.Errorf("%d steps, want 3", n)
	}
}

// An existing sitecustomize runs as it would without gpuprof, also when it fails.
func TestSitecustomizeIsChained(t *testing.T) {
	for name, c := range map[string]struct{ text, out, err string }{
		"runs":  {"import sys\nsys.stdout.write('mine ' + __name__ + '\\n')\n", "mine sitecustomize\ntrained 30\n", ""},
		"fails": {"raise RuntimeError('broken')\n", "trained 30\n", "RuntimeError: broken"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTestbed(t, "train", "30")
			site := t.TempDir()
			if err := os.WriteFile(filepath.Join(site, "sitecustomize.py"), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			b.env = setEnviron(b.env, map[string]string{"PYTHONPATH": site + ":" + lookup(b.env, "PYTHONPATH")})
			r := b.run()
			if b.out != c.out || !strings.Contains(b.err, c.err) || c.err == "" && b.err != "" {
				t.Errorf("wrote %q and %q", b.out, b.err)
			}
			if len(r.Traces) != 1 {
				t.Errorf("traces %v", r.Traces)
			}
		})
	}
}

// helper starts a gpuprof of its own session, so that signals are not taken
// for those of a terminal.
func (b *testbed) helper() *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	// A program that no signal ends must fail its test, not hold up all of them.
	ctx, cancel := context.WithTimeout(b.t.Context(), 4*time.Minute)
	b.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, exe, b.options.Args...)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // of a session of its own
	cmd.Dir, cmd.Env = b.work, setEnviron(b.env, map[string]string{helperEnv: b.dir})
	cmd.Stdout, cmd.Stderr = b.file("stdout"), b.file("stderr")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

func (b *testbed) waitFor(name string) {
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(b.work, name)); err == nil {
			return
		}
		if time.Since(begin) > 4*time.Minute {
			b.t.Fatalf("%s never appeared; stderr: %s", name, b.read("stderr"))
		}
	}
}

func (b *testbed) result() *Result {
	text, err := os.ReadFile(filepath.Join(b.dir, "result.json"))
	if err != nil {
		b.t.Fatal(err)
	}
	r := new(Result)
	if err := json.Unmarshal(text, r); err != nil {
		b.t.Fatal(err)
	}
	return r
}

func TestSignals(t *testing.T) {
	// What ignores a signal, as nohup does SIGHUP, has children that ignore it; of
	// what handles it they start with the default.
	handled := make(chan os.Signal, 1)
	signal.Notify(handled, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT)
	t.Cleanup(func() { signal.Stop(handled) })
	for _, c := range []struct {
		args   string
		signal syscall.Signal
		exit   int
		traces int
		out    string
	}{
		// Python turns SIGINT into an exception and then ends by the signal.
		{"endless 13", syscall.SIGINT, 130, 1, ""},
		{"endless 13", syscall.SIGTERM, 143, 1, ""},
		{"endless 13", syscall.SIGHUP, 129, 1, ""},
		{"endless 40", syscall.SIGTERM, 143, 1, ""},
		{"endless 4", syscall.SIGTERM, 143, 0, ""},
		{"handler 13", syscall.SIGINT, 7, 1, "got [2]\n"},
		{"handler 13", syscall.SIGTERM, 7, 1, "got [15]\n"},
		{"handler 40", syscall.SIGHUP, 7, 1, "got [1]\n"},
		{"handler 40", syscall.SIGQUIT, 7, 1, "got [3]\n"},
	} {
		t.Run(fmt.Sprintf("%s %v", c.args, c.signal), func(t *testing.T) {
			t.Parallel()
			b := newTestbed(t, strings.Fields(c.args)...)
			cmd := b.helper()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			b.waitFor("ready")
			if err := cmd.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			err := cmd.Wait()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if got := cmd.ProcessState.ExitCode(); got != c.exit {
				t.Errorf("exit code %d, want %d; stderr: %s", got, c.exit, b.read("stderr"))
			}
			if r := b.result(); len(r.Traces) != c.traces {
				t.Errorf("traces %v, want %d; %+v", r.Traces, c.traces, r.Hook)
			}
			if out := b.read("stdout"); out != c.out {
				t.Errorf("standard output %q, want %q: each signal arrives once", out, c.out)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	for _, c := range []struct {
		args []string
		nsys NsysUse
		want string
	}{
		{nil, NsysAuto, "nothing follows --"},
		{[]string{"no-such-program"}, NsysAuto, "there is no such command"},
		{[]string{"./no-such-program"}, NsysAuto, "there is no such command"},
		{[]string{plain}, NsysAuto, "make it executable"},
		{[]string{"/bin/true"}, NsysAlways, "nsys is not on PATH"},
	} {
		err := Check(&Options{Args: c.args, Nsys: c.nsys})
		if !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want ErrUsage saying %q", c.args, err, c.want)
		}
	}
}
