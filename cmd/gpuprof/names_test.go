package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads"
)

// general are words of a workload that other things are called too, with the
// places where they mean something else. Nothing there asks a run for a stage or a
// knob by them; TestNothingAsksByName sees to that.
func general() map[string][]string {
	return map[string][]string{
		// Columns, axes, fields and headings.
		"stage": {"report"}, "sample": {"report", "workloads/measure", "internal/compare/results"}, "metrics": {"report", "internal/compare/results"}, "streams": {"internal/compare/results"}, "epoch": {"report"}, "steps": {"report", "internal/compare", "cmd/gpuprof/internal/mcp"},
		"threads": {"cmd", "internal/compare", "report"}, "input": {"report"}, "spread": {"report"}, "probes": {"report"},
		"load": {"report"}, "fill": {"report"}, "blocks": {"report"}, "classes": {"report"}, "batch": {"report"}, "graph": {"report"}, "depth": {"report"}, "flow": {"report"}, "layout": {"report"}, "library": {"report"}, "workers": {"report"},
		// The verb, and a class of style.
		"history": {"cmd", "report"}, "grid": {"report"},
		// The verdict, and what steps of a recorded program are told apart by.
		"pass": {"cmd", "report", "internal/compare"}, "optimizer": {"cmd"}, "window": {"cmd", "report"},
		// The rule of this name, and rows of waits (below).
		"sync": {"workloads/advise", "report"},
		// States and directions of a recorded program, and counters of any run.
		"starved": {"report"}, "h2d": {"internal/compare", "report"}, "d2h": {"internal/compare", "report"}, "item_reads": {"internal/compare"},
		// The order of rows in reports, which a run does not store: waits come last.
		"backpressure": {"report"},
		// A member of every document.
		"answer": {"report/schema"},
		"rate":   {"report", "internal/compare"},
	}
}

// What judges, explains and prints is handed workloads, and names none of them, no
// stage and no knob.
func TestNothingNamesAWorkload(t *testing.T) {
	names := declared()
	eachFile(t, func(path string, f *ast.File, pos *token.FileSet) {
		ast.Inspect(f, func(n ast.Node) bool {
			if _, imported := n.(*ast.ImportSpec); imported {
				return false
			}
			value, ok := literal(n)
			if !ok || names[value] == "" {
				return true
			}
			for _, place := range general()[value] {
				if strings.HasPrefix(path, place+"/") {
					return true
				}
			}
			t.Errorf("%s names %s, %s", pos.Position(n.Pos()), value, names[value])
			return true
		})
	})
}

// A word that means something else elsewhere is still none to look a stage or a knob
// up by: roles and remedies are there for that.
func TestNothingAsksByName(t *testing.T) {
	names := declared()
	eachFile(t, func(path string, f *ast.File, pos *token.FileSet) {
		ast.Inspect(f, func(n ast.Node) bool {
			var asked ast.Node
			switch n := n.(type) {
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && len(n.Args) == 1 && strings.Contains(" Int Float Every On Stage ", " "+sel.Sel.Name+" ") {
					asked = n.Args[0]
				}
			case *ast.IndexExpr:
				if sel, ok := n.X.(*ast.SelectorExpr); ok && sel.Sel.Name == "Knobs" {
					asked = n.Index
				}
			}
			if value, ok := literal(asked); ok && names[value] != "" {
				t.Errorf("%s asks for %s, %s", pos.Position(n.Pos()), value, names[value])
			}
			return true
		})
	})
}

func literal(n ast.Node) (string, bool) {
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	value, err := strconv.Unquote(lit.Value)
	return value, err == nil
}

// declared are the names that workloads give, with what they name.
func declared() map[string]string {
	names := map[string]string{}
	for _, w := range wired.listWorkloads() {
		names[w.Name()] = "a workload"
		for _, st := range w.Stages() {
			names[st.Name] = "a stage of " + w.Name()
		}
		for _, k := range w.Knobs() {
			names[k.Name] = "a knob of " + w.Name()
		}
	}
	return names
}

// A value is spelled in one way, whether it was typed or is a knob's own: compare and gate take
// two spellings for two settings.
func TestKnobsSpellTheirValuesOnce(t *testing.T) {
	for _, w := range wired.listWorkloads() {
		for _, k := range w.Knobs() {
			if got, err := k.Canonical(k.Default); err != nil || got != k.Default {
				t.Errorf("%s: %s=%s is spelled %q where it is typed, %v", w.Name(), k.Name, k.Default, got, err)
			}
		}
		for _, p := range w.Presets() {
			for name, v := range p.Set {
				if i := slices.IndexFunc(w.Knobs(), func(k workloads.Knob) bool { return k.Name == name }); i < 0 {
					t.Errorf("%s: preset %s sets %s, which is no knob", w.Name(), p.Name, name)
				} else if got, err := w.Knobs()[i].Canonical(v); err != nil || got != v {
					t.Errorf("%s: preset %s has %s=%s, spelled %q where it is typed, %v", w.Name(), p.Name, name, v, got, err)
				}
			}
		}
	}
}

// eachFile parses what judges, explains and prints: no tests, no made-up runs, and
// not the one table.
func eachFile(t *testing.T, look func(path string, f *ast.File, pos *token.FileSet)) {
	t.Helper()
	const root = "../.."
	pos := token.NewFileSet()
	seen := 0
	for _, dir := range []string{"cmd", "report", "workloads/advise", "internal/tune", "workloads/measure", "internal/compare"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && (d.Name() == "fixture" || d.Name() == "toy" || d.Name() == "testdata") {
				return fs.SkipDir
			}
			if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || d.Name() == "wire.go" {
				return nil
			}
			f, err := parser.ParseFile(pos, path, nil, 0)
			if err != nil {
				return err
			}
			seen++
			rel, err := filepath.Rel(root, path)
			look(filepath.ToSlash(rel), f, pos)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 100 {
		t.Errorf("%d files were read: the folders have moved", seen)
	}
}
