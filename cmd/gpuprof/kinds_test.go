//go:build !race

// Under the race detector one goroutine that reads files, writes pages and looks through them
// takes ten times as long; what reads in goroutines is tested there in packages of its own.

package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/bisect"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/workloads/search"
)

// documentFiles writes a file of each kind of document into dir, by kind.
func documentFiles(t *testing.T, dir string) map[gpuprof.DocumentKind]string {
	t.Helper()
	by := gpuprof.Tool{Name: "gpuprof", Version: "v1"}
	paths := map[gpuprof.DocumentKind]string{}
	for kind, doc := range map[gpuprof.DocumentKind]any{
		document.Comparison:      &compare.Comparison{Head: document.NewHead(document.Comparison, by), Sides: "files", Verdict: compare.Pass},
		document.Gate:            &compare.Comparison{Head: document.NewHead(document.Gate, by), Sides: "gate", Verdict: compare.Pass},
		document.Tune:            &tune.Result{Head: document.NewHead(document.Tune, by), Goal: tune.Time},
		document.Claims:          &tune.Result{Head: document.NewHead(document.Claims, by), Goal: tune.Time},
		document.Analysis:        &analyze.Analysis{Head: document.NewHead(document.Analysis, by)},
		document.TraceComparison: &analyze.Comparison{Head: document.NewHead(document.TraceComparison, by), Old: &analyze.Analysis{}, New: &analyze.Analysis{}},
		document.Health:          struct{ gpuprof.Head }{document.NewHead(document.Health, by)},
		document.Check:           gpuprof.CheckReport{Head: document.NewHead(document.Check, by)},
		document.Diagnosis:       gpuprof.Diagnosis{Head: document.NewHead(document.Diagnosis, by)},
		document.Noise:           compare.MachineNoise{Head: document.NewHead(document.Noise, by)},
		document.Recording:       struct{ gpuprof.Head }{document.NewHead(document.Recording, by)},
		document.Baseline:        struct{ gpuprof.Head }{document.NewHead(document.Baseline, by)},
		document.Memory:          &memsnap.Analysis{Head: document.NewHead(document.Memory, by), Inputs: []memsnap.Input{{Path: "x.pickle"}}, Devices: make([]memsnap.Device, 1)},
		document.Bisect:          &bisect.Search{Head: document.NewHead(document.Bisect, by), Commits: []bisect.Commit{{ID: "abc"}}},
	} {
		text, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		paths[kind] = filepath.Join(dir, string(kind)+".json")
		if err := os.WriteFile(paths[kind], text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

// A document of another kind than a verb takes is refused in one sentence that says
// what it is, and so is one of a newer schema, with exit code 4.
func TestWrongAndNewerDocuments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	paths := documentFiles(t, dir)
	csr := filepath.Join("..", "..", "testdata", "gallery", "e3nn-csr.json.gz")
	takes := func(kinds ...gpuprof.DocumentKind) map[gpuprof.DocumentKind]bool {
		out := map[gpuprof.DocumentKind]bool{}
		for _, k := range kinds {
			out[k] = true
		}
		return out
	}
	for _, verb := range []struct {
		args  []string // FILE is the document
		takes map[gpuprof.DocumentKind]bool
	}{
		{[]string{"report", "FILE"}, takes(document.Comparison, document.Gate, document.Tune, document.Claims, document.Analysis, document.TraceComparison, document.Bisect, document.Memory, document.Health, document.Check, document.Diagnosis)},
		{[]string{"compare", csr, "FILE"}, takes(document.Analysis)},
		{[]string{"compare", "FILE", csr}, takes(document.Analysis, document.Baseline)},
		{[]string{"gate", "FILE", "--max", "sync_points=9"}, takes(document.Analysis)},
		{[]string{"tune", "--resume", "FILE"}, takes(document.Tune, document.Claims)},
		{[]string{"history", "baseline", "add", "FILE", "--dir", filepath.Join(dir, "store")}, nil},
		{[]string{"pprof", "FILE", "-top"}, nil},
	} {
		for kind, path := range paths {
			if verb.takes[kind] {
				continue
			}
			code, said := refused(t, verb.args, path)
			if code != cli.ExitFailed || !strings.Contains(said, document.Is(kind)) || strings.Count(said, "\n") != 1 {
				t.Errorf("%s of a document of the kind %s: exit %d, %s", verb.args[0], kind, code, said)
			}
		}
		for kind := range verb.takes {
			text, err := os.ReadFile(paths[kind])
			if err != nil {
				t.Fatal(err)
			}
			newer := filepath.Join(dir, "newer.json")
			later := strings.Replace(string(text), `"schema_version":"`, `"schema_version":"9`, 1)
			if err := os.WriteFile(newer, []byte(later), 0o600); err != nil {
				t.Fatal(err)
			}
			if code, said := refused(t, verb.args, newer); code != cli.ExitFailed || !strings.Contains(said, "is newer than this gpuprof's "+document.Version(kind)+"; update gpuprof") {
				t.Errorf("%s of a newer document of the kind %s: exit %d, %s", verb.args[0], kind, code, said)
			}
		}
	}
}

func refused(t *testing.T, args []string, path string) (code int, said string) {
	t.Helper()
	var words []string
	for _, a := range args {
		words = append(words, strings.ReplaceAll(a, "FILE", path))
	}
	var stderr strings.Builder
	code = gpuprofRan(t, io.Discard, &stderr, words...)
	return code, stderr.String()
}

// Files that earlier versions wrote are read by what they hold.
func TestEarlyFilesAreRead(t *testing.T) {
	t.Parallel()
	top := filepath.Join("..", "..")
	csr := filepath.Join(top, "testdata", "gallery", "e3nn-csr.json.gz")
	for _, args := range [][]string{
		{"report", csr}, {"report", filepath.Join(top, "testdata", "gallery", "tune.json.gz")},
		{"compare", filepath.Join(top, "baselines", "amd-epyc", "e3nn-small.json"), csr},
		{"history", "baseline", "list", "--dir", filepath.Join(top, "baselines"), "--format", "json"},
	} {
		if code, said := refused(t, args, ""); code == cli.ExitFailed || strings.Contains(said, "reading") {
			t.Errorf("%v: exit %d, %s", args, code, said)
		}
	}
	peers := search.FindPeers(os.DirFS(filepath.Join(top, "baselines")), "NVIDIA H200", wired.workloadNamed("e3nn"), "deepaw")
	if len(peers) == 0 {
		t.Error("the recorded figures of other programs are not read")
	}
}
