package collate

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// Every way to make, stage and copy a batch passes the check of every stage.
func TestChecksPass(t *testing.T) {
	small := []string{"batch=7", "probes=9", "consume=5"}
	settings := [][]string{
		{"workers=0"},
		{"workers=1"},
		{"workers=3", "padded=on"},
		{"workers=0", "padded=on", "impl=naive"},
		{"workers=2", "impl=naive", "reuse=off", "pinned=off"},
		{"workers=0", "impl=bulk", "reuse=off", "pinned=batch", "streams=1"},
		{"workers=2", "impl=bulk", "pinned=off", "async_copy=off", "streams=1"},
		{"workers=2", "worker_kind=process"},
		{"workers=1", "worker_kind=process", "padded=on", "impl=naive", "pinned=off"},
		{"workers=1", "worker_kind=process", "impl=bulk", "persistent=off", "epoch=1", "pinned=batch"},
		{"workers=0", "batch=1", "impl=bulk"},
		{"workers=1", "batch=1", "impl=cached", "pinned=off"},
		{"workers=1", "batch=1", "impl=cached", "shortcut=off", "padded=on"},
		{"workers=0", "batch=1", "impl=naive"},
		{"workers=0", "batch=1", "probes=1", "spread=0", "consume=0"},
		{"workers=1", "cutoff=9", "consume=1000", "sync=every:3", "item_reads=2"},
		{"workers=1", "threads=1", "persistent=off", "epoch=2", "prefetch=3"},
	}
	for _, set := range settings {
		t.Run(strings.Join(set, ","), func(t *testing.T) {
			s := openSession(t, "small", append(slices.Clone(small), set...)...)
			workloadtest.PassesWhole(t, s)
			for i := range 5 {
				if err := s.Step(i, loop.Silent{}); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestSettingsAreKnobs(t *testing.T) {
	workloadtest.ReadsKnobs[struct {
		settings
		recipe
		loop.Pace
	}](t, Workload{})
}
