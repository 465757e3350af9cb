//go:build linux && !race

// Processes are started, and the race detector sees nothing of them.

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/testkit/sim"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/read/cupti"
)

// reported is a count in the simulated driver's report.
func reported(t *testing.T, text []byte, name string) (n int) {
	t.Helper()
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, name+" %d", &n); err == nil {
			return n
		}
	}
	t.Fatalf("the report has no %s", name)
	return 0
}

// Of gpuprof's own run on the simulated driver the recorder keeps exactly what the driver
// counts, with the libcupti of every release.
func TestRecorderKeepsWhatTheDriverCounts(t *testing.T) {
	driver := sim.Library(t)
	releases := sim.CUPTIReleases()
	for i, release := range releases {
		if !nightly && i%4 != 0 && i != len(releases)-1 {
			continue // by day the oldest, the newest and some between
		}
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			inner := filepath.Join(dir, "gpuprof")
			if err := os.Symlink(selfPath(t), inner); err != nil {
				t.Fatal(err)
			}
			cmd := selfCommand(t, dir, "run", "--cuda", "--cupti", sim.CUPTI(t, release), "--time-window", "10m", "-o", "out", "--",
				inner, "run", "e3nn", "--device", "cuda", "--preset", "small", "--set", "batch=4", "--set", "edges=40", "--warmup", "2", "--samples", "3", "--max-time", "500ms", "-o", "run.json")
			// The end of its context waits for the last records, however busy the machine is.
			cmd.Env = append(cmd.Env, "GPUPROF_TEST_DRIVER="+driver, "GPUPROF_SIM=attr.38=65536;report="+filepath.Join(dir, "report"), "GPUPROF_TEST_RECORDER=leave_ms=600000,")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			report, err := os.ReadFile(filepath.Join(dir, "report"))
			if err != nil {
				t.Fatal(err)
			}
			found, err := filepath.Glob(filepath.Join(dir, "out", "trace-*.gpt"))
			if err != nil || len(found) != 1 {
				t.Fatalf("%v, %v\n%s", found, err, out)
			}
			f, err := os.Open(found[0])
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			tr, err := cupti.Read(t.Context(), f, found[0], 0)
			if err != nil {
				t.Fatal(err)
			}
			n := map[model.Kind]int{}
			unlinked := 0
			for i := range tr.GPU {
				n[tr.GPU[i].Kind]++
				if tr.GPU[i].Launch < 0 {
					unlinked++
				}
			}
			want := map[model.Kind]int{model.Kernel: reported(t, report, "kernels_run") + reported(t, report, "library_run"), model.Memcpy: reported(t, report, "copies"), model.Memset: reported(t, report, "memsets")}
			for kind, count := range want {
				if n[kind] != count || kind == model.Kernel && count < 100 {
					t.Errorf("%d operations of kind %s, and the driver counts %d", n[kind], kind, count)
				}
			}
			if unlinked > 0 {
				t.Errorf("%d operations have no call that launched them", unlinked)
			}
			if _, err := os.Stat(filepath.Join(dir, "out", "report.html")); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
