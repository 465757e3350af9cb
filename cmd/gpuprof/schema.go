package main

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/schema"
)

type schemaCmd struct {
	Name string `arg:"" optional:"" default:"run" choices:"run,check" help:"run (run.json) or check (check --format json)."`
}

// Help implements kong.HelpProvider.
func (schemaCmd) Help() string {
	return examples("gpuprof schema", "gpuprof schema check")
}

// Run implements the verb.
func (c *schemaCmd) Run(a *app) error {
	b := schema.Run()
	if c.Name == "check" {
		var err error
		if b, err = checkSchema(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(a.stdout, "%s\n", trimNewline(b))
	return err
}

func trimNewline(b []byte) []byte {
	for len(b) > 0 && b[len(b)-1] == '\n' {
		b = b[:len(b)-1]
	}
	return b
}

// checkSchema is derived from the type that is printed, so it cannot differ.
func checkSchema() ([]byte, error) {
	s, err := jsonschema.For[checkDocument](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[gpuprof.Number](): {Types: []string{"null", "number"}, Description: "null when it is not a number"},
	}})
	if err != nil {
		return nil, fmt.Errorf("deriving the schema of check: %w; this is a fault in gpuprof, please report it", err)
	}
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.Title = "gpuprof check " + checkSchemaVersion
	return json.MarshalIndent(s, "", "  ")
}
