package tuneprogram

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/compare/results"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/record"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/internal/tune"
)

//go:embed hook/*.py
var hookFiles embed.FS

// lossesKept limits the losses that the hook records per run: scalars on which the program calls backward.
const lossesKept = 64

// Plan has the numbers of warmup steps and measured steps of a run.
type Plan struct{ Warm, Steps int }

// Runner runs the program. A failure of the program is in the run's Failed; an error makes further runs pointless. A
// run that has not ended after limit is stopped with all its processes: it has Stopped set and no Cost.
type Runner interface {
	Run(ctx context.Context, s Set, p Plan, limit time.Duration) (tune.ProgramRun, error)
	// Switch runs the program once and switches each setting on and off between its steps, as c describes.
	Switch(ctx context.Context, c Cells, warm int, limit time.Duration) (tune.ProgramRun, error)
}

// Command is the user's program.
type Command struct {
	Args   []string          // with {NAME} for the values of --try
	Start  map[string]string // values of {NAME} in the unchanged program
	Folder *Folder           // copy to run in; nil: the current folder
	// Whole is set if the hook sees no steps of the program: it then runs to its end, and the whole process is timed.
	Whole bool
	Meter Meter
}

// CommandLine returns the arguments of the unchanged program.
func (c *Command) CommandLine() []string { return fillPlaceholders(c.Args, c.Start) }

// hookConfig is config.json, the hook's input.
type hookConfig struct {
	Settings map[string]any `json:"settings"`
	Warm     int            `json:"warm"`
	Steps    int            `json:"steps"`
	Losses   int            `json:"losses"`
	End      bool           `json:"end"`
	Out      string         `json:"out"`
	Blocks   *blockConfig   `json:"blocks,omitempty"`
}

// hookResult is the file that the hook writes; times are in seconds.
type hookResult struct {
	tune.HookReport
	Window float64 `json:"window_s"`
	// WindowAt has the begin and the end of the measured steps, in seconds since 1970.
	WindowAt [2]float64 `json:"window_at"`
	// GPUs has the UUIDs of the GPUs with memory of the program; "" for a UUID that PyTorch does not report.
	GPUs    []string        `json:"gpus"`
	CPU     float64         `json:"cpu_s"`
	Startup float64         `json:"startup_s"`
	Losses  []string        `json:"losses"`
	Memory  int64           `json:"memory_bytes"`
	Applied map[string]int  `json:"applied"`
	Blocks  []tune.Switched `json:"blocks"`
}

// Run implements Runner.
func (c *Command) Run(ctx context.Context, s Set, p Plan, limit time.Duration) (tune.ProgramRun, error) {
	run := tune.ProgramRun{Key: s.Key(), Plan: [2]int{p.Warm, p.Steps}}
	err := c.runHooked(ctx, &run, s, hookConfig{Settings: s.hookSettings()}, limit)
	return run, err
}

// Switch implements Runner.
func (c *Command) Switch(ctx context.Context, cells Cells, warm int, limit time.Duration) (tune.ProgramRun, error) {
	run := tune.ProgramRun{Key: cells.Key(), Plan: [2]int{warm, cells.countSteps()}}
	err := c.runHooked(ctx, &run, cells.Base, hookConfig{Settings: cells.Base.hookSettings(), Blocks: cells.config()}, limit)
	return run, err
}

func (c *Command) runHooked(ctx context.Context, run *tune.ProgramRun, s Set, config hookConfig, limit time.Duration) error {
	began := time.Now()
	if c.Folder != nil {
		if err := c.Folder.Restore(); err != nil {
			return err
		}
	}
	scratch, err := child.NewScratch("tune")
	if err != nil {
		return gpuprof.Errorf(nil, "making a folder for a run: %w", err).WithFix("check TMPDIR")
	}
	defer scratch.Close()
	out := filepath.Join(scratch.Dir, "result.json")
	config.Warm, config.Steps, config.Losses, config.End, config.Out = run.Plan[0], run.Plan[1], lossesKept, true, out
	if err := record.WriteHook(scratch.Dir, hookFiles, config, filepath.Join(scratch.Dir, "hook.jsonl")); err != nil {
		return gpuprof.Errorf(nil, "writing the Python hook: %w", err).
			WithFix("point TMPDIR to a folder that takes files")
	}
	words := map[string]string{}
	maps.Copy(words, c.Start)
	maps.Copy(words, s.arguments())
	spent := child.Spent{}
	// The limit includes the time of restoring the folder.
	cmd := child.Command{Args: fillPlaceholders(c.Args, words), Limit: max(limit-time.Since(began), time.Millisecond),
		Spent: &spent, Env: append(s.environment(), "PYTHONPATH="+pythonPath(scratch.Dir))}
	if c.Folder != nil {
		cmd.Dir = c.Folder.Dir
	}
	began = time.Now()
	stop := c.Meter.start()
	printed, messages, err := cmd.Run(ctx)
	run.Seconds = time.Since(began).Seconds()
	seen := stop()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if lacking := (*exec.Error)(nil); errors.As(err, &lacking) {
		return gpuprof.Errorf(gpuprof.ErrUsage, "running %s: %w", cmd.Args[0], lacking.Err).
			WithFix("give its full path, or install it")
	}
	if errors.Is(err, child.ErrLong) {
		c.stopRun(run, began.Add(cmd.Limit), out)
		return nil
	}
	c.readMeasurement(run, out, printed, spent, failureText(err, messages), seen)
	return nil
}

// stopRun marks a run that was stopped at a time, and sets the lower bound of its cost. A run with steps has a bound
// only if its measurement had begun. The hook stores that time in a file, in seconds since 1970.
func (c *Command) stopRun(run *tune.ProgramRun, at time.Time, out string) {
	run.Stopped = tune.StopRun
	if c.Whole {
		run.AtLeast = run.Seconds - time.Since(at).Seconds()
		return
	}
	text, err := outside.ReadFound(out + beganSuffix)
	if err != nil || run.Plan[1] == 0 {
		return
	}
	if began, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64); err == nil {
		measured := float64(at.UnixMicro())/1e6 - began
		run.AtLeast = max(tune.FiniteOrZero(measured/float64(run.Plan[1])), 0)
	}
}

// beganSuffix ends the name of the file that has the time at which the measurement began.
const beganSuffix = ".began"

// readMeasurement reads a run's figures from the hook's result. A run without hook steps gets the time of a benchmark
// result that the program printed, or else the process's times.
func (c *Command) readMeasurement(run *tune.ProgramRun, file string, printed []byte, spent child.Spent, failed string,
	seen map[string][]update,
) {
	text, err := outside.ReadFound(file)
	var h hookResult
	switch {
	case err == nil:
		if err = json.Unmarshal(text, &h); err != nil {
			run.Failed = "the hook left a result that cannot be read: " + err.Error()
			return
		}
		run.Hook, run.Took, run.Losses, run.Memory, run.StartupS = &h.HookReport, h.Applied, h.Losses, h.Memory, h.Startup
		run.Blocks = h.Blocks
		if !c.Whole {
			fromSteps(run, &h, failed)
			c.Meter.setEnergy(run, &h, seen)
			return
		}
	case !errors.Is(err, fs.ErrNotExist):
		run.Failed = "the hook left a result that cannot be read: " + err.Error()
		return
	}
	if failed != "" {
		run.Failed = failed
		return
	}
	run.Cost, run.CPU = spent.Wall.Seconds(), spent.CPU.Seconds()
	if cost, ok := printedCost(printed); ok {
		run.Cost, run.Printed = cost, true
	}
}

// fromSteps sets the cost and CPU time per step, in seconds, from the hook's result.
func fromSteps(r *tune.ProgramRun, h *hookResult, failed string) {
	if h.Ended && failed != "" { // the program failed after its last step
		r.Failed = failed
		return
	}
	if h.Steps <= 0 || h.Window <= 0 {
		r.Failed = cmp.Or(failed, "it made too few steps")
		return
	}
	r.Cost, r.CPU = h.Window/float64(h.Steps), h.CPU/float64(h.Steps)
}

// printedCost returns the total, or else the first time, of a benchmark result that the program printed, in seconds.
func printedCost(text []byte) (seconds float64, ok bool) {
	if !results.Known(text) {
		return 0, false
	}
	found, _, err := results.Parse(text, "standard output", nil)
	if err != nil || len(found) == 0 {
		return 0, false
	}
	r := results.Process(found[0])
	for _, m := range r.Metrics {
		if m.Unit == "s" && !m.Exact && !m.Beside && (r.Total == "" || m.Name == r.Total) {
			v := stats.MedianOfRuns(m.Runs)
			return v, v > 0 && !math.IsInf(v, 0)
		}
	}
	return 0, false
}

// failureText returns why a process failed, with the last line of its standard error; "" if err is nil.
func failureText(err error, messages string) string {
	if err == nil {
		return ""
	}
	why := err.Error()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		why = "it ended with " + exit.ProcessState.String()
	}
	lines := strings.Split(strings.TrimSpace(messages), "\n")
	if last := document.CleanText(strings.TrimSpace(lines[len(lines)-1])); last != "" {
		why += ": " + last[:min(len(last), longestWords)]
	}
	return why
}

// longestWords limits the quoted last line of a program's output, bytes.
const longestWords = 300

// pythonPath returns PYTHONPATH with the hook's folder first, so that Python finds the hook's sitecustomize.
func pythonPath(dir string) string {
	if rest := os.Getenv("PYTHONPATH"); rest != "" {
		return dir + string(os.PathListSeparator) + rest
	}
	return dir
}
