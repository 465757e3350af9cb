package github_test

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/report/github"
	"github.com/gpuprof/gpuprof/report/markdown"
	"github.com/gpuprof/gpuprof/report/page"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func annotate(t testing.TB, c *compare.Comparison) string {
	t.Helper()
	var b bytes.Buffer
	if err := github.Annotate(&b, c); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	for name, c := range map[string]*compare.Comparison{"regressed": fixture.GateRegressed(), "unsure": fixture.GateUnsure(), "hostile": fixture.GateHostile(), "many": fixture.GateMany(300, 256)} {
		got, path := annotate(t, c), filepath.Join("testdata", name+".txt")
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
	if got := annotate(t, fixture.GatePassed()); got != "" {
		t.Errorf("a gate that passed is annotated: %s", got)
	}
}

// command is a whole workflow command: nothing of a property or the text may
// end it early.
var command = regexp.MustCompile(`^::(error|warning) ((file|line|title)=[^:,\r\n]*,?)+::[^\r\n]*$`)

func TestEveryLineIsOneCommand(t *testing.T) {
	for name, c := range map[string]*compare.Comparison{
		"regressed": fixture.GateRegressed(), "unsure": fixture.GateUnsure(), "hostile": fixture.GateHostile(), "256": fixture.GateMany(300, 256), "5,000": fixture.GateMany(5000, 5000),
	} {
		got := annotate(t, c)
		lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
		if len(lines) > github.MaxAnnotations {
			t.Errorf("%s: %d annotations", name, len(lines))
		}
		for _, l := range lines {
			if !command.MatchString(l) || len(l) > 16<<10 {
				t.Errorf("%s: %.300q is no command", name, l)
			}
		}
		if strings.Contains(got, "\x1b") {
			t.Errorf("%s: an escape sequence came through", name)
		}
	}
}

// TestTheWorstAreNamed: with more regressions than annotations the nine
// largest are shown, and how many are not.
func TestTheWorstAreNamed(t *testing.T) {
	lines := strings.Split(annotate(t, fixture.GateMany(5000, 256)), "\n")
	if !strings.Contains(lines[0], "256 of 5000 metrics regressed") || !strings.Contains(lines[0], "247 more") {
		t.Errorf("the summary is %s", lines[0])
	}
	if !strings.Contains(lines[1], "size=4999") || !strings.Contains(lines[9], "size=4991") {
		t.Errorf("not the worst: %s … %s", lines[1], lines[9])
	}
}

// TestOneAnnotationAReason: a reason that all metrics share, such as another driver, is printed once.
func TestOneAnnotationAReason(t *testing.T) {
	c := fixture.GateUnsure()
	other := c.Metrics[0]
	c.Metrics = append(c.Metrics, c.Metrics[0], c.Metrics[0], other)
	c.Metrics[3].Reason = "it drifts"
	lines := strings.Split(strings.TrimSuffix(annotate(t, c), "\n"), "\n")
	if len(lines) != 3 || !strings.Contains(lines[1], "a verdict needs 6; so are 2 metrics more") || !strings.HasSuffix(lines[2], "it drifts") {
		t.Errorf("%q", lines)
	}
}

func TestPlaceOfABudget(t *testing.T) {
	got := annotate(t, fixture.GateRegressed())
	if !strings.Contains(got, "::error file=train.py,line=41,title=budget bytes_h2d_pageable::") {
		t.Errorf("no file and line in:\n%s", got)
	}
}

func env(kv ...string) func(string) string {
	return func(k string) string {
		for i := 0; i < len(kv); i += 2 {
			if kv[i] == k {
				return kv[i+1]
			}
		}
		return ""
	}
}

func TestActive(t *testing.T) {
	for _, c := range []struct {
		env  func(string) string
		want bool
		path string
	}{
		{env(), false, ""}, {env("GITHUB_ACTIONS", "true"), true, ""}, {env("GITHUB_ACTIONS", "false"), false, ""},
		{env("GITHUB_STEP_SUMMARY", "/x/s.md"), true, "/x/s.md"},
	} {
		if github.Active(c.env) != c.want || github.SummaryPath(c.env) != c.path {
			t.Errorf("active %v, summary %q, want %v %q", github.Active(c.env), github.SummaryPath(c.env), c.want, c.path)
		}
	}
}

func gate(c *compare.Comparison) func(io.Writer, int) error {
	return func(w io.Writer, limit int) error {
		p, err := page.Comparison(c)
		if err != nil {
			return err
		}
		return markdown.Write(w, p, limit)
	}
}

func TestSummary(t *testing.T) {
	for name, c := range map[string]*compare.Comparison{"regressed": fixture.GateRegressed(), "5,000 metrics": fixture.GateMany(5000, 5000), "20,000": fixture.GateMany(20000, 20000), "hostile": fixture.GateHostile()} {
		path := filepath.Join(t.TempDir(), "summary.md")
		for _, before := range []int{0, 100, 700_000, github.MaxSummary - 200, github.MaxSummary + 5} {
			if err := os.WriteFile(path, bytes.Repeat([]byte("x"), before), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := github.AppendSummary(path, gate(c)); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) >= github.MaxSummary && before < github.MaxSummary {
				t.Errorf("%s after %d bytes: %d bytes", name, before, len(got))
			}
			if before < 700_001 && !bytes.Contains(got[before:], []byte("## ❌ regressed\n")) {
				t.Errorf("%s after %d bytes: no headline", name, before)
			}
			if opened, closed := bytes.Count(got, []byte("<details>")), bytes.Count(got, []byte("</details>")); opened != closed {
				t.Errorf("%s after %d bytes: %d details opened and %d closed", name, before, opened, closed)
			}
		}
	}
	if text, _ := os.ReadFile(filepath.Join("testdata", "regressed.txt")); len(text) == 0 {
		t.Error("no golden file")
	}
}

// TestSummaryIsCut: a renderer that ignores the limit is cut at a line, says
// so, and leaves nothing open.
func TestSummaryIsCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.md")
	err := github.AppendSummary(path, func(w io.Writer, _ int) error {
		_, err := io.WriteString(w, "# head\n<details>\n"+strings.Repeat("a line of text\n", 100_000)+"</details>\n")
		return err
	})
	got, _ := os.ReadFile(path)
	if err != nil || len(got) >= github.MaxSummary || len(got) < github.MaxSummary-200 || !bytes.Contains(got, []byte("(cut: ")) || !bytes.Contains(got, []byte("\n</details>\n")) || !bytes.Contains(got, []byte("line of text\n\n</details>")) {
		t.Errorf("%v, %d bytes ending in %q", err, len(got), got[max(0, len(got)-120):])
	}
}

func TestSummaryErrors(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "no", "s.md")
	if err := github.AppendSummary(missing, gate(fixture.GatePassed())); !errors.Is(err, gpuprof.ErrUsage) {
		t.Error(err)
	}
	path := filepath.Join(t.TempDir(), "s.md")
	boom := errors.New("boom")
	if err := github.AppendSummary(path, func(io.Writer, int) error { return boom }); !errors.Is(err, boom) {
		t.Error(err)
	}
	if err := github.Annotate(io.Discard, nil); !errors.Is(err, gpuprof.ErrInput) {
		t.Error(err)
	}
}
