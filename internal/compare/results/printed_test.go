package results

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
)

// Tables for people are no results, and each program has a way to write one. The
// files are what hyperfine 1.15, Google Benchmark 1.7.1 and pytest-benchmark 5.3.1
// printed of programs that did next to nothing; NVBench needs a GPU, and its table
// is after its documentation.
func TestPrintedTables(t *testing.T) {
	for name, want := range map[string]string{
		"hyperfine.txt": "give hyperfine --export-json FILE", "hyperfine.csv": "give hyperfine --export-json", "hyperfine.md": "give hyperfine --export-json",
		"google.txt": "give --benchmark_out=FILE", "google.csv": "give --benchmark_out=FILE", "pytest.txt": "give --benchmark-json FILE",
	} {
		_, _, err := Read(filepath.Join("testdata", "printed", name), OS)
		if !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--result") {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	for text, want := range map[string]string{
		"# Log\n\n|  Size | Samples |  CPU Time  | Noise |\n": "give --jsonbin FILE",
		"using device 0\n" + oneHyperfine:                     "printed before its JSON",
		"done\n{\n \"results\": []\n}\n":                      "printed before its JSON",
		"hello\n":                                             "no line of a Go benchmark",
	} {
		if _, err := parseOne(text, "x", noSideFiles); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	// Beside lines of go test they are a log.
	if _, err := parseOne("goos: linux\n| a | Samples | CPU Time |\nBenchmarkA-8 100 12 ns/op\n{\n", "x", noSideFiles); err != nil {
		t.Error(err)
	}
}

// hyperfine 1.15 measured "./prog 10" twice, which took as long as the shell did to
// start.
func TestHyperfineZeros(t *testing.T) {
	rs, _, err := Read(filepath.Join("testdata", "hyperfine-zeros.json"), OS)
	if err != nil || len(rs[0].Metrics) != 2 || len(rs[0].Warnings) != 2 {
		t.Fatalf("%v %+v", err, rs)
	}
	for i, want := range []string{"1 of 6 times of ./prog 10 are 0", "2 of 6 times of ./prog 10#2 are 0"} {
		if w := rs[0].Warnings[i]; !strings.Contains(w.Text, want) || !strings.Contains(w.Fix, "hyperfine -N") {
			t.Errorf("%+v, want %q", w, want)
		}
	}
}

// What a training program prints is no result; a result that is broken is one.
func TestKnown(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, " \n": false, "epoch 1 loss 0.3\n": false, "{\"loss\": 0.3}\n{\"loss\": 0.2}\n": false, "{'loss': 0.3}\n": false, "[1, 2, 3]\n": false,
		"starting\n{\"step\": 3}\n": false, "BenchmarkA 100 5 ns/op\n": true, "hello\nBenchmarkA 100 5 ns/op\n": true, `{"results": [`: true, `{"schema_version": "1.0.0", "x`: true,
		"loading\n{\"benchmarks\": []}\n": true, "Benchmark 1: sleep 1\n  Time": true,
	} {
		if got := Known([]byte(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
