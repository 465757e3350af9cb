//go:build !race

// The race detector allocates on its own account: counts hold for normal builds only.

package gruflow

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/loop"
)

func TestCUDAStepsAllocateNothing(t *testing.T) {
	for _, set := range []string{"impl=auto", "impl=fused", "impl=plain", "graph=on"} {
		t.Run(set, func(t *testing.T) {
			s := openOn(t, openSimulated(t, true), "small", "flows=8", "hidden=8", set)
			noAllocations(t, s)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStepsAllocateNothing(t *testing.T) {
	for _, set := range [][]string{
		{}, {"impl=plain"}, {"precision=bf16"}, {"steps=3", "precision=tf32"}, {"graph=on"},
		{"item_reads=4", "sync=step"}, {"deterministic=off"}, {"fill=on", "reset_stats=sync"}, {"impl=plain", "steps=3", "precision=fp16"},
		{"pass=train", "depth=3"}, {"pass=train", "depth=3", "precision=fp16", "checkpoint=2", "graph=on"},
	} {
		t.Run(strings.Join(set, ","), func(t *testing.T) {
			s := openSession(t, "small", append(set, "flows=40")...)
			noAllocations(t, s)
		})
	}
}

func noAllocations(t *testing.T, s *session) {
	t.Helper()
	run(t, s, 4) // the pool and the device's queues are warm
	before := s.mem.Dev.Meter().Allocations
	i := 4
	if n := testing.AllocsPerRun(30, func() {
		if err := s.Step(i, loop.Silent{}); err != nil {
			t.Fatal(err)
		}
		i++
	}); n != 0 {
		t.Errorf("%v allocations a step", n)
	}
	if n := s.mem.Dev.Meter().Allocations - before; n != 0 {
		t.Errorf("%d device allocations", n)
	}
	if err := s.stream.Sync(); err != nil {
		t.Fatal(err)
	}
}
