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

// Check says what stands in the way of running a command: gpuprof.ErrUsage
// when there is none, or nothing of that name can be executed, or Nsight
// Systems is asked for and not there.
func Check(o *Options) error {
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
	if o.Nsys == NsysAlways {
		if _, err := exec.LookPath("nsys"); err != nil {
			return gpuprof.Errorf(gpuprof.ErrUsage, "recording with Nsight Systems: nsys is not on PATH").WithFix("install Nsight Systems, or leave out --nsys")
		}
	}
	return nil
}

// Run runs the program to its end and returns what is known of it. An error
// means that it was never started; everything else that goes wrong is among
// the result's notes. The program gets the signals that this process gets;
// ctx ends nothing, it only carries values.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := Check(&o); err != nil {
		return nil, err
	}
	if o.Env == nil {
		o.Env = os.Environ()
	}
	o.Stdin, o.Stdout, o.Stderr = fileOr(o.Stdin, os.Stdin), fileOr(o.Stdout, os.Stdout), fileOr(o.Stderr, os.Stderr)
	ctx = context.WithoutCancel(ctx)
	r := newResult(&o)
	caught := catchSignals()
	defer caught.stop()
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
	r.Traces = files // to be opened
	return r, err
}

func newResult(o *Options) *Result {
	return &Result{Head: document.NewHead(document.Recording, o.Tool), Command: document.MaskCommand(o.Args), CPUs: min(runtime.NumCPU(), runtime.GOMAXPROCS(0)), Started: time.Now(), Traces: []string{}, Warnings: []gpuprof.Warning{}}
}

// SoFar is what is known of a program that runs on, by what the hook has told.
func SoFar(o *Options, h *Hook) *Result {
	r := newResult(o)
	r.takeHook(o, h)
	document.CleanStrings(&r.Command)
	return r
}

// runHooked runs the program with the hook on its path. Where the hook cannot
// be written the program runs without it: it is worth more than its trace.
func runHooked(ctx context.Context, o *Options, r *Result, s *signals) error {
	r.Recorder = ByHook
	h, err := writeHook(o)
	env := o.Env
	if err != nil {
		reason, fix := gpuprof.FixOf(err)
		r.warn("no-hook", "the program ran without being recorded: "+reason, fix)
	} else {
		defer h.scratch.Close()
		if tellOuter(env) {
			r.warn("inner-run", "this runs inside another gpuprof run, and the inner one records", "")
		}
		env = h.environment(env)
	}
	status := ""
	if h != nil {
		status = h.status
	}
	w := watch(o, status, s)
	child := childOf{args: o.Args, env: env, started: h.started}
	if h != nil {
		child.hook = h.dir
	}
	err = runChild(ctx, o, r, s, child)
	w.end()
	if r.Stopped = s.stopped; err != nil || h == nil {
		return err
	}
	readHooked(o, r, h)
	return nil
}

// readHooked takes over what the hook told.
func readHooked(o *Options, r *Result, h *hook) {
	status := readStatus(h.status)
	r.takeHook(o, &status)
	sweep(o.Dir)
	explain(o, r)
}

func (r *Result) takeHook(o *Options, h *Hook) {
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
	r.Traces = existing(r.Traces)
}

// existing leaves out what was replaced or lost since it was told of.
func existing(paths []string) []string {
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

// sweep takes away traces that a killed process left half written, under the
// hook's name for them or Kineto's.
func sweep(dir string) {
	for _, pattern := range []string{"trace-*.json.part*", "snapshot-*.pickle.part*"} {
		for _, p := range outside.Dir(dir).Glob(pattern) {
			_ = os.Remove(p) // a leftover is only untidy
		}
	}
}

// childOf is a command to run.
type childOf struct {
	args, env []string
	extra     []*os.File    // further files of the child, from descriptor 3 on
	started   func(pid int) // nil for none
	hook      string        // the folder of the Python hook, "" none
}

// runChild runs one command under telemetry, with signals passed on, and fills
// in what it cost. The command has no tie to this process: where gpuprof is killed it runs on.
func runChild(ctx context.Context, o *Options, r *Result, s *signals, c childOf) error {
	path, err := exec.LookPath(c.args[0])
	if err != nil {
		return gpuprof.Errorf(gpuprof.ErrUsage, "running %s: %w", c.args[0], err).WithFix("give its full path")
	}
	cmd := exec.Command(path)
	cmd.Args, cmd.Env, cmd.ExtraFiles = c.args, c.env, c.extra
	// Files are inherited as they are: nothing of this process stands between.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = o.Stdin, o.Stdout, o.Stderr
	if c.extra != nil { // a helper around the program; its own words are not the program's
		cmd.Stdout, cmd.Stderr = o.Log, o.Log
	}
	own := ownPeak()
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return gpuprof.Errorf(gpuprof.ErrUsage, "running %s: %w", c.args[0], unwrapPath(err)).WithFix("check that it is a program for this machine, or put its interpreter before it if it is a script without a first line #!")
	}
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
	r.Telemetry, r.TreePeakBytes = t.stop()
	r.unhooked = t.unhooked
	for name, g := range o.Samplers {
		for track, v := range g.Stop() {
			r.Telemetry[name+track] = v
		}
	}
	r.account(cmd.ProcessState, own)
	var exit *exec.ExitError
	if waitErr != nil && !errors.As(waitErr, &exit) {
		r.warn("wait-failed", "waiting for the program: "+waitErr.Error(), "")
	}
	return nil
}

// account takes over how a process ended and what it used. own is the peak
// memory of this process when it made the other, bytes: Linux counts that as
// the child's too, so up to there the child's own is not known.
func (r *Result) account(state *os.ProcessState, own int64) {
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

func fileOr(f, other *os.File) *os.File {
	if f == nil {
		return other
	}
	return f
}

func unwrapPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
