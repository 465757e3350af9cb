//go:build !race

// Processes are started, and the race detector sees nothing of them.

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/testkit/sim"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/read/cupti"
)

// onSmallDisk runs a shell command in dir, where the folder "small" is a file system of so many KB. It is gone with the
// command: what is looked at later is copied out of it.
func onSmallDisk(t *testing.T, dir, size string, env []string, command string) (stdout, stderr string) {
	t.Helper()
	alone := []string{"unshare", "-m"}
	if os.Geteuid() != 0 {
		alone = []string{"unshare", "-rm"}
	}
	small := filepath.Join(dir, "small")
	if err := os.MkdirAll(small, 0o755); err != nil {
		t.Fatal(err)
	}
	mount := "mount -t tmpfs -o size=" + size + "k none " + small
	if out, err := exec.Command(alone[0], alone[1], "sh", "-c", mount).CombinedOutput(); err != nil {
		t.Skipf("no file system can be mounted here, so a full disk is NOT TESTED on this machine: %v: %s", err, out) //nolint:forbidigo // the right to mount is no part of the repository; TestCUDAFullDisk fakes a full disk everywhere
	}
	var o, e bytes.Buffer
	cmd := exec.CommandContext(t.Context(), alone[0], alone[1], "sh", "-c", mount+" && "+command)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, &o, &e
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, &o, &e)
	}
	return o.String(), e.String()
}

// A disk that is full ends the recording with a sentence; the program, its output and its exit code are untouched, and
// what was written by then is read and analysed.
func TestRecorderOnAFullDisk(t *testing.T) {
	program, err := builtCUDAProgram()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		size, end string
		code      string
	}{
		"a few hundred KB": {"400", "", "0"},
		"it fails":         {"300", " _exit 299", "3"},
		"full at once":     {"44", "", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			self := selfCommand(t, dir)
			env := append(slices.Clone(self.Env), "TEST_PTX="+program[1], "TEST_KERNEL=null", "LD_LIBRARY_PATH="+filepath.Dir(sim.Library(t)), "GPUPROF_TEST_RECORDER=flush_ms=1,",
				"SELF="+self.Path, "PROGRAM="+program[0], "CUPTI="+sim.CUPTI(t, "12.9"))
			// The command's name decides what the test binary is.
			if err := os.Symlink(self.Path, filepath.Join(dir, "gpuprof")); err != nil {
				t.Fatal(err)
			}
			stdout, stderr := onSmallDisk(t, dir, c.size, env,
				`./gpuprof run --cuda --cupti $CUPTI -o small/out -- $PROGRAM 300 20`+c.end+`; echo "code $?"; cp small/out/trace-*.gpt . 2>/dev/null; true`)
			said := "done 300\n"
			if c.end != "" {
				said = ""
			}
			if stdout != said+"code "+c.code+"\n" {
				t.Errorf("%q", stdout)
			}
			// Where not even the recorder's own account could be written gpuprof says it in its words.
			byRecorder := strings.Contains(stderr, "could not write its recording (No space left on device), and the program went on; free some space in ")
			byUs := name == "full at once" && strings.Contains(stderr, "the program could not write its recording (no space left in small/out), and went on; free some space there")
			if !byRecorder && !byUs {
				t.Errorf("it does not say that the disk is full: %s", stderr)
			}
			for line := range strings.Lines(stderr) {
				if strings.Contains(line, "without closing its recording") {
					t.Errorf("a recording that ended for lack of space is said to be cut off: %s", line)
				}
			}
			found, err := filepath.Glob(filepath.Join(dir, "trace-*.gpt"))
			if err != nil || (len(found) == 1) != (name != "full at once") {
				t.Fatalf("%v, %v\n%s", found, err, stderr)
			}
			for _, path := range found {
				kernels := kernelsIn(t, path)
				if kernels == 0 || kernels >= 6000 {
					t.Errorf("%d kernels", kernels)
				}
			}
		})
	}
}

// kernelsIn counts the kernels of a recording.
func kernelsIn(t *testing.T, path string) (kernels int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tr, err := cupti.Read(t.Context(), f, path, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range tr.GPU {
		if tr.GPU[i].Kind == model.Kernel {
			kernels++
		}
	}
	return kernels
}
