//go:build linux && (amd64 || arm64) && !nodlopen

package nvml

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/dynlib"
)

// cc compiles C into a shared library.
func cc(args ...string) error {
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	out, err := exec.CommandContext(context.Background(), compiler, append([]string{"-shared", "-fPIC"}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// scratch is a folder for what all tests share; TestMain removes it.
var scratch = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "gpuprof-nvml")
	if err != nil {
		panic(err)
	}
	return dir
})

// simulated is the library of testdata/nvml.c. The loader keeps it, so it is one for all tests.
var simulated = sync.OnceValues(func() (string, error) {
	so := filepath.Join(scratch(), "libnvidia-ml.so.1")
	return so, cc("-o", so, filepath.Join("testdata", "nvml.c"))
})

// simulate sets what the simulated library answers until the test ends.
func simulate(t *testing.T, what string, value, after int32) {
	t.Helper()
	lib, err := dynlib.Open(path(t))
	if err != nil {
		t.Fatal(err)
	}
	var set func(what string, value int32)
	dynlib.Bind(&set, dynlib.Symbol(lib, "simulate"))
	set(what, value)
	t.Cleanup(func() { set(what, after) })
}

func path(t *testing.T) string {
	t.Helper()
	so, err := simulated()
	if err != nil {
		t.Fatal(err)
	}
	return so
}

// tableWithout is the simulated library's functions but those named.
func tableWithout(t *testing.T, gone ...string) *table {
	t.Helper()
	lib, err := dynlib.Open(path(t))
	if err != nil {
		t.Fatal(err)
	}
	fns := new(table)
	fns.bindAll(func(name string) uintptr {
		if slices.Contains(gone, name) {
			return 0
		}
		return dynlib.Symbol(lib, name)
	})
	return fns
}

// simulatedLibrary is the simulated library, opened, without the functions named.
func simulatedLibrary(t *testing.T, gone ...string) *Library {
	t.Helper()
	sys, err := startNVML(tableWithout(t, gone...))
	if err != nil {
		t.Fatal(err)
	}
	l, err := openLibrary(sys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // a test of Close checks it
	return l
}

func TestSimulatedDevices(t *testing.T) {
	l, err := openPath(path(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	list := l.Devices()
	if len(list) != 2 {
		t.Fatalf("%d devices", len(list))
	}
	d := list[1]
	if d.Index != 1 || d.UUID != "GPU-1111bbbb-0000-0000-0000-000000000000" || d.Name != "NVIDIA A100-SXM4-40GB" || d.PCI != "00000010:18:03.0" || d.Driver != "550.54.15" || d.CUDA != "12.4" {
		t.Errorf("%+v", d)
	}
	if d.MIG != Off || d.Persistence != On || d.ComputeMode != "exclusive-process" || d.ECC != On || d.ECCPending != Off || d.RetirePending != Off || d.RemapPending != On || d.RemapFailed != Off {
		t.Errorf("switches of %+v", d)
	}
	for what, c := range map[string][2]gpuprof.Number{
		"limit": {d.PowerLimit, 300}, "default": {d.PowerDefault, 400}, "enforced": {d.PowerEnforced, 290},
		"SM clock": {d.SMClock, 1410e6}, "its maximum": {d.SMClockMax, 1420e6}, "memory clock": {d.MemoryClock, 1215e6}, "memory's maximum": {d.MemoryClockMax, 1225e6},
		"application clock": {d.AppSMClock, 1095e6}, "default clock": {d.DefaultSMClock, 1096e6}, "generation": {d.PCIeGen, 3}, "greatest": {d.PCIeGenMax, 4},
		"width": {d.PCIeWidth, 8}, "greatest width": {d.PCIeWidthMax, 16}, "BAR1": {d.BAR1Total, 64 << 30}, "BAR1 used": {d.BAR1Used, 1 << 20},
		"errors": {d.Uncorrected, 1<<40 + 10}, "memory": {d.MemoryTotal, 40 << 30}, "used": {d.MemoryUsed, 1 << 30},
	} {
		if c[0] != c[1] {
			t.Errorf("%s is %g, want %g", what, float64(c[0]), float64(c[1]))
		}
	}
	if len(d.Processes) != 2 || d.Processes[0].Memory != 1<<33 || Known(d.Processes[1].Memory) || d.Processes[0].Own {
		t.Errorf("processes %+v", d.Processes)
	}
	if len(d.Reasons) != 1 || d.Reasons[0] != "power-cap" {
		t.Errorf("reasons %v", d.Reasons)
	}
	states := map[string]gpuprof.CheckState{}
	for _, line := range d.Examine() {
		states[strings.TrimPrefix(line.Name, "gpu 1 ")] = line.State
	}
	for name, want := range map[string]gpuprof.CheckState{"pcie link": gpuprof.Limited, "ecc": gpuprof.Limited, "power limit": gpuprof.Limited, "throttling": gpuprof.Limited, "users": gpuprof.Limited, "persistence": gpuprof.OK, "clocks": gpuprof.Limited, "compute mode": gpuprof.Limited} {
		if states[name] != want {
			t.Errorf("%s is %s, want %s", name, states[name], want)
		}
	}
}

func TestSimulatedTelemetry(t *testing.T) {
	l := simulatedLibrary(t)
	d := choose(t, l, "GPU-1111bbbb")
	w, ok := d.PowerW()
	value(t, "power", w, ok, 62.5)
	e, ok := d.EnergyJ()
	value(t, "energy", e, ok, 123.456)
	simulate(t, "clock", int32(errorNotSupported), 0)
	d.Start(t.Context(), time.Millisecond)
	tracks := d.Stop()
	if _, there := tracks["gpu_sm_clock"]; there {
		t.Error("an unsupported clock has a track")
	}
	if _, there := tracks["gpu_throttled_hw-thermal"]; there {
		t.Error("an unsupported counter has a track")
	}
	for name, want := range map[string]float64{"gpu_power": 62.5, "gpu_temperature": 40, "gpu_utilisation": 0.5, "gpu_memory_activity": 0.25, "gpu_throttled_power-cap": 0,
		"gpu_throttled_sync-boost": 0, "gpu_pcie_tx": 100e3, "gpu_pcie_rx": 101e3, "gpu_clock_event_reasons": 4, "gpu_pcie_width": 8, "gpu_foreign": 2} {
		tr := tracks[name]
		if len(tr.Value) < 2 {
			t.Errorf("%s has %d readings", name, len(tr.Value))
			continue
		}
		value(t, name, float64(tr.Value[1]), true, want)
	}
	if cpus, ok := d.NearCPUs(); !ok || !slices.Equal(cpus, []int{0, 1, 63}) {
		t.Errorf("near CPUs %v", cpus)
	}
}

func TestSimulatedMIG(t *testing.T) {
	simulate(t, "mig", 1, 0)
	l := simulatedLibrary(t)
	in := l.Devices()[1].Instances
	if len(in) != 1 || in[0].Profile != "1g.5gb" || in[0].GI != 9 || in[0].CI != 2 || in[0].Memory != 5<<30 || in[0].Index != 0 {
		t.Fatalf("instances %+v", in)
	}
	for _, name := range []string{"MIG-0f0f0f0f", "1g.5gb", "MIG 1g.5gb", "1:0"} {
		d := choose(t, l, name)
		used, ok := d.readNumber(memoryUsed)
		value(t, name, used, ok, 77)
	}
}

// A list longer than the room for it is asked for again, until it fits.
func TestSimulatedProcesses(t *testing.T) {
	for _, n := range []int32{0, 8, 9, 1000} {
		simulate(t, "processes", n, 2)
		got, err := simulatedLibrary(t).gpus[0].listProcesses()
		want := max(int(n), 1) // the one of MPS is the first of the others
		if err != nil || len(got) != want || got[want-1].PID != want {
			t.Errorf("%d processes: %d, %v", n, len(got), err)
		}
	}
	simulate(t, "processes", math.MaxInt32, 2)
	if got, err := simulatedLibrary(t).gpus[0].listProcesses(); err == nil {
		t.Errorf("a list that never fits has %d processes", len(got))
	}
}

// A function that the library does not have is not called.
func TestSimulatedSymbols(t *testing.T) {
	list := func(kind string) []string {
		name := "nvmlDeviceGet" + kind + "RunningProcesses"
		return []string{name + "_v3", name + "_v2", name}
	}
	for name, c := range map[string]struct {
		gone  []string
		check func(t *testing.T, d *Device, info DeviceInfo)
	}{
		"fields": {[]string{"nvmlDeviceGetFieldValues"}, func(t *testing.T, d *Device, _ DeviceInfo) {
			w, ok := d.PowerW()
			value(t, "the older power", w, ok, 61.5)
			if _, _, ok := d.ThrottledS(); ok {
				t.Error("counters are known without their function")
			}
		}},
		"reasons": {[]string{"nvmlDeviceGetCurrentClocksEventReasons"}, func(t *testing.T, _ *Device, info DeviceInfo) {
			if len(info.Reasons) != 1 || info.Reasons[0] != "hw-slowdown" {
				t.Errorf("reasons %v, not the older function's", info.Reasons)
			}
		}},
		"energy": {[]string{"nvmlDeviceGetTotalEnergyConsumption"}, func(t *testing.T, d *Device, _ DeviceInfo) {
			if _, ok := d.EnergyJ(); ok {
				t.Error("energy is known without its function")
			}
		}},
		"oldest list": {list("Compute")[:2], func(t *testing.T, _ *Device, info DeviceInfo) {
			if !info.ProcessesKnown || len(info.Processes) != 2 || info.Processes[0].PID != 41 || info.Processes[0].Memory != 1<<21 {
				t.Errorf("processes %+v", info.Processes)
			}
		}},
		"no list": {slices.Concat(list("Compute"), list("MPSCompute"), list("Graphics")), func(t *testing.T, _ *Device, info DeviceInfo) {
			if info.ProcessesKnown {
				t.Error("processes are known without a list")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := simulatedLibrary(t, c.gone...)
			c.check(t, choose(t, l, "0"), l.Devices()[0])
		})
	}
}

// Without any one of its functions, everything else is still told.
func TestEachSymbolAbsent(t *testing.T) {
	for _, name := range functions() {
		if name == "nvmlInit_v2" || name == "nvmlShutdown" || strings.HasPrefix(name, "nvmlDeviceGetCount") {
			continue // the gate's test
		}
		for _, d := range simulatedLibrary(t, name).Devices() {
			d.Examine()
		}
	}
}

// A start that failed is one sentence with a fix, and nothing else is called: the table
// has nothing else.
func TestInitFailures(t *testing.T) {
	for ret, says := range map[result]string{
		errorLibraryNotFound: "--gpus all", errorDriverNotLoaded: "nvidia-modprobe", errorNoPermission: "/dev/nvidiactl",
		errorVersionMismatch: "reboot", errorGPUIsLost: "Xid", errorInsufficientPower: "cables", errorIRQIssue: "dmesg",
		errorOperatingSystem: "/dev/nvidiactl", errorMemory: "free some", 999: "NVML error 999",
	} {
		simulate(t, "init", int32(ret), 0)
		_, err := startNVML(&table{Init: tableWithout(t).Init})
		isDevice(t, err)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "starting NVML: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v; want it to say %q", ret, err, says)
		}
	}
}

// functions are the C names of the table.
func functions() []string {
	var out []string
	for f := range tableFields() {
		out = append(out, cNames(f)...)
	}
	return out
}
