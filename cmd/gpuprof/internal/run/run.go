// Package run implements gpuprof run WORKLOAD: it measures a reference workload in this process, in several processes,
// or on several devices, and reports findings and a comparison. It imports the packages cli, input and judge, but no
// package of another subcommand.
package run

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/input"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/advise"
	"github.com/gpuprof/gpuprof/workloads/measure"
)

// Cmd has the arguments and flags of gpuprof run WORKLOAD.
type Cmd struct {
	cli.TargetFlags `embed:""`
	Devices         []string      `placeholder:"0,1,…|all" help:"Measure on these GPUs: together and, in turns with that, each alone; gives per-device rows, skew and scaling."`
	Mode            string        `default:"steady" choices:"steady,cold,hot,host" placeholder:"MODE" help:"Meaning of a step time: steady (rotating inputs), cold (caches cleared, GPU only), hot (one input) or host (the host thread's clock)."`
	MinTime         time.Duration `placeholder:"TIME" help:"Sample at least this long (2s, or --max-time if that is less)."`
	MaxTime         time.Duration `placeholder:"TIME" help:"Stop warm-up and sampling by then, per process (10s, on a GPU 60s; with --samples, no limit)."`
	Warmup          string        `default:"auto" placeholder:"auto|N|TIME" help:"Warm up until settled, for N steps or for a time."`
	Samples         int           `placeholder:"N" help:"Take exactly N samples instead of deciding by the interval."`
	Runs            int           `default:"1" placeholder:"K" help:"Measure in K processes, one after the other (1)."`

	NoEnergy bool `help:"Leave out the energy pass, which takes a GPU about seven seconds beyond --max-time."`

	Baseline    string `complete:"file" placeholder:"FILE|auto" help:"Also compare with this result or stored baseline, or with the stored one that fits (auto); a verdict needs --runs 6 and leaves the exit code alone, gate exits by it."`
	BaselineDir string `complete:"file" placeholder:"FOLDER" help:"Folder for --baseline auto, see gpuprof history baseline path."`

	Format    string   `default:"table" formats:"run" placeholder:"FORMAT" help:"Format to print: ${runFormats}."`
	NoClobber bool     `name:"no-clobber" help:"Refuse to replace a file; without it the run.json of the run before becomes run.previous.json."`
	Output    []string `short:"o" sep:"none" complete:"file" placeholder:"FILE|DIR/" help:"Write FILE, in the format of its extension: ${runFiles}; or, as a rank of a job, an object for gpuprof fleet into DIR/ or s3://bucket/prefix; may be repeated. Without it: run.json and report.html."`
	Force     bool     `help:"Replace files that gpuprof did not write."`

	Check bool `help:"Compare each stage with its reference instead, see gpuprof help run --check."`

	// ProcessOut makes this process one of the processes of --runs: it writes its run to that file and prints nothing.
	ProcessOut string `hidden:""`
	// RequestRate is the request rate, 1/s, of the first of the --runs processes, if the workload serves requests; 0
	// means the rate in the settings.
	RequestRate float64 `hidden:""`
	// BlocksOnStdin makes this process measure on request, as one of the two processes of a gate; see takeTurns.
	BlocksOnStdin bool `hidden:""`
	// OwnDevice reports that the other processes, with which this one takes turns, use other devices.
	OwnDevice bool `hidden:""`
}

// Help implements kong.HelpProvider.
func (Cmd) Help() string {
	return "gpuprof run -- CMD records a few steps of your own program; run watch and run record look at one that gpuprof runs already. With a WORKLOAD it prints a table of the step's stages and leaves run.json and report.html in the current directory. With --devices it compares the GPUs of this machine and writes devices.json and devices.html instead.\n\n" + cli.Examples(
		"gpuprof run -- python train.py",
		"gpuprof run --memory -- python train.py",
		"gpuprof run --cuda -- ./simulation",
		"gpuprof run e3nn",
		"gpuprof run e3nn --preset small --set impl=unfused,csr --max-time 1s -o sweep.json",
		"gpuprof run e3nn --set sync=step --samples 10 -o run.json -o stages.png",
		"gpuprof run e3nn --samples 10 --format json -o run.json.zst",
	)
}

// Default limits of the measurement. A warm-up time is added to them. --samples removes the time limit.
const (
	defaultMinTime = 2 * time.Second
	defaultMaxTime = 10 * time.Second // on the host
	gpuMaxTime     = 60 * time.Second
	noTimeLimit    = 1000 * time.Hour
)

func (c *Cmd) completeTimes(w measure.Warmup, device string) {
	budget := defaultMaxTime
	if device != "host" {
		budget = gpuMaxTime
	}
	switch {
	case c.MaxTime > 0:
	case c.Samples > 0:
		c.MaxTime = noTimeLimit
	default:
		c.MaxTime = max(budget, 2*c.MinTime) + w.Time
	}
	c.MinTime = cmp.Or(c.MinTime, min(defaultMinTime, c.MaxTime))
}

type session struct {
	*Cmd
	app   *cli.App
	aim   *cli.Target
	plans []measure.Plan // one per point of the sweep
	outs  []cli.Output
	sink  *cli.RankSink    // stores the document of this rank; nil outside of a job
	keeps bool             // rename an earlier run.json to run.previous.json
	olds  []*input.OldSide // results of --baseline, one per plan; nil for none
	of    []int            // by run: the index of its plan
}

// Run implements gpuprof run WORKLOAD.
func (c *Cmd) Run(a *cli.App) error {
	if c.ProcessOut != "" {
		// Ctrl-C reaches every process of the terminal. Ignore it: the parent passes it on as SIGTERM.
		signal.Ignore(syscall.SIGINT)
		c.Output, c.Force = []string{c.ProcessOut}, true
		a.Quiet = true
	}
	if len(c.Devices) > 0 {
		return c.runDevices(a)
	}
	s, err := c.prepare(a)
	if err != nil {
		return err
	}
	if c.BlocksOnStdin {
		return s.takeTurns(os.Stdin)
	}
	return s.finish()
}

// finish measures everything. It prints and writes the runs so far even if the measurement failed.
func (s *session) finish() error {
	runs, err := s.measureAll()
	if len(runs) == 0 {
		return err
	}
	if s.app.Ctx.Err() != nil && !slices.ContainsFunc(runs, func(r *gpuprof.Run) bool { return r.Step != nil }) {
		// Nothing was measured: do not overwrite an earlier result.
		s.outs = slices.DeleteFunc(s.outs, func(o cli.Output) bool {
			_, err := os.Lstat(o.Path)
			return err == nil
		})
	}
	if s.ProcessOut == "" {
		advised := s.addAdvice(runs)
		comparisons, missing := s.compareBaselines(advised)
		runs = addFindings(advised, comparisons)
		err = errors.Join(err, missing, s.showAll(advised, runs, comparisons))
	}
	if s.keeps && slices.ContainsFunc(s.outs, func(o cli.Output) bool { return o.Path == cli.RunFile }) {
		err = errors.Join(err, cli.KeepPrevious(s.app))
	}
	return errors.Join(err, s.app.Documents.Run.Save(s.app, s.outs, runs, "", s.Force), s.writeRankObject(runs))
}

func (s *session) writeRankObject(runs []*gpuprof.Run) error {
	if s.sink == nil {
		return nil
	}
	var text bytes.Buffer
	if err := document.EncodeRuns(&text, runs...); err != nil {
		return err
	}
	return s.sink.Leave(document.Run, text.Bytes())
}

func (s *session) addAdvice(runs []*gpuprof.Run) []*gpuprof.Run {
	o := advise.Options{Workload: s.aim.Workload}
	if base, err := workloads.Resolve(s.aim.Workload, s.aim.Preset, nil); err == nil {
		o.Base = base
	}
	if s.Device != "auto" {
		o.Flags = append(o.Flags, "--device", s.Device)
	}
	out := slices.Clone(runs)
	for i, found := range advise.Findings(runs, o) {
		out[i] = runs[i].WithFindings(found...)
	}
	return out
}

func (c *Cmd) prepare(a *cli.App) (*session, error) {
	warmup, err := measure.ParseWarmup(c.Warmup)
	if err != nil {
		return nil, err
	}
	if err := c.checkNumbers(warmup); err != nil {
		return nil, err
	}
	s := &session{Cmd: c, app: a}
	if s.aim, err = c.Resolve(a, "run"); err != nil {
		return nil, err
	}
	if c.Mode == string(gpuprof.Cold) && s.aim.Device.Name == "host" {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "choosing mode cold: the host device cannot clear its caches between steps").WithFix("use --mode steady, hot or host")
	}
	c.completeTimes(warmup, s.aim.Device.Name)
	if err := s.prepareOutputs(); err != nil {
		return nil, err
	}
	if err := s.aim.Refuse(a); err != nil {
		return nil, err
	}
	cache, build := cli.CheckCache()
	for _, k := range s.aim.Knobs {
		s.plans = append(s.plans, measure.Plan{
			Workload: s.aim.Workload, Preset: s.aim.Preset, Knobs: k, Seed: c.Seed, Mode: gpuprof.Mode(c.Mode),
			MinTime: c.MinTime, MaxTime: c.MaxTime, Warmup: warmup, Samples: c.Samples,
			Tool: a.Tool, Build: build, CacheDir: cache, NoEnergy: c.NoEnergy, Rate: c.RequestRate, OwnDevice: c.OwnDevice,
		})
	}
	if err := s.findOld(); err != nil {
		return nil, err
	}
	// Use the request rate of --baseline's result: a rate proportional to the run's own throughput would hide that the
	// run is slower.
	if len(s.plans) == 1 && len(s.olds) == 1 && s.olds[0] != nil && s.plans[0].Rate <= 0 {
		s.plans[0].Rate = s.olds[0].Rate()
	}
	return s, nil
}

// prepareOutputs determines which files the run writes, and refuses files that it must not replace.
func (s *session) prepareOutputs() (err error) {
	if len(s.Output) == 0 && !s.BlocksOnStdin {
		s.Output = []string{cli.RunFile, "report.html"}
		s.keeps = !s.NoClobber
	}
	files := s.Output
	if !s.BlocksOnStdin {
		if s.sink, files, err = s.app.RankOutput(s.Output); err != nil {
			return err
		}
	}
	if s.outs, err = s.app.Documents.Run.Outputs(files, s.Force); err != nil {
		return err
	}
	if s.sink != nil && len(s.aim.Knobs) > 1 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "writing the object of this rank to %s: a sweep has several results", s.sink.Bucket).WithFix("give every knob one value")
	}
	switch {
	case s.NoClobber:
		return cli.Unclobbered(s.outs)
	case s.keeps:
		return cli.PreviousFree(s.Force)
	}
	return nil
}

func (c *Cmd) checkNumbers(w measure.Warmup) error {
	switch {
	case c.MaxTime > 0 && w.Time >= c.MaxTime:
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading --warmup %s: it leaves nothing of --max-time %s", c.Warmup, c.MaxTime).WithFix("raise --max-time or shorten the warm-up")
	case c.MaxTime > 0 && c.MaxTime < c.MinTime:
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading --max-time %s: it is below --min-time %s", c.MaxTime, c.MinTime).WithFix("raise --max-time or lower --min-time")
	case c.Samples < 0:
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading --samples %d: the number must not be negative", c.Samples).WithFix("leave it out to sample until decided")
	case c.Runs < 1:
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading --runs %d: at least one process is needed", c.Runs).WithFix("give --runs 1 or more")
	}
	return nil
}

// measureAll measures every point of the sweep, even if one of them fails. Only an interrupt ends the sweep early.
func (s *session) measureAll() ([]*gpuprof.Run, error) {
	var runs []*gpuprof.Run
	var errs []error
	for i := range s.plans {
		if s.app.Ctx.Err() != nil {
			break
		}
		run, err := s.measureOne(i)
		if run != nil {
			runs, s.of = append(runs, run), append(s.of, i)
		}
		if err != nil && !errors.Is(err, context.Canceled) && len(s.plans) > 1 {
			err = fmt.Errorf("measuring %s: %w", cli.Describe(s.aim.Set[i]), err)
		}
		errs = append(errs, err)
	}
	if s.app.Ctx.Err() != nil {
		kept := 0
		for _, r := range runs {
			kept += r.Step.N()
		}
		return runs, s.interruptError(kept)
	}
	return runs, errors.Join(errs...)
}

// interruptError returns the error of an interrupt. kept is the number of step samples that were measured before it.
func (s *session) interruptError(kept int) error {
	if kept == 0 {
		return gpuprof.Errorf(nil, "measuring %s: %w before anything was measured", s.aim.Workload.Name(), cli.ErrInterrupted).WithFix("run it again")
	}
	return gpuprof.Errorf(nil, "measuring %s: %w, and the measurements so far are kept as partial", s.aim.Workload.Name(), cli.ErrInterrupted)
}

func (s *session) measureOne(i int) (*gpuprof.Run, error) {
	label := s.aim.Workload.Name()
	if len(s.plans) > 1 {
		label = fmt.Sprintf("%d/%d %s", i+1, len(s.plans), cli.Describe(s.aim.Set[i]))
	}
	bar := s.app.NewProgress(label)
	defer bar.Close()
	if s.Runs > 1 {
		return s.measureProcesses(i, bar)
	}
	dev, err := s.aim.Device.Open()
	if err != nil {
		return nil, err
	}
	plan := s.plans[i]
	plan.Progress = bar.Show
	plan.Listening = func(address string) {
		bar.Close()
		if !s.app.Quiet {
			fmt.Fprintf(s.app.Stderr, "gpuprof: listening for requests at http://%s until --max-time or Ctrl-C\n", address)
		}
	}
	instruments, done := s.app.Instruments(dev)
	defer done()
	plan.Instruments = instruments
	run, err := measure.Run(s.app.Ctx, dev, plan)
	return run, errors.Join(err, dev.Close())
}
