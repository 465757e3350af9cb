// Package tune implements gpuprof tune WORKLOAD: it measures which knobs of a workload to change, or tests claims of
// tuning guides. During the search, a state file is kept up to date, from which --resume continues. The package imports
// package cli, but no package of another subcommand.
package tune

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/compare/baseline"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/report/runfile"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/measure"
	"github.com/gpuprof/gpuprof/workloads/search"
)

// Cmd has the arguments and flags of gpuprof tune WORKLOAD.
type Cmd struct {
	Workload  string         `arg:"" optional:"" complete:"workload" help:"Name of the workload, see gpuprof explain list."`
	Device    string         `default:"auto" complete:"device" placeholder:"NAME" help:"auto (the first GPU, otherwise the host, and why), host, cuda or cuda:N."`
	Preset    string         `complete:"preset" placeholder:"NAME" help:"Named set of knob values, see gpuprof explain list presets."`
	Set       []string       `sep:"none" complete:"knob" placeholder:"KNOB=VALUE" help:"Start from this value; the knob is turned only where --knob names it; may be repeated."`
	Knob      []string       `placeholder:"A,B" help:"Turn only these knobs (all tuning knobs; model knobs never)."`
	Budget    *time.Duration `placeholder:"TIME" help:"Time for all measurements (5m; with --claims 8m)."`
	Goal      string         `placeholder:"GOAL" help:"time (seconds per unit of work), throughput, energy, memory, or latency (p99 at a rate of requests) (time)."`
	MaxError  *cli.Share     `placeholder:"PERCENT" help:"Leave out settings whose relative error against float64 is above this share (1%)."`
	MaxMemory cli.Size       `placeholder:"SIZE" help:"Leave out settings that take more memory on the device, such as 512MiB or 2GB."`
	Seed      *uint64        `placeholder:"N" help:"Seed of the order of measurements (1)."`
	Resume    string         `complete:"file" placeholder:"FILE" help:"Go on with the search that left FILE, and keep it up to date."`
	Claims    bool           `help:"Test the claims of published tuning guides on this machine instead."`
	Format    string         `default:"table" formats:"tuning" placeholder:"FORMAT" help:"Format to print: ${tuningFormats}."`
	Output    []string       `short:"o" sep:"none" complete:"file" placeholder:"FILE" help:"Write FILE, in the format of its extension: ${tuningFiles}; may be repeated. The first .json is kept up to date while tune works (without one, a file of the user's cache)."`
	Force     bool           `help:"Replace files that gpuprof did not write."`

	// PairOut makes this process the one that confirms a result of the search. It measures the start settings and the
	// settings with the changes in Turned (KNOB=VALUE) in paired blocks, writes the outcome to the file PairOut and
	// prints nothing. It takes about the time --budget, and at most the time Most.
	PairOut string        `hidden:""`
	Turned  []string      `sep:"none" hidden:""`
	Most    time.Duration `hidden:""`
	// RequestRate is the request rate, 1/s, of the whole search if the goal is latency.
	RequestRate float64 `hidden:""`
}

// Help implements kong.HelpProvider.
func (Cmd) Help() string {
	return "Measures the start and tries first the knobs that its findings name, then every tuning knob in turn with the default; searches combinations of helpful changes, confirms the winner by paired blocks in fresh processes, and prints it as a command and as lines of a PyTorch program. Only a confirmed setting is recommended. Ctrl-C keeps the finished measurements: go on with --resume.\n\n" + cli.Examples(
		"gpuprof tune -- python train.py",
		"gpuprof tune e3nn --device host --set edges=40 --knob batch,sync --budget 6s -o tune.json",
		"gpuprof tune --resume tune.json",
	)
}

type tuning struct {
	*Cmd
	app    *cli.App
	opts   search.Options
	device cli.Device
	outs   []cli.Output
	state  string // JSON file with the state of the search
	choice string // note about the device that "auto" chose; "" if the user named one
}

// Run implements gpuprof tune WORKLOAD.
func (c *Cmd) Run(a *cli.App) (err error) {
	if c.PairOut != "" {
		return c.measurePair(a)
	}
	t, err := c.prepare(a)
	if err != nil {
		return err
	}
	if t.choice != "" {
		a.Note("%s", t.choice)
	}
	bar := a.NewProgress("tune")
	t.opts.Progress = func(p search.Progress) {
		note := p.Note
		if p.Left > 0 {
			note += ", " + p.Left.Round(time.Second).String() + " left"
		}
		bar.Show(measure.Progress{Phase: p.Phase, Done: p.Done, Total: p.Total, Note: note})
	}
	bench := &search.InProcess{Open: t.device.Open, Now: a.Clock}
	done, err := t.watchEnergy(bench)
	if err != nil {
		return err
	}
	defer done()
	t.opts.Bench = bench
	var r *tune.Result
	if c.Claims {
		r, err = search.RunClaims(a.Ctx, t.opts, t.app.WorkloadNamed, t.measureWhole)
	} else {
		t.opts.Fresh, t.opts.Findings = t.measureFresh, t.measureFindings
		r, err = search.Run(a.Ctx, t.opts)
	}
	bar.Close()
	err = errors.Join(err, bench.Close())
	if r == nil {
		return err
	}
	return errors.Join(t.interruptError(err), t.finish(r))
}

// watchEnergy gives bench the energy counter of the device if the goal is energy. It fails if the goal is energy and
// the device has no counter.
func (t *tuning) watchEnergy(bench *search.InProcess) (done func(), err error) {
	if t.opts.Goal != tune.Energy {
		return func() {}, nil
	}
	dev, err := t.device.Open() // only to find its counter
	if err != nil {
		return nil, err
	}
	in, done := t.app.Instruments(dev)
	if err := dev.Close(); err != nil {
		done()
		return nil, err
	}
	if in != nil {
		if _, ok := in.EnergyJ(); ok {
			bench.EnergyJ = in.EnergyJ
			return done, nil
		}
	}
	done()
	return nil, search.NoEnergy()
}

// interruptError converts the error of an interrupt to one with a fix. Other errors are unchanged.
func (t *tuning) interruptError(err error) error {
	if t.app.Ctx.Err() == nil {
		return err
	}
	return gpuprof.Errorf(nil, "tuning: %w", cli.ErrInterrupted).WithFix("the measurements so far are in %s: go on with gpuprof tune --resume %s", t.state, t.state)
}

func (t *tuning) finish(r *tune.Result) error {
	tuning := t.app.Documents.Tuning
	return errors.Join(tuning.Show(t.app, t.Format, r), tuning.Save(t.app, t.outs, r, "", t.Force))
}

func (c *Cmd) prepare(a *cli.App) (*tuning, error) {
	old, err := c.readEarlier()
	if err != nil {
		return nil, err
	}
	t, err := c.checkTarget(a)
	if err != nil {
		return nil, err
	}
	t.opts.Resume, t.opts.Build, t.opts.Now = old, cli.BuildHash(), t.app.Clock
	if dir, err := baseline.Dir("", os.Getenv); err == nil { // without a home folder there are no peers
		t.opts.Peers = outside.Dir(dir)
	}
	err = t.chooseFiles()
	return t, err
}

// checkTarget checks the workload, the device and the settings.
func (c *Cmd) checkTarget(a *cli.App) (*tuning, error) {
	t := &tuning{Cmd: c, app: a}
	if err := c.checkTune(); err != nil {
		return nil, err
	}
	if err := t.findTarget(); err != nil {
		return nil, err
	}
	o := &t.opts
	o.Goal, o.Budget, o.MaxError, o.MaxMemory, o.Seed, o.Tool, o.Only = tune.Goal(c.Goal), *c.Budget, float64(*c.MaxError), c.MaxMemory.Bytes(), 1, a.Tool, c.Knob
	if c.Seed != nil {
		o.Seed = *c.Seed
	}
	return t, nil
}

// Default budgets, and the default limit of the relative error.
const (
	tuneBudget   = 5 * time.Minute
	claimsBudget = 8 * time.Minute
	tuneMaxError = 1e-2
)

func (c *Cmd) checkTune() error {
	c.Goal = cmp.Or(c.Goal, string(tune.Time))
	if c.MaxError == nil {
		c.MaxError = new(cli.Share)
		*c.MaxError = tuneMaxError
	}
	var goals []string
	for _, g := range tune.Goals() {
		goals = append(goals, string(g))
	}
	switch {
	case !slices.Contains(goals, c.Goal):
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading --goal %s: there is no such goal", c.Goal).WithFix("use one of %s%s", strings.Join(goals, ", "), gpuprof.DidYouMean(c.Goal, goals))
	case *c.MaxError <= 0:
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading --max-error %g: the error must be above 0", float64(*c.MaxError)).WithFix("give for example --max-error 1%%")
	}
	if c.Budget == nil {
		c.Budget = new(time.Duration)
		*c.Budget = tuneBudget
		if c.Claims {
			*c.Budget = claimsBudget
		}
	}
	return nil
}

// findTarget finds the workload, the device and the settings. It checks names before it looks for a device, so that a
// wrong name is reported on every machine.
func (t *tuning) findTarget() error {
	t.opts.Set = gpuprof.Settings{}
	if !t.Claims {
		if err := t.checkNames(); err != nil {
			return err
		}
	}
	d, why, err := t.app.ChooseDevice(t.Device, t.app.NoGPU())
	if err != nil {
		return err
	}
	t.device, t.choice, t.opts.Device = d, why, d.Name
	if !t.Claims {
		t.opts.Preset = cmp.Or(t.Preset, workloads.DefaultPreset(t.opts.Workload, d.Kind()))
	}
	return t.describeDevice()
}

func (t *tuning) checkNames() (err error) {
	if t.opts.Workload, err = t.app.FindWorkload(t.Workload, "tune"); err != nil {
		return err
	}
	axes, err := cli.ParseSets(t.Set)
	if err != nil {
		return err
	}
	for _, ax := range axes {
		if len(ax.Values) > 1 {
			return gpuprof.Errorf(gpuprof.ErrUsage, "reading --set %s=%s: tune starts from one setting", ax.Knob, strings.Join(ax.Values, ",")).WithFix("give one value, or let tune try them with --knob %s", ax.Knob)
		}
		t.opts.Set[ax.Knob] = ax.Values[0]
	}
	base, err := workloads.Resolve(t.opts.Workload, cmp.Or(t.Preset, workloads.DefaultPreset(t.opts.Workload, cli.HostDevice)), t.opts.Set)
	if err != nil {
		return err
	}
	_, err = search.Alternatives(t.opts.Workload, base, t.Knob, t.opts.Set, 1)
	return err
}

func (t *tuning) describeDevice() error {
	dev, err := t.device.Open()
	if err != nil {
		return err
	}
	t.opts.DeviceDoc, t.opts.Driver = dev.Info().Name, dev.Info().Facts["driver"]
	return dev.Close()
}

// chooseFiles chooses the output files. The state of the search goes to the file of --resume, else to the first .json
// output, else to a file in the user's cache.
func (t *tuning) chooseFiles() error {
	paths := t.Output
	t.state = t.Resume
	for _, p := range paths {
		if f, err := runfile.FormatOf(p); err == nil && f.Ext == ".json" && t.state == "" {
			t.state = p
		}
	}
	var err error
	if t.state == "" {
		if t.state, err = cachedState(); err != nil {
			return err
		}
	} else if !slices.Contains(paths, t.state) {
		paths = append([]string{t.state}, paths...)
	}
	if t.outs, err = t.app.Documents.Tuning.Outputs(paths, t.Force); err != nil {
		return err
	}
	if f, err := runfile.FormatOf(t.state); err != nil || f.Ext != ".json" {
		return gpuprof.Errorf(gpuprof.ErrUsage, "keeping the search in %s: it must be a .json file", t.state).WithFix("give --resume FILE.json")
	}
	t.opts.Save = func(r *tune.Result) error {
		return runfile.Write(t.state, t.Force, func(w io.Writer) error { return document.Encode(w, r) })
	}
	return nil
}

// cachedState returns the path of a new state file in the user's cache folder.
func cachedState() (string, error) {
	dir, err := cli.CacheDir()
	if err != nil {
		dir = filepath.Join(os.TempDir(), "gpuprof")
	}
	dir = filepath.Join(dir, "tune")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", gpuprof.Unwritable("keeping the search in "+dir, err, "name a file with -o tune.json", "name a file with -o tune.json")
	}
	return filepath.Join(dir, time.Now().UTC().Format("20060102-150405")+fmt.Sprintf("-%d.json", os.Getpid())), nil
}
