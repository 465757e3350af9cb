package device_test

import (
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device"
)

func TestMeter(t *testing.T) {
	a := device.Meter{Launches: 5, BytesH2D: 7, SyncPoints: 2, Allocations: 1}
	b := device.Meter{Launches: 3, BytesH2D: 10, EventWaits: 4}
	if got := a.Add(b).Sub(b); got != a {
		t.Errorf("%+v", got)
	}
}
