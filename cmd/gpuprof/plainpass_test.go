package main

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	leftOut  = regexp.MustCompile(`(?m)^//go:build .*!race`)
	reason   = regexp.MustCompile(`(?m)^// \w`)
	testName = regexp.MustCompile(`(?m)^func ((Test|Benchmark|Fuzz|Example)\w*)\(`)
)

// TestPlainPass: every test that a build tag takes from the race detector is run by the pass
// without it, and its file gives the reason.
func TestPlainPass(t *testing.T) {
	t.Parallel()
	var want []string
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && file != root && (d.Name() == "testdata" || d.Name()[0] == '.') {
				return fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(file, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		head, _, _ := bytes.Cut(text, []byte("\nfunc "))
		if !leftOut.Match(head) {
			return nil
		}
		if !reason.Match(head) {
			t.Errorf("%s does not say why it is left out under the race detector", file)
		}
		rel, err := filepath.Rel(root, filepath.Dir(file))
		for _, m := range testName.FindAllSubmatch(text, -1) {
			want = append(want, path.Join("github.com/gpuprof/gpuprof", filepath.ToSlash(rel))+" "+string(m[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(root, "scripts", "test_plain.sh"), "--names")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &said)
	}
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(want)
	slices.Sort(got)
	if len(want) < 40 || !slices.Equal(got, want) {
		t.Errorf("the plain pass runs %q, the files hold %q", got, want)
	}
}
