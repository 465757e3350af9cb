package stacks_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/report/stacks"
)

// recordedMemory is the analysis of a recorded snapshot.
func recordedMemory(t *testing.T) *memsnap.Analysis {
	t.Helper()
	f, err := os.Open("../../testdata/memory/clean.pickle.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	s, err := memsnap.Read(t.Context(), z, "clean.pickle", 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	a, err := memsnap.Analyze(t.Context(), []*memsnap.Snapshot{s}, gpuprof.Tool{}, memsnap.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Both forms have every byte that is live at the peak, by stacks whose outermost frame comes first.
func TestMemoryStacksAddUp(t *testing.T) {
	a := recordedMemory(t)
	want := int64(0)
	for _, h := range a.Devices[0].Peak.Stacks {
		want += h.Bytes
	}
	var folded, scope bytes.Buffer
	if err := stacks.WriteMemoryFolded(&folded, a); err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for line := range strings.Lines(folded.String()) {
		at := strings.LastIndexByte(strings.TrimSpace(line), ' ')
		n, err := strconv.ParseInt(strings.TrimSpace(line[at:]), 10, 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		sum += n
	}
	if want == 0 || sum != want {
		t.Errorf("the folded stacks hold %d bytes, the peak %d", sum, want)
	}
	if text := folded.String(); !strings.Contains(text, "\n<module> (/home/user/record_memory.py:") || strings.Contains(text, ":0)") {
		t.Errorf("no stack begins with the program, or one has a frame without a place:\n%.400s", text)
	}
	if err := stacks.WriteMemorySpeedscope(&scope, a, "1"); err != nil {
		t.Fatal(err)
	}
	var file struct {
		Profiles []struct {
			Unit string
			End  int64 `json:"endValue"`
		}
	}
	if err := json.Unmarshal(scope.Bytes(), &file); err != nil || len(file.Profiles) != 1 || file.Profiles[0].Unit != "bytes" || file.Profiles[0].End != want {
		t.Errorf("%+v, %v; want %d bytes", file, err, want)
	}
}
