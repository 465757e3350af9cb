package report_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// drawn are the functions of internal/stats that renderers may call: they give what is shown
// of samples, once for every format.
var drawn = map[string]bool{"Medians": true, "Between": true}

// middles are the places where a renderer may take the middle of a list: no median.
var middles = map[string]string{
	"internal/view/spread.go: Thin": "the sample in the middle of the time, of a run that has room for one",
	"page/trendline.go: barOf":      "the middle of the signs, for what never changes",
}

// statistics are the faults of a file: an import of a package of statistics, a call of an
// estimator, and the middle of a list.
func statistics(name string, file *ast.File) (out []string) {
	packages := map[string]bool{}
	for _, i := range file.Imports {
		path := strings.Trim(i.Path.Value, `"`)
		if strings.HasPrefix(path, "gonum.org/v1/gonum/stat") || strings.HasPrefix(path, "golang.org/x/perf/benchmath") {
			out = append(out, name+" imports "+path)
		}
		packages[path] = true
	}
	for _, d := range file.Decls {
		where := name + ": -"
		if f, ok := d.(*ast.FuncDecl); ok {
			where = name + ": " + f.Name.Name
		}
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "stats" && packages["github.com/gpuprof/gpuprof/internal/stats"] && !drawn[n.Sel.Name] {
					out = append(out, where+" calls stats."+n.Sel.Name)
				}
			case *ast.IndexExpr:
				if half(n.Index) && middles[where] == "" {
					out = append(out, where+" takes the middle of a list")
				}
			}
			return true
		})
	}
	return out
}

// half says whether an index is half of a length.
func half(index ast.Expr) bool {
	b, ok := index.(*ast.BinaryExpr)
	if !ok || b.Op != token.QUO {
		return ok && (half(b.X) || half(b.Y))
	}
	two, isNumber := b.Y.(*ast.BasicLit)
	length := false
	ast.Inspect(b.X, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && (id.Name == "len" || id.Name == "n") {
			length = true
		}
		return true
	})
	return isNumber && two.Value == "2" && length
}

// TestRenderersDoNoStatistics: medians and quantiles are computed where documents are made, or
// by the two functions that every format shares.
func TestRenderersDoNoStatistics(t *testing.T) {
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "internal/fixture") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		files++
		for _, fault := range statistics(filepath.ToSlash(path), file) {
			t.Error(fault)
		}
		return nil
	})
	if err != nil || files < 80 {
		t.Errorf("%d files, %v", files, err)
	}
}

// TestStatisticsAreFound: a median by hand, one of gonum's and one of ours.
func TestStatisticsAreFound(t *testing.T) {
	const source = `package x
import ("slices"; "gonum.org/v1/gonum/stat"; "github.com/gpuprof/gpuprof/internal/stats")
func median(v []float64) float64 { slices.Sort(v); return (v[(len(v)-1)/2] + v[len(v)/2]) / 2 }
func other(v []float64) float64 { return stats.Median(v) + stat.Mean(v, nil) + stats.Medians(v)[0] }`
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := statistics("x.go", file); len(got) != 4 {
		t.Errorf("found %q", got)
	}
}
