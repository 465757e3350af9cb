//go:build !race

// Under the race detector one goroutine that reads files, writes pages and looks through them
// takes ten times as long; what reads in goroutines is tested there in packages of its own.

package main

import (
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/schema"
)

// TestAnalysisMatchesItsSchema: every trace of testdata, printed as JSON.
func TestAnalysisMatchesItsSchema(t *testing.T) {
	b, err := schema.Schemas()["analysis"]()
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../testdata/traces/*.json")
	if err != nil || len(files) < 32 {
		t.Fatalf("%d traces, %v", len(files), err)
	}
	for _, f := range files {
		var out strings.Builder
		if code := gpuprofRan(t, &out, io.Discard, "analyze", f, "--format", "json"); code != 0 {
			t.Errorf("%s: exit %d", f, code)
			continue
		}
		var v any
		if err := json.Unmarshal([]byte(out.String()), &v); err != nil {
			t.Errorf("%s: %v", f, err)
			continue
		}
		if err := r.Validate(v); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
}
