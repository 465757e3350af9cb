package cuda

import (
	_ "embed"
	"fmt"
	"os"
	"testing"

	"github.com/gpuprof/gpuprof/internal/testkit/sim"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/ptx"
	"github.com/gpuprof/gpuprof/workloads/testkit/cudatest"
	"github.com/gpuprof/gpuprof/workloads/testkit/devicetest"
)

//go:embed devicetest.ptx.zst
var devicetestCode string

// devicetestPTX is its text, which tests change.
var devicetestPTX = func() string {
	text, err := ptx.Text(&device.Kernel{Name: "devicetest", PTX: devicetestCode})
	if err != nil {
		panic(err)
	}
	return text
}()

// openSim opens the simulated device. When the test ends, the device is closed
// and nothing may be left behind, used wrongly or used in no order.
func openSim(t testing.TB, o Options) *Device { return openWith(t, "", o) }

// openWith is openSim on a simulator that is told something first.
func openWith(t testing.TB, configuration string, o Options) *Device {
	t.Helper()
	o.Library, o.AllowSimulated = sim.Library(t), true
	sim.Configure(t, o.Library, configuration)
	t.Cleanup(func() { sim.Check(t, o.Library) })
	d, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// twin gives the conformance suite's kernels their CUDA side.
func twin(k *device.Kernel) {
	k.PTX, k.Entry, k.Threads, k.PerBlock = devicetestPTX, "devicetest_"+k.Name, 128, 128
}

// TestSimulatorBuilds says where the simulated driver is, for scripts that link
// to it.
func TestSimulatorBuilds(t *testing.T) {
	lib := sim.Library(t)
	if _, err := os.Stat(lib); err != nil {
		t.Fatal(err)
	}
	t.Logf("simulated driver: %s", lib)
}

// of110 are the functions that drivers after 11.0 added.
var of110 = []string{
	"cuDeviceGetUuid_v2", "cuGraphInstantiateWithFlags", "cuEventElapsedTime_v2",
	"cuMemPoolCreate", "cuMemPoolDestroy", "cuMemPoolTrimTo", "cuMemPoolSetAttribute", "cuMemPoolGetAttribute",
	"cuMemAllocFromPoolAsync", "cuMemFreeAsync", "cuMemAllocAsync", "cuDeviceGetDefaultMemPool",
}

func TestConformance(t *testing.T) {
	installed := cudatest.Installed(t)
	libraries := map[string]string{"installed": ""}
	if !installed {
		libraries = map[string]string{"12.8": sim.Library(t), "11.0": sim.LibraryWithout(t, of110...)}
	}
	if implementation == "gorgonia" {
		delete(libraries, "11.0") // the library is linked: there is one
	}
	for name, lib := range libraries {
		t.Run(name, func(t *testing.T) {
			checked := make(map[string]bool)
			open := func(t *testing.T) device.Device {
				if !installed && !checked[t.Name()] { // a check's first device is closed last
					checked[t.Name()] = true
					// A small cache, because ceilings move several times its size.
					sim.Configure(t, lib, map[string]string{"11.0": "driver=11000;", "12.8": ""}[name]+fmt.Sprintf("attr.%d=1048576", attrL2))
					t.Cleanup(func() { sim.Check(t, lib) })
				}
				d, err := Open(Options{Library: lib, AllowSimulated: !installed})
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			devicetest.Run(t, open, devicetest.Kernels{Prepare: twin})
		})
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
