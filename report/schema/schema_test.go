package schema_test

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/report/schema"
	"github.com/gpuprof/gpuprof/report/schema/gen/build"
)

func TestFresh(t *testing.T) {
	want, err := build.Run()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(schema.Run(), want) {
		t.Error("run.schema.json is out of date; run go generate ./report/schema")
	}
}

func resolved(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(schema.Run(), &s); err != nil {
		t.Fatal(err)
	}
	if s.ID == "" || s.Title == "" || s.Description == "" {
		t.Error("the schema lacks $id, title or description")
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func decode(t *testing.T, runs ...*gpuprof.Run) any {
	t.Helper()
	var b bytes.Buffer
	if err := document.EncodeRuns(&b, runs...); err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(b.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestRunsValidate(t *testing.T) {
	r := resolved(t)
	minimal := &gpuprof.Run{Head: document.NewHead(document.Run, gpuprof.Tool{}), Status: gpuprof.Invalid, Mode: gpuprof.Hot}
	for name, v := range map[string]any{
		"one": decode(t, fixture.One()), "three": decode(t, fixture.Three()), "partial": decode(t, fixture.Partial()),
		"invalid": decode(t, fixture.Invalid()), "sweep": decode(t, fixture.Sweep()...), "minimal": decode(t, minimal),
	} {
		if err := r.Validate(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	v := decode(t, fixture.One()).(map[string]any)
	v["a_later_field"], v["device"].(map[string]any)["later"] = 1.0, "x"
	if err := r.Validate(v); err != nil {
		t.Errorf("unknown fields must be tolerated: %v", err)
	}
}

func TestBrokenRunsDoNot(t *testing.T) {
	r := resolved(t)
	for name, breakIt := range map[string]func(m map[string]any){
		"no version":        func(m map[string]any) { delete(m, "schema_version") },
		"newer major":       func(m map[string]any) { m["schema_version"] = "2.0.0" },
		"unknown status":    func(m map[string]any) { m["status"] = "fine" },
		"unknown mode":      func(m map[string]any) { m["mode"] = "lukewarm" },
		"knob as number":    func(m map[string]any) { m["knobs"] = map[string]any{"batch": 1.0} },
		"order as object":   func(m map[string]any) { m["order"] = []any{map[string]any{"block": 1.0}} },
		"order too short":   func(m map[string]any) { m["order"] = []any{[]any{1.0, 0.0}} },
		"order's side":      func(m map[string]any) { m["order"] = []any{[]any{1.0, 7.0, 0.0}} },
		"series as number":  func(m map[string]any) { m["step"] = 3.0 },
		"series of strings": func(m map[string]any) { m["step"].(map[string]any)["runs"] = []any{[]any{"x"}} },
		"short interval":    func(m map[string]any) { m["step"].(map[string]any)["ci95"] = []any{1.0} },
		"stage series":      func(m map[string]any) { m["stages"].([]any)[1].(map[string]any)["device"] = "fast" },
		"check's pass":      func(m map[string]any) { m["checks"].([]any)[0].(map[string]any)["pass"] = "yes" },
		"fractional memory": func(m map[string]any) { m["peak_memory_bytes"] = 1.5 },
	} {
		m := decode(t, fixture.Three()).(map[string]any)
		breakIt(m)
		if err := r.Validate(m); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if err := r.Validate([]any{m}); err == nil {
			t.Errorf("%s in a list: accepted", name)
		}
	}
	if r.Validate([]any{}) == nil || r.Validate("text") == nil {
		t.Error("an empty list or a text was accepted")
	}
}

// TestNullForNotANumber: the two places where a number may be missing.
func TestNullForNotANumber(t *testing.T) {
	run := fixture.One()
	run.Checks[0].RelativeError = gpuprof.Number(math.NaN())
	if err := resolved(t).Validate(decode(t, run)); err != nil {
		t.Error(err)
	}
}
