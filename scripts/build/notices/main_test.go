package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// put writes files below a folder.
func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRender(t *testing.T) {
	one, two, sys := t.TempDir(), t.TempDir(), t.TempDir()
	put(t, one, map[string]string{
		"LICENSE": "shared \r\n\ftext\n\n", "license.go": "package x", "sub/GO-LICENSE": "of a package\n", "sub/deep/x.go": "package deep",
		"other/LICENSE": "not linked", "licenses/ftl.txt": "~~~~ has a fence\n", "NOTICE.txt": "seen", "README.md": "no",
	})
	put(t, two, map[string]string{"LICENCE.md": "shared\ntext", "LICENSE-MIT": "mit"})
	put(t, sys, map[string]string{"LICENSE": "go", "PATENTS": "patents"})
	all := map[string]*module{
		"b/one":            {Path: "b/one", Version: "v1.2.3", Dir: one, packages: []string{filepath.Join(one, "sub", "deep"), one}},
		"a/two":            {Path: "a/two", Version: "v0.1.0", Dir: two, packages: []string{two}},
		"golang.org/x/sys": {Path: "golang.org/x/sys", Version: "v9.0.0", Dir: sys, packages: []string{sys}},
	}
	got, err := renderNotices(all)
	if err != nil {
		t.Fatal(err)
	}
	want := head + `- a/two v0.1.0
- b/one v1.2.3
- golang.org/x/sys v9.0.0

## a/two/LICENCE.md, b/one/LICENSE

~~~~text
shared
text
~~~~

## a/two/LICENSE-MIT

~~~~text
mit
~~~~

## b/one/NOTICE.txt

~~~~text
seen
~~~~

## b/one/licenses/ftl.txt

~~~~~text
~~~~ has a fence
~~~~~

## b/one/sub/GO-LICENSE

~~~~text
of a package
~~~~

## the Go standard library, golang.org/x/sys/LICENSE

~~~~text
go
~~~~

## golang.org/x/sys/PATENTS

~~~~text
patents
~~~~
`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	bare := t.TempDir()
	all["c/bare"] = &module{Path: "c/bare", Version: "v1.0.0", Dir: bare}
	if _, err := renderNotices(all); err == nil || !strings.Contains(err.Error(), "c/bare v1.0.0 has no license file") {
		t.Errorf("a module without a license: %v", err)
	}
	delete(all, "c/bare")
	delete(all, "golang.org/x/sys")
	if _, err := renderNotices(all); err == nil {
		t.Error("the standard library's license is missing, and nothing says so")
	}
}
