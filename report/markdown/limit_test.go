package markdown_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/markdown"
	"github.com/gpuprof/gpuprof/report/page"
)

// long is a page with a table of rows that matter before others, one folded away,
// a list, and as much text as asked for.
func long(matter, rest, text int) *page.Page {
	b := page.Table{Columns: []page.Column{{Title: "metric", Left: true}, {Title: "ratio"}}}
	folded := page.Table{Columns: b.Columns, Folded: "kernels"}
	for i := range matter + rest {
		name := "same"
		if i < matter {
			name = "regressed"
		}
		b.Rows = append(b.Rows, page.Row{Keep: i < matter, Cells: []page.Cell{{Text: fmt.Sprintf("%s-%d|", name, i)}, {Text: "x1.120"}}})
		folded.Rows = append(folded.Rows, page.Row{Cells: []page.Cell{{Text: fmt.Sprintf("kernel-%d", i)}, {Text: "x1.000"}}})
	}
	p := &page.Page{Title: "a | b", Answer: gpuprof.Answer{Verdict: "regressed", Tone: gpuprof.ToneBad, Sentence: "It is slower."}, Meta: []string{"six processes"}}
	inner := page.Section{Heading: "inner", Folded: true, Blocks: []page.Block{folded, page.Text{S: strings.Repeat("word ", text)}}}
	p.Sections = []page.Section{{Blocks: []page.Block{b, page.List{Label: "failed", Items: []page.Item{{Text: "one"}, {Text: "two"}, {Text: "three"}}, Max: 2}}},
		{Heading: "outer", Folded: true, Sections: []page.Section{inner}}, {Heading: "empty", Blocks: []page.Block{page.Table{}}}}
	return p
}

// TestLimit: rows are whole, those that matter are the last to go, the rest is
// counted, and what is folded away is closed.
func TestLimit(t *testing.T) {
	for _, limit := range []int{0, 300, 700, 1200, 2500, 5000, 8000} {
		for _, text := range []int{0, 400} {
			var b bytes.Buffer
			if err := markdown.Write(&b, long(20, 60, text), limit); err != nil {
				t.Fatal(err)
			}
			s := b.String()
			if limit > 0 && len(s) > limit {
				t.Errorf("limit %d: %d bytes", limit, len(s))
			}
			if a, b := strings.Count(s, "<details>"), strings.Count(s, "</details>"); a != b {
				t.Errorf("limit %d: %d details opened, %d closed", limit, a, b)
			}
			if !strings.HasPrefix(s, "## ❌ regressed\n") {
				t.Errorf("limit %d: begins with %.40s", limit, s)
			}
			shown := strings.Count(s, "regressed-")
			if shown < 20 && strings.Contains(s, "same-") {
				t.Errorf("limit %d: a row that is the same stays, one that matters goes", limit)
			}
			for line := range strings.Lines(s) {
				if strings.HasPrefix(line, "| ") && !strings.HasSuffix(line, " |\n") {
					t.Errorf("limit %d: half a row: %q", limit, line)
				}
			}
			if limit >= 2500 && text == 0 { // rows say how many are missing
				if want := fmt.Sprintf("%d rows not listed", 80-shown-strings.Count(s, "same-")); shown+strings.Count(s, "same-") < 80 && !strings.Contains(s, want) {
					t.Errorf("limit %d: no %q in %d bytes", limit, want, len(s))
				}
			}
			if limit == 0 && (shown != 20 || !strings.Contains(s, "- and 1 more") || strings.Contains(s, "empty") || strings.Contains(s, "not listed")) {
				t.Errorf("without a limit:\n%s", s)
			}
		}
	}
}
