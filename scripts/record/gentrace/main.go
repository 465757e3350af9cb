// Command gentrace writes a generated PyTorch profiler trace, for comparing gpuprof analyze with other readers. If
// the file name ends in .db it writes the database that rocprofv3 would have written for the same program.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/gpuprof/gpuprof/internal/testkit/tracetest"
	"github.com/gpuprof/gpuprof/internal/trace/read/kineto"
)

func main() {
	size := flag.Int64("bytes", 100_000_000, "size of the JSON text, also of what a .db is made from")
	path := flag.String("o", "trace.json", "file to write")
	flag.Parse()
	do := write
	if strings.HasSuffix(*path, ".db") {
		do = writeDatabase
	}
	if err := do(*path, *size); err != nil {
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

// writeDatabase writes a rocpd database; path must not exist.
func writeDatabase(path string, size int64) error {
	var text bytes.Buffer
	if _, err := tracetest.Write(&text, tracetest.Options{Bytes: size, Seed: 1}); err != nil {
		return err
	}
	t, err := kineto.Read(context.Background(), &text, path, 0)
	if err != nil {
		return err
	}
	return tracetest.Rocpd(path, t, "_0000", false)
}
