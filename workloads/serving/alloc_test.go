//go:build !race

// The race detector allocates by itself.

package serving

import (
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// A step allocates nothing.
func TestStepAllocates(t *testing.T) {
	for _, s := range []*session{
		onHost(t, fast("max_batch=4")...),
		onHost(t, fast("max_batch=4", "pad=on", "graph=on", "sync=step", "item_reads=2", "async_copy=off")...),
		openOn(t, workloadtest.Host(t, host.Options{}), "small", "max_batch=4"),
		openOn(t, workloadtest.Host(t, host.Options{}), "small", "max_batch=4", "preprocess=device", "precision=bf16"),
	} {
		i := 0
		step := func() {
			if err := s.Step(i, loop.Silent{}); err != nil {
				t.Fatal(err)
			}
			i++
		}
		for range 10 {
			step()
		}
		if n := testing.AllocsPerRun(200, step); n > 0 {
			t.Errorf("a step of network=%s allocates %g times", s.k.Network, n)
		}
	}
}
