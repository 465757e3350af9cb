package judge

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// leastLimit is the shortest time limit of a process, so that the first block is measured even with a small budget.
const leastLimit = 10 * time.Second

// LimitOf returns the time limit of the next process: the largest of the remaining budget, three times the longest
// process so far, and the shortest limit (leastLimit, or the App's Limit).
func LimitOf(a *cli.App, budget, spent, longest time.Duration) time.Duration {
	return max(budget-spent, 3*longest, cmp.Or(a.Limit, leastLimit))
}

func (m *ProcessPairs) runBounded(s Side, args ...string) ([]byte, error) {
	began := time.Now()
	m.spent = child.Spent{}
	out, err := m.Run.runChild(child.Command{Args: args, Dir: s.Dir, Limit: m.Patience(), Spent: &m.spent})
	m.Longest = max(m.Longest, time.Since(began))
	return out, err
}

// failSide adds the side's name to an error of its process. If the side has a checkout of its own, it also adds which
// of the user's files this checkout lacks.
func (m *ProcessPairs) failSide(s Side, err error) error {
	return m.Run.WithLacking(s.Name, s.Made, m.sideError(s, err))
}

func (m *ProcessPairs) sideError(s Side, err error) error {
	exit, ended := errors.AsType[*exec.ExitError](err)
	switch {
	case errors.Is(err, cli.ErrInterrupted):
		return interruptedGate(s.Name)
	case errors.Is(err, child.ErrLong):
		return gpuprof.Errorf(gpuprof.ErrInput, "measuring %s: %s: %w", s.Name, s.Args[0], err).WithFix("run it by itself to see why, or give more than --budget %s", m.Budget)
	case ended && s.own && exit.ExitCode() == cli.ExitUsage:
		return gpuprof.Errorf(gpuprof.ErrUsage, "measuring %s: %s", s.Name, strings.TrimPrefix(err.Error(), exit.Error()+": gpuprof: "))
	case errors.Is(err, gpuprof.ErrInput):
		return err
	}
	return gpuprof.Errorf(gpuprof.ErrInput, "measuring %s: %s failed: %w", s.Name, s.Args[0], err).WithFix("run it by itself to see why")
}

// clearResult removes the result file of an earlier process, so that it is not mistaken for the next process's result.
// It refuses a file that is not regular.
func clearResult(s Side) error {
	if s.File == "" {
		return nil
	}
	info, err := os.Stat(s.File)
	if err == nil && !info.Mode().IsRegular() {
		return gpuprof.Errorf(gpuprof.ErrUsage, "measuring %s: the --result %s is a folder, a pipe or a device", s.Name, s.File).WithFix("give a plain file")
	}
	if err := os.Remove(s.File); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return gpuprof.Errorf(gpuprof.ErrUsage, "measuring %s: %w", s.Name, err).WithFix("give --result a file that can be written")
	}
	return nil
}

// readResult reads a process's result file. It refuses a pipe, since reading would wait for a writer.
func readResult(s Side) ([]byte, error) {
	out, err := outside.ReadFound(s.File)
	_, irregular := errors.AsType[*outside.Irregular](err)
	switch {
	case irregular || errors.Is(err, outside.ErrFolder):
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "measuring %s: it left %s, which is a folder, a pipe or a device and no result", s.Name, s.File).WithFix("have it write a plain file")
	case errors.Is(err, fs.ErrNotExist):
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "measuring %s: it left no result: %w", s.Name, err)
	case err != nil:
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "measuring %s: its result %s: %w", s.Name, s.File, err)
	}
	return out, nil
}
