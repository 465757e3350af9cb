package xla_test

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/read/xla"
)

// What JAX 0.10.2 recorded on a CPU (scripts/record/record_jax.py): both forms have its eight
// steps with the times that its Chrome trace says.
func TestRecordedByJAX(t *testing.T) {
	t.Parallel()
	packed, err := outside.Open(t.Context(), "testdata/jax-cpu.trace.json.gz", outside.Trace())
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	chrome, err := packed.Bytes(outside.Trace())
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		TraceEvents []struct {
			Name, Ph string
			Ts, Dur  float64 // us
		}
	}
	if err := json.Unmarshal(chrome, &file); err != nil {
		t.Fatal(err)
	}
	space, err := os.ReadFile("testdata/jax-cpu.xplane.pb")
	if err != nil {
		t.Fatal(err)
	}
	for form, text := range map[string][]byte{"trace.json": chrome, "xplane": space} {
		tr, err := xla.Read(t.Context(), text, form, 0)
		if err != nil {
			t.Fatal(err)
		}
		x, err := analyze.NewIndex(t.Context(), tr)
		if err != nil {
			t.Fatal(err)
		}
		if tr.Truncated || tr.Inflated || len(x.Steps) != 8 || !strings.Contains(x.StepSource, "train") {
			t.Fatalf("%s: %d steps by %s, truncated %t, inflated %t", form, len(x.Steps), x.StepSource, tr.Truncated, tr.Inflated)
		}
		i, began := 0, 0.0
		for _, e := range file.TraceEvents {
			if e.Ph != "X" || e.Name != "train" {
				continue
			}
			s := x.Steps[i].Host
			if i == 0 {
				began = float64(s.Start) - e.Ts*1e3
			}
			// Times in the Chrome trace are rounded to 1 ns each.
			if math.Abs(float64(s.Start)-began-e.Ts*1e3) > 2 || math.Abs(float64(s.Len())-e.Dur*1e3) > 2 {
				t.Errorf("%s: step %d is %+v, recorded at %g us for %g us", form, i, s, e.Ts, e.Dur)
			}
			i++
		}
		if i != 8 {
			t.Errorf("%d steps in the file", i)
		}
	}
}
