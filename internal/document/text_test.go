package document_test

import (
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

func TestCleanText(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "plain text, at::native": "plain text, at::native", "Größe 10 µs": "Größe 10 µs",
		"a\nb\r\nc\td":           "a b  c d",
		"\x1b[31mred\x1b[0m":     "\ufffd[31mred\ufffd[0m",
		"abc\u202edef\u2066":     "abc\ufffddef\ufffd",
		"\u0085\u2028\u2029\v\f": "     ",
		"\u009b31m":              "\ufffd31m",
		"a\xffb":                 "a\ufffdb",
		"##[error]x":             "## [error]x",
		"x ##vso[task.set]y":     "x ##vso [task.set]y",
		"###[group]":             "### [group]",
		"#[a] ## [b] ##c d[e]":   "#[a] ## [b] ##c d[e]",
	} {
		if got := document.CleanText(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// TestCleanTextIsAlwaysOneSafeLine also checks that clean text is returned unchanged.
func TestCleanTextIsAlwaysOneSafeLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.StringOf(rapid.RuneFrom([]rune("#[a\x1b\u202e\u2028é "))).Draw(t, "runes")
		got := document.CleanText(raw)
		bad := func(c rune) bool { return unicode.IsControl(c) || unicode.In(c, unicode.Cf, unicode.Zl, unicode.Zp) }
		if !utf8.ValidString(got) || strings.ContainsFunc(got, bad) || strings.Contains(got, "##[") || strings.Contains(got, "##a[") {
			t.Fatalf("%q becomes %q", raw, got)
		}
		if again := document.CleanText(got); again != got {
			t.Fatalf("%q becomes %q", got, again)
		}
	})
}

type inner struct{ Text string }

type outer struct {
	inner
	Text    string
	List    []string
	Array   [2]inner
	Pointer *inner
	Nothing *inner
	Names   map[string]*inner
	Plain   map[string]string
	ByCount map[int]inner
	Any     any
	Deep    map[string]any
	Samples [][]float64
	Self    *outer
	private string
}

// TestCleanStringsReachesEveryString plants a text in each place that a document
// can hold one.
func TestCleanStringsReachesEveryString(t *testing.T) {
	const bad = "a\x1b\u202e\n##[error]"
	clean := document.CleanText(bad)
	filled := func(s, own string) *outer {
		return &outer{
			inner: inner{Text: s}, Text: s, List: []string{s, s}, Array: [2]inner{{s}, {s}}, Pointer: &inner{Text: s}, Names: map[string]*inner{s: {s}}, Plain: map[string]string{s: s, "b": s},
			ByCount: map[int]inner{1: {s}}, Any: []any{s, map[string]any{s: []string{s}}, inner{Text: s}, &inner{Text: s}, 1.5, nil}, Deep: map[string]any{"x": s, s: map[string]string{s: s}},
			Samples: [][]float64{{1}}, Self: &outer{Text: s}, private: own,
		}
	}
	got, want := filled(bad, bad), filled(clean, bad)
	document.CleanStrings(got)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	document.CleanStrings((*outer)(nil)) // nothing to clean
}

func TestCleanStringsKeepsEveryMember(t *testing.T) {
	m := map[string]int{"a\x00": 1, "a\x01": 2, "a\ufffd": 3}
	document.CleanStrings(&m)
	if want := map[string]int{"a\ufffd": 3, "a\ufffd'": 1, "a\ufffd''": 2}; !reflect.DeepEqual(m, want) {
		t.Errorf("%v", m)
	}
}

// TestCleanStringsLeavesCleanMaps: a map that is shared with others is not written to.
func TestCleanStringsLeavesCleanMaps(t *testing.T) {
	shared := map[string]string{"driver": "590.48"}
	v := struct{ Facts map[string]string }{shared}
	done := make(chan struct{})
	go func() { // the race detector sees a write
		defer close(done)
		document.CleanStrings(&v)
	}()
	if shared["driver"] != "590.48" {
		t.Error("changed")
	}
	<-done
}

func TestDecodedTextIsClean(t *testing.T) {
	var r gpuprof.Run
	if err := document.DecodeJSON([]byte(`{"workload":"a\u001b[31m","knobs":{"k\u202e":"v\n"},"input":{"note":["\u0000"]},"warnings":[{"text":"::x\r\n##[y]"}]}`), &r); err != nil {
		t.Fatal(err)
	}
	if r.Workload != "a\ufffd[31m" || r.Knobs["k\ufffd"] != "v " || r.Input["note"].([]any)[0] != "\ufffd" || r.Warnings[0].Text != "::x  ## [y]" {
		t.Errorf("%q %q %q %q", r.Workload, r.Knobs, r.Input, r.Warnings)
	}
}
