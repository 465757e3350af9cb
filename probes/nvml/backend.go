package nvml

import "errors"

// ResetRequired is the DeviceInfo.Fault of a GPU that works again after a reset.
const ResetRequired = "the GPU requires a reset before it can be used again"

// What NVML answered, as far as it makes a difference here.
var (
	errUnsupported = errors.New("not supported by this GPU or driver")
	errForbidden   = errors.New("not permitted")
	errLost        = errors.New("the GPU has fallen off the bus")
	errReset       = errors.New(ResetRequired)
	errClosed      = errors.New("the NVML library is closed")
)

// quantity is one number that NVML tells of a GPU, in base units; switches are
// 0 and 1.
type quantity uint8

const (
	smClock quantity = iota // Hz
	memoryClock
	smClockMax
	memoryClockMax
	appSMClock
	appMemoryClock
	defaultSMClock // application clock that the GPU boots with
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
	remappedRows // rows of memory that were replaced after an uncorrectable error
	computeMode  // as nvml.h numbers it
	migMode
	quantities // how many
)

// The fields that are read.
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

// field is one value of GetFieldValues; ok is false where it is unknown, and err is then
// NVML's answer.
type field struct {
	id    uint32
	value float64
	ok    bool
	err   error
}

// system is NVML as this package uses it, once it runs.
type system interface {
	driver() (string, error)
	cuda() (string, error) // "12.4"
	count() (int, error)
	gpu(index int) (gpu, error)
	shutdown() error
}

// gpu is a GPU or a MIG instance.
type gpu interface {
	name() (string, error)
	uuid() (string, error)
	pci() (string, error) // "00000000:17:00.0"
	number(q quantity) (float64, error)
	fields(f []field)
	processes() ([]Process, error)
	// instances are the MIG instances of a GPU, in NVML's order.
	instances() ([]gpu, error)
	// place is a MIG instance's GPU instance and compute instance.
	place() (gi, ci int, err error)
	// nearCPUs are the logical CPUs next to the GPU, as bits.
	nearCPUs(cpus int) ([]uint, error)
}
