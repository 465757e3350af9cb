//go:build !race

// Judging is arithmetic in one goroutine, which the race detector makes ten times as long.

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/compare"
)

// TestRecordedVerdicts: what docs/performance.md says of the sides that an H200 recorded holds by
// the present rules: 15 comparisons of a program with itself are the same, 18 with 5.04 % more
// work are slower, by the step and by the tensor product.
func TestRecordedVerdicts(t *testing.T) {
	const folder = "../../baselines/nvidia-h200/gpu-record/gates/"
	count := map[string]int{}
	judge := func(old, now string) {
		var out, said bytes.Buffer
		if code := gpuprofRan(t, &out, &said, "compare", folder+old+".json.gz", folder+now+".json.gz", "--session-spread", "0%", "--metric", "step", "--metric", "step/tensor_product", "--format", "json"); code != cli.ExitOK {
			t.Fatalf("%s against %s: exit code %d: %s", old, now, code, &said)
		}
		var c compare.Comparison
		if err := json.Unmarshal(out.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		for _, m := range c.Metrics {
			count[fmt.Sprintf("%c%c %s %s", old[0], now[0], m.Name, m.Verdict)]++
		}
	}
	for i := 1; i <= 6; i++ {
		for k := i + 1; k <= 6; k++ {
			judge(fmt.Sprint("A", i), fmt.Sprint("A", k))
		}
		for k := 1; k <= 3; k++ {
			judge(fmt.Sprint("A", i), fmt.Sprint("B", k))
		}
	}
	want := map[string]int{"AA step same": 15, "AA step/tensor_product same": 15, "AB step regressed": 18, "AB step/tensor_product regressed": 18}
	if fmt.Sprint(count) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", count, want)
	}
}
