package rules_test

import (
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
)

// The rules over traces are those of the vocabulary, which runs share.
func TestRulesAreOfTheVocabulary(t *testing.T) {
	var got []string
	for _, r := range gpuprof.Rules() {
		if r.Traces {
			got = append(got, r.ID)
		}
	}
	want := rules.RuleIDs()
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the vocabulary has %q, the rules %q", got, want)
	}
}
