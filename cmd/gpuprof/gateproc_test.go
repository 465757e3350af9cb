//go:build !race

// The race detector sees nothing of a process that it is not built into, and built into it
// a process takes ten times as long: TestProcesses starts those whose goroutines are main's.

package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/testkit"
)

// A terminal sends Ctrl-C to gpuprof and to all it started. A second one, while
// the program under test still ends, must leave no checkout behind.
func TestGateInterruptedTwice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	repo, scratch := filepath.Join(dir, "repo"), filepath.Join(dir, "scratch")
	for _, d := range []string{repo, scratch} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// It reports that it runs and that it was asked to end, and continues.
	script := "#!/bin/sh\ntrap '' INT\ntrap 'echo asked >../says' TERM\nexec 3<../holds\necho runs >../says\nread x <&3\nread x <&3\n"
	if err := os.WriteFile(filepath.Join(repo, "bench"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	says, holds := testkit.Pipe(t, filepath.Join(dir, "says")), testkit.Pipe(t, filepath.Join(dir, "holds"))
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@t.invalid"}, args...)...)
		cmd.Dir = repo
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	git("init", "-q", "-b", "main")
	git("add", "bench")
	git("commit", "-q", "-m", "one")

	cmd := selfCommand(t, repo, "gate", "--against", "main", "--", "sh", "-c", "cd "+repo+" && exec ./bench")
	cmd.Env = append(cmd.Env, "TMPDIR="+scratch)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(says)
	for _, want := range []string{"runs", "asked"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("the program said %q (%v), want %q; stderr: %s", lines.Text(), lines.Err(), want, &said)
		}
		if want == "runs" && !strings.Contains(git("worktree", "list"), scratch) {
			t.Error("no checkout while the gate measures")
		}
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != cli.ExitInterrupted {
		t.Errorf("%v, want exit code %d; stderr: %s", cmd.ProcessState, cli.ExitInterrupted, &said)
	}
	if list := git("worktree", "list"); strings.Contains(list, scratch) {
		t.Errorf("a checkout is left:\n%s", list)
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("left in TMPDIR: %v, %v", left, err)
	}
	if err := holds.Close(); err != nil { // what still reads it ends
		t.Error(err)
	}
}
