package markdown_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/report/markdown"
	"github.com/gpuprof/gpuprof/report/page"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func render(t *testing.T, runs ...*gpuprof.Run) string {
	t.Helper()
	var b bytes.Buffer
	p, err := page.Runs(runs)
	if err != nil {
		t.Fatal(err)
	}
	if err := markdown.Write(&b, p, 0); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	for name, runs := range map[string][]*gpuprof.Run{
		"complete": {fixture.Three()}, "partial": {fixture.Partial()}, "invalid": {fixture.Invalid()}, "sweep": fixture.Sweep(), "apart": {fixture.Apart()},
	} {
		got, path := render(t, runs...), filepath.Join("testdata", name+".md")
		if *update {
			if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(path, []byte(got), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got); d != "" {
			t.Errorf("%s differs (-want +got); run the test with -update if it is meant:\n%s", name, d)
		}
	}
}

var bar = regexp.MustCompile(`(^|[^\\])\|`)

// TestTablesStayTables: every row of a table has as many cells as its head,
// and no foreign text becomes markup.
func TestTablesStayTables(t *testing.T) {
	for name, r := range fixture.Every() {
		text := render(t, r) + render(t, r, fixture.One())
		head := 0
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "|") {
				head = 0
				continue
			}
			// Overlapping matches would miss "||", which no row may hold.
			n := len(bar.FindAllString(strings.TrimSpace(line), -1))
			if head == 0 {
				head = n
			}
			if n != head {
				t.Errorf("%s: %d cells under a head of %d: %s", name, n-1, head-1, line)
			}
		}
		for _, bad := range []string{"<script", "<img", "</script", "\x00", "\x1b"} {
			if strings.Contains(stripCode(text), bad) {
				t.Errorf("%s: holds %q", name, bad)
			}
		}
	}
}

var codeSpan = regexp.MustCompile("`` .*? ``|`[^`]*`")

// stripCode leaves out code spans, where Markdown shows markup as text.
func stripCode(s string) string { return codeSpan.ReplaceAllString(s, "") }

// TestForeignTextIsText: what GitHub would turn into something else, and what
// would start a block of its own, stays what it is.
func TestForeignTextIsText(t *testing.T) {
	r := fixture.One()
	r.Warnings[0].Text = "$x$ #12 @octocat www.example.com http://example.com ~~a~~ it's <i>&"
	r.Mode = "# head\n- item"
	r.Stage("scatter").Name = "a|b`c\n| d | <b>e</b>"
	r.Findings[0].Command = "gpuprof run e3nn | tee `log`"
	document.CleanStrings(r)
	got := render(t, r)
	for _, want := range []string{`\$x\$ \#` + "\u200b12 @\u200boctocat www\u200b.example.com http:\u200b//example.com " + `\~\~a\~\~ it's &lt;i&gt;&amp;`,
		`, \#` + "\u200b head - item mode", `| a\|b&#96;c \| d \| &lt;b&gt;e&lt;/b&gt; |`, "`` gpuprof run e3nn | tee `log` ``"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for line := range strings.Lines(got) {
		if strings.HasPrefix(line, "# ") || strings.HasPrefix(line, "- item") {
			t.Errorf("foreign text begins a block: %s", line)
		}
	}
}
