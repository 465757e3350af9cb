package nvml

import "errors"

// ResetRequired is the DeviceInfo.Fault of a GPU that a reset repairs.
const ResetRequired = "the GPU requires a reset before it can be used again"

// The NVML errors that this package distinguishes.
var (
	errUnsupported = errors.New("not supported by this GPU or driver")
	errForbidden   = errors.New("not permitted")
	errLost        = errors.New("the GPU has fallen off the bus")
	errReset       = errors.New(ResetRequired)
	errClosed      = errors.New("the NVML library is closed")
)

// quantity is a number that NVML reports about a GPU, in base units; a switch is 0 or 1.
type quantity uint8

const (
	smClock quantity = iota // Hz
	memoryClock
	smClockMax
	memoryClockMax
	appSMClock
	appMemoryClock
	defaultSMClock // application clock after boot
	defaultMemoryClock
	powerUsage // W; averaged over 1 s on most GPUs since Ampere
	powerLimit
	powerDefault
	powerEnforced
	temperature    // C
	utilisation    // 0 to 1
	memoryActivity // 0 to 1
	memoryUsed     // B
	memoryTotal
	bar1Used
	bar1Total
	pcieGen
	pcieGenMax
	pcieWidth
	pcieWidthMax
	pcieRX // B/s
	pcieTX
	eventReasons // bits
	energy       // J
	persistence
	eccMode
	eccPending
	eccUncorrected // errors since the driver was loaded
	retirePending
	remapPending
	remapFailed
	remappedRows // rows replaced after an uncorrectable error
	computeMode  // as numbered in nvml.h
	migMode
	quantities // the number of quantities
)

// Field ids of nvmlDeviceGetFieldValues, and units.
const (
	fieldPower         = 74
	fieldThermal       = 75
	fieldSyncBoost     = 76
	fieldPowerInstant  = 186
	fieldRecovery      = 230 // NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, since driver 565
	fieldSWThermal     = 269
	fieldHWThermal     = 270
	fieldHWPowerBrake  = 271
	nanoseconds        = 1e-9
	milliwatts         = 1e-3
	percentage         = 1e-2
	megahertz          = 1e6
	kilobytesPerSecond = 1000 // nvml.h: "KB/s"
)

// field is one value of GetFieldValues; err is NVML's answer if it has no value.
type field struct {
	id    uint32
	value float64
	ok    bool
	err   error
}

// system is a started NVML library.
type system interface {
	driverVersion() (string, error)
	cudaVersion() (string, error) // "12.4"
	deviceCount() (int, error)
	openGPU(index int) (gpu, error)
	shutdown() error
}

// gpu is a whole GPU or a MIG instance.
type gpu interface {
	name() (string, error)
	uuid() (string, error)
	pci() (string, error) // "00000000:17:00.0"
	readNumber(q quantity) (float64, error)
	readFields(f []field)
	listProcesses() ([]Process, error)
	// listInstances returns the MIG instances of a GPU, in NVML's order.
	listInstances() ([]gpu, error)
	// instanceIDs returns the GPU instance and the compute instance of a MIG instance.
	instanceIDs() (gi, ci int, err error)
	// nearCPUs returns the logical CPUs next to the GPU as a bit mask.
	nearCPUs(cpus int) ([]uint, error)
}
