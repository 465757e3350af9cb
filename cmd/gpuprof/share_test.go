//go:build !race

// Under the race detector one goroutine that reads files, writes pages and looks through them
// takes ten times as long; what reads in goroutines is tested there in packages of its own.

package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
)

// Whatever flag takes a share, 5 is not 500 %, and what is no share is refused
// with exit code 2 before anything is read.
func TestShares(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := benchLines(t, dir, "old.txt", "1000", "1003", "998", "1001", "1002", "999")
	slow := benchLines(t, dir, "slow.txt", "2000", "2006", "1996", "2002", "2004", "1998")
	missing := filepath.Join(dir, "missing")
	for _, flag := range [][]string{
		{"gate", old, slow, "--threshold="}, {"gate", old, slow, "--threshold=A="}, {"compare", old, slow, "--threshold=*="}, {"gate", missing, missing, "--threshold="},
		{"compare", old, slow, "--session-spread="}, {"gate", missing, missing, "--session-spread="}, {"tune", "e3nn", "--device", "host", "--max-error="},
	} {
		for value, want := range map[string]string{
			"5": "did you mean 5%?", "1": "did you mean 1%?", "1.5": "did you mean 1.5%?", "1e3": "did you mean 1e3%?", "500": "did you mean 500%?",
			"NaN": "not a number", "nan%": "not a number", "inf": "not a number", "-Inf%": "not a number", "1e999": "not a number", "": "", "%": "not a number",
			"-1": "below 0", "-5%": "below 0", "-0.05": "below 0", "five": "not a number", "5%%": "not a number",
		} {
			args := append([]string{}, flag...)
			args[len(args)-1] += value
			var stderr strings.Builder
			if code := gpuprofRan(t, io.Discard, &stderr, args...); code != cli.ExitUsage || !strings.Contains(stderr.String(), want) {
				t.Errorf("%v: exit %d, %s; want exit 2 and %q", args, code, stderr.String(), want)
			}
		}
	}
	for _, c := range []struct {
		value string
		want  int
	}{{"0.05", 1}, {"5%", 1}, {" 5 %", 1}, {"5e-2", 1}, {"300%", 0}, {"0.99", 1}} {
		if code := gpuprofRan(t, io.Discard, io.Discard, "gate", old, slow, "--metric=A", "--threshold="+c.value, "--session-spread=0"); code != c.want {
			t.Errorf("--threshold %s: exit %d, want %d", c.value, code, c.want)
		}
	}
}
