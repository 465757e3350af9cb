package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof/internal/testkit/tracetest"
)

// BenchmarkAnalyze1GB reads and analyses a generated trace of a gigabyte in a
// process of its own: MB/s of JSON text from start to exit, and the peak of
// its resident memory.
func BenchmarkAnalyze1GB(b *testing.B) {
	analyzedAlone(b, "trace.json", func(f *os.File) (int, error) {
		stats, err := tracetest.Write(f, tracetest.Options{Bytes: gigabyte, Seed: 1})
		return stats.Events, err
	})
}

const gigabyte = 1_000_000_000

// analyzedAlone has gpuprof analyze read a file that write fills, in a process of its own.
// It reports MB/s of the file from start to exit, the peak of the resident memory, and the
// events that write returns; the peak is returned too, in bytes for each of them.
func analyzedAlone(b *testing.B, name string, write func(*os.File) (events int, err error)) (perEvent float64) {
	b.Helper()
	path := filepath.Join(b.TempDir(), name)
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	events, err := write(f)
	if err := errors.Join(err, f.Close()); err != nil {
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
	b.ReportMetric(float64(info.Size())/1e6/best.Seconds(), "best-MB/s")
	b.ReportMetric(float64(events), "events")
	return float64(peak) / float64(events)
}
