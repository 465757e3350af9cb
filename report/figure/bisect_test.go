package figure

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/bisect"
)

// The figure has every commit with its probability, and every measured one with its change.
func TestChances(t *testing.T) {
	t.Parallel()
	s := &bisect.Search{Range: "a..b", Good: bisect.Commit{ID: "0000000"}, Metric: "step", Commits: []bisect.Commit{{ID: "1111111", Subject: "one"}, {ID: "2222222", Subject: "two"}}}
	if f := Chances(s); f.Lacks == "" {
		t.Error("a search without probabilities has a figure")
	}
	q := bisect.Quartet{Commit: 2, Values: [4]gpuprof.Number{1, 1.05, 1.05, 1}}
	s.Check = []bisect.Quartet{q, q}
	q.Commit = 1
	s.Quartet = []bisect.Quartet{q}
	s.Chances = []gpuprof.Number{0.9, 0.1}
	s.Outcome = &bisect.Outcome{Found: bisect.Culprit, From: 1, To: 1}
	words := Chances(s).AltText()
	for _, want := range []string{"1, 1111111 one: 90.0 %", "2, 2222222 two: 10.0 %", "1, 1111111: +5.0 % in 1 quartet"} {
		if !strings.Contains(words, want) {
			t.Errorf("%q is missing in %q", want, words)
		}
	}
	if f, err := OfBisect(s, "posterior"); err != nil || len(f.Panels) != 2 {
		t.Errorf("%v, %v", f, err)
	}
	if _, err := OfBisect(s, "roofline"); err == nil {
		t.Error("a bisection has a roofline")
	}
}
