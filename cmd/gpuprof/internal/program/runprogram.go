// Package program implements the subcommands that record a user's program: gpuprof run --, run record and run watch.
// They write the recording and its analysis. The exit code of gpuprof run -- is the program's. The package imports the
// packages cli and input, but no package of another subcommand.
package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/owner"
	"github.com/gpuprof/gpuprof/internal/record"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/report/runfile"
)

// Cmd has the flags of gpuprof run -- COMMAND.
type Cmd struct {
	Steps       int           `default:"5" placeholder:"N" help:"Record N steps (5)."`
	Skip        *int          `placeholder:"N" help:"Leave out the first N steps (10, or as many as take a minute)."`
	Shapes      bool          `help:"Record the shapes of operators' inputs. This slows the recorded steps down."`
	Stacks      bool          `help:"Record Python stacks, so that findings name lines. This slows the recorded steps down."`
	Memory      bool          `help:"Record a snapshot of PyTorch's memory in place of a trace, from the first use of a GPU to the last recorded step."`
	TimeWindow  time.Duration `default:"2s" placeholder:"TIME" help:"Record for TIME in a program that shows no steps (2s)."`
	WindowAfter time.Duration `default:"20s" placeholder:"TIME" help:"Wait for a first step for TIME before that (20s)."`
	Nsys        *bool         `negatable:"" help:"Record with Nsight Systems, or never; without the flag: programs that are not PyTorch, if nsys is on PATH and no libcupti is found."`
	Cuda        *bool         `negatable:"" help:"Record CUDA calls, kernels and copies through CUPTI, or never; without the flag: programs that are not PyTorch, where a libcupti is found."`
	Cupti       string        `placeholder:"PATH" complete:"file" help:"Use this libcupti; program: the one that the program brings."`
	Graphs      string        `default:"node" enum:"node,whole" placeholder:"HOW" help:"Record of CUDA graphs every node, or each graph as a whole, which costs less: node or whole (node)."`
	Idle        bool          `help:"Arm the CUDA recorder and record nothing until gpuprof run record asks for a window."`
	Watch       bool          `help:"Show on standard error what the program does while it runs: GPU busy, time of a step, kernels and copies of the last 30 s."`
	WatchEvery  time.Duration `default:"5s" hidden:""` // time between two tables of --watch
	StopAfter   bool          `help:"End the program once its steps are recorded; the exit code is then 0."`
	EarlyAfter  time.Duration `default:"5s" hidden:""` // wait before the analysis of a running program is printed
	NoAnalyze   bool          `help:"Record only; gpuprof analyze reads the folder later."`
	Output      []string      `short:"o" sep:"none" complete:"file" placeholder:"DIR|FILE" help:"Put everything into DIR instead of gpuprof-TIME, or also write FILE, in the format of its extension: ${analysisFiles}; may be repeated. As a rank of a job: DIR/ or s3://bucket/prefix of the job, for gpuprof fleet."`
	Force       bool          `help:"Use a folder that holds something, and replace files that gpuprof did not write."`
}

// Help implements kong.HelpProvider.
func (Cmd) Help() string {
	return "Runs the command behind -- as it is, records a few steps of it, prints findings on standard error and leaves a folder gpuprof-TIME. Its exit code is the command's.\n\n" + cli.Examples(
		"gpuprof run -- python train.py",
		"gpuprof run --skip 20 --steps 10 -- torchrun --nproc-per-node 4 train.py",
		"gpuprof run --memory -- python train.py",
		"gpuprof run --stacks -o profile -o report.html -- python train.py",
		"gpuprof run --cuda -- ./simulation",
		"gpuprof run --cuda --idle -- ./server",
		"srun gpuprof run -o /shared/job/ -- python train.py",
	)
}

type program struct {
	*Cmd
	app     *cli.App
	options record.Options
	files   []cli.Output // -o FILE
	dir     string       // folder of the recording, as shown to the user
	lock    *os.File     // locks an existing dir until this process ends; nil for a new dir
	state   string       // state of the recording that was noted last
	printed []byte       // the analysis, as JSON, that was printed while the program ran; nil if none was

	sink        *cli.RankSink // for a rank of a job; nil otherwise
	collectives []analyze.Collectives
}

// Run implements gpuprof run -- COMMAND.
func (c *Cmd) Run(a *cli.App) error {
	p, err := c.prepare(a)
	if err != nil {
		return err
	}
	samplers, done := a.Samplers()
	p.options.Samplers = samplers
	p.options.Watch = p.watchRecording
	noted := a.Noted
	shown := p.showLive()
	r, err := record.Run(a.Ctx, p.options)
	shown()
	a.Noted = noted // notes printed while the program ran have scrolled away
	done()
	if err != nil {
		_ = os.Remove(p.dir) // removes a new, empty folder only
		return err
	}
	if a.ChildCode = r.ExitCode; r.Stopped {
		a.ChildCode = cli.ExitOK
	}
	// The program has ended, and no later failure may change its exit code.
	for _, err := range cli.Flatten(p.conclude(r)) {
		fmt.Fprintf(a.Stderr, "gpuprof: %s\n", cli.Sentence(err))
	}
	return nil
}

// prepare checks the flags, the command and the outputs before the program starts.
func (c *Cmd) prepare(a *cli.App) (*program, error) {
	if err := c.checkNumbers(); err != nil {
		return nil, err
	}
	p := &program{Cmd: c, app: a}
	p.options = record.Options{
		Tool: a.Tool, Args: a.Rest, Steps: c.Steps, Skip: record.DefaultSkip, SkipExact: c.Skip != nil, Shapes: c.Shapes, Stacks: c.Stacks, Memory: c.Memory,
		Window: c.TimeWindow, WindowAfter: c.WindowAfter, Stdin: os.Stdin, Stdout: cmp.Or(cli.FileBehind(a.Stdout), os.Stdout), Stderr: cmp.Or(cli.FileBehind(a.Stderr), os.Stderr),
	}
	if c.Skip != nil {
		p.options.Skip = *c.Skip
	}
	p.options.CUPTI, p.options.Graphs, p.options.StopAfter = c.Cupti, c.Graphs, c.StopAfter
	p.options.DriverCUDA, p.options.AskCUPTI, p.options.RecorderConfig = a.DriverCUDA(), a.AskCUPTI, a.Recorder
	p.options.Idle, p.options.Rolling = c.Idle, c.Watch && !c.Idle
	if c.Cuda != nil {
		p.options.CUDA = record.CUDANever
		if *c.Cuda {
			p.options.CUDA = record.CUDAAlways
		}
	} else if c.Idle {
		p.options.CUDA = record.CUDAAlways
	}
	if c.Nsys != nil {
		p.options.Nsys = record.NsysNever
		if *c.Nsys {
			p.options.Nsys = record.NsysAlways
		}
	}
	if err := refuseFlag(a.Rest); err != nil {
		return nil, err
	}
	if err := record.Check(&p.options); err != nil {
		return nil, err
	}
	if err := p.placeOutputs(); err != nil {
		return nil, err
	}
	return p, nil
}

func (c *Cmd) checkNumbers() error {
	switch {
	case c.Steps < 1:
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading --steps %d: at least one step is needed", c.Steps).WithFix("give --steps 5 or leave it out")
	case c.Skip != nil && *c.Skip < 0:
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading --skip %d: the number must not be negative", *c.Skip).WithFix("give --skip 0 to record from the start")
	case c.Idle && (c.Memory || c.Nsys != nil && *c.Nsys || c.Cuda != nil && !*c.Cuda):
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading --idle: only the CUDA recorder can be armed").WithFix("leave out --memory, --nsys and --no-cuda")
	case c.StopAfter && (c.Idle || c.Watch):
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading --stop-after: with --idle or --watch the recording has no end of its own").WithFix("leave out one of the two")
	}
	return c.checkRecorder()
}

// checkRecorder refuses flags that ask for two recorders.
func (c *Cmd) checkRecorder() error {
	switch {
	case c.Memory && (c.Shapes || c.Nsys != nil && *c.Nsys):
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading --memory: a snapshot of memory has no shapes, and Nsight Systems records none").WithFix("leave out --shapes and --nsys, or record a trace in another run")
	case c.Memory && c.Cuda != nil && *c.Cuda:
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading --memory: a snapshot comes from PyTorch's allocator, which --cuda does not record").WithFix("leave out one of the two")
	case c.Cuda != nil && *c.Cuda && c.Nsys != nil && *c.Nsys:
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading --cuda and --nsys: one recorder has the GPU at a time").WithFix("leave out one of the two")
	case c.Memory && c.Watch:
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading --watch: a snapshot of memory is not shown while it grows").WithFix("leave out --memory or --watch")
	case c.Cupti != "" && c.Cuda != nil && !*c.Cuda:
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading --cupti %s: --no-cuda uses none", c.Cupti).WithFix("leave out one of the two")
	}
	return nil
}

// placeOutputs divides the values of -o into one folder for the recording and output files, and makes the folder.
func (p *program) placeOutputs() error {
	if is, err := p.setUpRank(); is || err != nil {
		return err
	}
	var files []string
	for _, path := range p.Output {
		if _, err := runfile.FormatOf(path); err == nil && !cli.IsDir(path) {
			files = append(files, path)
			continue
		}
		if err := p.refuseSuffix(path); err != nil {
			return err
		}
		if p.dir != "" {
			return gpuprof.Errorf(gpuprof.ErrUsage, "writing %s: -o names two folders, %s and this one", path, p.dir).WithFix("give one folder, and files with a known extension")
		}
		p.dir = path
	}
	if p.dir == "" {
		if err := p.useFiles(files); err != nil {
			return err
		}
		var err error
		p.dir, err = makeFresh(freshName(time.Now()))
		p.options.Dir = p.dir
		return err
	}
	// Make the folder first: the files may be in it.
	made, err := makeDirs(p.dir)
	if err == nil {
		err = p.openDir()
	}
	if err == nil {
		err = p.useFiles(files)
	}
	if err == nil {
		err = p.clearDir()
	}
	if err != nil {
		if p.lock != nil {
			_ = p.lock.Close() // the folder is unused
		}
		for _, dir := range made {
			_ = os.Remove(dir) // remove what was made for nothing
		}
		return err
	}
	p.options.Dir = p.dir
	return nil
}

// fileSuffix matches a file extension. It does not match a version or a date at the end of a folder's name.
var fileSuffix = lazyregexp.New(`\.[A-Za-z][A-Za-z0-9_]*$`)

// refuseSuffix refuses a path with an unknown file extension, unless it is an existing folder or ends with a slash.
func (p *program) refuseSuffix(path string) error {
	if strings.HasSuffix(path, "/") || cli.IsDir(path) || !fileSuffix.MatchString(filepath.Base(path)) {
		return nil
	}
	_, err := p.checkOutputs([]string{path})
	reason, fix := gpuprof.FixOf(err)
	return gpuprof.Errorf(gpuprof.ErrUsage, "%s", reason).WithFix("%s; a folder of this name is -o %s/", fix, path)
}

func (p *program) checkOutputs(paths []string) ([]cli.Output, error) {
	if p.Memory {
		return p.app.Documents.Memory.Outputs(paths, p.Force)
	}
	return p.app.Documents.Analysis.Outputs(paths, p.Force)
}

// useFiles checks the output files of -o.
func (p *program) useFiles(files []string) (err error) {
	if p.files, err = p.checkOutputs(files); err != nil {
		return err
	}
	for _, o := range p.files {
		if p.NoAnalyze {
			return gpuprof.Errorf(gpuprof.ErrUsage, "writing %s: --no-analyze leaves nothing to write into it", o.Path).WithFix("leave out one of the two")
		}
		if p.dir != "" && isRecordingFile(filepath.Base(o.Path)) && cli.SameFile(filepath.Dir(o.Path), p.dir) {
			return gpuprof.Errorf(gpuprof.ErrUsage, "writing %s: the recording in that folder has a file of that name, and one of both would be lost", o.Path).WithFix("give the analysis another name")
		}
	}
	return nil
}

// isRecordingFile reports whether a recorder uses this file name in the folder of a recording. It ignores case. The
// analysis does not count.
func isRecordingFile(name string) bool {
	name = strings.ToLower(name)
	return name == record.ResultFile || strings.HasPrefix(name, "trace-") || strings.HasPrefix(name, "snapshot-")
}

// makeDirs makes a folder and its missing parents. It returns the new folders, innermost first.
func makeDirs(dir string) (made []string, err error) {
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); err == nil || at == filepath.Dir(at) {
			break
		}
		made = append(made, at)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return made, cannotMake(dir, err)
	}
	return made, nil
}

func (p *program) openDir() error {
	var err error
	if p.lock, err = lockDir(p.dir); err != nil {
		return err
	}
	entries, err := outside.Dir(p.dir).ReadDir(".")
	if err != nil {
		return cannotMake(p.dir, err)
	}
	if len(entries) > 0 && !p.Force {
		return gpuprof.Errorf(gpuprof.ErrUsage, "writing into the folder %s: it is not empty", p.dir).WithFix("name a new folder, or give --force to put the recording beside what is there")
	}
	return nil
}

// clearDir removes the files of an earlier recording, which would look like further ranks of the new recording. It also
// checks that the folder can be written.
func (p *program) clearDir() error {
	for _, pattern := range []string{"trace-*.json", "trace-*.json.part*", "trace-nsys.sqlite", "trace-*.gpt", "cuda-*.gpt", "cuda.jsonl", "cuda.config", "cuda.control", "gpuprof-cuda.so", "snapshot-*.pickle", "snapshot-*.pickle.part*", "samples-*.jsonl", "hook.jsonl"} {
		for _, f := range outside.Dir(p.dir).Glob(pattern) {
			if err := os.Remove(f); err != nil {
				return cannotMake(p.dir, err)
			}
		}
	}
	owner.Sweep(p.dir)
	probe, err := owner.CreateTemp(p.dir, "")
	if err != nil {
		return cannotMake(p.dir, err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// maxSameName limits the number that makeFresh appends to the name of a folder.
const maxSameName = 1000

// freshName returns the name of the folder for a recording that starts now.
func freshName(now time.Time) string { return "gpuprof-" + now.Format("20060102-150405") }

// makeFresh makes a new folder that only its owner can open. If the name is used, it appends the next free number.
func makeFresh(name string) (string, error) {
	for n := 1; ; n++ {
		dir := name
		if n > 1 {
			dir = fmt.Sprintf("%s-%d", name, n)
		}
		err := os.Mkdir(dir, 0o700)
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, fs.ErrExist) || n >= maxSameName {
			return "", cannotMake(dir, err)
		}
	}
}

func cannotMake(dir string, err error) error {
	return gpuprof.Unwritable("making the folder "+dir, err,
		"choose another folder with -o; the program was not started", "the program was not started: name a folder that takes files with -o DIR")
}

// conclude prints a summary, stores the recording's result and analyzes the traces. It makes the recording's files
// private, because traces and command lines reveal much about a program.
func (p *program) conclude(r *record.Result) error {
	ctx, stop := cli.NotifyInterrupt(context.WithoutCancel(p.app.Ctx)) // Ctx ended with the signal that ended the program
	defer stop()
	p.noteSummary(r)
	private := append([]string{filepath.Join(p.dir, "report.nsys-rep"), filepath.Join(p.dir, "hook.jsonl"), filepath.Join(p.dir, "cuda.jsonl")}, outside.Dir(p.dir).Glob("samples-*.jsonl")...)
	for _, t := range append(private, r.Traces...) {
		_ = os.Chmod(t, 0o600) // some file systems have no modes
	}
	errs := []error{p.keepTelemetry(r)}
	switch {
	case r.Idle && len(r.Traces) > 0:
		p.app.Note("%s recorded: gpuprof analyze %s", windowsWere(len(r.Traces)), r.Traces[0])
	case len(r.Traces) > 0 && !p.NoAnalyze:
		errs = append(errs, p.writeAnalysis(ctx, r))
	}
	p.app.Note("everything is in %s", p.dir)
	return errors.Join(append(errs, p.leaveObject(r))...)
}

func (p *program) keepTelemetry(r *record.Result) error {
	stored := r.Stored(p.dir)
	return runfile.WritePrivate(filepath.Join(p.dir, record.ResultFile), p.Force, func(w io.Writer) error { return document.Encode(w, stored) })
}

// refuseFlag returns an error if "--" is followed by a flag, probably of gpuprof, in place of the command.
func refuseFlag(rest []string) error {
	if len(rest) == 0 || !strings.HasPrefix(rest[0], "-") {
		return nil
	}
	if _, err := exec.LookPath(rest[0]); err == nil {
		return nil
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "running %s: the command follows --, and this is a flag", rest[0]).WithFix("put the flags of gpuprof before it: gpuprof run [flags] -- CMD")
}
