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
)

// record runs one side in a process of its own under gpuprof run --, for a program
// that prints no result: the steps it recorded are the samples. ErrInput where the
// program failed or no step was recorded.
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
	_, err = m.bounded(s, append([]string{exe, "run", "-o", into, "--"}, s.Args...)...)
	switch exit, ended := errors.AsType[*exec.ExitError](err); {
	case ended:
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "measuring %s: %s failed while it was recorded: exit code %d", s.Name, s.Args[0], exit.ExitCode()).WithFix("run %s to see why", s.recordedBy())
	case err != nil:
		return nil, m.failed(s, err)
	}
	analysis := filepath.Join(into, "analysis.json")
	if _, err := os.Stat(analysis); err != nil {
		return nil, noSteps(s)
	}
	found, _, err := results.Read(analysis, results.OS)
	if err != nil {
		return nil, err
	}
	r := results.Process(found[0])
	if step := r.Metric("step"); step == nil || len(step.Runs[0]) == 0 {
		return nil, noSteps(s)
	}
	r.Source = s.Name
	return r, nil
}

func noSteps(s Side) error {
	return gpuprof.Errorf(gpuprof.ErrInput, "measuring %s: %s printed no result of a known format, and gpuprof run -- recorded no steps of it", s.Name, s.Args[0]).WithFix("name the file it writes with --result, or run %s to see why", s.recordedBy())
}

// recordedBy is the command that records the program by itself, to be typed.
func (s Side) recordedBy() string {
	words := document.MaskCommand(s.Args)
	for i := range words {
		words[i] = gpuprof.ShellWord(words[i])
	}
	return "gpuprof run -- " + strings.Join(words, " ")
}

func interruptedGate(name string) error {
	return gpuprof.Errorf(nil, "measuring %s: %w", name, cli.ErrInterrupted).WithFix("run it again: an interrupted gate keeps no result")
}

// announce says, once, that both sides are recorded from here on.
func (m *ProcessPairs) announce(s Side) {
	m.Recorded = true
	m.Run.App.Note("%s prints no result of a known format: each process of either side is run under gpuprof run --, and the steps recorded of it are its samples", s.Args[0])
}
