package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// The exit codes.
const (
	ExitOK           = 0
	ExitRegression   = 1
	ExitUsage        = 2
	ExitInconclusive = 3
	ExitFailed       = 4
	ExitInterrupted  = 130
)

// exitTable lists every code, the one that wins first: a command that was
// both wrong and unlucky reports that it was wrong.
var exitTable = []struct {
	code    int
	meaning string
}{
	{ExitInterrupted, "interrupted; the measurements so far are kept"},
	{ExitUsage, "the command cannot work: unknown name, bad value, missing input, unwritable output"},
	{ExitFailed, "the workload, the device or the input failed"},
	{ExitRegression, "a regression was found"},
	{ExitInconclusive, "the comparison is inconclusive, or its sides are not comparable"},
	{ExitOK, "success"},
}

// ExitCode maps an error, or several joined, to the code that wins.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.Is(err, gpuprof.ErrUsage):
		return ExitUsage
	}
	// A verdict counts where nothing failed beside it.
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

// Verdict is the outcome of a command that worked and whose answer is no, or
// is open: ExitRegression or ExitInconclusive, or ExitFailed where part of what
// was to be compared gave no figures.
type Verdict struct {
	Code int
	Text string
}

func (v Verdict) Error() string { return v.Text }

// ExitHelp is the table as the top-level help prints it.
func ExitHelp() string {
	var b strings.Builder
	b.WriteString("Exit codes, in order of precedence:\n\n")
	for _, e := range exitTable {
		fmt.Fprintf(&b, "    %3d  %s\n", e.code, e.meaning)
	}
	return b.String()
}

// ErrInterrupted is context.Canceled in plain words.
var ErrInterrupted error = interruptedError{}

type interruptedError struct{}

func (interruptedError) Error() string { return "interrupted" }

func (interruptedError) Unwrap() error { return context.Canceled }
