//go:build !race

// The race detector allocates by itself.

package serving

import (
	"testing"

	"github.com/gpuprof/gpuprof/workloads/loop"
)

// A step allocates nothing.
func TestStepAllocates(t *testing.T) {
	s := onHost(t, fast("max_batch=4")...)
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
		t.Errorf("a step allocates %g times", n)
	}
}
