package runfile_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof/report/runfile"
)

func TestLines(t *testing.T) {
	for text, want := range map[string]string{
		"plain\nat::native::add\n": "plain\nat::native::add\n",
		"::error::x\n":             ": :error::x\n",
		"a\n  \t::stop-commands::": "a\n  \t: :stop-commands::",
		"a\r::error::x":            "a\r: :error::x",
		"\u00a0\u3000::error":      "\u00a0\u3000: :error",
		"gpuprof: ::error::x":      "gpuprof: ::error::x",
		"x ##[error]y":             "x ## [error]y",
		"###[a] ##vso[b] ##c#[d]":  "### [a] ##vso [b] ##c#[d]",
		"## [link](x) #[y]":        "## [link](x) #[y]",
	} {
		for size := 1; size <= len(text); size++ { // however it is divided
			var b strings.Builder
			w := runfile.NewLines(&b)
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				if wrote, err := w.Write([]byte(rest[:n])); wrote != n || err != nil {
					t.Fatal(wrote, err)
				}
				rest = rest[n:]
			}
			if b.String() != want {
				t.Fatalf("%q in writes of %d becomes %q, want %q", text, size, b.String(), want)
			}
		}
	}
}

func TestLinesNeverCommand(t *testing.T) {
	command := regexp.MustCompile(`(?m)^[\s\p{Z}]*::|##[A-Za-z]*\[|\r[\s\p{Z}]*::`)
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		w := runfile.NewLines(&b)
		for _, part := range rapid.SliceOf(rapid.StringOf(rapid.RuneFrom([]rune(":#[ a\n\r\u00a0")))).Draw(t, "parts") {
			if _, err := w.Write([]byte(part)); err != nil {
				t.Fatal(err)
			}
		}
		if command.MatchString(b.String()) {
			t.Fatalf("%q", b.String())
		}
	})
}
