//go:build cgo && linux

package nvml

import "github.com/NVIDIA/go-nvml/pkg/nvml"

// way is one function that tells a quantity.
type way struct {
	symbols []string // the C functions behind read, any of which suffices
	read    func(d nvml.Device) (float64, nvml.Return)
}

// reader is the ways to a quantity, best first, and its unit in base units.
type reader struct {
	unit float64
	ways []way
}

func one[T ~uint32 | ~int | ~uint64 | ~int32](unit float64, symbol string, get func(d nvml.Device) (T, nvml.Return)) reader {
	return reader{unit, []way{{[]string{symbol}, func(d nvml.Device) (float64, nvml.Return) {
		v, ret := get(d)
		return float64(v), ret
	}}}}
}

func clock(kind nvml.ClockType) reader {
	return one(megahertz, "nvmlDeviceGetClockInfo", func(d nvml.Device) (uint32, nvml.Return) { return d.GetClockInfo(kind) })
}

func clockMax(kind nvml.ClockType) reader {
	return one(megahertz, "nvmlDeviceGetMaxClockInfo", func(d nvml.Device) (uint32, nvml.Return) { return d.GetMaxClockInfo(kind) })
}

func clockOf(kind nvml.ClockType, id nvml.ClockId) reader {
	return one(megahertz, "nvmlDeviceGetClock", func(d nvml.Device) (uint32, nvml.Return) { return d.GetClock(kind, id) })
}

func pcieBytes(counter nvml.PcieUtilCounter) reader {
	return one(kilobytesPerSecond, "nvmlDeviceGetPcieThroughput", func(d nvml.Device) (uint32, nvml.Return) { return d.GetPcieThroughput(counter) })
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// readers is every number asked of NVML. number looks the symbols up before it
// calls read.
var readers = [quantities]reader{
	smClock:            clock(nvml.CLOCK_SM),
	memoryClock:        clock(nvml.CLOCK_MEM),
	smClockMax:         clockMax(nvml.CLOCK_SM),
	memoryClockMax:     clockMax(nvml.CLOCK_MEM),
	appSMClock:         clockOf(nvml.CLOCK_GRAPHICS, nvml.CLOCK_ID_APP_CLOCK_TARGET),
	appMemoryClock:     clockOf(nvml.CLOCK_MEM, nvml.CLOCK_ID_APP_CLOCK_TARGET),
	defaultSMClock:     clockOf(nvml.CLOCK_GRAPHICS, nvml.CLOCK_ID_APP_CLOCK_DEFAULT),
	defaultMemoryClock: clockOf(nvml.CLOCK_MEM, nvml.CLOCK_ID_APP_CLOCK_DEFAULT),
	powerUsage:         one(milliwatts, "nvmlDeviceGetPowerUsage", nvml.Device.GetPowerUsage),
	powerLimit:         one(milliwatts, "nvmlDeviceGetPowerManagementLimit", nvml.Device.GetPowerManagementLimit),
	powerDefault:       one(milliwatts, "nvmlDeviceGetPowerManagementDefaultLimit", nvml.Device.GetPowerManagementDefaultLimit),
	powerEnforced:      one(milliwatts, "nvmlDeviceGetEnforcedPowerLimit", nvml.Device.GetEnforcedPowerLimit),
	temperature: one(1, "nvmlDeviceGetTemperature", func(d nvml.Device) (uint32, nvml.Return) {
		return d.GetTemperature(nvml.TEMPERATURE_GPU) // its successor came with driver 570, this one is in every driver
	}),
	utilisation: one(percentage, "nvmlDeviceGetUtilizationRates", func(d nvml.Device) (uint32, nvml.Return) {
		u, ret := d.GetUtilizationRates()
		return u.Gpu, ret
	}),
	memoryActivity: one(percentage, "nvmlDeviceGetUtilizationRates", func(d nvml.Device) (uint32, nvml.Return) {
		u, ret := d.GetUtilizationRates()
		return u.Memory, ret
	}),
	memoryUsed: one(1, "nvmlDeviceGetMemoryInfo", func(d nvml.Device) (uint64, nvml.Return) {
		m, ret := d.GetMemoryInfo()
		return m.Used, ret
	}),
	memoryTotal: one(1, "nvmlDeviceGetMemoryInfo", func(d nvml.Device) (uint64, nvml.Return) {
		m, ret := d.GetMemoryInfo()
		return m.Total, ret
	}),
	bar1Used: one(1, "nvmlDeviceGetBAR1MemoryInfo", func(d nvml.Device) (uint64, nvml.Return) {
		m, ret := d.GetBAR1MemoryInfo()
		return m.Bar1Used, ret
	}),
	bar1Total: one(1, "nvmlDeviceGetBAR1MemoryInfo", func(d nvml.Device) (uint64, nvml.Return) {
		m, ret := d.GetBAR1MemoryInfo()
		return m.Bar1Total, ret
	}),
	pcieGen:      one(1, "nvmlDeviceGetCurrPcieLinkGeneration", nvml.Device.GetCurrPcieLinkGeneration),
	pcieGenMax:   one(1, "nvmlDeviceGetMaxPcieLinkGeneration", nvml.Device.GetMaxPcieLinkGeneration),
	pcieWidth:    one(1, "nvmlDeviceGetCurrPcieLinkWidth", nvml.Device.GetCurrPcieLinkWidth),
	pcieWidthMax: one(1, "nvmlDeviceGetMaxPcieLinkWidth", nvml.Device.GetMaxPcieLinkWidth),
	pcieRX:       pcieBytes(nvml.PCIE_UTIL_RX_BYTES),
	pcieTX:       pcieBytes(nvml.PCIE_UTIL_TX_BYTES),
	eventReasons: {1, []way{
		{[]string{"nvmlDeviceGetCurrentClocksEventReasons"}, func(d nvml.Device) (float64, nvml.Return) {
			v, ret := d.GetCurrentClocksEventReasons()
			return float64(v), ret
		}},
		{[]string{"nvmlDeviceGetCurrentClocksThrottleReasons"}, func(d nvml.Device) (float64, nvml.Return) {
			v, ret := d.GetCurrentClocksThrottleReasons() // what drivers before 535 have
			return float64(v), ret
		}},
	}},
	energy:      one(milliwatts, "nvmlDeviceGetTotalEnergyConsumption", nvml.Device.GetTotalEnergyConsumption),
	persistence: one(1, "nvmlDeviceGetPersistenceMode", nvml.Device.GetPersistenceMode),
	eccMode: one(1, "nvmlDeviceGetEccMode", func(d nvml.Device) (nvml.EnableState, nvml.Return) {
		now, _, ret := d.GetEccMode()
		return now, ret
	}),
	eccPending: one(1, "nvmlDeviceGetEccMode", func(d nvml.Device) (nvml.EnableState, nvml.Return) {
		_, next, ret := d.GetEccMode()
		return next, ret
	}),
	eccUncorrected: one(1, "nvmlDeviceGetTotalEccErrors", func(d nvml.Device) (uint64, nvml.Return) {
		return d.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
	}),
	retirePending: one(1, "nvmlDeviceGetRetiredPagesPendingStatus", nvml.Device.GetRetiredPagesPendingStatus),
	remapPending: one(1, "nvmlDeviceGetRemappedRows", func(d nvml.Device) (int, nvml.Return) {
		_, _, pending, _, ret := d.GetRemappedRows()
		return bit(pending), ret
	}),
	remapFailed: one(1, "nvmlDeviceGetRemappedRows", func(d nvml.Device) (int, nvml.Return) {
		_, _, _, failed, ret := d.GetRemappedRows()
		return bit(failed), ret
	}),
	computeMode: one(1, "nvmlDeviceGetComputeMode", nvml.Device.GetComputeMode),
	migMode: one(1, "nvmlDeviceGetMigMode", func(d nvml.Device) (int, nvml.Return) {
		now, _, ret := d.GetMigMode()
		return now, ret
	}),
}
