//go:build linux && !race

// Programs are started, and what is looked at is done by them: the race detector sees nothing of it.

package record

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/testkit/sim"
)

// A killed program keeps everything but what came after the last flush, which is a tenth of a second
// unless it is told otherwise: twenty flushes after its 300th step all of these are there.
func TestCUDAKilledKeepsWhatWasFlushed(t *testing.T) {
	for _, release := range []string{"11.7", "12.9", "13.5"} {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			b := newCUDA(t, release, "301", "20", "flushed", "300")
			b.options.RecorderConfig = "flush_ms=1\n"
			r := b.run()
			tr := recording(t, r)
			if kernels, copies, _, _ := counted(tr); r.ExitCode != 137 || !tr.Truncated || kernels < 301*20 || copies < 601 {
				t.Errorf("exit code %d, truncated %t, %d kernels and %d copies of %d and more", r.ExitCode, tr.Truncated, kernels, copies, 301*20)
			}
		})
	}
}

// shared builds a shared library of C; an empty source is a stand-in that is only there.
func shared(t *testing.T, path, source string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if source == "" {
		source = filepath.Join(t.TempDir(), "empty.c")
		if err := os.WriteFile(source, []byte("int nothing;\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-O1", "-o", path, source, "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// A disk that is full ends the recording with a sentence; what is there can be read, and the program goes on.
func TestCUDAFullDisk(t *testing.T) {
	full := shared(t, filepath.Join(t.TempDir(), "shim.so"), "testdata/shim.c")
	for room, kernels := range map[string]int{"0": 0, "100": 0, "60000": 1} {
		t.Run(room, func(t *testing.T) {
			t.Parallel()
			b := newCUDA(t, "12.9", "300", "20")
			b.env = setEnviron(b.env, map[string]string{"LD_PRELOAD": full, "TEST_ROOM": room})
			b.options.RecorderConfig = "flush_ms=1\n"
			r := b.run()
			said := ""
			for _, w := range r.Warnings {
				said += w.Code + ": " + w.Text + "; " + w.Fix + "\n"
			}
			if r.ExitCode != 0 || b.out != "done 300\n" || !strings.HasPrefix(b.err, "waited ") || !strings.Contains(said, "no-space: ") || !strings.Contains(said, "choose another folder with -o") {
				t.Fatalf("exit code %d, %q, %q, %q", r.ExitCode, b.out, b.err, said)
			}
			got := 0
			for _, path := range r.Traces {
				n, _, _, _ := counted(readRecording(t, path))
				got += n
			}
			if got < kernels || got >= 6000 {
				t.Errorf("%d kernels, %v", got, r.Traces)
			}
		})
	}
}

// While a program launches, its thread writes nothing and waits for nothing of the recorder's,
// however many records there are.
func TestCUDANoWaits(t *testing.T) {
	shim := shared(t, filepath.Join(t.TempDir(), "shim.so"), "testdata/shim.c")
	for _, release := range []string{"11.7", "12.9", "13.5"} {
		for _, steps := range []string{"10", "1000"} {
			t.Run(release+" "+steps, func(t *testing.T) {
				t.Parallel()
				b := newCUDA(t, release, steps, "20")
				b.env = setEnviron(b.env, map[string]string{"LD_PRELOAD": shim})
				b.options.RecorderConfig = "flush_ms=1\n"
				if r := b.run(); r.ExitCode != 0 || b.err != "waited 0 times\n" || len(r.Traces) != 1 {
					t.Errorf("exit code %d, %q, %v", r.ExitCode, b.err, r.Traces)
				}
			})
		}
	}
}

// Of several libcupti the one that the process has is used, then the one beside its CUDA runtime, then the
// machine's in their order; one that lacks a function is passed over.
func TestCUDASeveralCUPTI(t *testing.T) {
	runtime := shared(t, filepath.Join(t.TempDir(), "cupti-12.4", "lib64", "libcudart.so.12"), "")
	beside := filepath.Join(filepath.Dir(runtime), "..", "extras", "CUPTI", "lib64")
	if err := os.MkdirAll(beside, 0o755); err != nil {
		t.Fatal(err)
	}
	// The stand-in knows its release by the folder in which it lies.
	if err := os.Symlink(sim.CUPTI(t, "12.4"), filepath.Join(beside, "libcupti.so.12")); err != nil {
		t.Fatal(err)
	}
	lacks, good := sim.CUPTIWithout(t, "12.9", "VERSION"), sim.CUPTI(t, "12.2")
	for name, c := range map[string]struct {
		load string
		want int // version of the interface
	}{
		"the program's own":   {load: sim.CUPTI(t, "12.8"), want: 26},
		"beside the runtime":  {load: runtime, want: 22},
		"the machine's":       {want: 20},
		"own and the runtime": {load: runtime + ":" + sim.CUPTI(t, "13.0"), want: 130001},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newCUDA(t, "12.9", "10", "20")
			driver := lookup(b.env, "LD_LIBRARY_PATH")
			b.env = setEnviron(b.env, map[string]string{"TEST_LOAD": c.load, "LD_LIBRARY_PATH": strings.Join([]string{driver, filepath.Dir(lacks), filepath.Dir(good)}, ":")})
			b.options.CUPTI = ""
			b.options.AskCUPTI = func(path string) (int, error) {
				return map[string]int{lacks: 28, good: 20}[path], nil // others are the machine's own
			}
			r := b.run()
			if len(r.CUDA) != 1 || r.CUDA[0].CUPTI != c.want || r.ExitCode != 0 || b.err != "" {
				t.Fatalf("exit code %d, %q, %+v, %v", r.ExitCode, b.err, r.CUDA, r.Warnings)
			}
			if kernels, _, _, _ := counted(recording(t, r)); kernels != 200 {
				t.Errorf("%d kernels", kernels)
			}
		})
	}
}

// Of a program that is killed before the recorder first wrote it is not said that it launched nothing.
func TestCUDAKilledBeforeTheFirstFlush(t *testing.T) {
	for how, exit := range map[string]int{"kill": 137, "_exit": 3} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			b := newCUDA(t, "12.9", "10", "20", how, "5")
			b.options.RecorderConfig = "flush_ms=600000\n"
			r := b.run()
			if r.ExitCode != exit || len(r.Traces) != 0 || len(r.Warnings) != 1 || r.Warnings[0].Code != "no-kernels" || !strings.Contains(r.Warnings[0].Text, "was killed, or left by _exit, before the recorder wrote") {
				t.Errorf("exit code %d, %v, %+v, %v", r.ExitCode, r.Traces, r.CUDA, r.Warnings)
			}
		})
	}
}
