package markdown_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/report/markdown"
	"github.com/gpuprof/gpuprof/report/page"
)

func noted(t testing.TB, p *page.Page, err error, limit int) string {
	t.Helper()
	var b bytes.Buffer
	if err == nil {
		err = markdown.Write(&b, p, limit)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func gate(t testing.TB, c *compare.Comparison, limit int) string {
	t.Helper()
	if limit == 0 {
		limit = markdown.CommentLimit
	}
	p, err := page.Comparison(c)
	return noted(t, p, err, limit)
}

func TestGateGolden(t *testing.T) {
	for name, c := range map[string]*compare.Comparison{"regressed": fixture.GateRegressed(), "passed": fixture.GatePassed(), "unsure": fixture.GateUnsure()} {
		got, path := gate(t, c, 0), filepath.Join("testdata", "gate-"+name+".md")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
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

// TestGateLimit: a comment that is too long is refused whole, so it never is;
// what failed stays, what is left out is counted, and every row is whole.
func TestGateLimit(t *testing.T) {
	for name, c := range map[string]*compare.Comparison{
		"regressed": fixture.GateRegressed(), "256 of 300": fixture.GateMany(300, 256), "5,000": fixture.GateMany(5000, 5000), "256 of 5,000": fixture.GateMany(5000, 256), "hostile": fixture.GateHostile(),
	} {
		for _, limit := range []int{0, 700, 2000, 20_000, 1 << 20} {
			out := gate(t, c, limit)
			most := limit
			if most == 0 {
				most = markdown.CommentLimit
			}
			if len(out) > most {
				t.Errorf("%s: %d bytes of %d", name, len(out), most)
			}
			if strings.Count(out, "<details>") != strings.Count(out, "</details>") {
				t.Errorf("%s at %d: details stay open", name, limit)
			}
			for l := range strings.Lines(out) {
				if strings.HasPrefix(l, "|") && strings.Count(strings.ReplaceAll(l, `\|`, ""), "|") != 8 {
					t.Errorf("%s at %d: a broken row %q", name, limit, l)
				}
			}
			if !strings.Contains(out, "## ❌ regressed\n") {
				t.Errorf("%s at %d: no headline", name, limit)
			}
		}
	}
	out := gate(t, fixture.GateMany(5000, 256), 0)
	if !strings.Contains(out, "size=4999/") || !strings.Contains(out, "rows not listed for want of room") {
		t.Error("the worst is not there, or what is left out is not counted")
	}
	if strings.Count(out, "| regressed |") != 256 {
		t.Errorf("%d of 256 regressions", strings.Count(out, "| regressed |"))
	}
}

func TestGateHostile(t *testing.T) {
	// Inside a code span nothing means anything.
	out := regexp.MustCompile("(?m)``+ .*? ``+").ReplaceAllString(gate(t, fixture.GateHostile(), 0), "")
	for _, bad := range []string{"@someone", "<b>", "\x1b", "\u202e", "://"} {
		if strings.Contains(out, bad) {
			t.Errorf("%q came through", bad)
		}
	}
}
