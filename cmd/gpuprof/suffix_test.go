package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
)

// writing are command lines of every verb that has -o, without it.
func writing(dir string) map[string][]string {
	run, trace := filepath.Join("..", "..", "testdata", "gallery", "e3nn-csr.json.gz"), filepath.Join("..", "..", "testdata", "traces", "item-fires.json")
	return map[string][]string{
		"run --":         {"run", "OUT", "--", "true"},
		"run":            {"run", "e3nn", "--device", "host", "OUT"},
		"run --check":    {"run", "--check", "e3nn", "--device", "host", "OUT"},
		"run record":     {"run", "record", dir, "OUT"},
		"analyze":        {"analyze", trace, "OUT"},
		"tune --":        {"tune", "OUT", "--", "true"},
		"tune":           {"tune", "e3nn", "--device", "host", "OUT"},
		"gate":           {"gate", run, run, "OUT"},
		"compare":        {"compare", run, run, "OUT"},
		"bisect":         {"bisect", "HEAD~1..HEAD", "e3nn", "--device", "host", "OUT"},
		"history show":   {"history", "show", "--store", dir, "OUT"},
		"history check":  {"history", "check", "--store", dir, "OUT"},
		"fleet":          {"fleet", dir, "OUT"},
		"doctor":         {"doctor", "OUT"},
		"doctor --bench": {"doctor", "--bench", "OUT"},
		"doctor --check": {"doctor", "--check", "OUT"},
		"report":         {"report", run, "OUT"},
		"a file":         {run, "OUT"},
	}
}

// A suffix that no writer has is refused before anything is measured, by every verb with -o, and leaves nothing.
func TestUnknownSuffixes(t *testing.T) {
	var c grammar
	k, _, err := newParser(&cli.App{Tables: wired.tables(), Ctx: t.Context(), Stdout: io.Discard, Stderr: io.Discard}, &c)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	verbs := writing(dir)
	for _, n := range k.Model.Leaves(true) {
		has := false
		for _, f := range n.Flags {
			has = has || f.Name == "output"
		}
		if has && verbs[strings.TrimPrefix(n.FullPath(), "gpuprof ")] == nil && n.Type == kong.CommandNode {
			t.Errorf("%s has -o and is not tried", n.FullPath())
		}
	}
	for name, line := range verbs {
		for _, file := range []string{"f.pfd", "f.xyz", "f.json.bz2", "f.speedscope.json.gz", "f.perfetto.json.zst"} {
			out := filepath.Join(dir, file)
			var args []string
			for _, w := range line {
				if w == "OUT" {
					args = append(args, "-o", out)
					continue
				}
				args = append(args, w)
			}
			var stdout, stderr strings.Builder
			code := gpuprofRan(t, &stdout, &stderr, args...)
			if text := stderr.String(); code != cli.ExitUsage || !strings.Contains(text, "the extension is not known; use one of .json") || strings.Count(text, "\n") > 1 && name != "a file" {
				t.Errorf("%s -o %s: exit code %d, %s", name, file, code, text)
			}
			if _, err := os.Lstat(out); err == nil {
				t.Errorf("%s left %s", name, file)
			}
		}
	}
}

// Stacks are written where a document has them, and refused where it has none.
func TestSuffixesOfStacks(t *testing.T) {
	dir := t.TempDir()
	gallery := filepath.Join("..", "..", "testdata", "gallery")
	for _, args := range [][]string{
		{"report", filepath.Join(gallery, "e3nn-csr.json.gz")}, {"report", filepath.Join(gallery, "tune.json.gz")}, {"run", "e3nn", "--device", "host"},
		{"compare", filepath.Join(gallery, "e3nn-csr.json.gz"), filepath.Join(gallery, "e3nn-unfused.json.gz")},
	} {
		for _, file := range []string{"f.speedscope.json", "f.folded"} {
			var stderr strings.Builder
			if code := gpuprofRan(t, io.Discard, &stderr, append(args, "-o", filepath.Join(dir, file))...); code != cli.ExitUsage || !strings.Contains(stderr.String(), "has no such format; use .json") {
				t.Errorf("%v -o %s: exit code %d, %s", args, file, code, &stderr)
			}
		}
	}
	snapshot := filepath.Join("..", "..", "testdata", "memory", "clean.pickle.gz")
	for _, file := range []string{"m.speedscope.json", "m.folded"} {
		out := filepath.Join(dir, file)
		if code := gpuprofRan(t, io.Discard, io.Discard, "analyze", snapshot, "-o", out); code != cli.ExitOK {
			t.Errorf("analyze -o %s: exit code %d", file, code)
		}
		if text, err := os.ReadFile(out); err != nil || len(text) < 100 {
			t.Errorf("%s has %d bytes, %v", file, len(text), err)
		}
	}
}
