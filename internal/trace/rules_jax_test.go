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

// No line for PyTorch is said of a JAX program, whatever is found in it.
func TestFindingsOfJAX(t *testing.T) {
	t.Parallel()
	pytorch := regexp.MustCompile(`torch|DataLoader|pin_memory|DistributedDataParallel`)
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
		tr.Format = trace.XLA
		x, err := trace.NewIndex(t.Context(), tr)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range trace.Rules(x, x.NewLedger()) {
			if (found.PyTorch == "") != (found.Rule == gpuprof.RuleDDPBuffers) || pytorch.MatchString(found.PyTorch) {
				t.Errorf("%s: %s says %q to a JAX program", path, found.Rule, found.PyTorch)
			}
		}
	}
}
