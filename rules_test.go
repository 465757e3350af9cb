package gpuprof_test

import (
	"testing"

	"github.com/gpuprof/gpuprof"
)

// A cause has one id, an id one cause, and a former id leads to one rule.
func TestRulesAreOneVocabulary(t *testing.T) {
	ids, causes, former := map[string]bool{}, map[string]bool{}, map[gpuprof.FormerRule]bool{}
	for _, r := range gpuprof.Rules() {
		if ids[r.ID] || causes[r.Cause] || r.Cause == "" || !r.Runs && !r.Traces && !r.Memory {
			t.Errorf("%+v: its id or its cause is there twice, or it is used nowhere", r)
		}
		ids[r.ID], causes[r.Cause] = true, true
		for _, was := range r.Was {
			if former[was] {
				t.Errorf("%+v leads to two rules", was)
			}
			former[was] = true
			if got := gpuprof.RuleNow(was.ID, was.To); got != r.ID {
				t.Errorf("%+v is now %s, want %s", was, got, r.ID)
			}
		}
	}
	for was := range former {
		if ids[was.ID] {
			t.Errorf("%s is the id of a rule and a former id", was.ID)
		}
	}
	for id := range ids {
		if got := gpuprof.RuleNow(id, "tf32"); got != id {
			t.Errorf("%s became %s", id, got)
		}
	}
	if got := gpuprof.RuleNow("a-rule-to-come", ""); got != "a-rule-to-come" {
		t.Errorf("an id of a later version became %s", got)
	}
}
