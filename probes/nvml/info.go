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

// unknown is the value of a number that NVML does not report.
var unknown = gpuprof.Number(math.NaN())

// Known reports whether NVML reported a number of DeviceInfo.
func Known(n gpuprof.Number) bool { return !math.IsNaN(float64(n)) }

// Switch is "on", "off", or "" if unknown.
type Switch string

// The known states of a Switch.
const (
	On  Switch = "on"
	Off Switch = "off"
)

// Instance is a MIG instance: a part of a GPU with its own memory and multiprocessors.
type Instance struct {
	Index   int            `json:"index"` // among the GPU's instances
	UUID    string         `json:"uuid"`  // MIG-…
	Name    string         `json:"name"`
	Profile string         `json:"profile"` // "1g.10gb"; empty if the driver reports no name
	GI      int            `json:"gpu_instance"`
	CI      int            `json:"compute_instance"`
	Memory  gpuprof.Number `json:"memory"` // bytes
}

// DeviceInfo is NVML's description of a GPU at one time. Numbers are in base units, NaN if unknown.
type DeviceInfo struct {
	Index  int    `json:"index"`
	UUID   string `json:"uuid"` // GPU-…
	Name   string `json:"name"`
	PCI    string `json:"pci"` // "00000000:17:00.0"
	Driver string `json:"driver"`
	CUDA   string `json:"cuda"` // newest CUDA version that the driver supports

	MIG       Switch     `json:"mig"`
	Instances []Instance `json:"instances,omitempty"`

	Persistence   Switch         `json:"persistence"`
	ComputeMode   string         `json:"compute_mode"` // default, exclusive-process, …; "" if unknown
	ECC           Switch         `json:"ecc"`
	ECCPending    Switch         `json:"ecc_pending"` // after the next reboot
	Uncorrected   gpuprof.Number `json:"ecc_uncorrected"`
	RetirePending Switch         `json:"retire_pending"` // memory pages wait for a reset to be retired
	RemapPending  Switch         `json:"remap_pending"`
	RemapFailed   Switch         `json:"remap_failed"`
	RemappedRows  gpuprof.Number `json:"remapped_rows"` // replaced after an uncorrectable error
	// Recovery is the recovery action that the driver requires, as numbered in nvml.h; 0 is none.
	Recovery gpuprof.Number `json:"recovery_action"`

	PowerLimit    gpuprof.Number `json:"power_limit_w"`
	PowerDefault  gpuprof.Number `json:"power_default_w"`
	PowerEnforced gpuprof.Number `json:"power_enforced_w"` // effective limit, which may be set outside of NVML

	SMClock        gpuprof.Number `json:"sm_clock_hz"`
	SMClockMax     gpuprof.Number `json:"sm_clock_max_hz"`
	MemoryClock    gpuprof.Number `json:"memory_clock_hz"`
	MemoryClockMax gpuprof.Number `json:"memory_clock_max_hz"`
	// Application clocks, and their values after boot.
	AppSMClock         gpuprof.Number `json:"application_sm_clock_hz"`
	AppMemoryClock     gpuprof.Number `json:"application_memory_clock_hz"`
	DefaultSMClock     gpuprof.Number `json:"default_sm_clock_hz"`
	DefaultMemoryClock gpuprof.Number `json:"default_memory_clock_hz"`
	Reasons            []string       `json:"clock_event_reasons"` // current; nil if unknown

	PCIeGen      gpuprof.Number `json:"pcie_gen"` // current: falls when idle
	PCIeGenMax   gpuprof.Number `json:"pcie_gen_max"`
	PCIeWidth    gpuprof.Number `json:"pcie_width"`
	PCIeWidthMax gpuprof.Number `json:"pcie_width_max"`

	MemoryUsed  gpuprof.Number `json:"memory_used"`
	MemoryTotal gpuprof.Number `json:"memory_total"`
	BAR1Used    gpuprof.Number `json:"bar1_used"`
	BAR1Total   gpuprof.Number `json:"bar1_total"`

	Processes      []Process `json:"processes"`
	ProcessesKnown bool      `json:"processes_known"`
	// Forbidden names values that the user has no permission to read.
	Forbidden []string `json:"forbidden,omitempty"`
	// Fault is NVML's answer that the GPU is lost or broken; "" for none.
	Fault string `json:"fault,omitempty"`
	// Refused is the reason why NVML returns no handle of a GPU that may be intact; "" without one.
	Refused string `json:"refused,omitempty"`
	// Unanswered maps failed queries about faults to NVML's reasons.
	Unanswered map[string]string `json:"unanswered,omitempty"`
}

// The queries about faults, as named in Unanswered.
const (
	QueryECC      = "ECC errors"
	QueryRows     = "remapped rows"
	QueryPages    = "retired pages"
	QueryRecovery = "recovery action"
)

// Devices describes every GPU of the machine, also those that CUDA_VISIBLE_DEVICES hides. It is empty after Close.
func (l *Library) Devices() []DeviceInfo {
	if !l.enter() {
		return nil
	}
	defer l.leave()
	driver, _ := l.sys.driverVersion()
	cuda, err := l.sys.cudaVersion()
	if err != nil {
		cuda = ""
	}
	var out []DeviceInfo
	for i, g := range l.gpus {
		d := describeGPU(g, i)
		d.Driver, d.CUDA = driver, cuda
		out = append(out, d)
	}
	return out
}

func describeGPU(g gpu, index int) DeviceInfo {
	a := &asker{g: g, unanswered: map[string]string{}}
	d := DeviceInfo{Index: index}
	d.UUID, d.Name, d.PCI = a.askIdentity(g.uuid), a.askIdentity(g.name), a.askIdentity(g.pci)
	d.MIG = a.askSwitch(migMode, "MIG mode")
	if d.MIG == On {
		d.Instances = describeInstances(a)
	}
	d.Persistence = a.askSwitch(persistence, "persistence mode")
	d.ComputeMode = computeModeName(a.askNumber(computeMode, "compute mode"))
	describeMemoryHealth(a, &d)
	d.Recovery = a.askField(fieldRecovery, QueryRecovery)
	describeClocks(a, &d)
	d.PowerLimit = a.askNumber(powerLimit, "power limit")
	d.PowerDefault = a.askNumber(powerDefault, "default power limit")
	d.PowerEnforced = a.askNumber(powerEnforced, "enforced power limit")
	d.PCIeGen, d.PCIeGenMax = a.askNumber(pcieGen, "PCIe generation"), a.askNumber(pcieGenMax, "PCIe generation")
	d.PCIeWidth, d.PCIeWidthMax = a.askNumber(pcieWidth, "PCIe width"), a.askNumber(pcieWidthMax, "PCIe width")
	d.MemoryUsed, d.MemoryTotal = a.askNumber(memoryUsed, "memory"), a.askNumber(memoryTotal, "memory")
	d.BAR1Used, d.BAR1Total = a.askNumber(bar1Used, "BAR1 memory"), a.askNumber(bar1Total, "BAR1 memory")
	list, err := g.listProcesses()
	a.recordAnswer("processes", err)
	d.ProcessesKnown = err == nil
	d.Processes = thisProcs().markOwn(list, false)
	d.Forbidden, d.Unanswered, d.Fault = a.forbidden, a.unanswered, a.faultText()
	if b, ok := g.(broken); ok && d.Fault == "" {
		d.Refused = b.err.Error()
	}
	return d
}

func describeMemoryHealth(a *asker, d *DeviceInfo) {
	d.ECC, d.ECCPending = a.askSwitch(eccMode, "ECC mode"), a.askSwitch(eccPending, "ECC mode")
	d.Uncorrected = a.askNumber(eccUncorrected, QueryECC)
	d.RetirePending = a.askSwitch(retirePending, QueryPages)
	d.RemapPending, d.RemapFailed = a.askSwitch(remapPending, QueryRows), a.askSwitch(remapFailed, QueryRows)
	d.RemappedRows = a.askNumber(remappedRows, QueryRows)
}

func describeClocks(a *asker, d *DeviceInfo) {
	d.SMClock, d.SMClockMax = a.askNumber(smClock, "SM clock"), a.askNumber(smClockMax, "SM clock")
	d.MemoryClock, d.MemoryClockMax = a.askNumber(memoryClock, "memory clock"), a.askNumber(memoryClockMax, "memory clock")
	d.AppSMClock, d.AppMemoryClock = a.askNumber(appSMClock, "application clocks"), a.askNumber(appMemoryClock, "application clocks")
	d.DefaultSMClock, d.DefaultMemoryClock = a.askNumber(defaultSMClock, "application clocks"), a.askNumber(defaultMemoryClock, "application clocks")
	if bits := a.askNumber(eventReasons, "clock event reasons"); Known(bits) {
		d.Reasons = reasonNames(uint64(bits))
	}
}

// describeInstances queries a GPU's MIG instances; their answers may show that the GPU is lost.
func describeInstances(a *asker) []Instance {
	parts, err := a.g.listInstances()
	if a.recordFault(err); err != nil {
		return nil
	}
	var out []Instance
	for i, p := range parts {
		in := Instance{Index: i, GI: -1, CI: -1}
		in.UUID, in.Name = a.askIdentity(p.uuid), a.askIdentity(p.name)
		if _, profile, ok := strings.Cut(in.Name, "MIG "); ok {
			in.Profile = profile
		}
		gi, ci, err := p.instanceIDs()
		if a.recordFault(err); err == nil {
			in.GI, in.CI = gi, ci
		}
		memory, err := p.readNumber(memoryTotal)
		if in.Memory = unknown; err == nil {
			in.Memory = gpuprof.Number(memory)
		}
		a.recordFault(err)
		out = append(out, in)
	}
	return out
}

// computeModeName returns the name of an nvmlComputeMode_t, spelled as in the CUDA device's "compute_mode" fact. It
// returns "" if unknown, and the number for a mode without a name.
func computeModeName(v gpuprof.Number) string {
	if !Known(v) {
		return ""
	}
	for i, name := range []string{"default", "exclusive-thread", "prohibited", "exclusive-process"} {
		if v == gpuprof.Number(i) {
			return name
		}
	}
	return strconv.FormatFloat(float64(v), 'f', -1, 64)
}

var reasonBits = []string{
	"idle", "application-clocks", "power-cap", "hw-slowdown", "sync-boost",
	"sw-thermal", "hw-thermal", "hw-power-brake", "display-clocks",
}

// reasonNames names the set bits; never nil.
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

// hashName returns the first 16 hexadecimal digits of a name's SHA-256, as the CUDA device hashes its UUID. So devices
// can be told apart without publishing names.
func hashName(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:8])
}

// cpuCount returns the number of logical CPUs for which an affinity mask needs bits.
func cpuCount() int { return max(runtime.NumCPU(), 1024) }
