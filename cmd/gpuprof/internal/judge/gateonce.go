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

// leastLimit is how long a process of a side may take however small the budget: the
// first block is measured in any case.
const leastLimit = 10 * time.Second

// LimitOf is how long the next process may take: the rest of the budget, or three
// times what one took so far.
func LimitOf(a *cli.App, budget, spent, longest time.Duration) time.Duration {
	return max(budget-spent, 3*longest, cmp.Or(a.Limit, leastLimit))
}

// bounded runs a program of a side for what it prints.
func (m *ProcessPairs) bounded(s Side, args ...string) ([]byte, error) {
	began := time.Now()
	m.spent = child.Spent{}
	out, err := m.Run.ran(child.Command{Args: args, Dir: s.Dir, Limit: m.Patience(), Spent: &m.spent})
	m.Longest = max(m.Longest, time.Since(began))
	return out, err
}

// failed is the error of a side's process. It names the side, and what a checkout that was made for it lacks.
func (m *ProcessPairs) failed(s Side, err error) error {
	return m.Run.WithLacking(s.Name, s.Made, m.failedSide(s, err))
}

func (m *ProcessPairs) failedSide(s Side, err error) error {
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

// clearResult removes what an earlier process left: it must not pass for the next
// one's. A pipe or a device is not the gate's to remove.
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

// readLeft reads the result that a process left. What is no plain file is refused
// without waiting for whoever might write to it.
func readLeft(s Side) ([]byte, error) {
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
