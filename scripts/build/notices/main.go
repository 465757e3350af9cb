// Command notices writes THIRD_PARTY_NOTICES.md: the license texts, from the module cache, of every module that any
// build of gpuprof links. `go generate` runs it in the repository's root.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const file = "THIRD_PARTY_NOTICES.md"

// programs lists the linked program, and the generator that compiles files of a module into it.
var programs = []string{"./cmd/gpuprof", "./scripts/build/fonts"}

// builds are go list settings under which different modules are linked: the systems of make cross, with and without
// cgo, and the alternative driver binding.
var builds = [...][]string{
	{"GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=1"},
	{"GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=1", "GOFLAGS=-tags=gorgonia"},
	{"GOOS=linux", "GOARCH=386", "CGO_ENABLED=0"},
	{"GOOS=linux", "GOARCH=arm", "CGO_ENABLED=0"},
	{"GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0"},
	{"GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0"},
	{"GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0"},
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "notices: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	all := map[string]*module{}
	for _, env := range builds {
		if err := addLinked(all, env); err != nil {
			return err
		}
	}
	text, err := renderNotices(all)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return fmt.Errorf("writing the notices: %w; run this in the repository's root", err)
	}
	return nil
}

// module is a linked module with the folders of its linked packages.
type module struct {
	Path, Version, Dir string
	packages           []string
}

type listed struct {
	Dir    string
	Module *struct {
		Path, Version, Dir string
		Main               bool
		Replace            *struct{ Dir string }
	}
}

func addLinked(all map[string]*module, env []string) error {
	cmd := exec.Command("go", append([]string{"list", "-deps", "-json=Dir,Module"}, programs...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("listing the packages of %s with %s: %w; see above", strings.Join(programs, " "), strings.Join(env, " "), err)
	}
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading what go list printed: %w", err)
		}
		if p.Module == nil || p.Module.Main { // skips the standard library and gpuprof
			continue
		}
		m := all[p.Module.Path]
		if m == nil {
			m = &module{Path: p.Module.Path, Version: p.Module.Version, Dir: p.Module.Dir}
			if r := p.Module.Replace; r != nil {
				m.Dir = r.Dir
			}
			all[m.Path] = m
		}
		m.packages = append(m.packages, p.Dir)
	}
}

type notice struct{ name, text string }

// findNotices returns a module's license files: in the folders of its linked packages, in their parent folders, and
// in a folder of licenses.
func (m *module) findNotices() ([]notice, error) {
	dirs := map[string]bool{m.Dir: true}
	for _, dir := range m.packages {
		for ; dir != m.Dir && len(dir) > len(m.Dir); dir = filepath.Dir(dir) {
			dirs[dir] = true
		}
	}
	var out []notice
	for dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("reading module %s: %w; run go mod download", m.Path, err)
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			found := []string{}
			switch {
			case !e.IsDir() && isNotice(e.Name()):
				found = []string{path}
			case e.IsDir() && isFolder(e.Name()):
				found, _ = filepath.Glob(filepath.Join(path, "*")) // cannot fail: paths of the cache have no brackets
			}
			for _, f := range found {
				text, err := os.ReadFile(f)
				if err != nil {
					return nil, fmt.Errorf("reading module %s: %w", m.Path, err)
				}
				rel, err := filepath.Rel(m.Dir, f)
				if err != nil {
					return nil, err
				}
				out = append(out, notice{filepath.ToSlash(rel), cleanText(string(text))})
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("module %s %s has no license file; find out under which terms it comes, and leave it out if there are none", m.Path, m.Version)
	}
	slices.SortFunc(out, func(a, b notice) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

// isNotice recognizes LICENSE, LICENSE-SIL, GO-LICENSE.txt and the like, except source files.
func isNotice(name string) bool {
	name = strings.ToLower(name)
	switch filepath.Ext(name) {
	case "", ".txt", ".md", ".rst":
	default:
		if !strings.HasPrefix(name, "license") && !strings.HasPrefix(name, "licence") || strings.HasSuffix(name, ".go") {
			return false
		}
	}
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '-' || r == '_' || r == '.' }) {
		if slices.Contains([]string{"license", "licence", "copying", "notice", "notices", "patents", "copyright", "unlicense"}, word) {
			return true
		}
	}
	return false
}

func isFolder(name string) bool {
	return strings.EqualFold(name, "licenses") || strings.EqualFold(name, "licences")
}

// cleanText normalizes line ends and removes trailing blanks and control characters.
func cleanText(text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.ToValidUTF8(text, "")) {
		line = strings.Map(func(r rune) rune {
			if r < ' ' && r != '\t' || r == 0x7f || r == '\ufeff' {
				return -1
			}
			return r
		}, line)
		b.WriteString(strings.TrimRight(line, " \t") + "\n")
	}
	return strings.Trim(b.String(), "\n") + "\n"
}

const head = `# Third-party notices

gpuprof is licensed under the Apache License 2.0 (see LICENSE). Its binary also holds code of the Go standard library and of the modules
below, some of them only in builds for some systems or with some build tags. This file is made by ` + "`go generate`" + ` from what go.mod
links; ` + "`gpuprof version --licenses`" + ` prints it. Do not edit it.

`

// goText is the module whose license text stands for the standard library: the texts are equal, and not every Go
// installation keeps the file.
const goText = "golang.org/x/sys"

func renderNotices(all map[string]*module) ([]byte, error) {
	type text struct {
		text string
		of   []string
	}
	var texts []*text
	index := map[string]*text{}
	add := func(of, s string) {
		t := index[s]
		if t == nil {
			t = &text{text: s}
			index[s] = t
			texts = append(texts, t)
		}
		t.of = append(t.of, of)
	}
	var b bytes.Buffer
	b.WriteString(head)
	for _, m := range slices.SortedFunc(maps.Values(all), func(a, b *module) int { return strings.Compare(a.Path, b.Path) }) {
		found, err := m.findNotices()
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "- %s %s\n", m.Path, m.Version)
		for _, n := range found {
			if m.Path == goText && n.name == "LICENSE" {
				add("the Go standard library", n.text)
			}
			add(m.Path+"/"+n.name, n.text)
		}
	}
	for _, t := range texts {
		fence := "~~~~"
		for strings.Contains(t.text, fence) {
			fence += "~"
		}
		fmt.Fprintf(&b, "\n## %s\n\n%stext\n%s%s\n", strings.Join(t.of, ", "), fence, t.text, fence)
	}
	if _, ok := all[goText]; !ok {
		return nil, fmt.Errorf("%s is linked no more, and the license of the Go standard library was taken from it; name another module of the Go project", goText)
	}
	return b.Bytes(), nil
}
