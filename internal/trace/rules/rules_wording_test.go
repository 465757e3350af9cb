package rules_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/read/kineto"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
)

// No line for PyTorch is said of a program in JAX or CUDA C++, whatever is found in it.
func TestFindingsOfOtherFrameworks(t *testing.T) {
	t.Parallel()
	pytorch := regexp.MustCompile(`torch|DataLoader|pin_memory|DistributedDataParallel`)
	said := map[string]bool{} // to a program in CUDA C++
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
		for _, c := range []struct {
			format    model.Format
			framework model.Framework
		}{{model.XLA, 0}, {model.CUDA, model.JAX}, {model.CUDA, model.OtherFramework}} {
			tr.Format, tr.Framework = c.format, c.framework
			x, err := analyze.NewIndex(t.Context(), tr)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range rules.Rules(x, x.NewLedger()) {
				if (found.PyTorch == "") != (found.Rule == gpuprof.RuleDDPBuffers) || pytorch.MatchString(found.PyTorch) {
					t.Errorf("%s: %s says %q to a program of %s, %d", path, found.Rule, found.PyTorch, c.format, c.framework)
				}
				if c.framework == model.OtherFramework && c.format == model.CUDA {
					said[found.PyTorch] = true
				}
			}
		}
		tr.Framework = model.PyTorch
		x, err := analyze.NewIndex(t.Context(), tr)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range rules.Rules(x, x.NewLedger()) {
			if said[found.PyTorch] && found.Rule != gpuprof.RuleTraceQuality {
				t.Errorf("%s: %s says %q to a program of PyTorch", path, found.Rule, found.PyTorch)
			}
		}
	}
}
