//go:build !race

// Under the race detector one goroutine that reads files, writes pages and looks through them
// takes ten times as long; what reads in goroutines is tested there in packages of its own.

package main

import (
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/compare"
)

// Two recordings are compared by their step times too: one whose steps take twice
// as long does not pass because it counts the same. One process a side is
// no verdict, and the comparison says so and what would help.
func TestRecordingsCompareStepTimes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old, slow := filepath.Join("..", "..", "testdata", "traces", "item-fires.json"), filepath.Join(dir, "slow.json")
	text, err := os.ReadFile(old)
	if err != nil {
		t.Fatal(err)
	}
	// Every time of the trace, twice as long, exactly.
	text = regexp.MustCompile(`"(ts|dur)": ?[0-9.eE+]+`).ReplaceAllFunc(text, func(b []byte) []byte {
		key, value, _ := bytes.Cut(b, []byte(":"))
		v, err := strconv.ParseFloat(strings.TrimSpace(string(value)), 64)
		if err != nil {
			t.Fatal(err)
		}
		return append(append(key, ':'), strconv.FormatFloat(2*v, 'f', -1, 64)...)
	})
	if err := os.WriteFile(slow, text, 0o600); err != nil {
		t.Fatal(err)
	}
	oldStudy, slowStudy := filepath.Join(dir, "old-analysis.json"), filepath.Join(dir, "slow-analysis.json")
	for in, out := range map[string]string{old: oldStudy, slow: slowStudy} {
		if code := gpuprofRan(t, io.Discard, io.Discard, "analyze", in, "-o", out); code != cli.ExitOK {
			t.Fatalf("analyze: exit %d", code)
		}
	}
	for _, args := range [][]string{{"gate", old, slow}, {"compare", old, slow}, {"gate", oldStudy, slowStudy}, {"compare", oldStudy, slowStudy}, {"gate", slow, old}} {
		code, c := judged(t, args...)
		if code != cli.ExitInconclusive || c.Verdict != compare.Inconclusive {
			t.Errorf("%v: exit %d, %s", args, code, c.Verdict)
		}
		want, found := 2.0, false
		if args[1] == slow {
			want = 1 / 2.0
		}
		for _, m := range c.Metrics {
			if m.Name == "step" {
				found = true
				if math.Abs(float64(m.Ratio)-want) > 0.02 || m.Verdict != compare.Inconclusive || !strings.Contains(m.Reason, "a verdict needs 6 per side") {
					t.Errorf("%v: %+v", args, m)
				}
			} else if m.Verdict != compare.Same {
				t.Errorf("%v: %s is %s", args, m.Name, m.Verdict)
			}
		}
		if !found || !strings.Contains(strings.Join(c.Next, "\n"), "gpuprof gate --against REF -- COMMAND") {
			t.Errorf("%v: step %v, next %q", args, found, c.Next)
		}
	}
	// A trace and an analysis count differently, and that is said.
	if code, c := judged(t, "gate", old, slowStudy); code != cli.ExitInconclusive || !strings.Contains(strings.Join(c.Next, "\n"), "two results of one format") {
		t.Errorf("a trace against an analysis: exit %d, %q", code, c.Next)
	}
}
