package main

import (
	"os"
	"testing"

	"github.com/gpuprof/gpuprof/internal/testkit/memtest"
)

// BenchmarkAnalyzeMemory1GB reads and replays a generated snapshot of a gigabyte in a
// process of its own: MB/s of its text from start to exit, and the peak of its resident
// memory for each event.
func BenchmarkAnalyzeMemory1GB(b *testing.B) {
	perEvent := analyzedAlone(b, "snapshot.pickle", func(f *os.File) (int, error) { return memtest.Long(f, gigabyte) })
	b.ReportMetric(perEvent, "B/event")
}
