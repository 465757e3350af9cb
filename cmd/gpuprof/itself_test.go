//go:build !race

// Under the race detector one goroutine that reads files, writes pages and looks through them
// takes ten times as long; what reads in goroutines is tested there in packages of its own.

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/compare/baseline"
	"github.com/gpuprof/gpuprof/internal/compare/results"
	"github.com/gpuprof/gpuprof/internal/document"
)

// fixture is a result of the repository, in a file of its own.
type fixture struct {
	path string
	runs []*gpuprof.Run // where it is gpuprof's own
}

// fixtures are all results that the repository holds: of gpuprof, of other
// programs, and traces.
func fixtures(t *testing.T) []fixture {
	t.Helper()
	root := filepath.Join("..", "..")
	var out []fixture
	for _, pattern := range []string{
		"testdata/gallery/e3nn-*.json.gz", "internal/compare/results/testdata/*.json", "internal/compare/results/testdata/*.txt",
		"testdata/traces/*.json", "baselines/nvidia-h200/gpu-record/*/*.json*",
	} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			out = append(out, fixture{path: path})
		}
	}
	found, err := filepath.Glob(filepath.Join(root, "testdata", "findings", "*.json.gz"))
	if err != nil || len(found) == 0 {
		t.Fatalf("%d problems, %v", len(found), err)
	}
	for _, path := range found {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		var p struct{ Runs []*gpuprof.Run }
		if err := json.NewDecoder(z).Decode(&p); err != nil {
			t.Fatal(err)
		}
		f.Close()
		for i, r := range p.Runs {
			one := filepath.Join(t.TempDir(), fmt.Sprintf("%s-%d.json", strings.TrimSuffix(filepath.Base(path), ".json.gz"), i))
			var b bytes.Buffer
			if err := document.EncodeRuns(&b, r); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(one, b.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			out = append(out, fixture{one, []*gpuprof.Run{r}})
		}
	}
	return out
}

// judged runs a verb and gives its exit code and comparison.
func judged(t *testing.T, args ...string) (int, *compare.Comparison) {
	t.Helper()
	var out, errOut strings.Builder
	code := gpuprofRan(t, &out, &errOut, append(args, "--format", "json")...)
	var c compare.Comparison
	if err := json.Unmarshal([]byte(out.String()), &c); err != nil {
		t.Fatalf("%v: exit %d: %s%v", args, code, errOut.String(), err)
	}
	return code, &c
}

// nothingChanged is the verdict on a measurement against itself: it passes, however
// few processes it has; only what failed in it, or was cut short, keeps it from that.
func nothingChanged(t *testing.T, args ...string) {
	t.Helper()
	code, c := judged(t, args...)
	whole := len(c.Failed) == 0
	for _, m := range c.Metrics {
		if m.Verdict == compare.Explains && strings.Contains(m.Reason, "whether more or less of it is better") {
			continue // it has no direction, and is never judged
		}
		if m.Verdict != compare.Same && (whole || m.Verdict != compare.Inconclusive) {
			t.Errorf("%v: %s is %s: %s", args, m.Name, m.Verdict, m.Reason)
		}
	}
	if code != cli.ExitOK && (whole || code == cli.ExitRegression) || c.Verdict == compare.Improved {
		t.Errorf("%v: exit %d, %s", args, code, c.Verdict)
	}
}

// Whatever is compared with itself has not changed: in every format, plain and
// compressed, by compare and by gate, with and without a spread between sessions,
// in a file of one process and in one of many.
func TestNothingChangesAgainstItself(t *testing.T) {
	t.Parallel()
	judgedFiles := 0
	for _, f := range fixtures(t) {
		found, _, err := results.Read(f.path, results.OS)
		if err != nil && !strings.Contains(f.path, "traces") || len(found) > 1 {
			continue // no result, or a sweep
		}
		if strings.HasSuffix(f.path, "not-steady-fires.json") {
			continue // most of it is start-up, and no step is left to compare
		}
		judgedFiles++
		nothingChanged(t, "gate", f.path, f.path)
		if len(f.runs) > 0 { // one of each kind is enough of what follows
			continue
		}
		nothingChanged(t, "compare", f.path, f.path)
		nothingChanged(t, "gate", f.path, f.path, "--session-spread", "0")
		if err != nil {
			continue
		}
		text, err := os.ReadFile(f.path)
		if err != nil {
			t.Fatal(err)
		}
		// NVBench looks for its samples beside the file; without them it has medians.
		many := filepath.Join(t.TempDir(), filepath.Base(f.path))
		if err := os.WriteFile(many, bytes.Repeat(append(text, '\n'), 7), 0o600); err != nil {
			t.Fatal(err)
		}
		if found, _, err := results.Read(many, results.OS); err == nil && len(found) == 1 {
			nothingChanged(t, "gate", many, many)
		}
	}
	if judgedFiles < 40 {
		t.Errorf("only %d fixtures were compared with themselves", judgedFiles)
	}
}

// A stored baseline of one run, against that run: counters that are no whole
// number, or larger than nine digits, are the same.
func TestNothingChangesAgainstItsOwnBaseline(t *testing.T) {
	t.Parallel()
	n := 0
	for _, f := range fixtures(t) {
		if !strings.Contains(f.path, "gallery") && len(f.runs) == 0 {
			continue
		}
		store := t.TempDir()
		var words strings.Builder
		if code := gpuprofRan(t, io.Discard, &words, "history", "baseline", "add", f.path, "--dir", store); code != cli.ExitOK {
			continue // simulated, or without times
		}
		n++
		nothingChanged(t, "gate", "auto", f.path, "--dir", store)
		nothingChanged(t, "gate", "auto", f.path, "--dir", store, "--session-spread", "0")
		all, _ := baseline.Open(store).List()
		nothingChanged(t, "compare", all[0].Path, f.path)
	}
	if n < 20 {
		t.Errorf("only %d baselines were made", n)
	}
}

// The baselines in the repository: a run that counts as much as a session did, to
// the digits that the session was stored with, has no counter changed.
func TestStoredDigitsAreNoChange(t *testing.T) {
	t.Parallel()
	all, broken := baseline.Open(filepath.Join("..", "..", "baselines")).List()
	if len(all) == 0 || len(broken) > 0 {
		t.Fatalf("%d baselines, %v", len(all), broken)
	}
	exact := 0
	for _, b := range all {
		sessions := b.Results()
		now := b.Sessions[len(b.Sessions)-1].Result("new")
		for i := range now.Metrics {
			m := &now.Metrics[i]
			if m.Digits > 0 { // counters of later sessions are stored as they were
				m.Runs = [][]float64{{m.Runs[0][0] * (1 + 3e-11)}}
			}
			m.Digits = 0
		}
		c, err := compare.CompareStored(sessions, now, compare.Options{Judge: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range c.Metrics {
			if m.Exact {
				exact++
			}
			if m.Exact && m.Verdict != compare.Same {
				t.Errorf("%s: %s %v -> %v is %s", b.Name, m.Name, m.Old, m.New, m.Verdict)
			}
		}
	}
	if exact < 30 {
		t.Errorf("only %d counters", exact)
	}
}
