package search_test

import (
	"testing"

	"github.com/gpuprof/gpuprof/internal/tune"
)

// The findings about the start of a search that an earlier version made have the present ids.
func TestFormerRulesOfHints(t *testing.T) {
	text := `{"schema_version":"2.0.0","kind":"tune","tool":{"name":"gpuprof"},"findings":[{"rule":"sync","knobs":{"sync":"never"}},` +
		`{"rule":"precision-headroom","knobs":{"precision":"tf32"}},{"rule":"precision-headroom","knobs":{"precision":"bf16"}},{"rule":"starved-device"}]}`
	r, err := tune.Decode([]byte(text), "t.json")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"explicit-sync", "no-tf32", "no-amp", "dataloader-stall"} {
		if r.Findings[i].Rule != want {
			t.Errorf("finding %d is of %s, want %s", i, r.Findings[i].Rule, want)
		}
	}
}
