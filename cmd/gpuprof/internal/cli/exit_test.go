package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof"
)

func TestVerdictExitCodes(t *testing.T) {
	off, open := Verdict{ExitRegression, "off"}, Verdict{ExitInconclusive, "open"}
	for _, c := range []struct {
		err  error
		code int
	}{
		{off, ExitRegression}, {open, ExitInconclusive}, {errors.Join(open, off), ExitRegression}, {fmt.Errorf("checking: %w", open), ExitInconclusive},
		{errors.Join(off, errors.New("disk full")), ExitFailed}, {errors.Join(off, gpuprof.Errorf(gpuprof.ErrUsage, "no")), ExitUsage},
	} {
		if got := ExitCode(c.err); got != c.code {
			t.Errorf("%q ends with %d, want %d", c.err, got, c.code)
		}
	}
}

func TestExitCode(t *testing.T) {
	usage := gpuprof.Errorf(gpuprof.ErrUsage, "u")
	failed := gpuprof.Errorf(gpuprof.ErrCheck, "f")
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{usage, 2},
		{failed, 4},
		{gpuprof.Errorf(gpuprof.ErrInput, "x"), 4},
		{gpuprof.Errorf(gpuprof.ErrMemory, "x"), 4},
		{gpuprof.Errorf(gpuprof.ErrDevice, "x"), 4},
		{errors.New("x"), 4},
		{fmt.Errorf("around: %w", usage), 2},
		{errors.Join(failed, usage), 2},
		{errors.Join(failed, context.Canceled), 130},
		{ErrInterrupted, 130},
		{fmt.Errorf("words%w", silent{context.Canceled}), 130},
	} {
		if got := ExitCode(c.err); got != c.want {
			t.Errorf("exitCode(%v) = %d, want %d", c.err, got, c.want)
		}
	}
}

func TestFlatten(t *testing.T) {
	kind := gpuprof.Errorf(gpuprof.ErrUsage, "one")
	got := Flatten(errors.Join(kind, errors.Join(errors.New("two\nlines"), nil, errors.New("three"))))
	var words []string
	for _, e := range got {
		words = append(words, Sentence(e))
	}
	if diff := cmp.Diff([]string{"one", "two lines", "three"}, words); diff != "" {
		t.Error(diff)
	}
}
