package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/report/runfile"
)

// OwnProgram returns the path of this executable, to start it again.
func OwnProgram() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", gpuprof.Errorf(nil, "finding gpuprof's own program: %w", err).WithFix("start it by its path")
	}
	return exe, nil
}

// RequestRate returns the flag that sets a process's request rate, 1/s, in place of the rate in its settings.
func RequestRate(rate float64) []string {
	return []string{"--request-rate", strconv.FormatFloat(rate, 'g', -1, 64)}
}

// ProcessError returns the error of a failed gpuprof process. err has the exit code, which decides the kind of the
// error; text is the end of the process's standard error.
func ProcessError(err error, text string) error {
	text = strings.TrimPrefix(SentenceOf(text), "gpuprof: ")
	var said struct{ Error Complaint }
	if json.Unmarshal([]byte(text), &said) == nil && said.Error.Message != "" {
		text = said.Error.Message
		if said.Error.Fix != "" {
			text += "; " + said.Error.Fix
		}
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return gpuprof.Errorf(nil, "starting gpuprof again: %w", err).WithFix("use --runs 1")
	}
	text = cmp.Or(text, fmt.Sprintf("ended with %s; try --runs 1 to see why", exit.ProcessState))
	switch exit.ExitCode() {
	case ExitUsage:
		return gpuprof.Errorf(gpuprof.ErrUsage, "%s", text)
	case ExitInterrupted:
		return fmt.Errorf("%s%w", text, silent{context.Canceled})
	}
	return errors.New(text)
}

// silent wraps an error: errors.Is finds the error, but its text is not printed.
type silent struct{ error }

func (silent) Error() string { return "" }

func (s silent) Unwrap() error { return s.error }

// ProcessRun describes the measurement of a workload at one setting in another process, by gpuprof run.
type ProcessRun struct {
	Workload, Device, Preset string
	Set                      gpuprof.Settings
	Seed                     uint64
	Mode, Warmup             string
	MinTime, MaxTime         time.Duration
	Samples                  int
	NoEnergy                 bool
	Rate                     float64 // requests per second; 0 for the settings' rate
}

// SettingArgs returns the arguments that select the workload, the device and the knobs.
func (r *ProcessRun) SettingArgs() []string {
	args := []string{"run", r.Workload, "--device", r.Device, "--preset", r.Preset, "--seed", strconv.FormatUint(r.Seed, 10), "--mode", r.Mode}
	for _, k := range slices.Sorted(maps.Keys(r.Set)) {
		args = append(args, "--set", k+"="+r.Set[k])
	}
	return args
}

// Args returns the arguments of the process, which writes its run to file.
func (r *ProcessRun) Args(file string) []string {
	args := append(r.SettingArgs(), "--min-time", r.MinTime.String(), "--max-time", r.MaxTime.String(),
		"--warmup", r.Warmup, "--samples", strconv.Itoa(r.Samples), "--process-out", file)
	if r.NoEnergy {
		args = append(args, "--no-energy")
	}
	if r.Rate > 0 {
		args = append(args, RequestRate(r.Rate)...)
	}
	return args
}

// Measure runs the process, and reads its run from file. If the process failed after some measurements, it returns both
// a run and an error.
func (r *ProcessRun) Measure(ctx context.Context, file string) (*gpuprof.Run, error) {
	exe, err := OwnProgram()
	if err != nil {
		return nil, err
	}
	_, words, runErr := child.Command{Args: append([]string{exe}, r.Args(file)...), Name: os.Args[0]}.Run(ctx)
	if ctx.Err() != nil {
		runErr = ErrInterrupted
	} else if runErr != nil {
		runErr = ProcessError(runErr, words)
	}
	if _, err := os.Stat(file); err != nil {
		return nil, runErr
	}
	read, err := runfile.ReadOwn(file)
	if err != nil {
		return nil, errors.Join(runErr, err)
	}
	return read[0], runErr
}
