//go:build !race

// Under the race detector this takes ten times as long; it runs in one goroutine, where the detector finds nothing.

package html_test

import (
	"regexp"
	"strings"
	"testing"
)

// TestAHundredThousandSamples: the page stays under 2 MB, says what it left
// out, and marks the data it thinned.
func TestAHundredThousandSamples(t *testing.T) {
	r := large()
	page := render(t, r)
	if len(page) > 2_000_000 {
		t.Errorf("%d bytes", len(page))
	}
	if !strings.Contains(page, "samples are drawn, evenly spaced") || !strings.Contains(page, "one sample of every") {
		t.Error("the page does not say what it leaves out")
	}
	got := data(t, page)[0]
	if w := got.Warnings[len(got.Warnings)-1]; w.Code != "thinned" || got.Step.Median != r.Step.Median {
		t.Errorf("the thinned copy passes for the whole: %v", w)
	}
	if len(r.Warnings) != 1 || r.Step.N() < 99_000 {
		t.Error("the run itself was changed")
	}
}

// sibling is a file beside a page of a site.
var sibling = regexp.MustCompile(`^[a-z0-9-]+\.(html|json)$`)

// commitPage is a page of a commit, to which a reader may go.
var commitPage = regexp.MustCompile(`^https://example\.org/demo/commit/[0-9a-f]+$`)

// attributes matches a tag up to one of its attributes. A quoted value is skipped whole: an escaped text in it is no
// attribute, and one that ends the quotes early is found.
const attributes = `<[a-zA-Z][a-zA-Z0-9-]*(?:\s+[a-zA-Z:-]+(?:="[^"]*")?)*?\s+`

// TestSelfContained: nothing in the page asks for anything from elsewhere.
func TestSelfContained(t *testing.T) {
	for name, page := range pages(t) {
		markup := quoted.ReplaceAllString(scripts.ReplaceAllString(page, ""), "")
		for _, bad := range []string{"<link", "<iframe", "@import", "url(", "<object", "<img"} {
			if strings.Contains(markup, bad) {
				t.Errorf("%s holds %q", name, bad)
			}
		}
		if m := regexp.MustCompile(attributes + `(src|srcset|data|action|background)=`).FindString(markup); m != "" {
			t.Errorf("%s loads something: %s", name, m)
		}
		// Charts are SVG in the page: the page's own policy would stop these.
		if m := regexp.MustCompile(attributes + `(style|on[a-z]+)=`).FindString(markup); m != "" {
			t.Errorf("%s needs what its policy forbids: %s", name, m)
		}
		for _, m := range regexp.MustCompile(` href="([^"]*)"`).FindAllStringSubmatch(markup, -1) {
			inside := strings.HasPrefix(m[1], "#") || strings.HasPrefix(name, "site-") && sibling.MatchString(m[1])
			if !inside && !commitPage.MatchString(m[1]) {
				t.Errorf("%s links to %s", name, m[1])
			}
		}
		if !strings.Contains(page, `<meta name="generator" content="gpuprof`) {
			t.Errorf("%s lacks the generator mark", name)
		}
	}
}
