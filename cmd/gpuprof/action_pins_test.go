package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// onNode24 reports whether a version of an action is of those that run on Node.js 24: each began with another one.
func onNode24(action, pin string) bool {
	first := map[string]int{"actions/checkout": 5, "actions/setup-go": 6, "actions/setup-python": 6, "actions/upload-artifact": 6}[action]
	_, version, _ := strings.Cut(pin, "# v")
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	return err == nil && first > 0 && n >= first
}

// TestActionsPinned: a workflow takes actions by their commit, which cannot be moved
// to other code, and the version stands beside it; so do the examples in the docs, all
// of one version.
func TestActionsPinned(t *testing.T) {
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	docs, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(docs) == 0 {
		t.Fatal(docs, err)
	}
	uses := regexp.MustCompile(`(?m)^[ -]*uses: .*$`)
	pinned := regexp.MustCompile(`uses: ([\w-]+/[\w-]+)@([0-9a-f]{40} # v\d+\.\d+\.\d+)$`)
	at := map[string]string{}
	examples := 0
	for _, file := range slices.Concat(files, docs, []string{"../../action.yml", "../../README.md"}) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range uses.FindAllString(string(text), -1) {
			if strings.Contains(line, "uses: gpuprof/gpuprof@") {
				continue // this repository's own
			}
			m := pinned.FindStringSubmatch(line)
			switch {
			case m == nil:
				t.Errorf("%s: %s", file, line)
				continue
			case !onNode24(m[1], m[2]):
				t.Errorf("%s: %s %s runs on Node.js 20, which GitHub ends", file, m[1], m[2])
			case at[m[1]] == "":
				at[m[1]] = m[2]
			case at[m[1]] != m[2]:
				t.Errorf("%s: %s at %s, elsewhere at %s", file, m[1], m[2], at[m[1]])
			}
			if strings.HasSuffix(file, ".md") {
				examples++
			}
		}
	}
	if examples == 0 {
		t.Error("no example was found in the docs")
	}
}
