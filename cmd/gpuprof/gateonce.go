package main

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

// limitOf is how long the next process may take: the rest of the budget, or three
// times what one took so far.
func limitOf(a *cli.App, budget, spent, longest time.Duration) time.Duration {
	return max(budget-spent, 3*longest, cmp.Or(a.Limit, leastLimit))
}

// bounded runs a program of a side for what it prints.
func (m *processPairs) bounded(s side, args ...string) ([]byte, error) {
	began := time.Now()
	out, err := m.run.within(m.patience(), s.dir, args...)
	m.longest = max(m.longest, time.Since(began))
	return out, err
}

// failed is the error of a side's process.
func (m *processPairs) failed(s side, err error) error {
	exit, ended := errors.AsType[*exec.ExitError](err)
	switch {
	case errors.Is(err, cli.ErrInterrupted):
		return interruptedGate(s.name)
	case errors.Is(err, child.ErrLong):
		return gpuprof.Errorf(gpuprof.ErrInput, "measuring %s: %s: %w", s.name, s.args[0], err).WithFix("run it by itself to see why, or give more than --budget %s", m.budget)
	case ended && s.own && exit.ExitCode() == cli.ExitUsage:
		return gpuprof.Errorf(gpuprof.ErrUsage, "measuring %s: %s", s.name, strings.TrimPrefix(err.Error(), exit.Error()+": gpuprof: "))
	case errors.Is(err, gpuprof.ErrInput):
		return err
	}
	return gpuprof.Errorf(gpuprof.ErrInput, "measuring %s: %s failed: %w", s.name, s.args[0], err).WithFix("run it by itself to see why")
}

// clearResult removes what an earlier process left: it must not pass for the next
// one's. A pipe or a device is not the gate's to remove.
func clearResult(s side) error {
	if s.file == "" {
		return nil
	}
	info, err := os.Stat(s.file)
	if err == nil && !info.Mode().IsRegular() {
		return gpuprof.Errorf(gpuprof.ErrUsage, "measuring %s: the --result %s is a folder, a pipe or a device", s.name, s.file).WithFix("give a plain file")
	}
	if err := os.Remove(s.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return gpuprof.Errorf(gpuprof.ErrUsage, "measuring %s: %w", s.name, err).WithFix("give --result a file that can be written")
	}
	return nil
}

// readLeft reads the result that a process left. What is no plain file is refused
// without waiting for whoever might write to it.
func readLeft(s side) ([]byte, error) {
	out, err := outside.ReadFound(s.file)
	_, irregular := errors.AsType[*outside.Irregular](err)
	switch {
	case irregular || errors.Is(err, outside.ErrFolder):
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "measuring %s: it left %s, which is a folder, a pipe or a device and no result", s.name, s.file).WithFix("have it write a plain file")
	case errors.Is(err, fs.ErrNotExist):
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "measuring %s: it left no result: %w", s.name, err)
	case err != nil:
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "measuring %s: its result %s: %w", s.name, s.file, err)
	}
	return out, nil
}
