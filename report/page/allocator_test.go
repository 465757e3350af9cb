package page

import (
	"math"
	"testing"

	"github.com/gpuprof/gpuprof"
)

func TestAllocatorLine(t *testing.T) {
	t.Parallel()
	of := func(input map[string]any) (Line, bool) { return allocatorLine(&gpuprof.Run{Input: input}) }
	l, ok := of(map[string]any{"memory_reserved_peak": 210. * (1 << 20), "memory_in_use_peak": int64(160 << 20), "memory_idle_mean": 175. * (1 << 20), "driver_calls_per_step": 0.1})
	if !ok || l.Value != "210 MiB reserved at most, 160 MiB in use, 175 MiB idle in the mean" || l.Note != "0.100 calls of the driver per step" {
		t.Errorf("%v %+v", ok, l)
	}
	for _, input := range []map[string]any{nil, {"memory_reserved_peak": 1e6}, {"memory_reserved_peak": math.NaN(), "memory_in_use_peak": 1.}, {"memory_reserved_peak": "much", "memory_in_use_peak": 1.}} {
		if l, ok := of(input); ok {
			t.Errorf("%v: %+v", input, l)
		}
	}
}
