//go:build !race

// Under the race detector these runs take twice as long. What measures in goroutines is run there by TestModesOnCUDA,
// TestTurns and TestFaultsOnCUDA, of every workload.

package measure

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
)

// The whole path of run through the simulated driver, every workload at every
// value of every tuning knob (by day every other one): a complete result whose times add up.
func TestEveryKnobOnCUDA(t *testing.T) {
	done := make(map[string]bool)
	for _, w := range workloadsByName() {
		for nth, set := range settingsToRun(w) {
			if set != "" && !nightly && (done[set] || nth%2 != 0) {
				continue // by day every other setting, one that several workloads have on one of them
			}
			done[set] = true
			t.Run(w.Name()+","+set, func(t *testing.T) {
				var sets []string
				if set != "" {
					sets = strings.Split(set, ",")
				}
				d, lib := simulated(t, set != "library=off")
				run, err := measured(quick{d}, planOf(t, w, sets...))
				if err != nil {
					t.Fatal(err)
				}
				if run.Status != gpuprof.Complete || run.Step.N() != 10 || run.Counters["launches"] == 0 {
					t.Errorf("status %s, %d samples, counters %v", run.Status, run.Step.N(), run.Counters)
				}
				simulatedRun(t, run)
				addsUp(t, run)
				closes(t, d, lib)
			})
		}
	}
}

// Every mode in which inputs or clocks differ, on every workload; the cold one is TestOnDevice's.
func TestEveryModeOnCUDA(t *testing.T) {
	for _, w := range workloadsByName() {
		for _, mode := range []gpuprof.Mode{gpuprof.Hot, gpuprof.HostClock} {
			runsInMode(t, w, mode)
		}
	}
}
