package nvml

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"runtime"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// unknown is a number that NVML does not tell.
var unknown = gpuprof.Number(math.NaN())

// Known reports whether a number of DeviceInfo is known.
func Known(n gpuprof.Number) bool { return !math.IsNaN(float64(n)) }

// Switch is "on", "off", or "" where NVML does not tell.
type Switch string

// The known states of a Switch.
const (
	On  Switch = "on"
	Off Switch = "off"
)

// Instance is a MIG instance: a slice of a GPU with memory and multiprocessors
// of its own.
type Instance struct {
	Index   int            `json:"index"` // among the GPU's instances
	UUID    string         `json:"uuid"`  // MIG-…
	Name    string         `json:"name"`
	Profile string         `json:"profile"` // "1g.10gb"; empty where the driver does not name it
	GI      int            `json:"gpu_instance"`
	CI      int            `json:"compute_instance"`
	Memory  gpuprof.Number `json:"memory"` // bytes
}

// DeviceInfo is what NVML says of a GPU at one moment. Numbers are in base units
// and NaN where unknown.
type DeviceInfo struct {
	Index  int    `json:"index"`
	UUID   string `json:"uuid"` // GPU-…
	Name   string `json:"name"`
	PCI    string `json:"pci"` // "00000000:17:00.0"
	Driver string `json:"driver"`
	CUDA   string `json:"cuda"` // what the driver supports

	MIG       Switch     `json:"mig"`
	Instances []Instance `json:"instances,omitempty"`

	Persistence   Switch         `json:"persistence"`
	ComputeMode   string         `json:"compute_mode"` // default, exclusive-process, …; empty when unknown
	ECC           Switch         `json:"ecc"`
	ECCPending    Switch         `json:"ecc_pending"` // after the next reboot
	Uncorrected   gpuprof.Number `json:"ecc_uncorrected"`
	RetirePending Switch         `json:"retire_pending"` // memory pages wait for a reset to be retired
	RemapPending  Switch         `json:"remap_pending"`
	RemapFailed   Switch         `json:"remap_failed"`
	RemappedRows  gpuprof.Number `json:"remapped_rows"` // replaced after an uncorrectable error
	// Recovery is the action by which the driver wants the GPU recovered, as nvml.h numbers
	// them; 0 is none.
	Recovery gpuprof.Number `json:"recovery_action"`

	PowerLimit    gpuprof.Number `json:"power_limit_w"`
	PowerDefault  gpuprof.Number `json:"power_default_w"`
	PowerEnforced gpuprof.Number `json:"power_enforced_w"` // with limits set elsewhere

	SMClock        gpuprof.Number `json:"sm_clock_hz"`
	SMClockMax     gpuprof.Number `json:"sm_clock_max_hz"`
	MemoryClock    gpuprof.Number `json:"memory_clock_hz"`
	MemoryClockMax gpuprof.Number `json:"memory_clock_max_hz"`
	// Application clocks and the ones the GPU boots with.
	AppSMClock         gpuprof.Number `json:"application_sm_clock_hz"`
	AppMemoryClock     gpuprof.Number `json:"application_memory_clock_hz"`
	DefaultSMClock     gpuprof.Number `json:"default_sm_clock_hz"`
	DefaultMemoryClock gpuprof.Number `json:"default_memory_clock_hz"`
	Reasons            []string       `json:"clock_event_reasons"` // at this moment; nil when unknown

	PCIeGen      gpuprof.Number `json:"pcie_gen"` // falls when idle
	PCIeGenMax   gpuprof.Number `json:"pcie_gen_max"`
	PCIeWidth    gpuprof.Number `json:"pcie_width"`
	PCIeWidthMax gpuprof.Number `json:"pcie_width_max"`

	MemoryUsed  gpuprof.Number `json:"memory_used"`
	MemoryTotal gpuprof.Number `json:"memory_total"`
	BAR1Used    gpuprof.Number `json:"bar1_used"`
	BAR1Total   gpuprof.Number `json:"bar1_total"`

	Processes      []Process `json:"processes"`
	ProcessesKnown bool      `json:"processes_known"`
	// Forbidden names values that this user has no permission read.
	Forbidden []string `json:"forbidden,omitempty"`
	// Fault is NVML's answer by which the GPU is lost or otherwise broken; empty where no
	// answer is one.
	Fault string `json:"fault,omitempty"`
	// Refused is why NVML gives no handle of the GPU where that is no fault of the GPU.
	Refused string `json:"refused,omitempty"`
	// Unanswered are the queries about faults that NVML did not answer, and why.
	Unanswered map[string]string `json:"unanswered,omitempty"`
}

// The queries about faults, as Unanswered names them.
const (
	QueryECC      = "ECC errors"
	QueryRows     = "remapped rows"
	QueryPages    = "retired pages"
	QueryRecovery = "recovery action"
)

// Devices lists every GPU of the machine, whatever CUDA_VISIBLE_DEVICES says.
// It is empty once the library is closed.
func (l *Library) Devices() []DeviceInfo {
	if !l.enter() {
		return nil
	}
	defer l.leave()
	driver, _ := l.sys.driver()
	cuda, err := l.sys.cuda()
	if err != nil {
		cuda = ""
	}
	var out []DeviceInfo
	for i, g := range l.gpus {
		d := describe(g, i)
		d.Driver, d.CUDA = driver, cuda
		out = append(out, d)
	}
	return out
}

func describe(g gpu, index int) DeviceInfo {
	a := &asker{g: g, unanswered: map[string]string{}}
	d := DeviceInfo{Index: index}
	d.UUID, d.Name, d.PCI = a.identity(g.uuid), a.identity(g.name), a.identity(g.pci)
	d.MIG = a.state(migMode, "MIG mode")
	if d.MIG == On {
		d.Instances = describeInstances(a)
	}
	d.Persistence = a.state(persistence, "persistence mode")
	d.ComputeMode = computeModeName(a.number(computeMode, "compute mode"))
	describeMemoryHealth(a, &d)
	d.Recovery = a.field(fieldRecovery, QueryRecovery)
	describeClocks(a, &d)
	d.PowerLimit = a.number(powerLimit, "power limit")
	d.PowerDefault = a.number(powerDefault, "default power limit")
	d.PowerEnforced = a.number(powerEnforced, "enforced power limit")
	d.PCIeGen, d.PCIeGenMax = a.number(pcieGen, "PCIe generation"), a.number(pcieGenMax, "PCIe generation")
	d.PCIeWidth, d.PCIeWidthMax = a.number(pcieWidth, "PCIe width"), a.number(pcieWidthMax, "PCIe width")
	d.MemoryUsed, d.MemoryTotal = a.number(memoryUsed, "memory"), a.number(memoryTotal, "memory")
	d.BAR1Used, d.BAR1Total = a.number(bar1Used, "BAR1 memory"), a.number(bar1Total, "BAR1 memory")
	list, err := g.processes()
	a.heed("processes", err)
	d.ProcessesKnown = err == nil
	d.Processes = thisProcs().mark(list, false)
	d.Forbidden, d.Unanswered, d.Fault = a.forbidden, a.unanswered, a.fault()
	if b, ok := g.(broken); ok && d.Fault == "" {
		d.Refused = b.err.Error()
	}
	return d
}

func describeMemoryHealth(a *asker, d *DeviceInfo) {
	d.ECC, d.ECCPending = a.state(eccMode, "ECC mode"), a.state(eccPending, "ECC mode")
	d.Uncorrected = a.number(eccUncorrected, QueryECC)
	d.RetirePending = a.state(retirePending, QueryPages)
	d.RemapPending, d.RemapFailed = a.state(remapPending, QueryRows), a.state(remapFailed, QueryRows)
	d.RemappedRows = a.number(remappedRows, QueryRows)
}

func describeClocks(a *asker, d *DeviceInfo) {
	d.SMClock, d.SMClockMax = a.number(smClock, "SM clock"), a.number(smClockMax, "SM clock")
	d.MemoryClock, d.MemoryClockMax = a.number(memoryClock, "memory clock"), a.number(memoryClockMax, "memory clock")
	d.AppSMClock, d.AppMemoryClock = a.number(appSMClock, "application clocks"), a.number(appMemoryClock, "application clocks")
	d.DefaultSMClock, d.DefaultMemoryClock = a.number(defaultSMClock, "application clocks"), a.number(defaultMemoryClock, "application clocks")
	if bits := a.number(eventReasons, "clock event reasons"); Known(bits) {
		d.Reasons = reasonNames(uint64(bits))
	}
}

// describeInstances asks the instances of a GPU, whose answers may tell that the GPU is lost.
func describeInstances(a *asker) []Instance {
	parts, err := a.g.instances()
	if a.blame(err); err != nil {
		return nil
	}
	var out []Instance
	for i, p := range parts {
		in := Instance{Index: i, GI: -1, CI: -1}
		in.UUID, in.Name = a.identity(p.uuid), a.identity(p.name)
		if _, profile, ok := strings.Cut(in.Name, "MIG "); ok {
			in.Profile = profile
		}
		gi, ci, err := p.place()
		if a.blame(err); err == nil {
			in.GI, in.CI = gi, ci
		}
		memory, err := p.number(memoryTotal)
		if in.Memory = unknown; err == nil {
			in.Memory = gpuprof.Number(memory)
		}
		a.blame(err)
		out = append(out, in)
	}
	return out
}

// computeModeName names an nvmlComputeMode_t, as the CUDA device does.
func computeModeName(v gpuprof.Number) string {
	if !Known(v) {
		return ""
	}
	switch v {
	case 0:
		return "default"
	case 1:
		return "exclusive-thread"
	case 2:
		return "prohibited"
	case 3:
		return "exclusive-process"
	}
	return strconv.FormatFloat(float64(v), 'f', -1, 64)
}

// reasonBits are the clock event reasons of nvml.h, in the order of their bits.
var reasonBits = []string{
	"idle", "application-clocks", "power-cap", "hw-slowdown", "sync-boost",
	"sw-thermal", "hw-thermal", "hw-power-brake", "display-clocks",
}

// reasonNames names the bits that are set; it is not nil.
func reasonNames(bits uint64) []string {
	out := []string{}
	for i := range 64 {
		if bits&(1<<i) == 0 {
			continue
		}
		if i < len(reasonBits) {
			out = append(out, reasonBits[i])
		} else {
			out = append(out, "bit-"+strconv.Itoa(i))
		}
	}
	return out
}

// hashed is the first 16 hexadecimal digits of a name's SHA-256, as the CUDA
// device hashes its UUID: enough to tell devices apart without naming them.
func hashed(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:8])
}

// cpuCount is how many logical CPUs a mask of them must hold.
func cpuCount() int { return max(runtime.NumCPU(), 1024) }
