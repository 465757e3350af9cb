//go:build linux && !race

// Processes are started, and the race detector sees nothing of them.

package gpucheck

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpuprof/gpuprof/internal/testkit/sim"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/read/cupti"
)

// programVariable names the gpuprof whose recorder is checked; without it one is built.
const programVariable = "GPUPROF_CHECK_PROGRAM"

func checkedProgram(t *testing.T) string {
	t.Helper()
	if p := os.Getenv(programVariable); p != "" {
		return p
	}
	p, err := builtProgram()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// builtProgram is gpuprof, built once for all tests: to link it takes seconds of processor time. TestMain removes it.
var builtProgram = sync.OnceValues(func() (string, error) {
	p := filepath.Join(scratch(), "gpuprof")
	if out, err := exec.Command("go", "build", "-o", p, "../../cmd/gpuprof").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building gpuprof: %w\n%s", err, out)
	}
	return p, nil
})

// scratch is a folder for what all tests share.
var scratch = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "gpuprof-check")
	if err != nil {
		panic(err)
	}
	return dir
})

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(scratch())
	os.Exit(code)
}

// recorded runs a command under gpuprof run --cuda and returns its recordings. The
// machine's libcupti is taken, and the stand-in where the driver is simulated.
func (r *rig) recorded(program string, flags, env []string, command ...string) []string {
	r.t.Helper()
	dir := filepath.Join(r.t.TempDir(), "out")
	args := append([]string{"--quiet", "run", "--cuda", "--no-analyze", "-o", dir}, flags...)
	if !r.real {
		args = append(args, "--cupti", sim.CUPTI(r.t, "12.9"))
	}
	cmd := exec.Command(program, append(append(args, "--"), command...)...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("%v\n%s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "trace-*.gpt"))
	if err != nil || len(files) != 1 {
		log, _ := os.ReadFile(filepath.Join(dir, "cuda.jsonl"))
		r.t.Fatalf("one recording was expected: %v, %v\n%s", files, err, log)
	}
	return files
}

// toTheEnd are flags with which a program is recorded from its first kernel to its end.
var toTheEnd = []string{"--skip", "0", "--steps", "1000000000", "--window-after", "10m", "--time-window", "10m"}

// itself records TestRecordedProgram.
func (r *rig) itself(program string, flags []string, env ...string) (told, *model.Trace) {
	r.t.Helper()
	path := filepath.Join(r.t.TempDir(), "told.json")
	self, err := os.Executable()
	r.ok(err)
	files := r.recorded(program, flags, append(env, toldVariable+"="+path), self, "-test.run", "^TestRecordedProgram$")
	text, err := os.ReadFile(path)
	r.ok(err)
	var w told
	r.ok(json.Unmarshal(text, &w))
	return w, readTrace(r, files[0], cupti.Read)
}

// operations counts a trace's kernels and copies.
func operations(tr *model.Trace) (kernels, copies int64) {
	for i := range tr.GPU {
		switch tr.GPU[i].Kind {
		case model.Kernel:
			kernels++
		case model.Memcpy:
			copies++
		}
	}
	return kernels, copies
}

// wrongCounts says where a recording does not hold exactly what the program did, or "".
func wrongCounts(w told, tr *model.Trace) string {
	var wrong []string
	kernels, copies := operations(tr)
	if kernels != w.Launches {
		wrong = append(wrong, fmt.Sprintf("%d kernels are recorded of %d launches", kernels, w.Launches))
	}
	if copies != w.Copies {
		wrong = append(wrong, fmt.Sprintf("%d copies are recorded of %d", copies, w.Copies))
	}
	if w.Launches == 0 || w.Copies == 0 {
		wrong = append(wrong, "the program did nothing")
	}
	return strings.Join(wrong, "; ")
}

// spinTimes are the recorded times of the spin kernels, s, in order of their begin.
func spinTimes(tr *model.Trace) (out []float64) {
	var found []model.GPU
	for i := range tr.GPU {
		if tr.GPU[i].Kind == model.Kernel && tr.Names[tr.GPU[i].Name] == "spin" {
			found = append(found, tr.GPU[i])
		}
	}
	slices.SortFunc(found, func(a, b model.GPU) int { return cmp.Compare(a.Start, b.Start) })
	for i := range found {
		out = append(out, float64(found[i].Dur())*1e-9)
	}
	return out
}

// worstRatio is the ratio of two times of the same kernel that is furthest from 1.
func worstRatio(got, want []float64) float64 {
	worst := 1.0
	for i := range got {
		if x := got[i] / want[i]; !(math.Abs(x-1) <= math.Abs(worst-1)) {
			worst = x
		}
	}
	return worst
}

// Of a program that counts what it launches and copies, the recorder keeps exactly that, and its
// times of kernels are those between the program's own events.
func TestRecorderCounts(t *testing.T) {
	r := newRig(t)
	w, tr := r.itself(checkedProgram(t), toTheEnd)
	wrong := wrongCounts(w, tr)
	if wrong != "" {
		t.Errorf("recorder/counts: %s", wrong) // right or wrong on every device, the simulator included
	}
	kernels, copies := operations(tr)
	r.keep(figure{Name: "recorder/counts", Unit: "1", Value: ptr(float64(kernels)), Limit: "every launch and copy, once", Pass: ptr(wrong == ""),
		Extra: map[string]float64{"copies": float64(copies), "launches": float64(w.Launches)}, Note: wrong})

	times := spinTimes(tr)
	if len(times) != len(w.Spins)+1 {
		t.Fatalf("%d spin kernels are recorded of %d", len(times), len(w.Spins)+1)
	}
	worst := worstRatio(times[1:], w.Spins) // the first was not timed
	r.keep(figure{Name: "recorder/kernel_time", Unit: "1", Value: &worst, Limit: "recorded time over time between events, of each kernel: 1 within 3 %", Pass: ptr(math.Abs(worst-1) <= 0.03),
		Extra: map[string]float64{"kernels": float64(len(w.Spins))}})
}

// Of CUDA graphs every node is recorded, or each launch of one as a whole; what is launched beside them is there once.
func TestRecorderGraphs(t *testing.T) {
	r := newRig(t)
	program := checkedProgram(t)
	for _, how := range []string{"node", "whole"} {
		w, tr := r.itself(program, append([]string{"--graphs", how}, toTheEnd...), graphsVariable+"=1")
		want := w
		if how == "whole" {
			want.Launches += w.Graphs - w.InGraphs
		}
		wrong := wrongGraphs(w, tr, how == "whole")
		if wrong == "" {
			wrong = wrongCounts(want, tr)
		}
		if wrong != "" {
			t.Errorf("recorder/graphs/%s: %s", how, wrong) // right or wrong on every device, the simulator included
		}
		kernels, _ := operations(tr)
		r.keep(figure{Name: "recorder/graphs/" + how, Unit: "1", Value: ptr(float64(kernels)), Limit: "every launch and each node, or graph, of the program once", Pass: ptr(wrong == ""),
			Extra: map[string]float64{"launches": float64(w.Launches), "in_graphs": float64(w.InGraphs), "graphs": float64(w.Graphs)}, Note: wrong})
	}
}

// wrongGraphs says where a recording does not show the graphs that a program launched, as nodes or whole, or "".
func wrongGraphs(w told, tr *model.Trace, whole bool) string {
	want, got := w.InGraphs, int64(0)
	if whole {
		want = w.Graphs
	}
	for i := range tr.GPU {
		if tr.GPU[i].Kind == model.Kernel && tr.GPU[i].Graph {
			got++
		}
	}
	switch {
	case want == 0:
		return "the program launched no graph"
	case got != want:
		return fmt.Sprintf("%d kernels or graphs are recorded of graphs, of %d", got, want)
	}
	return ""
}

// What a launch costs the host: without the recorder, with it idle, while it records, and after.
func TestRecorderCost(t *testing.T) {
	r := newRig(t)
	bare := launchCost(r)
	program := checkedProgram(t)
	w, tr := r.itself(program, []string{"--idle"}, windowVariable+"="+program)
	if kernels, _ := operations(tr); kernels < w.InWindow || kernels >= w.Launches {
		t.Errorf("the window has %d kernels; %d launches were timed in it, of %d in all", kernels, w.InWindow, w.Launches)
	}
	for _, c := range []struct {
		name string
		s    float64
	}{{"bare", bare}, {"idle", w.Idle}, {"recording", w.Recording}, {"after", w.After}} {
		if !(c.s > 0) {
			t.Errorf("a launch, %s, took %g s", c.name, c.s)
		}
		r.keep(figure{Name: "recorder/launch/" + c.name, Unit: "s", Value: ptr(c.s), Extra: map[string]float64{"over_bare_s": c.s - bare}})
	}
}

// A graph, or a node of one, that is there too often, not at all or as the other is found.
func TestRecorderGraphsAreHeldExactly(t *testing.T) {
	w := told{Launches: 5, InGraphs: 4, Graphs: 2, Copies: 1}
	g := model.GPU{Kind: model.Kernel, Graph: true}
	for n, good := range map[int]string{2: "whole", 4: "node", 3: "", 0: ""} {
		tr := &model.Trace{GPU: []model.GPU{{Kind: model.Kernel}, {Kind: model.Memcpy, Graph: true}}}
		for range n {
			tr.GPU = append(tr.GPU, g)
		}
		for _, how := range []string{"node", "whole"} {
			if wrong := wrongGraphs(w, tr, how == "whole"); (wrong == "") != (how == good) {
				t.Errorf("%d of graphs, %s: %q", n, how, wrong)
			}
		}
	}
	if wrongGraphs(told{}, &model.Trace{}, false) == "" {
		t.Error("a program without a graph passes")
	}
}

// A count that is off by one, either way, is found.
func TestRecorderCountsAreHeldExactly(t *testing.T) {
	tr := &model.Trace{GPU: []model.GPU{{Kind: model.Kernel}, {Kind: model.Kernel}, {Kind: model.Memcpy}, {Kind: model.Memset}}}
	if wrong := wrongCounts(told{Launches: 2, Copies: 1}, tr); wrong != "" {
		t.Error(wrong)
	}
	for _, w := range []told{{Launches: 1, Copies: 1}, {Launches: 3, Copies: 1}, {Launches: 2, Copies: 2}, {Launches: 2}, {}} {
		if wrongCounts(w, tr) == "" {
			t.Errorf("%+v passes for 2 kernels and 1 copy", w)
		}
	}
	if got := worstRatio([]float64{1, 1.02, 0.96}, []float64{1, 1, 1}); got != 0.96 {
		t.Errorf("the worst ratio is %g", got)
	}
}
