//go:build !race

// The race detector sees nothing of a process that it is not built into, and built into it
// a process takes ten times as long: TestProcesses starts those whose goroutines are main's.

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/record"
	"github.com/gpuprof/gpuprof/internal/testkit/tracetest"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// recordCommand is `gpuprof run` on the stand-in for torch.
func recordCommand(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	stub, err := filepath.Abs("../../testdata/torchstub")
	if err != nil {
		t.Fatal(err)
	}
	cmd := selfCommand(t, dir, append([]string{"run"}, args...)...)
	cmd.Env = append(cmd.Env, "PYTHONPATH="+stub, "PYTHONDONTWRITEBYTECODE=1")
	return cmd
}

func programPath(t *testing.T) string {
	t.Helper()
	p, err := filepath.Abs("../../internal/record/testdata/program.py")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A trace of 200 MB, as a long or busy program leaves one.
func TestLargeTrace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	big := filepath.Join(dir, "big")
	f, err := os.Create(big)
	if err != nil {
		t.Fatal(err)
	}
	stats, err := tracetest.Write(f, tracetest.Options{Bytes: 200_000_000, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := recordCommand(t, dir, "-o", "out", "--", "python3", programPath(t), "train", "30")
	cmd.Env = append(cmd.Env, "TORCHSTUB_TRACE="+big)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "out", "analysis.json"))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var a analyze.Analysis
	if err := json.Unmarshal(text, &a); err != nil {
		t.Fatal(err)
	}
	if len(a.Steps) != stats.Steps || len(a.Devices) != 1 || a.Devices[0].Kernels != stats.Kernels {
		t.Errorf("%d steps, %d devices; want %d steps and one device with %d kernels", len(a.Steps), len(a.Devices), stats.Steps, stats.Kernels)
	}
}

// TestRecordingIsForItsOwner: nothing of a recording can be read by others, whatever
// the umask, and no secret of the command line is in it.
func TestRecordingIsForItsOwner(t *testing.T) {
	for _, out := range [][]string{nil, {"-o", "out"}, {"-o", "there"}} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "there"), 0o755); err != nil {
			t.Fatal(err)
		}
		command := []string{"python3", programPath(t), "train", "30", "--api-key", "S3CRET", "--url=https://me:S3CRET@host/", "HF_TOKEN=S3CRET"}
		cmd := recordCommand(t, dir, append(append(out, "--"), command...)...)
		if text, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(text), "S3CRET") {
			t.Fatalf("%v\n%s", err, text)
		}
		found, err := filepath.Glob(filepath.Join(dir, "*", "telemetry.json"))
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		folder := filepath.Dir(found[0])
		if info, err := os.Stat(folder); err != nil || filepath.Base(folder) != "there" && info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v, %v", folder, info.Mode(), err)
		}
		entries, err := os.ReadDir(folder)
		if err != nil || len(entries) < 4 {
			t.Fatal(entries, err)
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %v, %v", e.Name(), info.Mode(), err)
			}
			text, err := os.ReadFile(filepath.Join(folder, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "S3CRET") {
				t.Errorf("%s holds the secret", e.Name())
			}
		}
		var r record.Result
		text, err := os.ReadFile(found[0])
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err != nil || len(r.Traces) != 1 || filepath.Base(r.Traces[0]) != r.Traces[0] {
			t.Errorf("traces %q, %v", r.Traces, err)
		}
		if want := document.MaskCommand(command); strings.Join(r.Command, " ") != strings.Join(want, " ") {
			t.Errorf("command %q, want %q", r.Command, want)
		}
	}
}

// Two that begin together in one folder get a folder each.
func TestTwoAtOnce(t *testing.T) {
	dir := t.TempDir()
	var cmds []*exec.Cmd
	for range 3 {
		cmd := recordCommand(t, dir, "--no-analyze", "--", "python3", programPath(t), "train", "30")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, cmd)
	}
	for _, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	traces, err := filepath.Glob(filepath.Join(dir, "gpuprof-*", "trace-*.json"))
	if err != nil || len(traces) != len(cmds) {
		t.Errorf("traces %v, %v; want one in each of %d folders", traces, err, len(cmds))
	}
}
