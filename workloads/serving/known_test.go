//go:build !race

// The simulated hours take a minute under the detector; see known_race_test.go.

package serving

import (
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/workloadtest"
)

// A check compares the service with what is known of it, too.
func TestCheckHasTheKnownAnswers(t *testing.T) {
	var stages []string
	for _, c := range workloadtest.Passes(t, onHost(t, fast("max_batch=4")...)) {
		stages = append(stages, c.Stage)
	}
	for _, want := range []string{"schedule", "M/D/1", "M/D/1-p99", "M/M/1", "M/M/1-p99", "greedy-batching", "greedy-batch", "delay-batching", "delay-batch"} {
		if !slices.Contains(stages, want) {
			t.Errorf("no %s among the checks %v", want, stages)
		}
	}
}
