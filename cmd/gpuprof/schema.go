package main

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace"
	"github.com/gpuprof/gpuprof/report/schema"
)

type schemaCmd struct {
	Name string `arg:"" optional:"" default:"run" choices:"run,check,analysis" help:"run (run.json), check (check --format json) or analysis (analyze --format json)."`
}

// Help implements kong.HelpProvider.
func (schemaCmd) Help() string {
	return examples("gpuprof schema", "gpuprof schema check", "gpuprof schema analysis")
}

// Run implements the verb.
func (c *schemaCmd) Run(a *app) error {
	var b []byte
	var err error
	switch c.Name {
	case "check":
		b, err = derived[checkDocument]("check " + checkSchemaVersion)
	case "analysis":
		b, err = derived[trace.Analysis]("analysis " + trace.SchemaVersion)
	default:
		b = schema.Run()
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%s\n", trimNewline(b))
	return err
}

func trimNewline(b []byte) []byte {
	for len(b) > 0 && b[len(b)-1] == '\n' {
		b = b[:len(b)-1]
	}
	return b
}

// derived is made from the type that is printed, so it cannot differ.
func derived[T any](title string) ([]byte, error) {
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[gpuprof.Number](): {Types: []string{"null", "number"}, Description: "null when it is not a number"},
	}})
	if err != nil {
		return nil, fmt.Errorf("deriving the schema of %s: %w; this is a fault in gpuprof, please report it", title, err)
	}
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.Title = "gpuprof " + title
	return json.MarshalIndent(s, "", "  ")
}
