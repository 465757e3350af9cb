package main

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/judge"
)

// What serves turns ends when its standard input does, whatever it is at.
func TestTakeTurnsEndsWithItsInput(t *testing.T) {
	t.Parallel()
	for _, ask := range []string{"", "1ms\n", "1ms\n1ms\n"} {
		cmd := selfCommand(t, t.TempDir(), "run", "e3nn", "--device", "host", "--set", "batch=4", "--set", "edges=40", "--warmup", "0", judge.TurnsFlag)
		cmd.Stdin = strings.NewReader(ask)
		out, err := cmd.Output()
		if cmd.ProcessState.ExitCode() != cli.ExitInterrupted || strings.Contains(string(out), `"run"`) {
			t.Errorf("after %q: %v %s", ask, err, out)
		}
	}
}
