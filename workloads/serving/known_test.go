//go:build !race

// The simulated hours take a minute under the detector; see known_race_test.go.

package serving

import (
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof/workloads"
)

// The checks of a session compare the service with what is known of it, too.
func TestCheckHasTheKnownAnswers(t *testing.T) {
	var virtual []string // whose error is none of the settings'
	checks, err := workloads.CheckAll(t.Context(), onHost(t, fast("max_batch=4")...))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range checks {
		if !c.Pass {
			t.Errorf("%s differs by %.3g, allowed %.3g", c.Stage, c.RelativeError, c.Tolerance)
		}
		if c.Virtual {
			virtual = append(virtual, c.Stage)
		}
	}
	if want := []string{"schedule", "M/D/1", "M/D/1-p99", "M/M/1", "M/M/1-p99", "greedy-batching", "greedy-batch", "delay-batching", "delay-batch"}; !slices.Equal(virtual, want) {
		t.Errorf("the checks in virtual time are %v, want %v", virtual, want)
	}
}
