package explain_test

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/explain"
)

func named(t *testing.T, kind explain.Kind) map[string]bool {
	t.Helper()
	all, err := explain.All(kind)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, e := range all {
		for _, name := range append([]string{e.Name}, e.Also...) {
			if out[name] {
				t.Errorf("two %ss have the name %q", kind, name)
			}
			out[name] = true
		}
		if len(e.Parts) == 0 || (kind == explain.Rule || kind == explain.Warning) != (e.Parts[0].Title == "cause") {
			t.Errorf("%s %q begins with %v", kind, e.Name, e.Parts)
		}
	}
	return out
}

// Every rule of the vocabulary has its text, with evidence and bound for each kind of
// document that it is looked for in.
func TestRules(t *testing.T) {
	names := named(t, explain.Rule)
	for _, r := range gpuprof.Rules() {
		if !names[r.ID] {
			t.Errorf("rule %s has no text", r.ID)
			continue
		}
		delete(names, r.ID)
		found, err := explain.Find(r.ID)
		if err != nil {
			t.Fatal(err)
		}
		var titles []string
		for _, p := range found[0].Parts {
			titles = append(titles, p.Title)
		}
		for title, want := range map[string]bool{"in a run": r.Runs, "bound, run": r.Runs, "in a trace": r.Traces, "bound, trace": r.Traces, "in a memory snapshot": r.Memory, "bound, memory": r.Memory, "change": true} {
			if slices.Contains(titles, title) != want {
				t.Errorf("rule %s has the parts %q", r.ID, titles)
			}
		}
		for _, was := range r.Was {
			if old, err := explain.Find(was.ID); err != nil || len(old) == 0 {
				t.Errorf("%s, an earlier name of %s, is not found: %v", was.ID, r.ID, err)
			}
		}
	}
	for name := range names {
		t.Errorf("the text about rule %s has no rule", name)
	}
}

// Every code that the source can give has its text, and every text its code.
func TestWarnings(t *testing.T) {
	names := named(t, explain.Warning)
	given := codes(t)
	for code, path := range given {
		if !names[code] {
			t.Errorf("warning %s (%s) has no text", code, path)
		}
	}
	for name := range names {
		if given[name] == "" {
			t.Errorf("the text about warning %s has no warning", name)
		}
	}
}

// Every column of a page's tables has its text; columns that a document names itself
// (knobs, devices, classes) have none.
func TestColumns(t *testing.T) {
	names := named(t, explain.Column)
	given := titles(t)
	for title := range given {
		if !names[title] {
			t.Errorf("column %q has no text", title)
		}
	}
	for name := range names {
		if !given[name] && !strings.HasPrefix("self, per step", name) && !slices.Contains([]string{"mean step", "of the mean step", "of the window", "interval"}, name) {
			t.Errorf("the text about column %q has no column", name)
		}
	}
}

// titles are the titles of columns that report/page writes out.
func titles(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	add := func(e ast.Expr) {
		if text, ok := literal(e); ok && text != "" {
			out[text] = true
		}
	}
	eachFile(t, func(path string, f *ast.File) {
		if !strings.Contains(path, "report/page/") {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if called(n.Type) == "Page" { // a page's title is no column's
					for _, e := range n.Elts {
						if kv, ok := e.(*ast.KeyValueExpr); ok && called(kv.Key) == "Title" {
							kv.Value = &ast.BadExpr{}
						}
					}
				}
			case *ast.KeyValueExpr:
				if key := called(n.Key); key == "Title" || key == "Narrow" {
					add(n.Value)
				}
			case *ast.CallExpr:
				if name := called(n.Fun); name == "numberColumns" || name == "wordColumns" {
					for _, a := range n.Args {
						add(a)
					}
				}
			}
			return true
		})
	})
	return out
}

// Every term that CONTRIBUTING.md reserves for one thing has its text.
func TestTerms(t *testing.T) {
	names := named(t, explain.Term)
	text, err := os.ReadFile(filepath.Join("..", "..", "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?s)One term for one thing: (.*?)\.`).FindStringSubmatch(string(text))
	if list == nil {
		t.Fatal("CONTRIBUTING.md has no list of terms")
	}
	for term := range strings.SplitSeq(strings.Join(strings.Fields(list[1]), " "), ", ") {
		if !names[term] {
			t.Errorf("term %q has no text", term)
		}
	}
	for _, state := range []string{"busy", "starved", "queued", "unknown", "outside", "recording window", "mean step"} {
		if !names[state] {
			t.Errorf("term %q has no text", state)
		}
	}
}

// What a person types is found in any case; a misspelt name is answered with the nearest.
func TestFind(t *testing.T) {
	for name, kinds := range map[string][]explain.Kind{
		"Exposed": {explain.Column}, "mde": {explain.Column, explain.Term}, "throttled": {explain.Rule, explain.Warning},
		"+/-": {explain.Column}, "95 % interval": {explain.Column}, "sync": {explain.Rule, explain.Term},
	} {
		found, err := explain.Find(name)
		if err != nil {
			t.Error(err)
		}
		var got []explain.Kind
		for _, e := range found {
			got = append(got, e.Kind)
		}
		if !slices.Equal(got, kinds) {
			t.Errorf("%s is found as %v, not %v", name, got, kinds)
		}
	}
	if _, err := explain.Find("TF32"); err == nil || !strings.Contains(err.Error(), `did you mean "no-tf32"?`) {
		t.Errorf("a part of a name: %v", err)
	}
	if _, err := explain.Find("explicitsink"); err == nil || !strings.Contains(err.Error(), `did you mean "explicit-sync"?`) {
		t.Errorf("a misspelt name gives: %v", err)
	}
}

// docs/explain.md holds the present texts.
func TestDocument(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "explain.md"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := explain.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		text := "### " + e.Name + "\n\n"
		for _, p := range e.Parts {
			text += "- " + p.Title + ": " + p.Text + "\n"
		}
		if !strings.Contains(string(page), text) {
			t.Errorf("docs/explain.md is older than the text about %s: go generate ./internal/explain", e.Name)
		}
	}
}
