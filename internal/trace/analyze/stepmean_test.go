package analyze

import (
	"fmt"
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// TestStepIsThePace: a host that runs ahead, or a device that lags behind, does
// not change how long a step takes: as long as from the end of one step's
// device work to the end of the next one's.
func TestStepIsThePace(t *testing.T) {
	for _, c := range []struct {
		name         string
		host, device int64 // each step's period on the host, and its device time
		late         int64 // of each kernel after its step begins on the host
		mean         int64
	}{
		{"in step", 1000, 800, 100, 1000},
		{"the device ends after the host's step", 1000, 800, 700, 1000},
		{"the host runs ahead", 200, 1000, 10, 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder()
			free := int64(0)
			for i := range int64(5) {
				at := i * c.host
				b.host(model.Step, fmt.Sprintf("ProfilerStep#%d", i), at, at+c.host)
				start := max(at+c.late, free)
				free = start + c.device
				b.launch("k", at+1, 2, start, free)
			}
			a := summarise(t, nil, b)
			if diff := a.Step.NS - c.mean; diff < -c.mean/10 || diff > c.mean/10 {
				t.Errorf("the mean step is %d ns, want about %d", a.Step.NS, c.mean)
			}
			if a.Step.Count != 4 {
				t.Errorf("it is the mean of %d steps", a.Step.Count)
			}
		})
	}
}

// TestHalvesAreRoundedOnce: whole times of one device, divided by the steps, add up to the
// rounded whole, a half like any other; those of several devices to within one.
func TestHalvesAreRoundedOnce(t *testing.T) {
	for whole := range int64(60) {
		for first := range whole {
			for n := int64(1); n < 15; n++ {
				for devices := int64(1); devices < 4; devices++ {
					var sums partSums
					for range devices {
						sums.addWeighted(&partSums{starved: float64(first / 2), unknown: float64(first - first/2), queued: float64(whole - first)}, 1/float64(devices))
					}
					parts, want := sums.divideBy(float64(n)), (whole+n/2)/n
					if off := parts.Total() - want; devices == 1 && off != 0 || off*off > 1 {
						t.Fatalf("%d of %d devices in %d steps: %+v, want %d in all", whole, devices, n, parts, want)
					}
				}
			}
		}
	}
}
