package advise_test

import (
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/advise"
)

// The rules over runs are rules of the vocabulary, which traces share.
func TestRulesAreOfTheVocabulary(t *testing.T) {
	want := []string{gpuprof.RuleBaseline} // of a comparison
	want = append(want, advise.RuleIDs()...)
	var got []string
	for _, r := range gpuprof.Rules() {
		if r.Runs {
			got = append(got, r.ID)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the vocabulary has %q, the rules %q", got, want)
	}
}
