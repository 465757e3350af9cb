package page_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/report/page"
)

// Nothing to show is an error, not an empty page.
func TestNothing(t *testing.T) {
	for name, build := range map[string]func() (*page.Page, error){
		"comparison":           func() (*page.Page, error) { return page.Comparison(nil) },
		"analysis":             func() (*page.Page, error) { return page.Analysis(nil, nil) },
		"comparison of traces": func() (*page.Page, error) { return page.TraceComparison(nil, nil, nil) },
		"tuning result":        func() (*page.Page, error) { return page.Tune(nil) },
		"health report":        func() (*page.Page, error) { return page.Health(nil) },
		"history":              func() (*page.Page, error) { return page.History(nil) },
	} {
		if p, err := build(); !errors.Is(err, gpuprof.ErrInput) || p != nil {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
}

func TestSuggestionsTitle(t *testing.T) {
	for _, c := range []struct {
		f    gpuprof.Finding
		want string
	}{
		{gpuprof.Finding{Knob: "sync", ClaimS: 1}, "Suggested changes"},
		{gpuprof.Finding{Knob: "sync"}, "Explanation"}, // it became faster
		{gpuprof.Finding{ClaimS: 1}, "Explanation"},    // by no knob
	} {
		p, err := page.Comparison(&compare.Comparison{Findings: []gpuprof.Finding{c.f}})
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(p.Sections, func(s page.Section) bool { return s.ID == "findings" })
		if got := p.Sections[at].Heading; got != c.want {
			t.Errorf("%+v: %q, want %q", c.f, got, c.want)
		}
	}
}
