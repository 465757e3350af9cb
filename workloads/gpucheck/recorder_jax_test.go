//go:build linux && !race

package gpucheck

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/read/cupti"
)

// jaxVariable names the program of JAX that is recorded.
const jaxVariable = "GPUPROF_CHECK_JAX"

// kernelNames counts the kernels of a trace by name, those of graphs included.
func kernelNames(tr *model.Trace) map[string]int {
	out := map[string]int{}
	for i := range tr.GPU {
		if tr.GPU[i].Kind == model.Kernel {
			out[tr.Name(tr.GPU[i].Name)]++
		}
	}
	return out
}

// wrongSteps says where a recording of a program that did so many steps more than another does not have a whole
// number of each kernel more a step, or ""; perStep is how many kernels a step has.
func wrongSteps(few, many map[string]int, steps int) (wrong string, perStep int) {
	var all []string
	for name, n := range many {
		more := n - few[name]
		if more < 0 || more%steps != 0 {
			all = append(all, fmt.Sprintf("%s is there %d and %d times, with %d steps between", name, few[name], n, steps))
		}
		perStep += more / steps
	}
	for name := range few {
		if many[name] == 0 {
			all = append(all, name+" is not in the longer recording")
		}
	}
	if len(all) == 0 && perStep == 0 {
		all = append(all, "the steps launched nothing")
	}
	slices.Sort(all)
	return strings.Join(all, "; "), perStep
}

// Of a program of JAX each kernel of a step is recorded once a step: two runs differ by what lies between.
func TestRecorderJAX(t *testing.T) {
	r := newRig(t)
	missing := func(why string) { r.keep(figure{Name: "recorder/jax", Unit: "1", Note: "not measured: " + why}) }
	if !r.real {
		missing("JAX reaches no simulated device")
		return
	}
	python, script := os.Getenv(pythonVariable), os.Getenv(jaxVariable)
	if python == "" || script == "" {
		missing("no python3 was named; give one that has JAX with --python")
		return
	}
	if out, err := exec.Command(python, script, "--ask").CombinedOutput(); err != nil {
		missing(python + " " + cmp.Or(lastLine(string(out)), err.Error()))
		return
	}
	const few, many = 50, 250
	program := checkedProgram(t)
	names := func(steps int) map[string]int {
		files := r.recorded(program, toTheEnd, nil, python, script, "--steps", strconv.Itoa(steps))
		return kernelNames(readTrace(r, files[0], cupti.Read))
	}
	wrong, perStep := wrongSteps(names(few), names(many), many-few)
	r.keep(figure{Name: "recorder/jax", Unit: "1", Value: ptr(float64(perStep)), Limit: "kernels a step: of each name a whole number more for each step more", Pass: ptr(wrong == ""), Note: wrong})
}

func TestRecorderJAXSteps(t *testing.T) {
	few := map[string]int{"start": 3, "gemm": 12, "add": 2}
	if wrong, n := wrongSteps(few, map[string]int{"start": 3, "gemm": 32, "add": 12}, 10); wrong != "" || n != 3 {
		t.Errorf("%q, %d kernels a step", wrong, n)
	}
	for name, many := range map[string]map[string]int{
		"one is lost":  {"start": 3, "gemm": 31, "add": 12},
		"fewer":        {"start": 2, "gemm": 32, "add": 12},
		"not there":    {"gemm": 32, "add": 12},
		"a strange":    {"start": 3, "gemm": 32, "add": 12, "x": 5},
		"no step more": few,
	} {
		if wrong, _ := wrongSteps(few, many, 10); wrong == "" {
			t.Errorf("%s passes", name)
		}
	}
	tr := &model.Trace{Names: []string{"k"}, GPU: []model.GPU{{Kind: model.Kernel}, {Kind: model.Kernel, Graph: true}, {Kind: model.Memcpy}}}
	if got := kernelNames(tr); len(got) != 1 || got["k"] != 2 {
		t.Errorf("%v", got)
	}
}
