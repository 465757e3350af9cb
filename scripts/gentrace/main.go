// Command gentrace writes a generated PyTorch profiler trace, for comparing
// gpuprof analyze with other readers of such files.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/gpuprof/gpuprof/internal/trace/tracetest"
)

func main() {
	size := flag.Int64("bytes", 100_000_000, "size of the JSON text")
	path := flag.String("o", "trace.json", "file to write")
	flag.Parse()
	if err := write(*path, *size); err != nil {
		fmt.Fprintf(os.Stderr, "gentrace: %v\n", err)
		os.Exit(1)
	}
}

func write(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := tracetest.Write(f, tracetest.Options{Bytes: size, Seed: 1}); err != nil {
		return err
	}
	return f.Close()
}
