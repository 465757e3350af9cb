package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
)

// A verb that waits for a pipe which the user named ends with the first signal: both while the
// pipe has no writer, and while its writer writes nothing.
func TestWaitingForAPipeEnds(t *testing.T) {
	for _, args := range []string{"report PIPE", "analyze PIPE", "compare PIPE PIPE", "gate PIPE PIPE", "history add PIPE --store store", "baseline add PIPE --dir baselines", "check e3nn --vectors PIPE", "pprof PIPE"} {
		for _, writer := range []bool{false, true} {
			dir := t.TempDir()
			t.Chdir(dir)
			path := filepath.Join(dir, "run.json")
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			code := make(chan int)
			var said bytes.Buffer
			go func() {
				code <- runCommand(ctx, &wired, strings.Fields(strings.ReplaceAll(args, "PIPE", path)), &said, &said)
			}()
			if writer {
				f, err := os.OpenFile(path, os.O_WRONLY, 0) // waits for the reader
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = f.Close() })
			}
			cancel()
			if got := <-code; got != cli.ExitInterrupted || !strings.Contains(said.String(), "interrupted") {
				t.Errorf("gpuprof %s, writer %t: exit code %d, %s", args, writer, got, &said)
			}
		}
	}
}
