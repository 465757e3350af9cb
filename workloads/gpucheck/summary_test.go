package gpucheck

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

const schemaFile = "../../scripts/gpucheck/summary.schema.json"

func schema(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	text, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func read(t *testing.T, path string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// What gpu-check writes follows the schema it publishes, and a dry summary with
// a figure in it does not. The files are what the scripts make of made-up
// results of a GPU and of a dry run; the scripts' own tests write them.
// GPUCHECK_SUMMARY names one more to look at.
func TestSummaryFollowsItsSchema(t *testing.T) {
	s := schema(t)
	paths := []string{"testdata/summary-gpu.json", "testdata/summary-dry.json"}
	if p := os.Getenv("GPUCHECK_SUMMARY"); p != "" {
		paths = append(paths, p)
	}
	for _, p := range paths {
		if err := s.Validate(read(t, p)); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
	for name, spoil := range map[string]func(map[string]any){
		"no verdict":          func(v map[string]any) { delete(v, "verdict") },
		"an unknown status":   func(v map[string]any) { v["verdict"] = "splendid" },
		"dry and a figure":    func(v map[string]any) { v["dry"] = true },
		"a check of no state": func(v map[string]any) { v["checks"] = []any{map[string]any{"name": "x"}} },
	} {
		v := read(t, paths[0])
		spoil(v)
		if s.Validate(v) == nil {
			t.Errorf("%s: a spoilt summary was accepted", name)
		}
	}
}
