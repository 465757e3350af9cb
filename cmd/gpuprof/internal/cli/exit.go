package cli

import (
	"context"
	"errors"

	"github.com/gpuprof/gpuprof"
)

// The exit codes. If several apply, the first of 130, 2, 4, 1, 3, 0 wins: usage errors before failures.
const (
	ExitOK           = 0   // success
	ExitRegression   = 1   // a regression was found
	ExitUsage        = 2   // the command cannot work: unknown name, bad value, missing input, unwritable output
	ExitInconclusive = 3   // the comparison is inconclusive, or its sides are not comparable
	ExitFailed       = 4   // the workload, the device or the input failed
	ExitInterrupted  = 130 // interrupted; the measurements so far are stored
)

// ExitCode maps an error, or several joined errors, to the exit code that wins.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.Is(err, gpuprof.ErrUsage):
		return ExitUsage
	}
	// A Verdict sets the exit code only if nothing failed.
	code := ExitInconclusive
	for _, e := range Flatten(err) {
		v, ok := errors.AsType[Verdict](e)
		if !ok || v.Code == ExitFailed {
			return ExitFailed
		}
		code = min(code, v.Code)
	}
	return code
}

// Verdict is an error with the exit code of a command that worked: ExitRegression, ExitInconclusive, or ExitFailed for
// missing figures. Text is empty if the command has printed the reason.
type Verdict struct {
	Code int
	Text string
}

func (v Verdict) Error() string { return v.Text }

// ExitHelp describes the exit codes for the top-level help.
func ExitHelp() string {
	return "Exit codes: 0 success, 1 regression found, 2 command cannot work, 3 inconclusive\n" +
		"or not comparable, 4 the workload, device or input failed, 130 interrupted.\n"
}

// ErrInterrupted is context.Canceled with the text "interrupted".
var ErrInterrupted error = interruptedError{}

type interruptedError struct{}

func (interruptedError) Error() string { return "interrupted" }

func (interruptedError) Unwrap() error { return context.Canceled }
