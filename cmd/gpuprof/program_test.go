package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// selfPath is the gpuprof that tests start as a process: the test binary under that name.
func selfPath(t testing.TB) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// selfCommand is gpuprof in a process of its own, working in dir.
func selfCommand(t testing.TB, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), selfPath(t), args...)
	cmd.Args[0] = "gpuprof"
	cmd.Dir = dir
	// A browser that does nothing, and a home of its own.
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CACHE_HOME="+filepath.Join(dir, "cache"), "BROWSER=true")
	return cmd
}

// gpuprofRan runs gpuprof in this process and gives its exit code.
func gpuprofRan(t testing.TB, stdout, stderr io.Writer, args ...string) int {
	t.Helper()
	return runCommand(t.Context(), &wired, args, stdout, stderr)
}
