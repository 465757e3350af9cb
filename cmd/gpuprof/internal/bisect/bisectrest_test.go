package bisect

import (
	"fmt"
	"testing"

	"github.com/gpuprof/gpuprof/internal/bisect"
)

// With --all what a commit leaves unexplained is a search of its own: its ends, the time
// that is left, and the commits that are known not to be measurable.
func TestBisectSearchesTheRest(t *testing.T) {
	t.Parallel()
	state := &searchState{}
	s := &state.Search
	for i := range 10 {
		s.Commits = append(s.Commits, bisect.Commit{ID: fmt.Sprint("c", i+1)})
	}
	s.Options = bisect.Options{BudgetS: 100, All: true}
	s.Builds = []bisect.Build{{Commit: 3, Seconds: 30}}
	s.Failed = []bisect.Failure{{Commit: 2, Why: "a"}, {Commit: 7, Why: "b"}}
	s.Check = []bisect.Quartet{{Commit: 10, Seconds: 5}}
	s.Outcome = &bisect.Outcome{Found: bisect.Culprit, From: 4, To: 4, P: 0.97, Rest: &bisect.Span{From: 5, To: 10}}
	c := &Cmd{}
	if !c.searchRest(state) {
		t.Fatal("the rest is not searched")
	}
	if s.Good.ID != "c4" || s.N() != 6 || s.At(6).ID != "c10" || s.Options.BudgetS != 65 || s.Outcome != nil || len(s.Check) != 0 ||
		len(s.Failed) != 1 || s.Failed[0].Commit != 3 || len(s.Before) != 1 || s.Before[0].Commit.ID != "c4" {
		t.Errorf("%+v", s)
	}
	if c.searchRest(state) {
		t.Error("a search without an outcome has a rest")
	}
}
