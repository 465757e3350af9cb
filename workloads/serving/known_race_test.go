//go:build race

package serving

import "github.com/gpuprof/gpuprof/workloads/serving/traffic"

// The race detector takes a minute for the simulated hours, which one goroutine runs. Without it
// TestCheckHasTheKnownAnswers runs them here, and traffic's TestKnownAnswers compares them.
func init() {
	if _, err := knownAnswers.Of(struct{}{}, func() ([]traffic.Answer, error) { return nil, nil }); err != nil {
		panic(err)
	}
}
