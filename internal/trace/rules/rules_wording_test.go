package rules_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/read/kineto"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
)

// frameworkWords are words that belong to one kind of program.
var frameworkWords = map[analyze.Program]*regexp.Regexp{
	analyze.PyTorch:     regexp.MustCompile(`\btorch[._]|DataLoader\(|pin_memory=|DistributedDataParallel|with_stack`),
	analyze.LibTorch:    regexp.MustCompile(`\b(torch|at|c10)::`),
	analyze.JAX:         regexp.MustCompile(`\bjax\b|jnp\.`),
	analyze.TensorFlow:  regexp.MustCompile(`\btf\.|Keras`),
	analyze.TensorRT:    regexp.MustCompile(`trtexec|enqueueV3`),
	analyze.ONNXRuntime: regexp.MustCompile(`IOBinding|onnx`),
	analyze.OpenACC:     regexp.MustCompile(`\bacc\b|-gpu=`),
	analyze.OpenMP:      regexp.MustCompile(`\btarget (data|regions|update|enter)|\bomp_`),
	analyze.Julia:       regexp.MustCompile(`CUDA\.@|CUDA\.pin`),
	analyze.CuPyNumba:   regexp.MustCompile(`cupy|numba`),
	analyze.Triton:      regexp.MustCompile(`\btl\.`),
	analyze.HIP:         regexp.MustCompile(`\bhip[A-Z]|rocprof`),
}

var programs = []analyze.Program{analyze.PyTorch, analyze.LibTorch, analyze.JAX, analyze.TensorFlow, analyze.TensorRT, analyze.ONNXRuntime, analyze.Triton, analyze.CUDA, analyze.HIP,
	analyze.OpenACC, analyze.OpenMP, analyze.Julia, analyze.CuPyNumba, analyze.Python, analyze.Unknown}

// TestWordsByProgram finds everything there is to find in a program of each kind: every finding
// names a change, and none in the words of another kind.
func TestWordsByProgram(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../../testdata/traces/*-fires.json")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		tr, err := kineto.Read(t.Context(), f, path, 0)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		x, err := analyze.NewIndex(t.Context(), tr)
		if err != nil {
			t.Fatal(err)
		}
		for _, program := range programs {
			x.Recording.Program = program
			a, err := analyze.SummariseIndexes(t.Context(), []*analyze.Index{x}, analyze.Options{Rules: rules.Rules})
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range a.Findings {
				if found.PyTorch == "" {
					t.Errorf("%s: %s suggests nothing to a program of %s", path, found.Rule, program)
				}
				for other, words := range frameworkWords {
					if other != program && words.MatchString(found.PyTorch) {
						t.Errorf("%s: %s says %q to a program of %s", path, found.Rule, found.PyTorch, program)
					}
				}
				if found.Rule == gpuprof.RuleOneKernel { // its command is of a profiler of kernels
					continue
				}
				if record := strings.Contains(found.Command, "run --cuda "); record == (program == analyze.PyTorch || program == analyze.HIP) {
					t.Errorf("%s: measures with %q a program of %s", path, found.Command, program)
				}
			}
		}
	}
}
