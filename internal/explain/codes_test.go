package explain_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var code = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// codes are the warning codes that the program's source can give, with the file.
func codes(t *testing.T) map[string]string {
	t.Helper()
	named := map[string][]string{} // what a folder's constants and variables may hold
	eachFile(t, func(file string, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, v := range n.Values {
					if text, ok := literal(v); ok {
						named[path.Dir(file)+" "+n.Names[i].Name] = append(named[path.Dir(file)+" "+n.Names[i].Name], text)
					}
				}
			case *ast.AssignStmt:
				if text, ok := literal(n.Rhs[0]); ok && len(n.Lhs) == 1 {
					named[path.Dir(file)+" "+called(n.Lhs[0])] = append(named[path.Dir(file)+" "+called(n.Lhs[0])], text)
				}
			}
			return true
		})
	})
	out := map[string]string{}
	eachFile(t, func(file string, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			for _, at := range codesAt(file, n) {
				texts := named[path.Dir(file)+" "+called(at)]
				if text, ok := literal(at); ok {
					texts = []string{text}
				}
				for _, text := range texts {
					if code.MatchString(text) {
						out[text] = file
					}
				}
			}
			return true
		})
	})
	return out
}

// codesAt are the codes of the warnings that a node makes.
func codesAt(file string, n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.CallExpr:
		name := called(n.Fun)
		if len(n.Args) > 1 && (name == "warn" || name == "addWarning" || name == "Warn" || name == "addNote" && strings.Contains(file, "/results/")) {
			return n.Args[:1]
		}
	case *ast.CompositeLit:
		if called(n.Type) == "Warning" {
			return codeOf(n)
		}
		if list, ok := n.Type.(*ast.ArrayType); ok && called(list.Elt) == "Warning" {
			var out []ast.Expr
			for _, e := range n.Elts {
				if one, ok := e.(*ast.CompositeLit); ok {
					out = append(out, codeOf(one)...)
				}
			}
			return out
		}
	}
	return nil
}

// called is the name that an expression ends in.
func called(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// codeOf is the Code of a Warning that is written out.
func codeOf(lit *ast.CompositeLit) []ast.Expr {
	for i, e := range lit.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok && i == 0 {
			return []ast.Expr{e}
		}
		if ok && called(kv.Key) == "Code" {
			return []ast.Expr{kv.Value}
		}
	}
	return nil
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

// eachFile visits the program's own source.
func eachFile(t *testing.T, visit func(file string, f *ast.File)) {
	t.Helper()
	root := filepath.Join("..", "..")
	set := token.NewFileSet()
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if file != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "fixture" || name == "toy" || name == "scripts") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err == nil {
			visit(filepath.ToSlash(file), f)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
