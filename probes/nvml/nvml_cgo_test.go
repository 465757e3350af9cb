//go:build cgo && linux

package nvml

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"

	"github.com/gpuprof/gpuprof"
)

// setUint writes a field's value as a driver does.
func setUint(v *nvml.FieldValue, kind nvml.ValueType, n uint64) {
	v.ValueType, v.NvmlReturn = uint32(kind), uint32(nvml.SUCCESS)
	switch kind {
	case nvml.VALUE_TYPE_UNSIGNED_INT, nvml.VALUE_TYPE_SIGNED_INT:
		binary.NativeEndian.PutUint32(v.Value[:], uint32(n))
	case nvml.VALUE_TYPE_UNSIGNED_SHORT:
		binary.NativeEndian.PutUint16(v.Value[:], uint16(n))
	default:
		binary.NativeEndian.PutUint64(v.Value[:], n)
	}
}

// give makes a mocked GPU answer everything this package asks.
func give(d *mock.Device) {
	ok := nvml.SUCCESS
	word := func(v uint32) func() (uint32, nvml.Return) { return func() (uint32, nvml.Return) { return v, ok } }
	number := func(v int) func() (int, nvml.Return) { return func() (int, nvml.Return) { return v, ok } }
	state := func(v nvml.EnableState) func() (nvml.EnableState, nvml.Return) {
		return func() (nvml.EnableState, nvml.Return) { return v, ok }
	}
	d.GetClockInfoFunc = func(c nvml.ClockType) (uint32, nvml.Return) {
		return map[nvml.ClockType]uint32{nvml.CLOCK_SM: 1410, nvml.CLOCK_MEM: 1215}[c], ok
	}
	d.GetMaxClockInfoFunc = d.GetClockInfoFunc
	d.GetClockFunc = func(c nvml.ClockType, id nvml.ClockId) (uint32, nvml.Return) {
		return map[nvml.ClockType]uint32{nvml.CLOCK_GRAPHICS: 1095, nvml.CLOCK_MEM: 1215}[c] + uint32(id) - 1, ok
	}
	d.GetPowerUsageFunc, d.GetPowerManagementLimitFunc = word(61500), word(300000)
	d.GetPowerManagementDefaultLimitFunc, d.GetEnforcedPowerLimitFunc = word(400000), word(300000)
	d.GetTemperatureFunc = func(s nvml.TemperatureSensors) (uint32, nvml.Return) { return 40 + uint32(s), ok }
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 50, Memory: 25}, ok }
	d.GetBAR1MemoryInfoFunc = func() (nvml.BAR1Memory, nvml.Return) {
		return nvml.BAR1Memory{Bar1Total: 64 << 30, Bar1Used: 1 << 20}, ok
	}
	d.GetCurrPcieLinkGenerationFunc, d.GetMaxPcieLinkGenerationFunc = number(3), number(4)
	d.GetCurrPcieLinkWidthFunc, d.GetMaxPcieLinkWidthFunc = number(8), number(16)
	d.GetPcieThroughputFunc = func(c nvml.PcieUtilCounter) (uint32, nvml.Return) { return 100 + uint32(c), ok }
	d.GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) { return 4, ok }
	d.GetTotalEnergyConsumptionFunc = func() (uint64, nvml.Return) { return 123456, ok }
	d.GetPersistenceModeFunc = state(nvml.FEATURE_ENABLED)
	d.GetEccModeFunc = func() (nvml.EnableState, nvml.EnableState, nvml.Return) { return 1, 0, ok }
	d.GetTotalEccErrorsFunc = func(k nvml.MemoryErrorType, c nvml.EccCounterType) (uint64, nvml.Return) {
		return uint64(k)*10 + uint64(c), ok
	}
	d.GetRetiredPagesPendingStatusFunc = state(nvml.FEATURE_DISABLED)
	d.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 1, 1, true, false, ok }
	d.GetComputeModeFunc = func() (nvml.ComputeMode, nvml.Return) { return nvml.COMPUTEMODE_EXCLUSIVE_PROCESS, ok }
	d.GetCpuAffinityFunc = func(int) ([]uint, nvml.Return) { return []uint{3}, ok }
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 1, UsedGpuMemory: 1 << 20}, {Pid: 2, UsedGpuMemory: math.MaxUint64}}, ok
	}
	d.GetMPSComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return []nvml.ProcessInfo{{Pid: 1}}, ok }
	d.GetGraphicsRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.ERROR_NOT_SUPPORTED }
	d.GetFieldValuesFunc = func(v []nvml.FieldValue) nvml.Return {
		for i := range v {
			switch v[i].FieldId {
			case nvml.FI_DEV_POWER_INSTANT:
				setUint(&v[i], nvml.VALUE_TYPE_UNSIGNED_INT, 62500)
			case nvml.FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP:
				setUint(&v[i], nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, 5e9)
			case nvml.FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST:
				setUint(&v[i], nvml.VALUE_TYPE_UNSIGNED_LONG, 0)
			default:
				v[i].NvmlReturn = uint32(nvml.ERROR_NOT_SUPPORTED)
			}
		}
		return ok
	}
}

// mocked opens the DGX A100 that go-nvml brings, made complete.
func mocked(t *testing.T) (*Library, *dgxa100.Server) {
	t.Helper()
	s := dgxa100.New()
	for _, d := range s.Devices {
		give(&d.(*dgxa100.Device).Device)
	}
	sys, err := start(s)
	if err != nil {
		t.Fatal(err)
	}
	l, err := openLibrary(sys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // a test of Close checks it
	return l, s
}

func device(s *dgxa100.Server, i int) *dgxa100.Device { return s.Devices[i].(*dgxa100.Device) }

func TestMockedDevices(t *testing.T) {
	l, s := mocked(t)
	list := l.Devices()
	if len(list) != 8 {
		t.Fatalf("%d devices", len(list))
	}
	d := list[3]
	if d.Index != 3 || d.UUID != device(s, 3).UUID || d.Name != "Mock NVIDIA A100-SXM4-40GB" || d.Driver != "550.54.15" || d.CUDA != "12.4" {
		t.Errorf("%+v", d)
	}
	if d.MIG != Off || d.Persistence != On || d.ComputeMode != "exclusive-process" || d.ECC != On || d.ECCPending != Off || d.RemapPending != On || d.RemapFailed != Off {
		t.Errorf("switches of %+v", d)
	}
	for what, c := range map[string][2]gpuprof.Number{
		"limit": {d.PowerLimit, 300}, "default": {d.PowerDefault, 400}, "SM clock": {d.SMClock, 1410e6}, "application clock": {d.AppSMClock, 1095e6},
		"default clock": {d.DefaultSMClock, 1096e6}, "generation": {d.PCIeGen, 3}, "width": {d.PCIeWidth, 8}, "BAR1": {d.BAR1Total, 64 << 30},
		"errors": {d.Uncorrected, 10}, "memory": {d.MemoryTotal, 40 << 30},
	} {
		if c[0] != c[1] {
			t.Errorf("%s is %g, want %g", what, float64(c[0]), float64(c[1]))
		}
	}
	if len(d.Processes) != 2 || d.Processes[0].Memory != 1<<20 || Known(d.Processes[1].Memory) || d.Processes[0].Own {
		t.Errorf("processes %+v", d.Processes)
	}
	if len(d.Reasons) != 1 || d.Reasons[0] != "power-cap" {
		t.Errorf("reasons %v", d.Reasons)
	}
	states := map[string]gpuprof.CheckState{}
	for _, line := range d.Examine() {
		states[strings.TrimPrefix(line.Name, "gpu 3 ")] = line.State
	}
	for name, want := range map[string]gpuprof.CheckState{"pcie link": gpuprof.Limited, "ecc": gpuprof.Limited, "power limit": gpuprof.Limited, "throttling": gpuprof.Limited, "users": gpuprof.Limited, "persistence": gpuprof.OK, "clocks": gpuprof.Limited, "compute mode": gpuprof.Limited} {
		if states[name] != want {
			t.Errorf("%s is %s, want %s", name, states[name], want)
		}
	}
}

func TestMockedTelemetry(t *testing.T) {
	l, s := mocked(t)
	d := choose(t, l, device(s, 5).UUID)
	w, ok := d.PowerW()
	value(t, "power", w, ok, 62.5)
	e, ok := d.EnergyJ()
	value(t, "energy", e, ok, 123.456)
	device(s, 5).GetClockInfoFunc = func(nvml.ClockType) (uint32, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
	d.Start(t.Context(), time.Millisecond)
	time.Sleep(5 * time.Millisecond)
	tracks := d.Stop()
	if _, there := tracks["gpu_sm_clock"]; there {
		t.Error("an unsupported clock has a track")
	}
	if _, there := tracks["gpu_throttled_hw-thermal"]; there {
		t.Error("an unsupported counter has a track")
	}
	for name, want := range map[string]float64{"gpu_power": 62.5, "gpu_temperature": 40, "gpu_utilisation": 0.5, "gpu_memory_activity": 0.25, "gpu_throttled_power-cap": 0,
		"gpu_pcie_tx": 100e3, "gpu_pcie_rx": 101e3, "gpu_clock_event_reasons": 4, "gpu_pcie_width": 8, "gpu_foreign": 2} {
		tr := tracks[name]
		if len(tr.Value) < 2 {
			t.Errorf("%s has %d readings", name, len(tr.Value))
			continue
		}
		value(t, name, float64(tr.Value[1]), true, want)
	}
	if cpus, ok := d.NearCPUs(); !ok || len(cpus) != 2 {
		t.Errorf("near CPUs %v", cpus)
	}
}

func TestMockedMIG(t *testing.T) {
	_, s := mocked(t)
	whole := device(s, 2)
	whole.MigMode = nvml.DEVICE_MIG_ENABLE
	part := new(mock.Device)
	give(part)
	part.GetUUIDFunc = func() (string, nvml.Return) { return "MIG-0f0f0f0f-0000-0000-0000-000000000000", nvml.SUCCESS }
	part.GetNameFunc = func() (string, nvml.Return) { return "NVIDIA A100-SXM4-40GB MIG 1g.5gb", nvml.SUCCESS }
	part.GetGpuInstanceIdFunc = func() (int, nvml.Return) { return 9, nvml.SUCCESS }
	part.GetComputeInstanceIdFunc = func() (int, nvml.Return) { return 0, nvml.SUCCESS }
	part.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: 5 << 30, Used: 77}, nvml.SUCCESS }
	whole.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	whole.GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i == 4 { // the places before it are empty
			return part, nvml.SUCCESS
		}
		return nil, nvml.ERROR_NOT_FOUND
	}
	sys, err := start(s)
	if err != nil {
		t.Fatal(err)
	}
	l, err := openLibrary(sys)
	if err != nil {
		t.Fatal(err)
	}
	in := l.Devices()[2].Instances
	if len(in) != 1 || in[0].Profile != "1g.5gb" || in[0].GI != 9 || in[0].Memory != 5<<30 || in[0].Index != 0 {
		t.Fatalf("instances %+v", in)
	}
	for _, name := range []string{"MIG-0f0f0f0f", "1g.5gb", "MIG 1g.5gb", "2:0"} {
		d := choose(t, l, name)
		used, ok := d.number(memoryUsed)
		value(t, name, used, ok, 77)
	}
}

// The gate asks for a function before it calls it.
func TestMockedSymbols(t *testing.T) {
	_, s := mocked(t)
	absent := map[string]bool{}
	s.LookupSymbolFunc = func(name string) error {
		if absent[name] {
			return errors.New("undefined symbol")
		}
		return nil
	}
	for i := range s.Devices {
		device(s, i).GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) { return 8, nvml.SUCCESS }
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
		"one version of the list": {[]string{"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"}, func(t *testing.T, _ *Device, info DeviceInfo) {
			if !info.ProcessesKnown {
				t.Error("the oldest version of the list was not used")
			}
		}},
		"no list": {[]string{"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses",
			"nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2", "nvmlDeviceGetMPSComputeRunningProcesses",
			"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2", "nvmlDeviceGetGraphicsRunningProcesses"}, func(t *testing.T, _ *Device, info DeviceInfo) {
			if info.ProcessesKnown {
				t.Error("processes are known without a list")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			clear(absent)
			for _, g := range c.gone {
				absent[g] = true
			}
			sys, err := start(s)
			if err != nil {
				t.Fatal(err)
			}
			l, err := openLibrary(sys)
			if err != nil {
				t.Fatal(err)
			}
			c.check(t, choose(t, l, "0"), l.Devices()[0])
		})
	}
}

// A start that failed is one sentence with a fix, and nothing else is called:
// the mock panics on any other call.
func TestInitFailures(t *testing.T) {
	for ret, says := range map[nvml.Return]string{
		nvml.ERROR_LIBRARY_NOT_FOUND: "--gpus all", nvml.ERROR_DRIVER_NOT_LOADED: "nvidia-modprobe", nvml.ERROR_NO_PERMISSION: "/dev/nvidiactl",
		nvml.ERROR_LIB_RM_VERSION_MISMATCH: "reboot", nvml.ERROR_GPU_IS_LOST: "Xid", nvml.ERROR_INSUFFICIENT_POWER: "cables", nvml.ERROR_IRQ_ISSUE: "dmesg",
		nvml.ERROR_OPERATING_SYSTEM: "/dev/nvidiactl", nvml.ERROR_MEMORY: "free some", nvml.ERROR_UNKNOWN: "NVML error 999",
	} {
		_, err := start(&mock.Interface{InitFunc: func() nvml.Return { return ret }})
		isDevice(t, err)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "telemetry: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v; want it to say %q", ret, err, says)
		}
	}
}

func TestAnswers(t *testing.T) {
	for ret, want := range map[nvml.Return]error{
		nvml.SUCCESS: nil, nvml.ERROR_NOT_SUPPORTED: errUnsupported, nvml.ERROR_FUNCTION_NOT_FOUND: errUnsupported, nvml.ERROR_NO_PERMISSION: errForbidden, nvml.ERROR_GPU_IS_LOST: errLost,
	} {
		if got := answer(ret); !errors.Is(got, want) {
			t.Errorf("%d is %v, want %v", ret, got, want)
		}
	}
	if got := answer(nvml.ERROR_TIMEOUT); got == nil || got.Error() != "NVML error 10" {
		t.Errorf("a timeout is %v", got)
	}
}

func TestDecode(t *testing.T) {
	for name, c := range map[string]struct {
		kind nvml.ValueType
		bits uint64
		want float64
	}{
		"double": {nvml.VALUE_TYPE_DOUBLE, math.Float64bits(-2.5), -2.5}, "uint": {nvml.VALUE_TYPE_UNSIGNED_INT, 4e9, 4e9},
		"ulong": {nvml.VALUE_TYPE_UNSIGNED_LONG, 1 << 40, 1 << 40}, "ullong": {nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, 1 << 50, 1 << 50},
		"llong": {nvml.VALUE_TYPE_SIGNED_LONG_LONG, ^uint64(6), -7}, "int": {nvml.VALUE_TYPE_SIGNED_INT, uint64(^uint32(2)), -3}, "ushort": {nvml.VALUE_TYPE_UNSIGNED_SHORT, 65535, 65535},
	} {
		var v nvml.FieldValue
		setUint(&v, c.kind, c.bits)
		if c.kind != nvml.VALUE_TYPE_SIGNED_LONG_LONG && c.kind != nvml.VALUE_TYPE_DOUBLE && c.kind != nvml.VALUE_TYPE_UNSIGNED_LONG && c.kind != nvml.VALUE_TYPE_UNSIGNED_LONG_LONG {
			for i := 4; i < 8; i++ {
				v.Value[i] = 0xff // what the union holds beyond the value means nothing
			}
		}
		got, ok := decode(v)
		value(t, name, got, ok, c.want)
	}
	if _, ok := decode(nvml.FieldValue{ValueType: 99}); ok {
		t.Error("a value of an unknown type is known")
	}
}
