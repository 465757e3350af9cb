package record

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// Check returns gpuprof.ErrUsage if the command is not executable, or a required recorder is not installed. It sets a
// missing Env.
func Check(o *Options) error {
	if o.Env == nil {
		o.Env = os.Environ()
	}
	if len(o.Args) == 0 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "running a program: nothing follows --").WithFix("give the command, for example gpuprof run -- python train.py")
	}
	if _, err := exec.LookPath(o.Args[0]); err != nil {
		why, fix := err, "give its full path, or install it"
		var e *exec.Error
		if errors.As(err, &e) {
			why = e.Err
		}
		switch {
		case errors.Is(why, exec.ErrNotFound) || errors.Is(why, fs.ErrNotExist):
			return gpuprof.Errorf(gpuprof.ErrUsage, "running %s: there is no such command", o.Args[0]).WithFix("%s", fix)
		case errors.Is(why, exec.ErrDot):
			fix = "write ./" + o.Args[0]
		case errors.Is(why, fs.ErrPermission):
			fix = "make it executable (chmod +x), or put its interpreter before it"
		}
		return gpuprof.Errorf(gpuprof.ErrUsage, "running %s: %w", o.Args[0], why).WithFix("%s", fix)
	}
	if err := checkCUDA(o); err != nil {
		return err
	}
	if o.Nsys == NsysAlways && !hasNsys() {
		return gpuprof.Errorf(gpuprof.ErrUsage, "recording with Nsight Systems: nsys is not on PATH").WithFix("install Nsight Systems, or leave out --nsys")
	}
	return nil
}

// Run runs the program to its end and returns its measurement. An error means that the program was never started; a
// later failure is a warning in the result. Run passes signals of this process on to the program. The end of ctx does
// not stop the program.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := Check(&o); err != nil {
		return nil, err
	}
	o.Stdin, o.Stdout, o.Stderr = cmp.Or(o.Stdin, os.Stdin), cmp.Or(o.Stdout, os.Stdout), cmp.Or(o.Stderr, os.Stderr)
	ctx = context.WithoutCancel(ctx)
	r := newResult(&o)
	caught := catchSignals()
	defer caught.stopCatching()
	run := runHooked
	if cupti, ok := useCUDA(&o, r); ok {
		run = func(ctx context.Context, o *Options, r *Result, s *signals) error {
			return runCUDA(ctx, o, r, s, cupti)
		}
	} else if useNsys(&o) {
		run = runNsys
	}
	err := run(ctx, &o, r, caught)
	files := slices.Clone(r.Traces)
	document.CleanStrings(r)
	r.Traces = files // files that are still to be opened
	return r, err
}

func newResult(o *Options) *Result {
	return &Result{Head: document.NewHead(document.Recording, o.Tool), Command: storedCommand(o.Args), CPUs: min(runtime.NumCPU(), runtime.GOMAXPROCS(0)), Started: time.Now(), Traces: []string{}, Warnings: []gpuprof.Warning{}}
}

// SoFar returns the result of a program that still runs, from the hook's events so far.
func SoFar(o *Options, h *Hook) *Result {
	r := newResult(o)
	r.addHook(o, h)
	document.CleanStrings(&r.Command)
	return r
}

// runHooked runs the program with the hook on PYTHONPATH, or without it if the hook cannot be written.
func runHooked(ctx context.Context, o *Options, r *Result, s *signals) error {
	r.Recorder = ByHook
	h, err := writeHook(o)
	status, child := "", childOf{args: o.Args, env: o.Env, started: h.noteProgram}
	if err != nil {
		reason, fix := gpuprof.FixOf(err)
		r.warn("no-hook", "the program ran without being recorded: "+reason, fix)
	} else {
		defer h.scratch.Close()
		if notifyOuterRun(o.Env) {
			r.warn("inner-run", "this runs inside another gpuprof run, and the inner one records", "")
		}
		status, child.env, child.hook = h.status, h.environWithHook(o.Env), h.dir
	}
	w := startWatcher(o, status, s)
	err = runChild(ctx, o, r, s, child)
	w.close()
	if r.Stopped = s.stopped; err != nil || h == nil {
		return err
	}
	readHooked(o, r, h)
	return nil
}

func readHooked(o *Options, r *Result, h *hook) {
	status := readStatus(h.status)
	status.usePlain(true)
	r.addHook(o, &status)
	removePartial(o.Dir)
	explainHook(o, r)
}

func (r *Result) addHook(o *Options, h *Hook) {
	r.Hook = h
	for i := range h.Processes {
		p := &h.Processes[i]
		if file := cmp.Or(p.File, p.OOMFile); file != "" {
			r.Traces = append(r.Traces, filepath.Join(o.Dir, file))
		}
		if r.Overhead == nil || p.Rank == 0 {
			if v := overheadOf(p); v != nil {
				r.Overhead = v
			}
		}
	}
	r.Traces = existingFiles(r.Traces)
}

// existingFiles returns the given files without missing, empty and repeated ones.
func existingFiles(paths []string) []string {
	out := []string{}
	seen := map[string]bool{}
	for _, p := range paths {
		if info, err := os.Stat(p); err == nil && info.Size() > 0 && !seen[p] {
			out = append(out, p)
			seen[p] = true
		}
	}
	return out
}

// removePartial removes the incomplete traces and snapshots of killed processes, by the names that the hook and Kineto
// use.
func removePartial(dir string) {
	for _, pattern := range []string{"trace-*.json.part*", "snapshot-*.pickle.part*"} {
		for _, p := range outside.Dir(dir).Glob(pattern) {
			_ = os.Remove(p)
		}
	}
}

type childOf struct {
	args, env []string
	extra     []*os.File    // files of the child from descriptor 3 on
	started   func(pid int) // called with the process id; may be nil
	hook      string        // the folder of the Python hook, "" none
}

// runChild runs a command, samples telemetry, passes signals on and records resource use. The child is not killed if
// gpuprof ends.
func runChild(ctx context.Context, o *Options, r *Result, s *signals, c childOf) error {
	path, err := exec.LookPath(c.args[0])
	if err != nil {
		return gpuprof.Errorf(gpuprof.ErrUsage, "running %s: %w", c.args[0], err).WithFix("give its full path")
	}
	cmd := exec.Command(path)
	cmd.Args, cmd.Env, cmd.ExtraFiles = c.args, c.env, c.extra
	// The child inherits the files themselves; there is no pipe in between.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = o.Stdin, o.Stdout, o.Stderr
	if c.extra != nil { // a helper around the program, whose output is not the program's
		cmd.Stdout, cmd.Stderr = o.Log, o.Log
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return gpuprof.Errorf(gpuprof.ErrUsage, "running %s: %w", c.args[0], unwrapPath(err)).WithFix("check that it is a program for this machine, or put its interpreter before it if it is a script without a first line #!")
	}
	own := selfPeak() // after Start: this process's peak grows until the child execs
	s.passTo(cmd.Process)
	if c.started != nil {
		c.started(cmd.Process.Pid)
	}
	t := startTree(ctx, cmd.Process.Pid, c.hook)
	for _, g := range o.Samplers {
		g.Start(ctx, sampleEvery)
	}
	waitErr := cmd.Wait()
	s.passTo(nil)
	r.WallS = time.Since(began).Seconds()
	r.Telemetry, r.TreePeakBytes = t.stopSampling()
	r.unhooked = t.unhooked
	for name, g := range o.Samplers {
		for track, v := range g.Stop() {
			r.Telemetry[name+track] = v
		}
	}
	r.fillUsage(cmd.ProcessState, own)
	var exit *exec.ExitError
	if waitErr != nil && !errors.As(waitErr, &exit) {
		r.warn("wait-failed", "waiting for the program: "+waitErr.Error(), "")
	}
	return nil
}

// fillUsage records a process's exit status and resource use. own is the peak memory of this process when it started
// the child, bytes: Linux counts own for the child too, so a smaller peak of the child is unknown.
func (r *Result) fillUsage(state *os.ProcessState, own int64) {
	if state == nil {
		r.ExitCode = 1
		return
	}
	r.ExitCode = state.ExitCode()
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		r.ExitCode = 128 + int(ws.Signal())
		r.Signal = ws.Signal().String()
	}
	if r.PeakBytes = peakOf(state); r.PeakBytes <= own {
		r.PeakBytes = 0
	}
	r.CPUS = state.UserTime().Seconds() + state.SystemTime().Seconds()
}

func unwrapPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
