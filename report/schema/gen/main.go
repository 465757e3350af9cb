// Command gen writes the JSON schemas of package schema; go generate runs it there.
package main

import (
	"fmt"
	"os"

	"github.com/gpuprof/gpuprof/report/schema/gen/build"
)

func main() {
	b, err := build.Run()
	if err == nil {
		err = os.WriteFile("run.schema.json", b, 0o644)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "generating the schema: %v\n", err)
		os.Exit(1)
	}
}
