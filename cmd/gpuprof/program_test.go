package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// selfPath is the gpuprof that tests start as a process: the test binary under
// that name, built without the race detector, which makes kernels in Go ten
// times as long and slows every one of some three hundred starts. See detected.
func selfPath(t testing.TB) string {
	t.Helper()
	exe, err := plainProgram()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// detected are the scripts whose processes are built as the test is, with the
// race detector where it has it: those in which package main itself starts
// goroutines, passes signals on and waits for processes. What the others do in
// goroutines, the packages' own tests and the runs in this process do under it.
func detected(script string) bool { return script == "interrupt" || script == "processes" }

// plainProgram is built at most once by a process of tests.
var plainProgram = sync.OnceValues(func() (string, error) {
	if !raceDetector {
		return os.Executable()
	}
	dir, err := programFolder()
	if err != nil {
		return "", err
	}
	exe := filepath.Join(dir, "gpuprof")
	build := exec.Command("go", "test", "-c", "-race=false", "-o", exe, "github.com/gpuprof/gpuprof/cmd/gpuprof")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building gpuprof without the race detector: %w\n%s", err, out)
	}
	return exe, nil
})

var programFolder = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "gpuprof-plain-") })

// withoutProgram runs all tests and removes what plainProgram has built.
type withoutProgram struct{ *testing.M }

func (m withoutProgram) Run() int {
	code := m.M.Run()
	if !raceDetector {
		return code
	}
	dir, err := programFolder()
	if err = cmp.Or(err, os.RemoveAll(dir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}
