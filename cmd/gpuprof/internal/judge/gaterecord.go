package judge

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/compare/results"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/record"
)

// record runs a side once under gpuprof run --, because its program prints no result. The recorded steps are the
// samples. The error is ErrInput if the program fails or no step is recorded.
func (m *ProcessPairs) record(s Side) (*compare.Result, error) {
	exe, err := cli.OwnProgram()
	if err != nil {
		return nil, err
	}
	scratch, err := child.NewScratch("gate")
	if err != nil {
		return nil, gpuprof.Errorf(nil, "making a folder for the recording: %w", err).WithFix("check TMPDIR")
	}
	defer scratch.Close()
	into := filepath.Join(scratch.Dir, "recording")
	_, err = m.runBounded(s, append([]string{exe, "run", "-o", into, "--"}, s.Args...)...)
	switch exit, ended := errors.AsType[*exec.ExitError](err); {
	case ended:
		said := strings.TrimPrefix(strings.TrimPrefix(err.Error(), exit.Error()), ": ")
		if said != "" {
			said = ": " + said
		}
		err = gpuprof.Errorf(gpuprof.ErrInput, "measuring %s: %s failed while it was recorded: exit code %d%s", s.Name, s.Args[0], exit.ExitCode(), said).WithFix("run %s to see why", s.recordCommand())
		return nil, m.Run.WithLacking(s.Name, s.Made, err)
	case err != nil:
		return nil, m.failSide(s, err)
	}
	analysis := filepath.Join(into, "analysis.json")
	if _, err := os.Stat(analysis); err != nil {
		return nil, stepsError(s)
	}
	found, _, err := results.Read(analysis, results.OS)
	if err != nil {
		return nil, err
	}
	r := results.Process(found[0])
	if step := r.Metric("step"); step == nil || len(step.Runs[0]) == 0 {
		return nil, stepsError(s)
	}
	r.Source = s.Name
	if recorded, err := record.ReadResult(into); err == nil {
		addCPU(r, recorded.CPUS)
	}
	return r, nil
}

// errNoSteps marks the error about a program that printed no result and had no steps to record.
var errNoSteps = errors.New("gpuprof run -- recorded no steps of it")

func stepsError(s Side) error {
	return gpuprof.Errorf(gpuprof.ErrInput, "measuring %s: %s printed no result of a known format, and %w", s.Name, s.Args[0], errNoSteps).WithFix("name the file it writes with --result, or run %s to see why", s.recordCommand())
}

// recordFirst runs a side under the recorder, because its first process printed no result. If no steps are recorded,
// this and all later processes are timed as a whole.
func (m *ProcessPairs) recordFirst(s Side) (*compare.Result, error) {
	spent := m.spent
	m.Recorded = true
	m.Run.App.Note("%s prints no result of a known format: each process of either side is run under gpuprof run --, and the steps recorded of it are its samples", s.Args[0])
	r, err := m.record(s)
	if !errors.Is(err, errNoSteps) {
		return r, err
	}
	m.Whole, m.Recorded, m.spent = true, false, spent
	m.Run.App.Note("gpuprof run -- recorded no steps of %s: each process is timed as a whole, from its start to its end; --metric cpu judges its CPU time", s.Args[0])
	return m.processResult(s), nil
}

// Names of the metrics of a process that is timed as a whole: elapsed time and CPU time.
const (
	wallMetric = "wall"
	cpuMetric  = "cpu"
)

func (m *ProcessPairs) processResult(s Side) *compare.Result {
	r := &compare.Result{Source: s.Name, Tool: "process", Status: gpuprof.Complete, Env: map[string]string{"format": "process"}, Facts: map[string]string{}, Knobs: map[string]compare.Knob{}, Code: map[string]string{},
		Metrics: []compare.MetricData{{Metric: compare.Metric{Name: wallMetric, Unit: "s"}, Runs: [][]float64{{m.spent.Wall.Seconds()}}}}}
	addCPU(r, m.spent.CPU.Seconds())
	return r
}

// addCPU adds the CPU time of a process as a metric, unless the program itself reports a metric of this name. It is the
// user and system time, s, of the program and of the descendants that it waited for. The metric is judged only if
// --metric names it.
func addCPU(r *compare.Result, seconds float64) {
	if seconds > 0 && r.Metric(cpuMetric) == nil {
		r.Metrics = append(r.Metrics, compare.MetricData{Metric: compare.Metric{Name: cpuMetric, Unit: "s", Beside: true}, Runs: [][]float64{{seconds}}})
	}
}

// recordCommand returns a command line that records this side alone, for messages.
func (s Side) recordCommand() string {
	words := document.MaskCommand(s.Args)
	for i := range words {
		words[i] = gpuprof.ShellWord(words[i])
	}
	return "gpuprof run -- " + strings.Join(words, " ")
}

func interruptedGate(name string) error {
	return gpuprof.Errorf(nil, "measuring %s: %w", name, cli.ErrInterrupted).WithFix("run it again: an interrupted gate keeps no result")
}
