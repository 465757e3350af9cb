// Package schema implements gpuprof explain schema, which prints the JSON schema of an output. It imports package cli,
// but no package of another subcommand.
package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/bisect"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/compare/baseline"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/fleet"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/internal/history"
	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/internal/record"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/report/brief"
	"github.com/gpuprof/gpuprof/report/schema"
)

// Cmd has the argument of gpuprof explain schema.
type Cmd struct {
	Name string `arg:"" optional:"" default:"run" choices:"run,check,analysis,trace-comparison,comparison,tune,health,diagnosis,baseline,noise,recording,bisect,history,memory,fleet,brief" help:"run (run.json), check (check --format json), analysis (analyze --format json), trace-comparison (analyze --compare --format json), comparison (compare and gate --format json), tune (what tune writes), health (doctor --bench --format json), diagnosis (doctor --format json), baseline (a stored baseline), noise (gate --aa --format json), recording (telemetry.json), bisect (bisect -o FILE.json), history (history --format json), memory (analyze SNAPSHOT --format json), fleet (fleet --format json) or brief (any --format brief-json)."`
}

// Help implements kong.HelpProvider.
func (Cmd) Help() string {
	return cli.Examples("gpuprof explain schema", "gpuprof explain schema check", "gpuprof explain schema analysis", "gpuprof explain schema comparison", "gpuprof explain schema tune", "gpuprof explain schema health")
}

// Schemas returns functions that return a JSON schema, by the name of the output.
func Schemas() map[string]func() ([]byte, error) {
	return map[string]func() ([]byte, error){
		"run":              func() ([]byte, error) { return schema.Run(), nil },
		"check":            derivedSchema[gpuprof.CheckReport](document.Check),
		"analysis":         derivedSchema[analyze.Analysis](document.Analysis),
		"trace-comparison": derivedSchema[analyze.Comparison](document.TraceComparison),
		"comparison":       derivedSchema[compare.Comparison](document.Comparison, document.Gate),
		"tune":             derivedSchema[tune.Result](document.Tune, document.Claims),
		"health":           derivedSchema[health.Report](document.Health),
		"diagnosis":        derivedSchema[gpuprof.Diagnosis](document.Diagnosis),
		"baseline":         derivedSchema[baseline.Baseline](document.Baseline),
		"noise":            derivedSchema[compare.NoisePlan](document.Noise),
		"fleet":            derivedSchema[fleet.Report](document.Fleet),
		"history":          derivedSchema[history.Report](document.History),
		"recording":        derivedSchema[record.Result](document.Recording),
		"memory":           derivedSchema[memsnap.Analysis](document.Memory),
		"brief":            derivedSchema[brief.Document](document.Brief),
		"bisect":           derivedSchema[bisect.Search](document.Bisect),
	}
}

// Run implements gpuprof explain schema.
func (c *Cmd) Run(a *cli.App) error {
	b, err := Schemas()[c.Name]()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Stdout, "%s\n", bytes.TrimRight(b, "\n"))
	return err
}

// derivedSchema returns a function that derives a schema from the Go type of the output, so that both always agree.
func derivedSchema[T any](kinds ...gpuprof.DocumentKind) func() ([]byte, error) {
	return func() ([]byte, error) { return schemaOf[T](kinds) }
}

func schemaOf[T any](kinds []gpuprof.DocumentKind) ([]byte, error) {
	title := fmt.Sprint(kinds[0], " ", document.Version(kinds[0]))
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[gpuprof.Number]():   {Types: []string{"null", "number"}, Description: "null when it is not a number"},
		reflect.TypeFor[compare.Samples]():  {Types: []string{"null", "array"}, Items: &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Types: []string{"null", "number"}}}, Description: "one list of samples per process"},
		reflect.TypeFor[gpuprof.Settings](): {Types: []string{"null", "object"}, AdditionalProperties: &jsonschema.Schema{Type: "string"}},
		reflect.TypeFor[gpuprof.Status]():   {Type: "string", Enum: []any{gpuprof.Complete, gpuprof.Partial, gpuprof.Invalid}},
		reflect.TypeFor[tune.Goal]():        {Type: "string", Enum: enumOf(tune.Goals())},
		reflect.TypeFor[compare.Verdict]():  {Type: "string", Enum: []any{compare.Pass, compare.Same, compare.TooSmall, compare.Regressed, compare.Improved, compare.NotComparable, compare.Inconclusive, compare.Gone, compare.Added, compare.Explains}},
	}})
	if err != nil {
		return nil, gpuprof.Errorf(nil, "deriving the schema of %s: %w", title, err).WithFix("this is a fault in gpuprof, please report it")
	}
	for _, k := range kinds {
		s.Properties["kind"].Enum = append(s.Properties["kind"].Enum, string(k))
	}
	allowUnknown(s)
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.Title = "gpuprof " + title
	return json.MarshalIndent(s, "", "  ")
}

func enumOf[T any](values []T) (out []any) {
	for _, v := range values {
		out = append(out, v)
	}
	return out
}

// allowUnknown permits fields that this version does not define, in every object of the schema.
func allowUnknown(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if len(s.Properties) > 0 {
		s.AdditionalProperties = nil
	}
	allowUnknown(s.Items)
	allowUnknown(s.AdditionalProperties)
	for _, p := range s.Properties {
		allowUnknown(p)
	}
}
