package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/report/runfile"
)

func TestFailedCheckLeavesInvalidRun(t *testing.T) {
	var stdout, stderr bytes.Buffer
	s, file := fakeRun(t.Context(), t, &stdout, &stderr, "check")
	err := s.finish()
	if !errors.Is(err, gpuprof.ErrCheck) || cli.ExitCode(err) != cli.ExitFailed {
		t.Errorf("error %v, want ErrCheck", err)
	}
	runs, err := runfile.Read(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	if runs[0].Status != gpuprof.Invalid || runs[0].Step.N() != 0 {
		t.Errorf("status %s with %d samples, want invalid without times", runs[0].Status, runs[0].Step.N())
	}
	if !strings.Contains(stdout.String(), "[invalid] ") {
		t.Errorf("the table does not say that the run is invalid:\n%s", &stdout)
	}
}

func TestSweepGoesOnAfterFailure(t *testing.T) {
	var stdout, stderr bytes.Buffer
	s, file := fakeRun(t.Context(), t, &stdout, &stderr, "open", "step", "ok")
	err := s.finish()
	if cli.ExitCode(err) != cli.ExitFailed {
		t.Errorf("error %v, want exit code %d", err, cli.ExitFailed)
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
		c := &Cmd{TargetFlags: cli.TargetFlags{Preset: "small", Device: "host"}, NoEnergy: leave, Runs: 2, Warmup: "auto", Format: "table", Mode: "steady"}
		c.Workload = "e3nn"
		c.Output = []string{filepath.Join(t.TempDir(), "run.json")}
		s, err := c.prepare(&cli.App{Tables: testTables(), Ctx: t.Context(), Quiet: true})
		if err != nil {
			t.Fatal(err)
		}
		if s.plans[0].NoEnergy != leave {
			t.Errorf("--no-energy %t: the plan says %t", leave, s.plans[0].NoEnergy)
		}
		if got := slices.Contains(s.processRun(0).Args("file"), "--no-energy"); got != leave {
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
	if cli.ExitCode(err) != cli.ExitInterrupted || !strings.Contains(err.Error(), "before anything was measured") {
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
