package html_test

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
)

// TestFlagsAreNotBroken: a flag is code, which does not break at its hyphens,
// and a percent sign stays with its number.
func TestFlagsAreNotBroken(t *testing.T) {
	r := fixture.One()
	r.Warnings = []gpuprof.Warning{{Code: "time-budget", Text: "wider than 1.25 %; see <b>", Fix: "run longer (--min-time), or more"}}
	page := render(t, r)
	for _, want := range []string{"1.25\u00a0%; see &lt;b&gt;", "(<code>--min-time</code>), or more"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not hold %q", want)
		}
	}
}
