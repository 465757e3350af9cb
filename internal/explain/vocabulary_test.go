package explain_test

import (
	"go/ast"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/explain"
)

var word = regexp.MustCompile(`[A-Za-z][A-Za-z-]+`)

// A word in a title, heading or label of a page is part of a name that explain has a text about, or is listed as
// plain English in testdata/plain.txt. The list holds no word that pages do not use, and none that is explained.
func TestVocabulary(t *testing.T) {
	all, err := explain.All()
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]bool{}
	for _, e := range all {
		for _, name := range append([]string{e.Name}, e.Also...) {
			for _, w := range word.FindAllString(name, -1) {
				explained[stem(w)] = true
			}
		}
	}
	text, err := os.ReadFile("testdata/plain.txt")
	if err != nil {
		t.Fatal(err)
	}
	plain := map[string]bool{}
	for _, w := range strings.Fields(string(text)) {
		if plain[w] = true; explained[w] {
			t.Errorf("testdata/plain.txt: %q is explained; remove it", w)
		}
	}
	used := titleWords(t)
	for w, path := range used {
		if !explained[w] && !plain[w] {
			t.Errorf("%s: %q is neither explained nor plain: add it to texts/terms.txt, or to testdata/plain.txt", path, w)
		}
	}
	for w := range plain {
		if used[w] == "" {
			t.Errorf("testdata/plain.txt: no title or label has %q; remove it", w)
		}
	}
	for _, w := range []string{"quartet", "sentinel", "knee", "exposed", "starved", "queued", "bound", "session spread", "drift"} {
		if found, err := explain.Find(w); err != nil || len(found) == 0 {
			t.Errorf("%q has no text: %v", w, err)
		}
	}
}

// stem returns a word in lower case without the ending of a plural.
func stem(w string) string {
	w = strings.ToLower(w)
	for _, ending := range []string{"ches", "xes", "ses"} {
		if strings.HasSuffix(w, ending) {
			return strings.TrimSuffix(w, "es")
		}
	}
	if len(w) > 3 && !slices.ContainsFunc([]string{"ss", "is", "tus"}, func(s string) bool { return strings.HasSuffix(w, s) }) {
		w = strings.TrimSuffix(w, "s")
	}
	return w
}

// titleWords returns the stems of the words in titles, headings and labels of pages and figures, with a file of each.
func titleWords(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	add := func(path string, e ast.Expr) {
		if text, ok := literal(e); ok {
			for _, w := range word.FindAllString(text, -1) {
				out[stem(w)] = path
			}
		}
	}
	eachFile(t, func(path string, f *ast.File) {
		if !strings.Contains(path, "report/page/") && !strings.Contains(path, "report/figure/") {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if slices.Contains([]string{"Title", "Narrow", "Heading", "Label"}, called(n.Key)) {
					add(path, n.Value)
				}
			case *ast.CallExpr:
				if name := called(n.Fun); name == "numberColumns" || name == "wordColumns" {
					for _, a := range n.Args {
						add(path, a)
					}
				}
			}
			return true
		})
	})
	return out
}
