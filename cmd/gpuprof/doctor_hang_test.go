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
		{[]string{"doctor", "--check", "--within", "1s"}, exitFailed, "looking at the GPUs for 1s: it had not ended in time"},
		{[]string{"doctor", "--bench", "--quick", "--within", "1s", "-o", "gpu.prom"}, exitFailed, "looking at the GPUs for 1s: it had not ended in time"},
		{[]string{"doctor", "--check", "--as", "prolog", "--within", "1s"}, exitOK, "the job may start, since no GPU is proven to be at fault"},
	} {
		dir := t.TempDir()
		cmd := selfCommand(t, dir, c.args...)
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+driver, "GPUPROF_TEST_DRIVER=")
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if got := cmd.ProcessState.ExitCode(); got != c.code || !strings.Contains(string(out), c.says) {
			t.Errorf("gpuprof %v ended with %d:\n%s", c.args, got, out)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "gpu.prom")); strings.Contains(strings.Join(c.args, " "), "prom") && c.code == exitFailed {
			if err != nil || !strings.Contains(string(text), `gpuprof_gpu_healthy{`) {
				t.Errorf("%v: %s", err, text)
			}
		}
	}
}
