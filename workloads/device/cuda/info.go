package cuda

import (
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// Info implements device.Device. Facts: driver (version of the kernel module, on Linux), cuda (newest supported
// version), compute_capability, uuid_hash, pci_bus_hash, ecc, mig, compute_mode, sm_clock_hz and memory_clock_hz
// (rated maxima), memory_bus_bits, memory_bytes, pool, binding (purego or gorgonia), tf32_override if
// NVIDIA_TF32_OVERRIDE is set, versions of the vendor libraries loaded so far, and simulated on a simulated driver.
func (d *Device) Info() device.Info {
	info := d.info
	info.Facts = maps.Clone(d.info.Facts)
	for name, version := range d.libraries {
		info.Facts[name] = version
	}
	return info
}

func (d *Device) collectInfo() device.Info {
	at := func(attr int32) int64 { return int64(d.drv.readAttribute(attr, d.is.handle)) }
	facts := map[string]string{
		"cuda":               d.is.CUDA,
		"compute_capability": fmt.Sprintf("%d.%d", at(attrMajor), at(attrMinor)),
		"ecc":                onOff(at(attrECC) != 0),
		"mig":                onOff(d.is.MIG),
		"compute_mode":       computeMode(at(attrComputeMode)),
		"sm_clock_hz":        strconv.FormatInt(at(attrClockKHz)*1000, 10),
		"memory_clock_hz":    strconv.FormatInt(at(attrMemoryClockKHz)*1000, 10),
		"memory_bus_bits":    strconv.FormatInt(at(attrBusWidth), 10),
		"memory_bytes":       strconv.FormatInt(d.is.Memory, 10),
		"pool":               onOff(d.pool != 0),
		"binding":            implementation,
	}
	if d.is.UUID != "" {
		facts["uuid_hash"] = hashName(d.is.UUID)
	}
	id := make([]byte, 64)
	if d.drv.PCIBusID(&id[0], int32(len(id)-1), d.is.handle) == success {
		bus, _, _ := strings.Cut(string(id), "\x00")
		facts["pci_bus_hash"] = hashName(bus)
	}
	if v := moduleVersion(); v != "" && !d.is.Simulated {
		facts["driver"] = v
	}
	if v := os.Getenv("NVIDIA_TF32_OVERRIDE"); v != "" {
		facts["tf32_override"] = v // overrides the precision requested of libraries
	}
	if d.is.Simulated {
		facts["simulated"] = "true"
	}
	return device.Info{
		Kind: "cuda", Name: d.is.Name, Arch: d.is.Arch, Cores: d.is.Cores,
		CacheBytes: at(attrL2), Facts: facts,
	}
}

// UUID returns the device's UUID, by which telemetry identifies the GPU.
func (d *Device) UUID() string { return d.is.UUID }

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

// computeMode returns the name of a CUcomputemode.
func computeMode(v int64) string {
	switch v {
	case 0:
		return "default"
	case 2:
		return "prohibited"
	case 3:
		return "exclusive-process"
	}
	return strconv.FormatInt(v, 10)
}

// moduleVersion returns the kernel module's version, such as "550.54.15", or "".
func moduleVersion() string {
	text, err := os.ReadFile("/proc/driver/nvidia/version")
	if err != nil {
		return ""
	}
	for _, word := range strings.Fields(string(text)) {
		if n := strings.Count(word, "."); n >= 1 && n <= 2 && strings.Trim(word, "0123456789.") == "" {
			return word
		}
	}
	return ""
}
