package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentedGates: a script runs every command of docs/ci.md, unchanged.
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
	for _, w := range wired.listWorkloads() {
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

// TestDocumentedKnobsExist: the knobs that README and docs tell people to set or
// to tune are knobs of the workload named in the same command.
func TestDocumentedKnobsExist(t *testing.T) {
	known := map[string]bool{}
	for _, w := range wired.listWorkloads() {
		for _, k := range w.Knobs() {
			known[w.Name()+" "+k.Name] = true
		}
	}
	command := regexp.MustCompile(`gpuprof (?:run|tune|gate) (e3nn|gruflow|collate|gridsim|serving)\b[^\n|` + "`" + `]*`)
	knobs := regexp.MustCompile(`--(?:knob ([\w,]+)|set (\w+)=)`)
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range append(files, "../../README.md") {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range command.FindAllStringSubmatch(string(text), -1) {
			for _, m := range knobs.FindAllStringSubmatch(c[0], -1) {
				for knob := range strings.SplitSeq(m[1]+m[2], ",") {
					if n++; !known[c[1]+" "+knob] {
						t.Errorf("%s: %s has no knob %s", f, c[1], knob)
					}
				}
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d knobs found", n)
	}
}
