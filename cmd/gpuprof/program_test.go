package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
)

// raceDetector says that this test binary was built with the race detector.
var raceDetector = func() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}()

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

// gpuprofRan runs gpuprof and gives its exit code: in this process, or where the race
// detector would make it ten times as long as one. It is for what reads files and
// writes pages, whose goroutines are those of packages with tests of their own.
func gpuprofRan(t testing.TB, stdout, stderr io.Writer, args ...string) int {
	t.Helper()
	// No process can be given a zero byte.
	if !raceDetector || slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, "\x00") }) {
		return run(t.Context(), args, stdout, stderr)
	}
	cmd := exec.CommandContext(t.Context(), selfPath(t), args...)
	cmd.Args[0], cmd.Stdout, cmd.Stderr = "gpuprof", stdout, stderr
	exit := (*exec.ExitError)(nil)
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
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
	// Tables of symbols take most of the linker's time.
	build := exec.Command("go", "test", "-c", "-race=false", "-ldflags=-s -w", "-o", exe, "github.com/gpuprof/gpuprof/cmd/gpuprof")
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
