//go:build gonvml && cgo && linux && (amd64 || arm64)

package nvml

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// These tests hold the package against NVIDIA's own binding, which compiles NVIDIA's
// header: layouts, constants, names, and every answer of the simulated library. They have
// a build tag because the binding's first compilation prints a page of C warnings.

func TestLayouts(t *testing.T) {
	for name, c := range map[string][2]reflect.Type{
		"pci":           {reflect.TypeFor[pciInfo](), reflect.TypeFor[nvml.PciInfo]()},
		"utilisation":   {reflect.TypeFor[utilisationRates](), reflect.TypeFor[nvml.Utilization]()},
		"memory":        {reflect.TypeFor[memoryInfo](), reflect.TypeFor[nvml.Memory]()},
		"BAR1":          {reflect.TypeFor[memoryInfo](), reflect.TypeFor[nvml.BAR1Memory]()},
		"process":       {reflect.TypeFor[processInfo](), reflect.TypeFor[nvml.ProcessInfo]()},
		"process v2":    {reflect.TypeFor[processInfo](), reflect.TypeFor[nvml.ProcessInfo_v2]()},
		"first process": {reflect.TypeFor[processInfoV1](), reflect.TypeFor[nvml.ProcessInfo_v1]()},
		"field":         {reflect.TypeFor[fieldValue](), reflect.TypeFor[nvml.FieldValue]()},
	} {
		ours, theirs := layout(c[0]), layout(c[1])
		if ours != theirs {
			t.Errorf("%s is laid out as\n%s, and go-nvml's as\n%s", name, ours, theirs)
		}
	}
	if unsafe.Sizeof(ref(0)) != unsafe.Sizeof(uintptr(0)) || unsafe.Sizeof(uint(0)) != 8 {
		t.Error("a device or a word of CPUs has another size than in C")
	}
}

// layout is the size of a struct and the places and sizes of its fields.
func layout(t reflect.Type) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d bytes:", t.Size())
	for i := range t.NumField() {
		fmt.Fprintf(&b, " %d+%d", t.Field(i).Offset, t.Field(i).Type.Size())
	}
	return b.String()
}

func TestConstants(t *testing.T) {
	for name, c := range map[string][2]int64{
		"not supported":     {int64(errorNotSupported), int64(nvml.ERROR_NOT_SUPPORTED)},
		"no permission":     {int64(errorNoPermission), int64(nvml.ERROR_NO_PERMISSION)},
		"insufficient size": {int64(errorInsufficientSize), int64(nvml.ERROR_INSUFFICIENT_SIZE)},
		"power":             {int64(errorInsufficientPower), int64(nvml.ERROR_INSUFFICIENT_POWER)},
		"not loaded":        {int64(errorDriverNotLoaded), int64(nvml.ERROR_DRIVER_NOT_LOADED)},
		"timeout":           {int64(errorTimeout), int64(nvml.ERROR_TIMEOUT)},
		"irq":               {int64(errorIRQIssue), int64(nvml.ERROR_IRQ_ISSUE)},
		"no library":        {int64(errorLibraryNotFound), int64(nvml.ERROR_LIBRARY_NOT_FOUND)},
		"no function":       {int64(errorFunctionNotFound), int64(nvml.ERROR_FUNCTION_NOT_FOUND)},
		"lost":              {int64(errorGPUIsLost), int64(nvml.ERROR_GPU_IS_LOST)},
		"reset required":    {int64(errorResetRequired), int64(nvml.ERROR_RESET_REQUIRED)},
		"unknown":           {int64(errorUnknown), int64(nvml.ERROR_UNKNOWN)},
		"system":            {int64(errorOperatingSystem), int64(nvml.ERROR_OPERATING_SYSTEM)},
		"mismatch":          {int64(errorVersionMismatch), int64(nvml.ERROR_LIB_RM_VERSION_MISMATCH)},
		"memory":            {int64(errorMemory), int64(nvml.ERROR_MEMORY)},
		"argument":          {int64(errorArgumentMismatch), int64(nvml.ERROR_ARGUMENT_VERSION_MISMATCH)},
		"deprecated":        {int64(errorDeprecated), int64(nvml.ERROR_DEPRECATED)},
		"graphics":          {int64(clockGraphics), int64(nvml.CLOCK_GRAPHICS)},
		"SM":                {int64(clockSM), int64(nvml.CLOCK_SM)},
		"memory clock":      {int64(clockMemory), int64(nvml.CLOCK_MEM)},
		"target":            {int64(clockAppTarget), int64(nvml.CLOCK_ID_APP_CLOCK_TARGET)},
		"default":           {int64(clockAppDefault), int64(nvml.CLOCK_ID_APP_CLOCK_DEFAULT)},
		"tx":                {int64(pcieTXBytes), int64(nvml.PCIE_UTIL_TX_BYTES)},
		"rx":                {int64(pcieRXBytes), int64(nvml.PCIE_UTIL_RX_BYTES)},
		"temperature":       {int64(temperatureOfGPU), int64(nvml.TEMPERATURE_GPU)},
		"uncorrected":       {int64(memoryErrorsUncorrected), int64(nvml.MEMORY_ERROR_TYPE_UNCORRECTED)},
		"volatile":          {int64(eccVolatile), int64(nvml.VOLATILE_ECC)},
		"double":            {int64(typeDouble), int64(nvml.VALUE_TYPE_DOUBLE)},
		"uint":              {int64(typeUint), int64(nvml.VALUE_TYPE_UNSIGNED_INT)},
		"ulong":             {int64(typeUlong), int64(nvml.VALUE_TYPE_UNSIGNED_LONG)},
		"ullong":            {int64(typeUllong), int64(nvml.VALUE_TYPE_UNSIGNED_LONG_LONG)},
		"llong":             {int64(typeLlong), int64(nvml.VALUE_TYPE_SIGNED_LONG_LONG)},
		"int":               {int64(typeInt), int64(nvml.VALUE_TYPE_SIGNED_INT)},
		"ushort":            {int64(typeUshort), int64(nvml.VALUE_TYPE_UNSIGNED_SHORT)},
		"version bytes":     {versionBytes, nvml.SYSTEM_DRIVER_VERSION_BUFFER_SIZE},
		"name bytes":        {nameBytes, nvml.DEVICE_NAME_V2_BUFFER_SIZE},
		"UUID bytes":        {nameBytes, nvml.DEVICE_UUID_V2_BUFFER_SIZE},
		"power field":       {fieldPower, nvml.FI_DEV_PERF_POLICY_POWER},
		"thermal field":     {fieldThermal, nvml.FI_DEV_PERF_POLICY_THERMAL},
		"sync boost field":  {fieldSyncBoost, nvml.FI_DEV_PERF_POLICY_SYNC_BOOST},
		"recovery field":    {fieldRecovery, nvml.FI_DEV_GET_GPU_RECOVERY_ACTION},
		"instant field":     {fieldPowerInstant, nvml.FI_DEV_POWER_INSTANT},
		"software thermal":  {fieldSWThermal, nvml.FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN},
		"hardware thermal":  {fieldHWThermal, nvml.FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN},
		"power brake":       {fieldHWPowerBrake, nvml.FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN},
	} {
		if c[0] != c[1] {
			t.Errorf("%s is %d, and go-nvml's %d", name, c[0], c[1])
		}
	}
}

func headerFile(t *testing.T) string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(dir)), "pkg", "nvml", "nvml.h")
}

// A name that is looked up wrongly would make its quantity unknown for ever, and a
// simulated function of other arguments would hide a wrong call: the header has every
// name, and the compiler compares every simulated function with it.
func TestHeader(t *testing.T) {
	file := headerFile(t)
	header, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, m := range regexp.MustCompile(`nvml\w+`).FindAll(header, -1) {
		known[string(m)] = true
	}
	for _, n := range functions() {
		if !known[n] {
			t.Errorf("NVML has no function %s", n)
		}
	}
	if err := cc("-Wall", "-Werror", "-Wno-deprecated-declarations", "-DNVML_NO_UNVERSIONED_FUNC_DEFS", fmt.Sprintf("-DNVML_HEADER=%q", file),
		"-o", filepath.Join(t.TempDir(), "nvml.so"), filepath.Join("testdata", "nvml.c")); err != nil {
		t.Error(err)
	}
}

// NVIDIA's binding and this package read the same of the simulated library.
func TestSameAsBinding(t *testing.T) {
	so := path(t)
	simulate(t, "mig", 1, 0)
	theirs := nvml.New(nvml.WithLibraryPath(so))
	if ret := theirs.Init(); ret != nvml.SUCCESS {
		t.Fatal(ret)
	}
	defer theirs.Shutdown()
	l := simulatedLibrary(t)
	n, _ := theirs.DeviceGetCount()
	if n != len(l.gpus) {
		t.Fatalf("%d GPUs, and go-nvml's %d", len(l.gpus), n)
	}
	for i, g := range l.gpus {
		d, ret := theirs.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			t.Fatal(ret)
		}
		sameDevice(t, g, d)
		parts, err := g.listInstances()
		if part, ret := d.GetMigDeviceHandleByIndex(4); err != nil || ret != nvml.SUCCESS {
			t.Errorf("instances: %v, %v", err, ret)
		} else {
			sameDevice(t, parts[0], part)
		}
	}
}

func sameDevice(t *testing.T, g gpu, d nvml.Device) {
	t.Helper()
	texts := map[string]string{}
	for name, get := range map[string]func() (string, error){"name": g.name, "uuid": g.uuid, "pci": g.pci} {
		texts[name], _ = get() // a text that fails differs
	}
	want := map[string]string{}
	want["name"], _ = d.GetName()
	want["uuid"], _ = d.GetUUID()
	pci, _ := d.GetPciInfo()
	want["pci"] = fmt.Sprintf("%08x:%02x:%02x.0", pci.Domain, pci.Bus, pci.Device)
	if !maps.Equal(texts, want) {
		t.Errorf("texts %v, and go-nvml's %v", texts, want)
	}
	for q, read := range bindingReads {
		v, ret := read(d)
		got, err := g.readNumber(q)
		if ret != nvml.SUCCESS || err != nil || got != v {
			t.Errorf("quantity %d is %g, %v, and go-nvml's %g, %v", q, got, err, v, ret)
		}
	}
	fields := []field{{id: 74}, {id: 75}, {id: 76}, {id: 186}, {id: 9000}, {id: 9004}, {id: 9005}, {id: 9006}, {id: 9099}}
	g.readFields(fields)
	values := make([]nvml.FieldValue, len(fields))
	for i := range values {
		values[i].FieldId = fields[i].id
	}
	if ret := d.GetFieldValues(values); ret != nvml.SUCCESS {
		t.Fatal(ret)
	}
	for i, v := range values {
		w, ok := decodeField((*fieldValue)(unsafe.Pointer(&v)))
		if ok = ok && v.NvmlReturn == 0; ok != fields[i].ok || ok && w != fields[i].value {
			t.Errorf("field %d is %g, %t, and go-nvml's %g, %t", v.FieldId, fields[i].value, fields[i].ok, w, ok)
		}
	}
	list, err := g.listProcesses()
	procs, ret := d.GetComputeRunningProcesses()
	if err != nil || ret != nvml.SUCCESS || len(list) != len(procs) {
		t.Fatalf("%d processes, %v, and go-nvml's %d, %v", len(list), err, len(procs), ret)
	}
	for i, p := range procs {
		if m := memoryOf(p.UsedGpuMemory); list[i].PID != int(p.Pid) || list[i].Memory != m && Known(m) {
			t.Errorf("process %+v, and go-nvml's %+v", list[i], p)
		}
	}
	gi, ci, err := g.instanceIDs()
	wantGI, _ := d.GetGpuInstanceId()
	wantCI, _ := d.GetComputeInstanceId()
	if err != nil || gi != wantGI || ci != wantCI {
		t.Errorf("placed at %d, %d, %v, and by go-nvml at %d, %d", gi, ci, err, wantGI, wantCI)
	}
}

// bindingReads asks go-nvml for every quantity, in base units.
var bindingReads = map[quantity]func(d nvml.Device) (float64, nvml.Return){
	smClock:        scaled(1e6, func(d nvml.Device) (uint32, nvml.Return) { return d.GetClockInfo(nvml.CLOCK_SM) }),
	memoryClock:    scaled(1e6, func(d nvml.Device) (uint32, nvml.Return) { return d.GetClockInfo(nvml.CLOCK_MEM) }),
	smClockMax:     scaled(1e6, func(d nvml.Device) (uint32, nvml.Return) { return d.GetMaxClockInfo(nvml.CLOCK_SM) }),
	memoryClockMax: scaled(1e6, func(d nvml.Device) (uint32, nvml.Return) { return d.GetMaxClockInfo(nvml.CLOCK_MEM) }),
	appSMClock: scaled(1e6, func(d nvml.Device) (uint32, nvml.Return) {
		return d.GetClock(nvml.CLOCK_GRAPHICS, nvml.CLOCK_ID_APP_CLOCK_TARGET)
	}),
	appMemoryClock: scaled(1e6, func(d nvml.Device) (uint32, nvml.Return) {
		return d.GetClock(nvml.CLOCK_MEM, nvml.CLOCK_ID_APP_CLOCK_TARGET)
	}),
	defaultSMClock: scaled(1e6, func(d nvml.Device) (uint32, nvml.Return) {
		return d.GetClock(nvml.CLOCK_GRAPHICS, nvml.CLOCK_ID_APP_CLOCK_DEFAULT)
	}),
	defaultMemoryClock: scaled(1e6, func(d nvml.Device) (uint32, nvml.Return) {
		return d.GetClock(nvml.CLOCK_MEM, nvml.CLOCK_ID_APP_CLOCK_DEFAULT)
	}),
	powerUsage:     scaled(1e-3, nvml.Device.GetPowerUsage),
	powerLimit:     scaled(1e-3, nvml.Device.GetPowerManagementLimit),
	powerDefault:   scaled(1e-3, nvml.Device.GetPowerManagementDefaultLimit),
	powerEnforced:  scaled(1e-3, nvml.Device.GetEnforcedPowerLimit),
	temperature:    scaled(1, func(d nvml.Device) (uint32, nvml.Return) { return d.GetTemperature(nvml.TEMPERATURE_GPU) }),
	utilisation:    scaled(1e-2, func(d nvml.Device) (uint32, nvml.Return) { u, r := d.GetUtilizationRates(); return u.Gpu, r }),
	memoryActivity: scaled(1e-2, func(d nvml.Device) (uint32, nvml.Return) { u, r := d.GetUtilizationRates(); return u.Memory, r }),
	memoryUsed:     scaled(1, func(d nvml.Device) (uint64, nvml.Return) { m, r := d.GetMemoryInfo(); return m.Used, r }),
	memoryTotal:    scaled(1, func(d nvml.Device) (uint64, nvml.Return) { m, r := d.GetMemoryInfo(); return m.Total, r }),
	bar1Used:       scaled(1, func(d nvml.Device) (uint64, nvml.Return) { m, r := d.GetBAR1MemoryInfo(); return m.Bar1Used, r }),
	bar1Total:      scaled(1, func(d nvml.Device) (uint64, nvml.Return) { m, r := d.GetBAR1MemoryInfo(); return m.Bar1Total, r }),
	pcieGen:        scaled(1, nvml.Device.GetCurrPcieLinkGeneration),
	pcieGenMax:     scaled(1, nvml.Device.GetMaxPcieLinkGeneration),
	pcieWidth:      scaled(1, nvml.Device.GetCurrPcieLinkWidth),
	pcieWidthMax:   scaled(1, nvml.Device.GetMaxPcieLinkWidth),
	pcieRX:         scaled(1000, func(d nvml.Device) (uint32, nvml.Return) { return d.GetPcieThroughput(nvml.PCIE_UTIL_RX_BYTES) }),
	pcieTX:         scaled(1000, func(d nvml.Device) (uint32, nvml.Return) { return d.GetPcieThroughput(nvml.PCIE_UTIL_TX_BYTES) }),
	eventReasons:   scaled(1, nvml.Device.GetCurrentClocksEventReasons),
	energy:         scaled(1e-3, nvml.Device.GetTotalEnergyConsumption),
	persistence:    scaled(1, nvml.Device.GetPersistenceMode),
	eccMode:        scaled(1, func(d nvml.Device) (nvml.EnableState, nvml.Return) { now, _, r := d.GetEccMode(); return now, r }),
	eccPending:     scaled(1, func(d nvml.Device) (nvml.EnableState, nvml.Return) { _, next, r := d.GetEccMode(); return next, r }),
	eccUncorrected: scaled(1, func(d nvml.Device) (uint64, nvml.Return) {
		return d.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
	}),
	retirePending: scaled(1, nvml.Device.GetRetiredPagesPendingStatus),
	remapPending:  flag(func(d nvml.Device) (bool, nvml.Return) { _, _, p, _, r := d.GetRemappedRows(); return p, r }),
	remapFailed:   flag(func(d nvml.Device) (bool, nvml.Return) { _, _, _, f, r := d.GetRemappedRows(); return f, r }),
	computeMode:   scaled(1, nvml.Device.GetComputeMode),
	migMode:       scaled(1, func(d nvml.Device) (int, nvml.Return) { now, _, r := d.GetMigMode(); return now, r }),
}

func scaled[T ~uint32 | ~uint64 | ~int32 | ~int](unit float64, get func(nvml.Device) (T, nvml.Return)) func(nvml.Device) (float64, nvml.Return) {
	return func(d nvml.Device) (float64, nvml.Return) {
		v, ret := get(d)
		return float64(v) * unit, ret
	}
}

func flag(get func(nvml.Device) (bool, nvml.Return)) func(nvml.Device) (float64, nvml.Return) {
	return func(d nvml.Device) (float64, nvml.Return) {
		v, ret := get(d)
		if v {
			return 1, ret
		}
		return 0, ret
	}
}
