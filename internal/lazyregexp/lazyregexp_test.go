package lazyregexp

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestCompiledAtFirstUse(t *testing.T) {
	compiled := 0
	r := &Regexp{sync.OnceValue(func() *regexp.Regexp { compiled++; return regexp.MustCompile(`b(\d+)`) })}
	if compiled != 0 {
		t.Error("an expression without a use is compiled")
	}
	if got := r.FindStringSubmatch("a1b23"); !slices.Equal(got, []string{"b23", "23"}) || !r.MatchString("b1") || compiled != 1 {
		t.Errorf("found %q, compiled %d times", got, compiled)
	}
}

// A pattern that does not compile fails every test that imports its package, not the user who needs it first.
func TestWrongPatternFailsInTests(t *testing.T) {
	for program, want := range map[string]bool{"/tmp/go-build1/b001/rules.test": true, "rules.test.exe": true, "/usr/bin/gpuprof": false} {
		if isTest(program) != want {
			t.Errorf("%s is a test: %t, want %t", program, !want, want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("New took the pattern `(`")
		}
	}()
	New(`(`)
}

// TestNoneIsCompiledAtStart reads the module: a variable of a package that holds a compiled expression costs every
// start of the program.
func TestNoneIsCompiledAtStart(t *testing.T) {
	root, files := filepath.Join("..", ".."), 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{"scripts", "shared", "testdata", "testkit"}, d.Name()) || strings.HasPrefix(d.Name(), ".") && path != root {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if files++; bytes.Contains(text, []byte("regexp.MustCompile(")) && compilesAtStart(t, text) {
			t.Errorf("%s compiles a regular expression at every start: use lazyregexp.New", path)
		}
		return nil
	})
	if err != nil || files < 500 {
		t.Fatalf("%d files were read: %v", files, err)
	}
	for text, want := range map[string]bool{
		"var x = []*regexp.Regexp{regexp.MustCompile(`a`)}": true,
		"var x = func() { regexp.MustCompile(`a`) }":        false,
		"func f() { regexp.MustCompile(`a`) }":              false,
	} {
		if compilesAtStart(t, []byte("package p\n"+text)) != want {
			t.Errorf("%s compiles at start: %t, want %t", text, !want, want)
		}
	}
}

// compilesAtStart reports whether a variable of the package calls regexp.MustCompile outside of a function.
func compilesAtStart(t *testing.T, text []byte) bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl, *ast.FuncLit:
			return false
		case *ast.SelectorExpr:
			x, is := n.X.(*ast.Ident)
			found = found || is && x.Name == "regexp" && n.Sel.Name == "MustCompile"
		}
		return !found
	})
	return found
}
