package measure

import (
	"context"
	"fmt"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/cuda"
	"github.com/gpuprof/gpuprof/workloads/testkit/cudatest"
)

// The measuring loop, whole, on the device that GPUPROF_DEVICE names: every
// workload, with rotating inputs and with a cleared cache. What is compared
// with its reference passes, exposed times add up to the periods, the probe's
// cost is known, and all memory comes back.
func TestOnDevice(t *testing.T) {
	for _, w := range workloadsByName() {
		for _, mode := range []gpuprof.Mode{gpuprof.Steady, gpuprof.Cold} {
			t.Run(fmt.Sprintf("%s, %s", w.Name(), mode), func(t *testing.T) {
				lib, simulated := cudatest.Driver(t, cacheSize)
				d, err := cuda.Open(cuda.Options{Library: lib, AllowSimulated: simulated})
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close() // again where the test ends early
				d.Libraries()
				var dev device.Device = d
				if simulated {
					dev = quick{d}
				}
				p := planOf(t, w)
				p.Mode = mode
				run, err := Run(context.Background(), dev, p)
				if err != nil {
					t.Fatal(err)
				}
				if run.Status != gpuprof.Complete || run.Step.N() != p.Samples || run.Mode != mode || run.Simulated() != simulated {
					t.Errorf("status %s, %d samples, mode %s, simulated %t", run.Status, run.Step.N(), run.Mode, run.Simulated())
				}
				if len(run.Checks) == 0 || len(run.Calibration) == 0 || run.Overhead == nil || run.Counters["launches"] == 0 {
					t.Errorf("%d checks, calibration %v, overhead %v, counters %v", len(run.Checks), run.Calibration, run.Overhead, run.Counters)
				}
				addsUp(t, run)
				if use := d.Memory().InUse; use != 0 {
					t.Errorf("%d bytes are in use after the run", use)
				}
				if err := d.Close(); err != nil {
					t.Errorf("closing: %v", err)
				}
			})
		}
	}
}
