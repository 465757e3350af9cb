// Command testplan prints, one per line, the packages of a test run for `go test`: `testplan race` prints the
// packages that start goroutines, `testplan nightly` those with tests under the build tag nightly. It runs in the
// module's root, reads only the sources, and imports only the standard library.
package main

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

func main() {
	keep := map[string]func(source) bool{"race": source.isConcurrent, "nightly": source.isNightly}
	if len(os.Args) != 2 || keep[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: testplan race|nightly")
		os.Exit(2)
	}
	sources, err := read(os.DirFS("."))
	if err != nil {
		fmt.Fprintf(os.Stderr, "testplan: %v\n", err)
		os.Exit(1)
	}
	for _, p := range selectPackages(sources, keep[os.Args[1]]) {
		fmt.Println("./" + p)
	}
}

type source struct {
	path string // relative to the module's root
	file *ast.File
	only constraint.Expr // from its //go:build line; nil without one
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// isNightly reports whether only builds with the tag nightly contain the file.
func (s source) isNightly() bool {
	return s.only != nil && s.only.Eval(buildTags("nightly")) && !s.only.Eval(buildTags())
}

// buildTags returns a function that reports whether a build tag is set: the tags of a plain Linux build and those in
// more are.
func buildTags(more ...string) func(string) bool {
	on := append([]string{"linux", "amd64", "unix", "cgo", "gc"}, more...)
	return func(tag string) bool { return slices.Contains(on, tag) || strings.HasPrefix(tag, "go1.") }
}

// isConcurrent reports whether the file starts goroutines: it has a go statement, or calls a method Go
// (sync.WaitGroup, errgroup.Group) or time.AfterFunc. Files that race builds exclude do not count. A package that
// only has locks is race-tested by the packages that start goroutines, and at night by its own tests.
func (s source) isConcurrent() bool {
	if s.only != nil && !s.only.Eval(buildTags("race")) {
		return false
	}
	found := false
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok {
				found = found || f.Sel.Name == "Go" && len(n.Args) == 1 || f.Sel.Name == "AfterFunc"
			}
		}
		return !found
	})
	return found
}

// selectPackages returns the folders, sorted, that have a test and a file for which keep returns true.
func selectPackages(sources []source, keep func(source) bool) []string {
	kept, tested := make(map[string]bool), make(map[string]bool)
	for _, s := range sources {
		dir := path.Dir(s.path)
		kept[dir] = kept[dir] || keep(s)
		tested[dir] = tested[dir] || s.isTest()
	}
	var out []string
	for dir := range kept {
		if kept[dir] && tested[dir] {
			out = append(out, dir)
		}
	}
	slices.Sort(out)
	return out
}

func read(root fs.FS) ([]source, error) {
	var all []source
	err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (name == "testdata" || name == "node_modules" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		text, err := fs.ReadFile(root, file)
		if err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		s := source{path: file}
		if s.file, err = parser.ParseFile(token.NewFileSet(), file, text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
			return fmt.Errorf("parsing %s: %w", file, err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "package ") {
				break
			}
			if constraint.IsGoBuild(line) {
				if s.only, err = constraint.Parse(strings.TrimSpace(line)); err != nil {
					return fmt.Errorf("reading the build line of %s: %w", file, err)
				}
			}
		}
		all = append(all, s)
		return nil
	})
	return all, err
}
