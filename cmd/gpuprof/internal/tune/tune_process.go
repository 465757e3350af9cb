package tune

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/report/runfile"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/advise"
	"github.com/gpuprof/gpuprof/workloads/search"
)

// useTempFolder calls use with a new temporary folder, and removes the folder afterwards.
func useTempFolder(use func(dir string) error) error {
	scratch, err := child.NewScratch("tune")
	if err != nil {
		return gpuprof.Errorf(gpuprof.ErrDevice, "making a folder for a process's result: %w", err).WithFix("check TMPDIR")
	}
	defer scratch.Close()
	return use(scratch.Dir)
}

// measureFresh compares two settings in another process of this program, by paired blocks: each pair has a block of
// steps of each setting.
func (t *tuning) measureFresh(ctx context.Context, a, b search.Side, l search.Limits) (o *tune.Outcome, err error) {
	exe, err := cli.OwnProgram()
	if err != nil {
		return nil, err
	}
	err = useTempFolder(func(dir string) error {
		file := filepath.Join(dir, "pair.json")
		_, words, err := child.Command{Args: append([]string{exe}, t.pairArgs(a, b, l, file)...), Name: os.Args[0]}.Run(ctx)
		if err != nil {
			return cli.ProcessError(err, words)
		}
		text, err := outside.ReadFound(file)
		if err != nil {
			return gpuprof.Errorf(nil, "reading what a process of the confirmation measured: %w", err).WithFix("run it again")
		}
		o = &tune.Outcome{}
		return json.Unmarshal(text, o)
	})
	return o, err
}

// pairArgs returns the arguments of the process that compares the settings b with a, and writes the outcome to file.
func (t *tuning) pairArgs(a, b search.Side, l search.Limits, file string) []string {
	args := []string{"tune", a.Workload.Name(), "--device", t.device.Name, "--preset", a.Preset, "--goal", string(l.Goal), "--budget", l.Time.String(),
		"--seed", strconv.FormatUint(l.Seed, 10), "--pair-out", file}
	if l.Rate > 0 {
		args = append(args, cli.RequestRate(l.Rate)...)
	}
	if l.Most > 0 {
		args = append(args, "--most", l.Most.String())
	}
	if l.MaxError > 0 {
		text := strconv.FormatFloat(l.MaxError, 'g', -1, 64)
		if l.MaxError >= 1 { // a bare number of 1 or more would not parse as a share
			text = strconv.FormatFloat(100*l.MaxError, 'g', -1, 64) + "%"
		}
		args = append(args, "--max-error", text)
	}
	if l.MaxMemory > 0 {
		args = append(args, "--max-memory", strconv.FormatInt(l.MaxMemory, 10))
	}
	for _, k := range slices.Sorted(maps.Keys(t.opts.Set)) {
		args = append(args, "--set", k+"="+t.opts.Set[k])
	}
	for _, k := range slices.Sorted(maps.Keys(b.Knobs)) {
		if b.Knobs[k] != a.Knobs[k] {
			args = append(args, "--turned", k+"="+b.Knobs[k])
		}
	}
	return args
}

// measurePair runs in the process that measureFresh starts. It compares two settings by paired blocks.
func (c *Cmd) measurePair(a *cli.App) error {
	// Ctrl-C reaches every process of the terminal. Ignore it: the parent passes it on as SIGTERM.
	signal.Ignore(syscall.SIGINT)
	a.Quiet = true
	t, err := c.checkTarget(a)
	if err != nil {
		return err
	}
	bench := &search.InProcess{Open: t.device.Open, Now: a.Clock}
	done, err := t.watchEnergy(bench)
	if err != nil {
		return err
	}
	defer done()
	turned := maps.Clone(t.opts.Set)
	for _, kv := range c.Turned {
		k, v, _ := strings.Cut(kv, "=")
		turned[k] = v
	}
	var sides [2]search.Side
	for i, set := range []gpuprof.Settings{t.opts.Set, turned} {
		knobs, err := workloads.Resolve(t.opts.Workload, t.opts.Preset, set)
		if err != nil {
			return err
		}
		sides[i] = search.Side{Workload: t.opts.Workload, Preset: t.opts.Preset, Knobs: knobs}
	}
	o, err := bench.Compare(a.Ctx, sides[0], sides[1], search.Limits{Goal: t.opts.Goal, Time: *c.Budget, MaxError: t.opts.MaxError, MaxMemory: t.opts.MaxMemory,
		Seed: t.opts.Seed, Sitting: true, Most: c.Most, Rate: c.RequestRate})
	if err != nil {
		return err
	}
	if err := bench.Close(); err != nil {
		return err
	}
	return runfile.Write(c.PairOut, true, func(w io.Writer) error { return json.NewEncoder(w).Encode(o) })
}

// measureFindings measures the start settings in another process. It returns the knobs that its findings propose to
// change, the finding with the largest possible saving first.
func (t *tuning) measureFindings(ctx context.Context, limit time.Duration) ([]tune.Hint, error) {
	run, err := t.measureWhole(ctx, t.opts.Workload, t.opts.Preset, t.opts.Set, limit)
	if run == nil {
		return nil, err
	}
	var out []tune.Hint
	for _, f := range advise.Findings([]*gpuprof.Run{run}, advise.Options{Workload: t.opts.Workload})[0] {
		if f.Knob == "" {
			continue
		}
		h := tune.Hint{Rule: f.Rule, Knobs: gpuprof.Settings{f.Knob: f.To}, ClaimS: f.ClaimS}
		also, _ := f.Evidence["only_together_with"].([]string)
		for _, kv := range also {
			k, v, _ := strings.Cut(kv, "=")
			h.Knobs[k] = v
		}
		out = append(out, h)
	}
	return out, nil
}

// measureWhole measures one setting in another process of this program, as gpuprof run --runs does.
func (t *tuning) measureWhole(ctx context.Context, w workloads.Workload, preset string, set gpuprof.Settings, limit time.Duration) (run *gpuprof.Run, err error) {
	err = useTempFolder(func(dir string) error {
		r := &cli.ProcessRun{Workload: w.Name(), Device: t.device.Name, Preset: preset, Set: set, Seed: 1, Mode: string(gpuprof.Steady),
			Warmup: "auto", MinTime: limit / 5, MaxTime: limit}
		var err error
		run, err = r.Measure(ctx, filepath.Join(dir, "run.json"))
		return err
	})
	return run, err
}
