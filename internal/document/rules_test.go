package document_test

import (
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

// Every id that a rule once had is read as the present one, wherever a document holds a finding.
func TestFormerRules(t *testing.T) {
	for _, rule := range gpuprof.Rules() {
		for _, was := range rule.Was {
			finding := `[{"rule":"` + was.ID + `","to":"` + was.To + `","evidence":{}}]`
			runs, err := document.Runs([]byte(`{"schema_version":"1.3.0","kind":"run","tool":{"name":"gpuprof"},"workload":"e3nn","findings":`+finding+`}`), "run.json")
			if err != nil || runs[0].Findings[0].Rule != rule.ID {
				t.Errorf("%+v of a run: %v, want %s", was, err, rule.ID)
			}
			var deep struct {
				gpuprof.Head
				Sides []*struct {
					Embedded struct{ Findings []gpuprof.Finding }
				}
			}
			text := `{"schema_version":"2.0.0","kind":"comparison","tool":{"name":"gpuprof"},"sides":[{"embedded":{"findings":` + finding + `}}]}`
			if err := document.Decode([]byte(text), "c.json", &deep, document.Comparison); err != nil || deep.Sides[0].Embedded.Findings[0].Rule != rule.ID {
				t.Errorf("%+v of a comparison: %v, want %s", was, err, rule.ID)
			}
		}
	}
}
