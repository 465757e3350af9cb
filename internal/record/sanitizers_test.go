//go:build linux && !race

// Programs are built and started: the race detector of Go sees nothing of them, and theirs sees all.

package record

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Six threads launch and push ranges while the recorder flushes every millisecond: no race,
// no access outside memory, and every record is kept.
func TestCUDASanitizers(t *testing.T) {
	sources, err := filepath.Glob("../testkit/sim/cupti/*.cpp")
	if err != nil || len(sources) == 0 {
		t.Fatal(err, sources)
	}
	for _, sanitizer := range []string{"thread", "address,undefined"} {
		t.Run(sanitizer, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			in := func(name string) string { return filepath.Join(dir, name) }
			if err := os.WriteFile(in("stub.c"), []byte("int stub;\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			flags := []string{"-g", "-O1", "-fsanitize=" + sanitizer, "-fno-omit-frame-pointer", "-fPIC", "-pthread"}
			for _, build := range [][]string{
				{"gcc", "-shared", "-Wl,-soname,libcuda.so.1", "-o", in("libcuda.so.1"), in("stub.c")},
				{"gcc", "-std=gnu11", "-shared", "-fvisibility=hidden", "-o", in(cudaLibrary), "inject/inject.c", "-ldl"},
				append([]string{"g++", "-std=gnu++17", "-shared", "-fvisibility=hidden", "-DFAMILY=3", "-o", in("libcupti.so.13")}, append(sources, "-ldl")...),
				{"gcc", "-o", in("threads"), "testdata/cuda_threads.c", "-ldl"},
			} {
				if out, err := exec.Command(build[0], slices.Concat(flags, build[1:])...).CombinedOutput(); err != nil {
					t.Fatalf("%v: %v\n%s", build, err, out)
				}
			}
			if err := os.WriteFile(in(cudaConfig), []byte("cupti="+in("libcupti.so.13")+"\nflush_ms=1\nonly=1\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(in("threads"), in(cudaLibrary), in("libcupti.so.13"))
			cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, envCUDA+"="+dir, "ASAN_OPTIONS=detect_leaks=0")
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Fatalf("%v\n%s", err, out)
			}
			all := readCUDA(dir)
			if len(all) != 1 || all[0].Records != 2*6*40*200 || slices.Max(all[0].Lost) != 0 {
				t.Fatalf("%+v", all)
			}
			tr := readRecording(t, in(all[0].File))
			ranges := 0
			for i := range tr.Host {
				if strings.HasPrefix(tr.Name(tr.Host[i].Name), "step ") {
					ranges++
				}
			}
			if kernels, _, _, unlinked := counted(tr); kernels != 6*40*200 || unlinked != 0 || ranges != 6*40 || tr.Truncated {
				t.Errorf("%d kernels, %d without a launch, %d ranges, truncated %t", kernels, unlinked, ranges, tr.Truncated)
			}
		})
	}
}
