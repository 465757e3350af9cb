// Package schema publishes the JSON schemas of gpuprof's result files. They
// are generated from the Go types, so that the two cannot drift apart.
package schema

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

//go:generate go run ./gen

//go:embed run.schema.json
var runSchema []byte

// Names lists the schemas.
func Names() []string { return []string{"run"} }

// Get is the schema of a name; ErrUsage naming the valid ones otherwise.
func Get(name string) ([]byte, error) {
	if name == "run" {
		return Run(), nil
	}
	return nil, gpuprof.Errorf(gpuprof.ErrUsage, "printing schema %s: there is no such schema; use %s%s", name, strings.Join(Names(), ", "), gpuprof.DidYouMean(name, Names()))
}

// Run is the schema of run.json.
func Run() []byte { return slices.Clone(runSchema) }
