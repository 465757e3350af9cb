package trace_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace"
	"github.com/gpuprof/gpuprof/internal/trace/kineto"
)

// No line for PyTorch is said of a program in JAX or CUDA C++, whatever is found in it.
func TestFindingsOfOtherFrameworks(t *testing.T) {
	t.Parallel()
	pytorch := regexp.MustCompile(`torch|DataLoader|pin_memory|DistributedDataParallel`)
	said := map[string]bool{} // to a program in CUDA C++
	paths, err := filepath.Glob("../../testdata/traces/*-fires.json")
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
		for _, c := range []struct {
			format    trace.Format
			framework trace.Framework
		}{{trace.XLA, 0}, {trace.CUDA, trace.JAX}, {trace.CUDA, trace.OtherFramework}} {
			tr.Format, tr.Framework = c.format, c.framework
			x, err := trace.NewIndex(t.Context(), tr)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range trace.Rules(x, x.NewLedger()) {
				if (found.PyTorch == "") != (found.Rule == gpuprof.RuleDDPBuffers) || pytorch.MatchString(found.PyTorch) {
					t.Errorf("%s: %s says %q to a program of %s, %d", path, found.Rule, found.PyTorch, c.format, c.framework)
				}
				if c.framework == trace.OtherFramework && c.format == trace.CUDA {
					said[found.PyTorch] = true
				}
			}
		}
		tr.Framework = trace.PyTorch
		x, err := trace.NewIndex(t.Context(), tr)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range trace.Rules(x, x.NewLedger()) {
			if said[found.PyTorch] && found.Rule != gpuprof.RuleTraceQuality {
				t.Errorf("%s: %s says %q to a program of PyTorch", path, found.Rule, found.PyTorch)
			}
		}
	}
}
