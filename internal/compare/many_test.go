//go:build !race

// Under the race detector this takes ten times as long; it runs in one goroutine, where the detector finds nothing.

package compare_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gpuprof/gpuprof/internal/compare"
)

func TestManyMetricsSameBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(59, 1))
	old, now := result("old"), result("new")
	for i := range 5000 {
		name := fmt.Sprintf("m%d", i)
		old.Metrics = append(old.Metrics, timed(name, noisy(rng, 6, 3, 1, 0.01)))
		now.Metrics = append(now.Metrics, timed(name, noisy(rng, 6, 3, 1+0.3*float64(i%2), 0.01)))
	}
	old.Env, now.Env = map[string]string{"a": "1", "b": "2", "c": "3"}, map[string]string{"a": "2", "b": "2", "c": "4"}
	var first []byte
	for range 2 {
		g := files(t, old, now, judged(compare.Options{Seed: 7, AllowMismatch: []string{"a", "c"}}))
		text, err := json.Marshal(g)
		if err != nil {
			t.Fatal(err)
		}
		// By chance the six runs of one unchanged metric in twelve seem so correlated that they leave 5 % open.
		if g.ExitCode != 1 || g.Count(compare.Regressed) != 2500 || g.Count(compare.Same) < 2250 {
			t.Errorf("exit %d: %d regressed, %d same", g.ExitCode, g.Count(compare.Regressed), g.Count(compare.Same))
		}
		if first != nil && !bytes.Equal(first, text) {
			t.Error("the same input gave other bytes")
		}
		first = text
	}
	var read compare.Comparison
	if err := json.Unmarshal(first, &read); err != nil || len(read.Metrics) != 5000 {
		t.Errorf("its own JSON: %v", err)
	}
}
