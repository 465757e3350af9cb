package nvml

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/gpuprof/gpuprof/internal/dynlib"
)

// ref is an nvmlDevice_t: a pointer that only NVML dereferences.
type ref uintptr

// result is an nvmlReturn_t.
type result int32

// The results that are used, as numbered in nvml.h.
const (
	success                 result = 0
	errorNotSupported       result = 3
	errorNoPermission       result = 4
	errorInsufficientSize   result = 7
	errorInsufficientPower  result = 8
	errorDriverNotLoaded    result = 9
	errorTimeout            result = 10
	errorIRQIssue           result = 11
	errorLibraryNotFound    result = 12
	errorFunctionNotFound   result = 13
	errorGPUIsLost          result = 15
	errorResetRequired      result = 16
	errorOperatingSystem    result = 17
	errorVersionMismatch    result = 18
	errorMemory             result = 20
	errorArgumentMismatch   result = 25
	errorDeprecated         result = 26
	errorUnknown            result = 999
	clockGraphics           uint32 = 0
	clockSM                 uint32 = 1
	clockMemory             uint32 = 2
	clockAppTarget          uint32 = 1
	clockAppDefault         uint32 = 2
	pcieTXBytes             uint32 = 0
	pcieRXBytes             uint32 = 1
	temperatureOfGPU        uint32 = 0
	memoryErrorsUncorrected uint32 = 1
	eccVolatile             uint32 = 0 // counted since the driver was loaded
)

// The types of a field's value.
const (
	typeDouble uint32 = iota
	typeUint
	typeUlong
	typeUllong
	typeLlong
	typeInt
	typeUshort
)

// Buffer sizes for texts with their terminating zero: NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE, and
// NVML_DEVICE_NAME_V2_BUFFER_SIZE, which is used for UUIDs too.
const (
	versionBytes = 80
	nameBytes    = 96
)

// Structs that NVML writes, in the C layout on a 64-bit Linux. A test compares each with go-nvml's.
//
//nolint:unused // NVML writes every field; the test of the layout reads them
type (
	utilisationRates struct{ gpu, memory uint32 }
	memoryInfo       struct{ total, free, used uint64 } // used for BAR1 too
	pciInfo          struct {
		busIDLegacy                              [16]byte
		domain, bus, device, deviceID, subSystem uint32
		busID                                    [32]byte
	}
	processInfo struct {
		pid                 uint32
		usedMemory          uint64
		gpuInstance, compID uint32
	}
	// processInfoV1 is an entry of the process list in the first version of NVML's functions.
	processInfoV1 struct {
		pid        uint32
		usedMemory uint64
	}
	fieldValue struct {
		id, scope            uint32
		timestamp, latencyUs int64
		valueType, result    uint32
		value                [8]byte
	}
)

// table has NVML's functions under their C names, the newest first; nil if the library lacks one. Enums have 32 bits.
type table struct {
	Init     func() result `c:"nvmlInit_v2,nvmlInit"`
	Shutdown func() result `c:"nvmlShutdown"`

	DriverVersion func(s *byte, n uint32) result              `c:"nvmlSystemGetDriverVersion"`
	CUDAVersion   func(v *int32) result                       `c:"nvmlSystemGetCudaDriverVersion"`
	Count         func(n *uint32) result                      `c:"nvmlDeviceGetCount_v2,nvmlDeviceGetCount"`
	ByIndex       func(index uint32, d *ref) result           `c:"nvmlDeviceGetHandleByIndex_v2,nvmlDeviceGetHandleByIndex"`
	Name          func(d ref, s *byte, n uint32) result       `c:"nvmlDeviceGetName"`
	UUID          func(d ref, s *byte, n uint32) result       `c:"nvmlDeviceGetUUID"`
	PCI           func(d ref, p *pciInfo) result              `c:"nvmlDeviceGetPciInfo_v3,nvmlDeviceGetPciInfo_v2,nvmlDeviceGetPciInfo"`
	CPUAffinity   func(d ref, words uint32, set *uint) result `c:"nvmlDeviceGetCpuAffinity"`

	ClockInfo      func(d ref, kind uint32, mhz *uint32) result                        `c:"nvmlDeviceGetClockInfo"`
	MaxClockInfo   func(d ref, kind uint32, mhz *uint32) result                        `c:"nvmlDeviceGetMaxClockInfo"`
	Clock          func(d ref, kind, id uint32, mhz *uint32) result                    `c:"nvmlDeviceGetClock"`
	PowerUsage     func(d ref, mw *uint32) result                                      `c:"nvmlDeviceGetPowerUsage"`
	PowerLimit     func(d ref, mw *uint32) result                                      `c:"nvmlDeviceGetPowerManagementLimit"`
	PowerDefault   func(d ref, mw *uint32) result                                      `c:"nvmlDeviceGetPowerManagementDefaultLimit"`
	PowerEnforced  func(d ref, mw *uint32) result                                      `c:"nvmlDeviceGetEnforcedPowerLimit"`
	Temperature    func(d ref, sensor uint32, c *uint32) result                        `c:"nvmlDeviceGetTemperature"` // in every driver; its successor exists since driver 570
	Utilisation    func(d ref, u *utilisationRates) result                             `c:"nvmlDeviceGetUtilizationRates"`
	Memory         func(d ref, m *memoryInfo) result                                   `c:"nvmlDeviceGetMemoryInfo"`
	BAR1           func(d ref, m *memoryInfo) result                                   `c:"nvmlDeviceGetBAR1MemoryInfo"`
	PCIeGen        func(d ref, v *uint32) result                                       `c:"nvmlDeviceGetCurrPcieLinkGeneration"`
	PCIeGenMax     func(d ref, v *uint32) result                                       `c:"nvmlDeviceGetMaxPcieLinkGeneration"`
	PCIeWidth      func(d ref, v *uint32) result                                       `c:"nvmlDeviceGetCurrPcieLinkWidth"`
	PCIeWidthMax   func(d ref, v *uint32) result                                       `c:"nvmlDeviceGetMaxPcieLinkWidth"`
	PCIeThroughput func(d ref, counter uint32, kbps *uint32) result                    `c:"nvmlDeviceGetPcieThroughput"`
	EventReasons   func(d ref, bits *uint64) result                                    `c:"nvmlDeviceGetCurrentClocksEventReasons"`
	OldReasons     func(d ref, bits *uint64) result                                    `c:"nvmlDeviceGetCurrentClocksThrottleReasons"` // for drivers before 535
	Energy         func(d ref, mj *uint64) result                                      `c:"nvmlDeviceGetTotalEnergyConsumption"`
	Persistence    func(d ref, v *uint32) result                                       `c:"nvmlDeviceGetPersistenceMode"`
	ECC            func(d ref, now, next *uint32) result                               `c:"nvmlDeviceGetEccMode"`
	ECCErrors      func(d ref, kind, counter uint32, n *uint64) result                 `c:"nvmlDeviceGetTotalEccErrors"`
	RetirePending  func(d ref, v *uint32) result                                       `c:"nvmlDeviceGetRetiredPagesPendingStatus"`
	RemappedRows   func(d ref, corrected, uncorrected, pending, failed *uint32) result `c:"nvmlDeviceGetRemappedRows"`
	ComputeMode    func(d ref, v *uint32) result                                       `c:"nvmlDeviceGetComputeMode"`
	Fields         func(d ref, n int32, v *fieldValue) result                          `c:"nvmlDeviceGetFieldValues"`

	Compute    func(d ref, n *uint32, list *processInfo) result   `c:"nvmlDeviceGetComputeRunningProcesses_v3,nvmlDeviceGetComputeRunningProcesses_v2"`
	ComputeV1  func(d ref, n *uint32, list *processInfoV1) result `c:"nvmlDeviceGetComputeRunningProcesses"`
	MPS        func(d ref, n *uint32, list *processInfo) result   `c:"nvmlDeviceGetMPSComputeRunningProcesses_v3,nvmlDeviceGetMPSComputeRunningProcesses_v2"`
	MPSV1      func(d ref, n *uint32, list *processInfoV1) result `c:"nvmlDeviceGetMPSComputeRunningProcesses"`
	Graphics   func(d ref, n *uint32, list *processInfo) result   `c:"nvmlDeviceGetGraphicsRunningProcesses_v3,nvmlDeviceGetGraphicsRunningProcesses_v2"`
	GraphicsV1 func(d ref, n *uint32, list *processInfoV1) result `c:"nvmlDeviceGetGraphicsRunningProcesses"`

	MIGMode         func(d ref, now, next *uint32) result    `c:"nvmlDeviceGetMigMode"`
	MIGCount        func(d ref, n *uint32) result            `c:"nvmlDeviceGetMaxMigDeviceCount"`
	MIGByIndex      func(d ref, index uint32, m *ref) result `c:"nvmlDeviceGetMigDeviceHandleByIndex"`
	GPUInstance     func(d ref, id *uint32) result           `c:"nvmlDeviceGetGpuInstanceId"`
	ComputeInstance func(d ref, id *uint32) result           `c:"nvmlDeviceGetComputeInstanceId"`
}

// load opens a library and checks that it has the functions to start and stop NVML. The library stays loaded until the
// process ends, so that no call can jump into unloaded code.
func load(paths []string) (*table, error) {
	lib, path, err := dynlib.First(paths)
	if err != nil {
		return nil, err
	}
	t := new(table)
	t.bindAll(func(name string) uintptr { return dynlib.Symbol(lib, name) })
	switch {
	case t.Init == nil:
		return nil, fmt.Errorf("%s has no function nvmlInit_v2", path)
	case t.Shutdown == nil:
		return nil, fmt.Errorf("%s has no function nvmlShutdown", path)
	}
	return t, nil
}

// bindAll sets every function for which address finds one of the C names.
func (t *table) bindAll(address func(name string) uintptr) {
	v := reflect.ValueOf(t).Elem()
	for i := range v.NumField() {
		for _, name := range cNames(v.Type().Field(i)) {
			if addr := address(name); addr != 0 {
				dynlib.Bind(v.Field(i).Addr().Interface(), addr)
				break
			}
		}
	}
}

// cNames returns the function's C names, the newest first.
func cNames(f reflect.StructField) []string { return strings.Split(f.Tag.Get("c"), ",") }
