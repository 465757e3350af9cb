//go:build linux && !race

package gpucheck

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/read/cupti"
	"github.com/gpuprof/gpuprof/internal/trace/read/kineto"
)

// The python3 that may have torch, and the program that it runs.
const (
	pythonVariable = "GPUPROF_CHECK_PYTHON"
	torchVariable  = "GPUPROF_CHECK_TORCH"
)

type reader func(context.Context, io.Reader, string, int64) (*model.Trace, error)

func readTrace(r *rig, path string, read reader) *model.Trace {
	r.t.Helper()
	f, err := os.Open(path)
	r.ok(err)
	defer f.Close()
	tr, err := read(r.t.Context(), f, path, 0)
	r.ok(err)
	if tr.Truncated {
		r.t.Fatalf("%s ends early: %v", path, tr.Warnings)
	}
	return tr
}

// between are the kernels of a trace from the first of torch's spin kernels to the last, both
// left out, in the order in which they began.
func between(tr *model.Trace) (names []string, s float64) {
	var all []model.GPU
	for i := range tr.GPU {
		if tr.GPU[i].Kind == model.Kernel {
			all = append(all, tr.GPU[i])
		}
	}
	slices.SortFunc(all, func(a, b model.GPU) int { return cmp.Compare(a.Start, b.Start) })
	spin := func(g model.GPU) bool { return strings.Contains(tr.Names[g.Name], "spin_kernel") }
	first := slices.IndexFunc(all, spin)
	last := len(all)
	for last > 0 && !spin(all[last-1]) {
		last--
	}
	if first < 0 || first+1 >= last {
		return nil, 0
	}
	for _, g := range all[first+1 : last-1] {
		names, s = append(names, shortName(tr.Names[g.Name])), s+float64(g.Dur())*1e-9
	}
	return names, s
}

// shortName is a kernel's name without result, template arguments and parameters, which two
// demanglers write differently.
func shortName(name string) string {
	name = strings.TrimPrefix(name, "void ")
	if i := strings.IndexAny(name, "<("); i > 0 {
		name = name[:i]
	}
	return name
}

// differs says where two recordings of the same program do not have the same kernels, or "".
func differs(recorder, profiler []string) string {
	switch i := firstDifference(recorder, profiler); {
	case len(profiler) == 0:
		return "torch's own profiler shows no kernel between the marks"
	case len(recorder) == 0:
		return "the recorder shows no kernel between the marks"
	case i < 0:
		return ""
	case i < min(len(recorder), len(profiler)):
		return "kernel " + recorder[i] + " stands in the place of " + profiler[i]
	default:
		return "one has more kernels than the other"
	}
}

func firstDifference(a, b []string) int {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return i
		}
	}
	return -1
}

// A program of torch that is recorded without the hook shows the kernels that torch's own
// profiler shows, as many, in the same order, and as long.
func TestRecorderTorch(t *testing.T) {
	r := newRig(t)
	missing := func(why string) { r.keep(figure{Name: "recorder/torch", Unit: "1", Note: "not measured: " + why}) }
	if !r.real {
		missing("torch reaches no simulated device")
		return
	}
	python, script := os.Getenv(pythonVariable), os.Getenv(torchVariable)
	if python == "" || script == "" {
		missing("no python3 was named; give one that has torch with --python")
		return
	}
	if out, err := exec.Command(python, script, "--ask").CombinedOutput(); err != nil {
		missing(python + " " + cmp.Or(lastLine(string(out)), err.Error()))
		return
	}
	dir, program := t.TempDir(), checkedProgram(t)
	// Each goes first and last once, so that what drifts from process to process weighs on both alike.
	var names [2][]string // by the recorder, by torch's profiler
	var took [2]float64
	for i, profiled := range []bool{true, false, false, true} {
		var tr *model.Trace
		who := 0
		if profiled {
			own := filepath.Join(dir, fmt.Sprintf("torch%d.json", i))
			if out, err := exec.Command(python, script, "--profile", own).CombinedOutput(); err != nil {
				t.Fatalf("torch under its own profiler: %v\n%s", err, out)
			}
			tr, who = readTrace(r, own, kineto.Read), 1
		} else {
			tr = readTrace(r, r.recorded(program, toTheEnd, nil, python, script)[0], cupti.Read)
		}
		kernels, s := between(tr)
		if names[who] != nil && differs(kernels, names[who]) != "" {
			t.Fatalf("two recordings of the same program differ: %s", differs(kernels, names[who]))
		}
		names[who], took[who] = kernels, took[who]+s
	}
	if wrong := differs(names[0], names[1]); wrong != "" {
		r.keep(figure{Name: "recorder/torch", Unit: "1", Value: ptr(float64(len(names[0]))), Limit: "the kernels of torch's own profiler", Pass: ptr(false), Note: wrong})
		return
	}
	ratio := took[0] / took[1]
	r.keep(figure{Name: "recorder/torch", Unit: "1", Value: &ratio, Limit: "the kernels of torch's own profiler, and together as long within 2 %", Pass: ptr(math.Abs(ratio-1) <= 0.02),
		Extra: map[string]float64{"kernels": float64(len(names[0]))}})
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

func TestRecorderTorchDifferences(t *testing.T) {
	tr := &model.Trace{Names: []string{"at::cuda::spin_kernel(long)", "void gemm<float>(float*)", "add"}}
	for i, name := range []model.NameID{1, 0, 2, 1, 0, 2} {
		tr.GPU = append(tr.GPU, model.GPU{Kind: model.Kernel, Name: name, Start: int64(10 * i), End: int64(10*i + 5)})
	}
	slices.Reverse(tr.GPU) // the order of a file is none
	names, s := between(tr)
	if strings.Join(names, " ") != "add gemm" || math.Abs(s-10e-9) > 1e-15 {
		t.Errorf("between the marks are %v, %g s", names, s)
	}
	if names, _ := between(&model.Trace{Names: tr.Names, GPU: tr.GPU[:1]}); names != nil {
		t.Errorf("without marks there are %v", names)
	}
	same := []string{"a", "b"}
	if wrong := differs(same, []string{"a", "b"}); wrong != "" {
		t.Error(wrong)
	}
	for _, other := range [][]string{nil, {"a"}, {"a", "b", "b"}, {"b", "a"}} {
		if differs(other, same) == "" || differs(same, other) == "" {
			t.Errorf("%v passes for %v", other, same)
		}
	}
}
