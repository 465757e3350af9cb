package tuneprogram

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
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

// lossesKept limits the compared values handed to backward.
const lossesKept = 64

// Plan holds the number of steps that a run leaves out and the number that it measures.
type Plan struct{ Warm, Steps int }

// Runner runs the program once with settings. The run's Failed holds a failure of the program; an error makes every
// further run pointless.
type Runner interface {
	Run(ctx context.Context, s Set, p Plan, limit time.Duration) (tune.ProgramRun, error)
}

// Command is the user's program.
type Command struct {
	Args   []string          // with {NAME} for words of --try
	Start  map[string]string // the words of the program as it is
	Folder *Folder           // nil: it runs in the present folder
	// Whole: the program makes no steps that the hook sees; it runs to its end and the process is timed.
	Whole bool
}

// CommandLine is the command line of the unchanged program.
func (c *Command) CommandLine() []string { return fillPlaceholders(c.Args, c.Start) }

// hookConfig is the content of config.json, which the hook reads.
type hookConfig struct {
	Settings map[string]any `json:"settings"`
	Warm     int            `json:"warm"`
	Steps    int            `json:"steps"`
	Losses   int            `json:"losses"`
	End      bool           `json:"end"`
	Out      string         `json:"out"`
}

// hookResult is the file that the hook writes.
type hookResult struct {
	tune.HookReport
	Window  float64        `json:"window_s"`
	CPU     float64        `json:"cpu_s"`
	Startup float64        `json:"startup_s"`
	Losses  []string       `json:"losses"`
	Memory  int64          `json:"memory_bytes"`
	Applied map[string]int `json:"applied"`
}

// Run implements Runner.
func (c *Command) Run(ctx context.Context, s Set, p Plan, limit time.Duration) (tune.ProgramRun, error) {
	run := tune.ProgramRun{Key: s.Key(), Plan: [2]int{p.Warm, p.Steps}}
	if c.Folder != nil {
		if err := c.Folder.Restore(); err != nil {
			return run, err
		}
	}
	scratch, err := child.NewScratch("tune")
	if err != nil {
		return run, gpuprof.Errorf(nil, "making a folder for a run: %w", err).WithFix("check TMPDIR")
	}
	defer scratch.Close()
	out := filepath.Join(scratch.Dir, "result.json")
	if err := writeHook(scratch.Dir, hookConfig{Settings: s.hookSettings(), Warm: p.Warm, Steps: p.Steps,
		Losses: lossesKept, End: true, Out: out}); err != nil {
		return run, gpuprof.Errorf(nil, "writing the Python hook: %w", err).
			WithFix("point TMPDIR to a folder that takes files")
	}
	words := map[string]string{}
	maps.Copy(words, c.Start)
	maps.Copy(words, s.arguments())
	spent := child.Spent{}
	cmd := child.Command{Args: fillPlaceholders(c.Args, words), Limit: limit, Spent: &spent, Env: append(s.environment(),
		"PYTHONPATH="+pythonPath(scratch.Dir))}
	if c.Folder != nil {
		cmd.Dir = c.Folder.Dir
	}
	began := time.Now()
	printed, said, err := cmd.Run(ctx)
	run.Seconds = time.Since(began).Seconds()
	if ctx.Err() != nil {
		return run, ctx.Err()
	}
	if lacking := (*exec.Error)(nil); errors.As(err, &lacking) {
		return run, gpuprof.Errorf(gpuprof.ErrUsage, "running %s: %w", cmd.Args[0], lacking.Err).
			WithFix("give its full path, or install it")
	}
	c.readMeasurement(&run, out, printed, spent, failureText(err, said, limit))
	return run, nil
}

// readMeasurement takes the figures of a run from what it left: the hook's result, a printed one, or the times of the process.
func (c *Command) readMeasurement(run *tune.ProgramRun, file string, printed []byte, spent child.Spent, failed string) {
	text, err := outside.ReadFound(file)
	var h hookResult
	switch {
	case err == nil:
		if err = json.Unmarshal(text, &h); err != nil {
			run.Failed = "the hook left a result that cannot be read: " + err.Error()
			return
		}
		run.Hook, run.Took, run.Losses, run.Memory, run.StartupS = &h.HookReport, h.Applied, h.Losses, h.Memory, h.Startup
		if !c.Whole {
			fromSteps(run, &h, failed)
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
		run.Cost = cost
	}
}

// fromSteps are the figures of a run whose steps the hook saw.
func fromSteps(r *tune.ProgramRun, h *hookResult, failed string) {
	if h.Ended && failed != "" { // the program raised an error behind its steps
		r.Failed = failed
		return
	}
	if h.Steps <= 0 || h.Window <= 0 {
		r.Failed = cmp.Or(failed, "it made too few steps")
		return
	}
	r.Cost, r.CPU = h.Window/float64(h.Steps), h.CPU/float64(h.Steps)
}

// printedCost is the total of a benchmark result that the program printed, or its first time, in seconds.
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

// failureText returns the reason why a process failed, with the last line that it wrote to standard error; "" if it did
// not fail.
func failureText(err error, said string, limit time.Duration) string {
	if err == nil {
		return ""
	}
	if errors.Is(err, child.ErrLong) {
		return fmt.Sprintf("it had not ended after %s", limit.Round(time.Second))
	}
	why := err.Error()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		why = "it ended with " + exit.ProcessState.String()
	}
	lines := strings.Split(strings.TrimSpace(said), "\n")
	if last := document.CleanText(strings.TrimSpace(lines[len(lines)-1])); last != "" {
		why += ": " + last[:min(len(last), longestWords)]
	}
	return why
}

// longestWords limits the kept part of a program's last line, bytes.
const longestWords = 300

// pythonPath is the search path of Python with the hook's folder first.
func pythonPath(dir string) string {
	if rest := os.Getenv("PYTHONPATH"); rest != "" {
		return dir + string(os.PathListSeparator) + rest
	}
	return dir
}

// writeHook puts the hook and its configuration into a folder.
func writeHook(dir string, c hookConfig) error {
	config, err := json.Marshal(c)
	if err != nil {
		return err
	}
	loader, err := record.PythonLoader()
	if err != nil {
		return err
	}
	files := map[string][]byte{"config.json": config, "sitecustomize.py": loader,
		"status": []byte(filepath.Join(dir, "hook.jsonl"))}
	modules, err := hookFiles.ReadDir("hook")
	for _, m := range modules {
		if err == nil {
			files[m.Name()], err = hookFiles.ReadFile("hook/" + m.Name())
		}
	}
	for name, text := range files {
		if err == nil {
			err = outside.WriteFile(filepath.Join(dir, name), text, 0o644)
		}
	}
	return err
}
