package main

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof/internal/memsnap/memtest"
)

// BenchmarkAnalyzeMemory1GB reads and replays a generated snapshot of a gigabyte in a
// process of its own: MB/s of its text from start to exit, and the peak of its resident
// memory for each event.
func BenchmarkAnalyzeMemory1GB(b *testing.B) {
	path := filepath.Join(b.TempDir(), "snapshot.pickle")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	events, err := memtest.Long(f, 1_000_000_000)
	if err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
	var peak int64
	var best time.Duration
	for b.Loop() {
		cmd := selfCommand(b, b.TempDir(), "analyze", path, "--format", "json")
		cmd.Stdout, cmd.Stderr = io.Discard, os.Stderr
		began := time.Now()
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		if took := time.Since(began); best == 0 || took < best {
			best = took
		}
		if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			peak = max(peak, u.Maxrss<<10)
		}
	}
	b.ReportMetric(float64(peak)/1e6, "peak-MB")
	b.ReportMetric(float64(peak)/float64(events), "B/event")
	b.ReportMetric(float64(info.Size())/1e6/best.Seconds(), "best-MB/s")
	b.ReportMetric(float64(events), "events")
}
