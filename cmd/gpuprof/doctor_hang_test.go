//go:build !race && linux

// The race detector sees nothing of a process that it is not built into.

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
)

// hangingDriver is a folder with libraries of a driver and of NVML that never answer, and
// that no polite signal ends.
func hangingDriver(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "hang.c")
	// They hang while they are loaded, whatever would be asked of them then.
	text := "#include <signal.h>\n#include <unistd.h>\n__attribute__((constructor)) static void hang(void) { signal(SIGTERM, SIG_IGN); for (;;) pause(); }\n"
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"libnvidia-ml.so.1", "libcuda.so.1"} {
		if out, err := exec.Command("cc", "-shared", "-fPIC", "-o", filepath.Join(dir, name), source).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return dir
}

// TestStuckDriver: a driver that never answers holds up no check. A prolog does not drain
// the node for it, since nothing is proven.
func TestStuckDriver(t *testing.T) {
	t.Parallel()
	driver := hangingDriver(t)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"doctor", "--check", "--within", "1s"}, cli.ExitFailed, "looking at the GPUs for 1s: it had not ended in time"},
		{[]string{"doctor", "--bench", "--quick", "--within", "1s", "-o", "gpu.prom"}, cli.ExitFailed, "looking at the GPUs for 1s: it had not ended in time"},
		{[]string{"doctor", "--check", "--as", "prolog", "--within", "1s"}, cli.ExitOK, "the job may start, since no GPU is proven to be at fault"},
	} {
		dir := t.TempDir()
		cmd := selfCommand(t, dir, c.args...)
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+driver, "GPUPROF_TEST_DRIVER=", "GPUPROF_TEST_ROOT="+dir)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if got := cmd.ProcessState.ExitCode(); got != c.code || !strings.Contains(string(out), c.says) {
			t.Errorf("gpuprof %v ended with %d:\n%s", c.args, got, out)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "gpu.prom")); strings.Contains(strings.Join(c.args, " "), "prom") && c.code == cli.ExitFailed {
			if err != nil || !strings.Contains(string(text), `gpuprof_gpu_healthy{`) {
				t.Errorf("%v: %s", err, text)
			}
		}
	}
}

// TestStuckHandle: a GPU whose handle never comes leaves every GPU unchecked, in text and
// metrics. What the kernel's log has is told all the same.
func TestStuckHandle(t *testing.T) {
	t.Parallel()
	stuck, logged := faultyNode{gpus: "|handle=1000", log: []string{}}, faultyNode{gpus: "|handle=1000", log: []string{gone}}
	for name, c := range map[string]struct {
		node faultyNode
		args string
		code int
		says string
	}{
		"check":               {stuck, "--check", cli.ExitFailed, "looking at the GPUs for 1s: it had not ended in time"},
		"bench":               {stuck, "--bench --quick", cli.ExitFailed, "looking at the GPUs for 1s: it had not ended in time"},
		"prolog":              {stuck, "--check --as prolog", cli.ExitOK, "the job may start, since no GPU is proven to be at fault (--unknown healthy)"},
		"prolog, drain":       {stuck, "--check --as prolog --unknown drain", cli.ExitRegression, "the node is to be drained (--unknown drain)"},
		"health":              {stuck, "--check --as health", cli.ExitFailed, "it had not ended in time"},
		"health, drain":       {stuck, "--check --as health --unknown drain", cli.ExitRegression, `NodeName=n7 State=DRAIN Reason="gpuprof: GPUs were not checked"`},
		"XID":                 {logged, "--check", cli.ExitRegression, "xid of 0000:20:00.0"},
		"XID, prolog":         {logged, "--check --as prolog", cli.ExitRegression, "XID 79"},
		"XID of the GPU used": {logged, "--bench --quick", cli.ExitRegression, "XID 79"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			code, out, words := c.node.run(t, dir, append(strings.Fields("doctor --no-color --within 1s -o gpu.prom"), strings.Fields(c.args)...)...)
			prom, err := os.ReadFile(filepath.Join(dir, "gpu.prom"))
			if code != c.code || !strings.Contains(out+words, c.says) || strings.Contains(out, "[healthy] no device") || err != nil ||
				!strings.Contains(string(prom), "gpuprof_gpu_healthy{node=\"n7\"} 0\n") || !strings.Contains(string(prom), "gpuprof_gpu_checked{node=\"n7\"} 0\n") {
				t.Errorf("code %d, %v\n%s%s%s", code, err, out, words, prom)
			}
		})
	}
}
