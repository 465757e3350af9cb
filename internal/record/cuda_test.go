//go:build linux && !race

// Programs are started, and what is looked at is done by them: the race detector sees nothing of it.

package record

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/testkit/sim"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/read/cupti"
)

// cudaProgram is testdata/cuda_program.c, built once.
var cudaProgram = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "gpuprof-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "cuda_program")
	_, err = exec.Command("gcc", "-O1", "-o", path, "testdata/cuda_program.c", "-ldl").Output()
	return path, err
})

// cudaBed is the program on the simulated driver and the variables that it needs.
type cudaBed struct {
	program string
	env     map[string]string
}

func cudaEnvironment(t testing.TB) cudaBed {
	t.Helper()
	program, err := cudaProgram()
	if err != nil {
		t.Fatal(err)
	}
	text, err := sim.PTX("../../workloads/device/cuda/null.ptx.zst")
	if err != nil {
		t.Fatal(err)
	}
	return cudaBed{program, map[string]string{"TEST_PTX": text, "TEST_KERNEL": "null", "LD_LIBRARY_PATH": filepath.Dir(sim.Library(t))}}
}

// newCUDA is a testbed of the C program on the simulated driver, with the libcupti of a release.
func newCUDA(t *testing.T, release string, args ...string) *testbed {
	t.Helper()
	bed := cudaEnvironment(t)
	b := &testbed{t: t, work: t.TempDir(), dir: t.TempDir()}
	b.env = setEnviron(setEnviron(os.Environ(), bed.env), map[string]string{"TEST_UNTIL": filepath.Join(b.dir, cudaStatus)})
	b.options = defaults(b.dir, append([]string{bed.program}, args...)...)
	b.options.CUDA, b.options.CUPTI, b.options.Nsys = CUDAAlways, sim.CUPTI(t, release), NsysNever
	return b
}

// wholeSteps are more steps than a program has: gpuprof then never asks for the end of its recording, as it does on a
// busy machine once it has seen five steps.
const wholeSteps = 1 << 20

// recording is the only trace of a result, read.
func recording(t *testing.T, r *Result) *model.Trace {
	t.Helper()
	if len(r.Traces) != 1 {
		t.Fatalf("traces %v; %+v; %v", r.Traces, r.CUDA, r.Warnings)
	}
	return readRecording(t, r.Traces[0])
}

func readRecording(t *testing.T, path string) *model.Trace {
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
	return tr
}

// counted are the operations of a trace by kind, and those without a launch.
func counted(tr *model.Trace) (kernels, copies, fills, unlinked int) {
	for i := range tr.GPU {
		switch tr.GPU[i].Kind {
		case model.Kernel:
			kernels++
		case model.Memcpy:
			copies++
		case model.Memset:
			fills++
		}
		if tr.GPU[i].Launch < 0 {
			unlinked++
		}
	}
	return kernels, copies, fills, unlinked
}

// Every release's records are read: each operation is there once, and has the call that launched it.
func TestCUDAReleases(t *testing.T) {
	for _, release := range sim.CUPTIReleases() {
		for _, shape := range []string{"", "two", "graph"} {
			t.Run(release+" "+shape, func(t *testing.T) {
				t.Parallel()
				b := newCUDA(t, release, strings.Fields("10 20 "+shape)...)
				r := b.run()
				if r.ExitCode != 0 || b.out != "done 10\n" || b.err != "" || len(r.Warnings) != 0 || r.Recorder != ByCUDA {
					t.Fatalf("exit code %d, %q, %q, by %s, %v", r.ExitCode, b.out, b.err, r.Recorder, r.Warnings)
				}
				tr := recording(t, r)
				if kernels, copies, fills, unlinked := counted(tr); kernels != 200 || copies != 20 || fills != 10 || unlinked != 0 {
					t.Errorf("%d kernels, %d copies, %d fills, %d without a launch", kernels, copies, fills, unlinked)
				}
				for i := range tr.GPU {
					g := &tr.GPU[i]
					if g.Kind == model.Kernel && (tr.Name(g.Name) != "null" || g.Blocks != 2 || g.Threads != 32 || g.Graph != (shape == "graph")) || g.Kind == model.Memcpy && g.Memory != model.Pageable {
						t.Fatalf("%s %+v", tr.Name(g.Name), g)
					}
				}
				if d := tr.Devices; len(d) != 1 || d[0].SMs != 8 || d[0].Major != 9 || d[0].TotalBytes != 2<<30 || d[0].Name != "gpuprof simulated device" {
					t.Errorf("%+v", d)
				}
				if tr.Truncated || len(tr.Warnings) != 0 {
					t.Errorf("truncated %t, %v", tr.Truncated, tr.Warnings)
				}
			})
		}
	}
}

// Graphs as a whole are one operation each.
func TestCUDAWholeGraphs(t *testing.T) {
	b := newCUDA(t, "12.9", "10", "20", "graph")
	b.options.Graphs = "whole"
	if kernels, _, _, unlinked := counted(recording(t, b.run())); kernels != 10 || unlinked != 0 {
		t.Errorf("%d graphs, %d without a launch", kernels, unlinked)
	}
}

// The recording is asked to end after its time, and the program runs on.
func TestCUDAStop(t *testing.T) {
	b := newCUDA(t, "13.5", "1", "5", "until", "0")
	b.options.WindowAfter, b.options.Window = time.Millisecond, time.Millisecond
	r := b.run()
	if tr := recording(t, r); r.ExitCode != 0 || r.CUDA[0].Ended != "asked" || tr.Truncated {
		t.Errorf("exit code %d, %+v, truncated %t", r.ExitCode, r.CUDA, tr.Truncated)
	}
}

// A program whose launches repeat is recorded until it has its steps, and runs on.
func TestCUDAStopsAfterItsSteps(t *testing.T) {
	for _, shape := range []string{"", "graph"} {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			b := newCUDA(t, "12.9", append(strings.Fields("1 5 "+shape), "until", "0")...)
			b.options.Skip = 3
			r := b.run()
			tr := recording(t, r)
			if r.ExitCode != 0 || r.CUDA[0].Ended != "asked" || r.Skip != 3 || tr.Truncated {
				t.Fatalf("exit code %d, %+v, skip %d, truncated %t", r.ExitCode, r.CUDA, r.Skip, tr.Truncated)
			}
			tr.Program.Skip = r.Skip
			x, err := analyze.NewIndex(t.Context(), tr)
			if err != nil || !strings.HasPrefix(x.StepSource, "the order of launches") || len(x.Steps) < 8 || !x.Steps[2].Dropped || x.Steps[3].Dropped {
				t.Errorf("%v; %d steps by %s", err, len(x.Steps), x.StepSource)
			}
		})
	}
}

// A program that is watched is recorded as long as it runs, in files that are removed when they are
// old: one that can be read is left.
func TestCUDARolls(t *testing.T) {
	b := newCUDA(t, "13.3", "3000", "20")
	b.options.Rolling, b.options.RecorderConfig = true, "flush_ms=1\nmax_mb=1\n"
	r := b.run()
	begun := 0
	for i := range r.CUDA {
		if r.CUDA[i].Ended == "limit" {
			begun++
		}
	}
	tr := recording(t, r)
	if kernels, _, _, _ := counted(tr); r.ExitCode != 0 || begun < 3 || kernels == 0 || kernels >= 60000 || len(r.Warnings) != 0 {
		t.Errorf("exit code %d, %d recordings ended, %d kernels left, %v", r.ExitCode, begun, kernels, r.Warnings)
	}
	short := newCUDA(t, "12.4", "10", "20")
	short.options.Rolling = true
	if kernels, _, _, _ := counted(recording(t, short.run())); kernels != 200 {
		t.Errorf("%d kernels of a program that is short", kernels)
	}
}

// A program that ends in any way has its own exit code, and leaves a recording that is readable.
func TestCUDAEnds(t *testing.T) {
	for how, want := range map[string]struct{ exit, files int }{
		"kill": {137, 1}, "_exit": {3, 1}, "abort": {134, 1}, "exec": {0, 2}, "fork": {0, 1}, "forkfirst": {0, 2}, "stop": {0, 1},
	} {
		for _, release := range []string{"11.8", "13.3"} {
			t.Run(how+" "+release, func(t *testing.T) {
				t.Parallel()
				b := newCUDA(t, release, "40", "20", how, "20")
				b.options.RecorderConfig, b.options.Steps = "flush_ms=1\n", wholeSteps
				r := b.run()
				if r.ExitCode != want.exit || len(r.Traces) > want.files || len(r.Traces) == 0 && how != "kill" && how != "_exit" && how != "abort" {
					t.Fatalf("exit code %d, want %d; %v, %+v, %v", r.ExitCode, want.exit, r.Traces, r.CUDA, r.Warnings)
				}
				for _, path := range r.Traces {
					tr := readRecording(t, path)
					kernels, _, _, _ := counted(tr)
					whole := how == "fork" || how == "forkfirst" || how == "stop" // cuProfilerStop is the program's, and none of ours
					if kernels > 800 || whole && (kernels != 800 || tr.Truncated) {
						t.Errorf("%s: %d kernels, truncated %t", path, kernels, tr.Truncated)
					}
				}
			})
		}
	}
}

// A program that is killed at any time leaves a readable recording.
func TestCUDAKilled(t *testing.T) {
	for n := range 60 {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			b := newCUDA(t, sim.CUPTIReleases()[n%13], "70", "50", "kill", strconv.Itoa(n))
			b.options.RecorderConfig = "flush_ms=1\n"
			r := b.run()
			if r.ExitCode != 137 {
				t.Errorf("exit code %d", r.ExitCode)
			}
			for _, path := range r.Traces {
				readRecording(t, path)
			}
		})
	}
}

// What goes wrong is said, and costs the program nothing.
func TestCUDAFaults(t *testing.T) {
	for name, c := range map[string]struct {
		release, fault, config, without, command string
		code                                     string // of the warning; "" none
		says                                     string
		kernels                                  int // -1 not looked at
	}{
		"another tool, named": {release: "13.1", fault: "busy", code: "other-profiler", says: `another profiler (CUPTI for Other "Tool") holds`},
		"another tool":        {release: "12.8", fault: "busy", code: "other-profiler", says: "another profiler holds"},
		"another driver":      {release: "13.3", fault: "driver", code: "cupti-driver", says: "libcupti 13.3"},
		"not supported":       {release: "12.4", fault: "unsupported", code: "cupti-driver", says: "libcupti 12.4"},
		"no function":         {release: "12.9", without: "VERSION", code: "recorder-failed", says: "cuptiGetVersion"},
		"no buffers":          {release: "12.9", without: "BUFFERS", code: "recorder-failed", says: "cuptiActivityRegisterCallbacks"},
		"a refused kind":      {release: "12.9", fault: "refuses", kernels: 200},
		"drops":               {release: "12.0", fault: "drops", code: "lost-records", says: "7 records that CUPTI dropped", kernels: 200},
		"stalls, 12.8":        {release: "12.8", fault: "stall", config: "buffers=2\nbuffer_kb=4\n", code: "lost-records", says: "buffers that found no room", kernels: -1},
		"stalls, 12.9":        {release: "12.9", fault: "stall", config: "buffers=2\nbuffer_kb=4\n", code: "lost-records", says: "buffers that found no room", kernels: -1},
		"a small file":        {release: "12.9", command: "ulimit -f 1; exec", code: "no-space", says: "no room for a file", kernels: -1},
		"a full file":         {release: "13.5", command: "ulimit -f 2200; exec", config: "flush_ms=1\n", code: "no-space", says: "File too large", kernels: -1},
		"its own limit":       {release: "12.6", config: "flush_ms=1\nmax_mb=1\n", code: "recording-limit", kernels: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := "10"
			if strings.Contains(c.command, "2200") || strings.Contains(c.config, "max_mb") {
				steps = "2000" // about two megabytes: on a busy machine fewer flushes make the file smaller
			}
			b := newCUDA(t, c.release, steps, "20")
			if c.without != "" {
				b.options.CUPTI = sim.CUPTIWithout(t, c.release, c.without)
			}
			if c.fault != "" {
				b.env = setEnviron(b.env, map[string]string{"GPUPROF_SIM_CUPTI": "fault=" + c.fault})
			}
			if c.command != "" {
				b.options.Args = append([]string{"sh", "-c", c.command + ` "$@"`, "sh"}, b.options.Args...)
			}
			b.options.RecorderConfig, b.options.Steps = c.config, wholeSteps
			r := b.run()
			if r.ExitCode != 0 || b.out != "done "+steps+"\n" || b.err != "" {
				t.Fatalf("exit code %d, %q, %q", r.ExitCode, b.out, b.err)
			}
			said := ""
			for _, w := range r.Warnings {
				said += w.Code + ": " + w.Text + "\n"
			}
			if c.code == "" != (said == "") || !strings.Contains(said, c.code) || !strings.Contains(said, c.says) {
				t.Errorf("%q, want %s: %s; %+v", said, c.code, c.says, r.CUDA)
			}
			kernels := 0
			for _, path := range r.Traces {
				kernels, _, _, _ = counted(readRecording(t, path))
			}
			if c.kernels >= 0 && kernels != c.kernels {
				t.Errorf("%d kernels, want %d", kernels, c.kernels)
			}
		})
	}
}

// Where the recording's folder allows no code, the library lies elsewhere, and goes when it was used.
func TestCUDALibraryElsewhere(t *testing.T) {
	scratch, err := child.NewScratch("cuda")
	if err != nil {
		t.Fatal(err)
	}
	in := &injection{dir: filepath.Join(t.TempDir(), "gone"), scratch: scratch}
	if err := in.placeLibrary(); err != nil || filepath.Dir(in.library) == in.dir {
		t.Fatalf("%v; %+v", err, in)
	}
	in.scratch.Close()
	for _, path := range []string{in.library, filepath.Dir(in.library), scratch.Dir} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is left", path)
		}
	}
}

// Without a libcupti --cuda is refused before the program starts.
func TestCUDAWithoutCUPTI(t *testing.T) {
	b := newCUDA(t, "12.9", "1", "1")
	b.options.CUPTI, b.options.Env = "", b.env
	b.options.AskCUPTI = func(string) (int, error) { return 0, os.ErrInvalid }
	if err := Check(&b.options); err == nil || !strings.Contains(err.Error(), "no libcupti was found") || !strings.Contains(err.Error(), "extras/CUPTI/lib64") {
		t.Error(err)
	}
	b.options.CUPTI = ProgramsCUPTI
	if err := Check(&b.options); err != nil {
		t.Error(err)
	}
	b.options.CUPTI = filepath.Join(b.dir, "none.so")
	if err := Check(&b.options); err == nil || !strings.Contains(err.Error(), "none.so") {
		t.Error(err)
	}
	b.options.Env = setEnviron(b.env, map[string]string{envInjection: os.Args[0]})
	if err := Check(&b.options); err == nil || !strings.Contains(err.Error(), "another tool that the driver is to load") {
		t.Error(err)
	}
}
