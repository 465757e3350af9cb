package e3nn

import (
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof/internal/testkit/sim"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/testkit/cudatest"
)

// streamsSeen notes on which stream each stage is.
type streamsSeen struct {
	loop.Silent
	of map[int]device.Stream
}

func (p streamsSeen) Begin(stage int, s device.Stream) int {
	p.of[stage] = s
	return 0
}

// With streams=3 a step's result is copied beside the next step and stays what it was, however long the copy takes: each slot
// has its own. The main stream waits for it where it is asked to.
func TestCUDAResultsBesideTheNextStep(t *testing.T) {
	d := openSimulated(t, false)
	outputs := func(streams string) (out [][]float32, apart bool) {
		s := openRotating(t, d, 3, "streams="+streams, "batch=3", "mul=2", "lmax=1")
		seen := streamsSeen{of: map[int]device.Stream{}}
		for i := range 6 {
			if err := s.Step(i, seen); err != nil {
				t.Fatal(err)
			}
			if i%depth == 0 { // two steps in flight: the second runs beside the first one's copy
				continue
			}
			if err := workloads.Join(s); err != nil {
				t.Fatal(err)
			}
			if err := s.Compute.Sync(); err != nil {
				t.Fatal(err)
			}
			for k := range depth {
				out = append(out, slices.Clone(device.Floats(s.slots[k].out)))
			}
		}
		passes(t, s)
		closed(t, s)
		return out, seen.of[s.Span[stD2H]] != seen.of[s.Span[stLinearGate]] && seen.of[s.Span[stD2H]] != seen.of[s.Span[stH2D]]
	}
	want, apart := outputs("1")
	if apart {
		t.Error("streams=1 copies results apart")
	}
	if !cudatest.Installed(t) {
		sim.Set(t, sim.Library(t), "slow_copy_us=20000")
	}
	got, apart := outputs("3")
	if !apart {
		t.Error("streams=3 copies results on a stream of the others")
	}
	for i := range want {
		if !slices.Equal(got[i], want[i]) {
			t.Errorf("result %d differs with streams=3", i)
		}
	}
}
