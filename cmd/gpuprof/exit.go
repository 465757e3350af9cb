package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// The exit codes.
const (
	exitOK           = 0
	exitRegression   = 1
	exitUsage        = 2
	exitInconclusive = 3
	exitFailed       = 4
	exitInterrupted  = 130
)

// exitTable lists every code, the one that wins first: a command that was
// both wrong and unlucky reports that it was wrong.
var exitTable = []struct {
	code    int
	meaning string
}{
	{exitInterrupted, "interrupted; the measurements so far are kept"},
	{exitUsage, "the command cannot work: unknown name, bad value, missing input, unwritable output"},
	{exitFailed, "the workload, the device or the input failed"},
	{exitRegression, "a regression was found"},
	{exitInconclusive, "the comparison is inconclusive"},
	{exitOK, "success"},
}

// exitCode maps an error, or several joined, to the code that wins.
func exitCode(err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, gpuprof.ErrUsage):
		return exitUsage
	}
	// A verdict counts where nothing failed beside it.
	code := exitInconclusive
	for _, e := range flatten(err) {
		v, ok := errors.AsType[verdict](e)
		if !ok || v.code == exitFailed {
			return exitFailed
		}
		code = min(code, v.code)
	}
	return code
}

// verdict is the outcome of a command that worked and whose answer is no, or
// is open: exitRegression or exitInconclusive, or exitFailed where part of what
// was to be compared gave no figures.
type verdict struct {
	code int
	text string
}

func (v verdict) Error() string { return v.text }

// exitHelp is the table as the top-level help prints it.
func exitHelp() string {
	var b strings.Builder
	b.WriteString("Exit codes, in order of precedence:\n\n")
	for _, e := range exitTable {
		fmt.Fprintf(&b, "    %3d  %s\n", e.code, e.meaning)
	}
	return b.String()
}

// errInterrupted is context.Canceled in plain words.
var errInterrupted error = interruptedError{}

type interruptedError struct{}

func (interruptedError) Error() string { return "interrupted" }

func (interruptedError) Unwrap() error { return context.Canceled }
