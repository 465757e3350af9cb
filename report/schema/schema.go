// Package schema publishes the JSON schemas of gpuprof's result files. They
// are generated from the Go types, so that the two cannot drift apart.
package schema

import (
	_ "embed"
	"slices"
)

//go:generate go run ./gen

//go:embed run.schema.json
var runSchema []byte

// Run is the schema of run.json.
func Run() []byte { return slices.Clone(runSchema) }
