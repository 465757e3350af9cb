package page

import (
	"github.com/gpuprof/gpuprof"
)

// allocatorLine returns the reserved and used peak of the workload's own allocator; false if the run has none.
func allocatorLine(r *gpuprof.Run) (Line, bool) {
	figure := func(name string) (float64, bool) {
		v, ok := parseNumber(r.Input[name])
		return v, ok && gpuprof.IsFinite(v) && v >= 0
	}
	reserved, ok1 := figure("memory_reserved_peak")
	inUse, ok2 := figure("memory_in_use_peak")
	if !ok1 || !ok2 {
		return Line{}, false
	}
	l := Line{Label: "memory pool", Value: gpuprof.FormatBytes(reserved) + " reserved at most, " + gpuprof.FormatBytes(inUse) + " in use"}
	if idle, ok := figure("memory_idle_mean"); ok {
		l.Value += ", " + gpuprof.FormatBytes(idle) + " idle in the mean"
	}
	if calls, ok := figure("driver_calls_per_step"); ok {
		l.Note = gpuprof.Significant(calls, gpuprof.Digits) + " calls of the driver per step"
	}
	return l, true
}
