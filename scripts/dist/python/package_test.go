// Package python tests the Python package of the wheels: with stand-ins for gpuprof and for PyTorch, without pip or the network.
// scripts/check/python_frameworks.sh has the tests with the real ones.
package python

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestPackage(t *testing.T) {
	// Go keeps the result of a test until a file changes that the test itself has read.
	for _, pattern := range []string{"gpuprof/*.py", "tests/*.py", "../package.py", "../../../internal/record/hook/*.py"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no files fit %s: %v", pattern, err)
		}
		for _, file := range files {
			if _, err := os.ReadFile(file); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "python3", "-B", "../package.py", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), "python3", "-B", "-W", "error", "tests/test_package.py", "../../../testdata/torchstub")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+dir, "PYTHONDONTWRITEBYTECODE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
