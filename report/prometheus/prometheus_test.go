package prometheus

import (
	"bytes"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/report/runfile"
)

var update = flag.Bool("update", false, "rewrite golden files")

// made is a healthy device, one that is slow and has a fault, one that was not checked, a lost
// one, and those that could not be asked.
func made() *health.Report {
	return &health.Report{Node: `node "7"`, Measured: time.Unix(1_764_000_000, 0),
		Devices: []health.Card{
			{Device: "cuda:0", UUID: "GPU-1", PCI: "0000:17:00.0", Sources: []health.Source{{Name: health.SourceECC, Answer: health.NoFault, Decides: true}}, Metrics: []health.Metric{{Name: "copy", Unit: "B/s", Value: 4e12}, {Name: "launch", Unit: "s", Value: 5.25e-6}, {Name: "temperature", Unit: "C", Value: 61}, {Name: "gemm_bf16", Unit: "flop/s", Value: gpuprof.Number(math.NaN()), Why: "no time was left for it"}}},
			{Device: "cuda:1", UUID: "GPU-2", Metrics: []health.Metric{{Name: "copy", Unit: "B/s", Value: 3e12}}},
			{Device: "cuda:2", UUID: "GPU-3", Sources: []health.Source{{Name: health.SourceECC, Answer: health.Unanswered, Text: "no permission"}}},
			{Device: "gpu3", PCI: "0000:ca:00.0", Sources: []health.Source{health.FaultOf(health.SourceNVML, "lost", health.FixRestart)}},
			{Device: "GPUs", Error: "device lost"},
		},
		Off: []health.Off{{Device: "cuda:1", Metric: "copy", Worse: 0.25}, {Device: "cuda:1", Metric: "memory_errors", Worse: gpuprof.Number(math.NaN())},
			{Device: "gpu3", Metric: "lost", Worse: gpuprof.Number(math.NaN())}},
	}
}

func TestGolden(t *testing.T) {
	var out bytes.Buffer
	if err := Write(&out, made()); err != nil {
		t.Fatal(err)
	}
	const file = "testdata/health.prom"
	if *update {
		if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(out.Bytes(), want) {
		t.Errorf("%s differs (%v):\n%s", file, err, &out)
	}
}

// TestWrittenTwice: the file is known again and replaced, and one of another's is not.
func TestWrittenTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gpu.prom")
	for range 2 {
		if err := runfile.Write(path, false, func(w io.Writer) error { return Write(w, made()) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, []byte("node_load1 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := runfile.Check(path, false); err == nil {
		t.Error("a file of another's would be replaced")
	}
}

// TestFormat: each family has its help and type once and before its samples, in one block,
// and no sample has a time stamp, which the textfile collector refuses.
func TestFormat(t *testing.T) {
	var out bytes.Buffer
	if err := Write(&out, made()); err != nil {
		t.Fatal(err)
	}
	seen, now := map[string]bool{}, ""
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "# HELP "); ok {
			now, _, _ = strings.Cut(name, " ")
			if seen[now] {
				t.Errorf("%s stands in two places", now)
			}
			seen[now] = true
			continue
		}
		if strings.HasPrefix(line, "# TYPE ") {
			if line != "# TYPE "+now+" gauge" {
				t.Errorf("%s under %s", line, now)
			}
			continue
		}
		head, value, _ := strings.Cut(line, "} ")
		if !strings.HasPrefix(head, now+"{") || strings.Contains(value, " ") || value == "NaN" {
			t.Errorf("sample %q under %s", line, now)
		}
	}
}
