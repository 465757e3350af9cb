package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentedGates: every command of docs/ci.md is run by a script, as it
// stands there.
func TestDocumentedGates(t *testing.T) {
	doc, err := os.ReadFile("../../docs/ci.md")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("testdata/script/ci.txtar")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(doc)) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "- ")
		line = strings.TrimPrefix(line, "run: ")
		if !strings.HasPrefix(line, "gpuprof ") {
			continue
		}
		n++
		if !strings.Contains(string(script), "exec "+line+"\n") {
			t.Errorf("docs/ci.md has a command that no test runs: %s", line)
		}
	}
	if n < 5 {
		t.Errorf("%d commands found in docs/ci.md", n)
	}
}

// TestDocsListKnobsAndPresets: the tables of a workload's page are the code's.
func TestDocsListKnobsAndPresets(t *testing.T) {
	for _, w := range workloads() {
		page := "docs/" + w.Name() + ".md"
		text, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		var rows []string
		for _, k := range w.Knobs() {
			kind := "tuning"
			if k.Model {
				kind = "model"
			}
			rows = append(rows, "| `"+k.Name+"` | "+kind+" | `"+k.Default+"` |")
		}
		for _, p := range w.Presets() {
			rows = append(rows, "| `"+p.Name+"` |")
		}
		for _, row := range rows {
			if !strings.Contains(string(text), row) {
				t.Errorf("%s lacks the row %s", page, row)
			}
		}
	}
}

// TestAdvisedKnobsExist: what findings and docs/analyze.md tell people to
// tune are knobs of workloads that are there.
func TestAdvisedKnobsExist(t *testing.T) {
	known := map[string]bool{}
	for _, w := range workloads() {
		for _, k := range w.Knobs() {
			known[w.Name()+" "+k.Name] = true
		}
	}
	advice := regexp.MustCompile(`gpuprof tune (\w+) --knob ([\w,]+)`)
	files, err := filepath.Glob("../../internal/trace/rule*.go")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range append(files, "../../docs/analyze.md") {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range advice.FindAllStringSubmatch(string(text), -1) {
			for knob := range strings.SplitSeq(m[2], ",") {
				if n++; !known[m[1]+" "+knob] {
					t.Errorf("%s: %s has no knob %s", f, m[1], knob)
				}
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d pieces of advice found", n)
	}
}
