// Package build derives JSON schemas from the Go types of gpuprof.
package build

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

// ID is the address of the schema of run.json, with the major version.
const ID = "https://github.com/gpuprof/gpuprof/schema/run-1.json"

// Run returns the schema of run.json: one run, or a sweep, which earlier versions wrote as a list of runs.
func Run() ([]byte, error) {
	run, err := jsonschema.For[gpuprof.Run](&jsonschema.ForOptions{TypeSchemas: customTypes()})
	if err != nil {
		return nil, fmt.Errorf("deriving the schema of a run: %w", err)
	}
	if err := describe(run, runDocs()); err != nil {
		return nil, err
	}
	run.Properties["schema_version"].Pattern = `^1\.\d+\.\d+$`
	run.Properties["kind"].Enum = []any{string(document.Run)}
	run.Required = slices.DeleteFunc(run.Required, func(name string) bool { return name == "kind" }) // since 1.2.0
	run.Properties["started"].Format = "date-time"
	root := &jsonschema.Schema{
		Schema: "https://json-schema.org/draft/2020-12/schema", ID: ID,
		Title:       "gpuprof run " + document.Version(document.Run),
		Description: "The result of gpuprof run: one run, or a sweep with its runs when several values were swept; earlier versions wrote a list of runs. Readers tolerate unknown fields and refuse a newer major schema_version. Everything is in base units: seconds, bytes, hertz, joules.",
		Defs:        map[string]*jsonschema.Schema{"run": run, "sweep": sweepOf(run)},
		OneOf: []*jsonschema.Schema{refTo("run"), refTo("sweep"),
			{Type: "array", Items: refTo("run"), MinItems: jsonschema.Ptr(1)}},
	}
	if err := moveShared(root, run); err != nil {
		return nil, err
	}
	open(root)
	b, err := json.MarshalIndent(root, "", "  ")
	return append(b, '\n'), err
}

// sweepOf returns the schema of a sweep. Its schema_version, tool and answer have the schemas of a run's.
func sweepOf(run *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", Required: []string{"kind", "schema_version", "tool", "answer", "runs"},
		Properties: map[string]*jsonschema.Schema{
			"kind": {Type: "string", Enum: []any{string(document.Sweep)}}, "schema_version": run.Properties["schema_version"],
			"tool": run.Properties["tool"], "answer": run.Properties["answer"],
			"runs": {Type: "array", Items: refTo("run"), MinItems: jsonschema.Ptr(2)},
		}}
}

func refTo(name string) *jsonschema.Schema { return &jsonschema.Schema{Ref: "#/$defs/" + name} }

// customTypes has the schemas of types with their own JSON encoding.
func customTypes() map[reflect.Type]*jsonschema.Schema {
	return map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[gpuprof.Number]():   {Types: []string{"null", "number"}, Description: "null when it is not a number"},
		reflect.TypeFor[gpuprof.Interval](): {Types: []string{"null", "array"}, Items: &jsonschema.Schema{Type: "number"}, MinItems: jsonschema.Ptr(2), MaxItems: jsonschema.Ptr(2)},
		reflect.TypeFor[gpuprof.Order](): {Type: "array", MinItems: jsonschema.Ptr(3), MaxItems: jsonschema.Ptr(3),
			PrefixItems: []*jsonschema.Schema{
				{Type: "integer", Description: "block the sample was taken in"},
				{Type: "integer", Description: "side: 0 instrumented, 1 bare", Enum: []any{0, 1}},
				{Type: "number", Description: "start, in seconds since the run began"},
			}},
		reflect.TypeFor[gpuprof.Status]():   {Type: "string", Enum: []any{"complete", "partial", "invalid"}},
		reflect.TypeFor[gpuprof.Mode]():     {Type: "string", Enum: modeNames()},
		reflect.TypeFor[gpuprof.Settings](): {Types: []string{"null", "object"}, AdditionalProperties: &jsonschema.Schema{Type: "string"}},
	}
}

func modeNames() []any {
	var out []any
	for _, m := range gpuprof.Modes() {
		out = append(out, string(m))
	}
	return out
}

// moveShared moves the schema of series, used a dozen times, into a definition. A series that does not apply is null.
func moveShared(root, run *jsonschema.Schema) error {
	series, err := jsonschema.For[gpuprof.Series](nil)
	if err != nil {
		return err
	}
	if err := describe(series, seriesDocs()); err != nil {
		return err
	}
	series.Description = "One quantity, raw and summarised."
	root.Defs["series"] = series
	nullable := func(doc string) *jsonschema.Schema {
		return &jsonschema.Schema{Description: doc, AnyOf: []*jsonschema.Schema{{Type: "null"}, refTo("series")}}
	}
	stage := run.Properties["stages"].Items
	for _, at := range []*jsonschema.Schema{run, stage, run.Properties["throughput"]} {
		for _, name := range slices.Sorted(maps.Keys(at.Properties)) {
			if p := at.Properties[name]; p.Properties["runs"] != nil {
				at.Properties[name] = nullable(p.Description)
			}
		}
	}
	return nil
}

// open permits undefined fields in every object. It also permits null for every map, since Go encodes a nil map as
// null.
func open(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if s.AdditionalProperties != nil && len(s.Properties) > 0 {
		s.AdditionalProperties = nil
	}
	if s.Type == "object" && s.AdditionalProperties != nil {
		s.Type, s.Types = "", []string{"null", "object"}
	}
	open(s.Items)
	open(s.AdditionalProperties)
	for _, m := range []map[string]*jsonschema.Schema{s.Properties, s.Defs} {
		for _, p := range m {
			open(p)
		}
	}
	for _, l := range [][]*jsonschema.Schema{s.OneOf, s.AnyOf, s.PrefixItems} {
		for _, p := range l {
			open(p)
		}
	}
}

// describe sets descriptions by path ("device.kind"), without list items; an unknown path is an error.
func describe(s *jsonschema.Schema, docs map[string]string) error {
	for _, path := range slices.Sorted(maps.Keys(docs)) {
		at := s
		for name := range strings.SplitSeq(path, ".") {
			for at.Items != nil {
				at = at.Items
			}
			if at.Properties == nil && at.AdditionalProperties != nil {
				at = at.AdditionalProperties
			}
			next := at.Properties[name]
			if next == nil {
				return gpuprof.Errorf(nil, "describing %s: there is no such field in the Go type", path).WithFix("correct the list of descriptions")
			}
			at = next
		}
		at.Description = docs[path]
	}
	return nil
}
