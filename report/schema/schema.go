// Package schema publishes the JSON schemas of gpuprof's result files, which are generated from the Go types.
package schema

import (
	_ "embed"
	"slices"
)

//go:generate go run ./gen

//go:embed run.schema.json
var runSchema []byte

// Run returns the schema of run.json.
func Run() []byte { return slices.Clone(runSchema) }
