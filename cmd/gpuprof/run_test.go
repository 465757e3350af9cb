package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/runfile"
)

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
		{errInterrupted, 130},
		{fmt.Errorf("words%w", silent{context.Canceled}), 130},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("exitCode(%v) = %d, want %d", c.err, got, c.want)
		}
	}
}

func TestFlatten(t *testing.T) {
	kind := gpuprof.Errorf(gpuprof.ErrUsage, "one")
	got := flatten(errors.Join(kind, errors.Join(errors.New("two\nlines"), nil, errors.New("three"))))
	var words []string
	for _, e := range got {
		words = append(words, sentence(e))
	}
	if diff := cmp.Diff([]string{"one", "two lines", "three"}, words); diff != "" {
		t.Error(diff)
	}
}

func TestProduct(t *testing.T) {
	axes, err := parseSets([]string{"a=1,2", "b=x=y.xyz", "c=u,v"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range product(axes) {
		got = append(got, describe(s))
	}
	want := []string{"a=1 b=x=y.xyz c=u", "a=1 b=x=y.xyz c=v", "a=2 b=x=y.xyz c=u", "a=2 b=x=y.xyz c=v"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFailedCheckLeavesInvalidRun(t *testing.T) {
	var stdout, stderr bytes.Buffer
	s, file := fakeRun(t.Context(), t, &stdout, &stderr, "check")
	err := s.finish()
	if !errors.Is(err, gpuprof.ErrCheck) || exitCode(err) != exitFailed {
		t.Errorf("error %v, want ErrCheck", err)
	}
	runs, err := runfile.Read(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	if runs[0].Status != gpuprof.Invalid || runs[0].Step.N() != 0 {
		t.Errorf("status %s with %d samples, want invalid without times", runs[0].Status, runs[0].Step.N())
	}
	if !strings.Contains(stdout.String(), "INVALID") {
		t.Errorf("the table does not say INVALID:\n%s", &stdout)
	}
}

func TestSweepGoesOnAfterFailure(t *testing.T) {
	var stdout, stderr bytes.Buffer
	s, file := fakeRun(t.Context(), t, &stdout, &stderr, "open", "step", "ok")
	err := s.finish()
	if exitCode(err) != exitFailed {
		t.Errorf("error %v, want exit code %d", err, exitFailed)
	}
	text := fmt.Sprint(err)
	for _, want := range []string{"measuring fail=open: ", "allocating 10 GiB", "measuring fail=step: ", "the device is lost"} {
		if !strings.Contains(text, want) {
			t.Errorf("error %q does not say %q", text, want)
		}
	}
	runs, err := runfile.Read(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	last := runs[len(runs)-1]
	if last.Knobs["fail"] != "ok" || last.Status != gpuprof.Complete {
		t.Errorf("the last point is %s, %s; want ok, complete", last.Knobs["fail"], last.Status)
	}
	for _, r := range runs[:len(runs)-1] {
		if r.Status == gpuprof.Complete {
			t.Errorf("point %s is complete, want partial", r.Knobs["fail"])
		}
	}
}

func TestNoEnergyReachesEveryProcess(t *testing.T) {
	for _, leave := range []bool{false, true} {
		c := &runCmd{target: target{Preset: "small", Device: "host"}, NoEnergy: leave, Runs: 2, Warmup: "auto", Format: "table", Mode: "steady"}
		c.Workload = "e3nn"
		c.Output = []string{filepath.Join(t.TempDir(), "run.json")}
		s, err := c.prepare(&app{tables: wired.tables(), ctx: t.Context(), quiet: true})
		if err != nil {
			t.Fatal(err)
		}
		if s.plans[0].NoEnergy != leave {
			t.Errorf("--no-energy %t: the plan says %t", leave, s.plans[0].NoEnergy)
		}
		if got := slices.Contains(s.processRun(0).args("file"), "--no-energy"); got != leave {
			t.Errorf("--no-energy %t: a process is told %t", leave, got)
		}
	}
}

func TestInterruptedSweepStartsNothingNew(t *testing.T) {
	var stdout, stderr bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	cancel()
	s, file := fakeRun(ctx, t, &stdout, &stderr, "ok", "ok")
	err := s.finish()
	if exitCode(err) != exitInterrupted || !strings.Contains(err.Error(), "before anything was measured") {
		t.Errorf("error %v, want an interrupt before anything was measured", err)
	}
	if _, err := runfile.Read(t.Context(), file); err == nil {
		t.Error("a run file was written although nothing was measured")
	}
}

func TestMergeProcessesKeepsWhatWasMeasured(t *testing.T) {
	var out bytes.Buffer
	s, _ := fakeRun(t.Context(), t, &out, &out, "ok")
	run, err := s.measureOne(0)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := mergeProcesses([]*gpuprof.Run{run}, []error{errors.New("process 2 of 2: killed")})
	if err == nil || merged == nil {
		t.Fatalf("merged %v, error %v; want both", merged, err)
	}
	if merged.Status != gpuprof.Partial || merged.Reason != "process 2 of 2: killed" {
		t.Errorf("status %s because %q, want partial because process 2 was killed", merged.Status, merged.Reason)
	}
	if run.Status != gpuprof.Complete {
		t.Error("the measured run was changed")
	}
}

// What cannot be waited for is left when the program is asked to end.
func TestUnlessEnded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	begun, never := make(chan struct{}), make(chan struct{})
	defer close(never)
	go func() {
		<-begun
		cancel()
	}()
	err := unlessEnded(ctx, func() error {
		close(begun)
		<-never
		return nil
	})
	if exitCode(err) != exitInterrupted {
		t.Errorf("%v", err)
	}
	if err := unlessEnded(t.Context(), func() error { return io.EOF }); !errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
}
