package nvml

// read asks NVML for one number; its result is errorFunctionNotFound where the library
// lacks the function.
type read func(t *table, d ref) (float64, result)

// reader is the ways to a quantity, best first, and its unit in base units.
type reader struct {
	unit float64
	ways []read
}

// one reads a number of T with get, which picks the function out of the table.
func one[T uint32 | uint64](unit float64, get func(t *table) func(d ref, v *T) result) reader {
	return reader{unit, []read{func(t *table, d ref) (float64, result) {
		f := get(t)
		if f == nil {
			return 0, errorFunctionNotFound
		}
		v := new(T)
		r := f(d, v)
		return float64(*v), r
	}}}
}

// of reads a number of the kind k.
func of(unit float64, k uint32, get func(t *table) func(d ref, kind uint32, v *uint32) result) reader {
	return one(unit, func(t *table) func(d ref, v *uint32) result {
		f := get(t)
		if f == nil {
			return nil
		}
		return func(d ref, v *uint32) result { return f(d, k, v) }
	})
}

// part reads a struct and picks one number out of it.
func part[T any](unit float64, get func(t *table) func(d ref, v *T) result, pick func(v *T) float64) reader {
	return reader{unit, []read{func(t *table, d ref) (float64, result) {
		f := get(t)
		if f == nil {
			return 0, errorFunctionNotFound
		}
		v := new(T)
		r := f(d, v)
		return pick(v), r
	}}}
}

// pair is two switches that NVML writes in one call: the state now and after a reset.
type pair struct{ now, next uint32 }

func pairOf(f func(d ref, now, next *uint32) result) func(d ref, v *pair) result {
	if f == nil {
		return nil
	}
	return func(d ref, v *pair) result { return f(d, &v.now, &v.next) }
}

// rows are the remapped rows of a GPU's memory.
type rows struct{ corrected, uncorrected, pending, failed uint32 }

func remapped(t *table) func(d ref, v *rows) result {
	if t.RemappedRows == nil {
		return nil
	}
	return func(d ref, v *rows) result {
		return t.RemappedRows(d, &v.corrected, &v.uncorrected, &v.pending, &v.failed)
	}
}

func clock(k uint32) reader {
	return of(megahertz, k, func(t *table) func(ref, uint32, *uint32) result { return t.ClockInfo })
}

func clockMax(k uint32) reader {
	return of(megahertz, k, func(t *table) func(ref, uint32, *uint32) result { return t.MaxClockInfo })
}

func clockOf(k, id uint32) reader {
	return one(megahertz, func(t *table) func(ref, *uint32) result {
		if t.Clock == nil {
			return nil
		}
		return func(d ref, v *uint32) result { return t.Clock(d, k, id, v) }
	})
}

func pcieBytes(counter uint32) reader {
	return of(kilobytesPerSecond, counter, func(t *table) func(ref, uint32, *uint32) result { return t.PCIeThroughput })
}

func usage(pick func(u *utilisationRates) float64) reader {
	return part(percentage, func(t *table) func(ref, *utilisationRates) result { return t.Utilisation }, pick)
}

func memoryOfGPU(pick func(m *memoryInfo) float64) reader {
	return part(1, func(t *table) func(ref, *memoryInfo) result { return t.Memory }, pick)
}

func bar1(pick func(m *memoryInfo) float64) reader {
	return part(1, func(t *table) func(ref, *memoryInfo) result { return t.BAR1 }, pick)
}

func ecc(pick func(p *pair) float64) reader {
	return part(1, func(t *table) func(ref, *pair) result { return pairOf(t.ECC) }, pick)
}

func used(m *memoryInfo) float64  { return float64(m.used) }
func total(m *memoryInfo) float64 { return float64(m.total) }
func now(p *pair) float64         { return float64(p.now) }

func bit(v uint32) float64 {
	if v != 0 {
		return 1
	}
	return 0
}

// readers is every number asked of NVML.
var readers = [quantities]reader{
	smClock:            clock(clockSM),
	memoryClock:        clock(clockMemory),
	smClockMax:         clockMax(clockSM),
	memoryClockMax:     clockMax(clockMemory),
	appSMClock:         clockOf(clockGraphics, clockAppTarget),
	appMemoryClock:     clockOf(clockMemory, clockAppTarget),
	defaultSMClock:     clockOf(clockGraphics, clockAppDefault),
	defaultMemoryClock: clockOf(clockMemory, clockAppDefault),
	powerUsage:         one(milliwatts, func(t *table) func(ref, *uint32) result { return t.PowerUsage }),
	powerLimit:         one(milliwatts, func(t *table) func(ref, *uint32) result { return t.PowerLimit }),
	powerDefault:       one(milliwatts, func(t *table) func(ref, *uint32) result { return t.PowerDefault }),
	powerEnforced:      one(milliwatts, func(t *table) func(ref, *uint32) result { return t.PowerEnforced }),
	temperature:        of(1, temperatureOfGPU, func(t *table) func(ref, uint32, *uint32) result { return t.Temperature }),
	utilisation:        usage(func(u *utilisationRates) float64 { return float64(u.gpu) }),
	memoryActivity:     usage(func(u *utilisationRates) float64 { return float64(u.memory) }),
	memoryUsed:         memoryOfGPU(used),
	memoryTotal:        memoryOfGPU(total),
	bar1Used:           bar1(used),
	bar1Total:          bar1(total),
	pcieGen:            one(1, func(t *table) func(ref, *uint32) result { return t.PCIeGen }),
	pcieGenMax:         one(1, func(t *table) func(ref, *uint32) result { return t.PCIeGenMax }),
	pcieWidth:          one(1, func(t *table) func(ref, *uint32) result { return t.PCIeWidth }),
	pcieWidthMax:       one(1, func(t *table) func(ref, *uint32) result { return t.PCIeWidthMax }),
	pcieRX:             pcieBytes(pcieRXBytes),
	pcieTX:             pcieBytes(pcieTXBytes),
	eventReasons: {1, append(
		one(1, func(t *table) func(ref, *uint64) result { return t.EventReasons }).ways,
		one(1, func(t *table) func(ref, *uint64) result { return t.OldReasons }).ways...)},
	energy:      one(milliwatts, func(t *table) func(ref, *uint64) result { return t.Energy }),
	persistence: one(1, func(t *table) func(ref, *uint32) result { return t.Persistence }),
	eccMode:     ecc(now),
	eccPending:  ecc(func(p *pair) float64 { return float64(p.next) }),
	eccUncorrected: one(1, func(t *table) func(ref, *uint64) result {
		if t.ECCErrors == nil {
			return nil
		}
		return func(d ref, n *uint64) result { return t.ECCErrors(d, memoryErrorsUncorrected, eccVolatile, n) }
	}),
	retirePending: one(1, func(t *table) func(ref, *uint32) result { return t.RetirePending }),
	remapPending:  part(1, remapped, func(r *rows) float64 { return bit(r.pending) }),
	remapFailed:   part(1, remapped, func(r *rows) float64 { return bit(r.failed) }),
	remappedRows:  part(1, remapped, func(r *rows) float64 { return float64(r.uncorrected) }),
	computeMode:   one(1, func(t *table) func(ref, *uint32) result { return t.ComputeMode }),
	migMode:       part(1, func(t *table) func(ref, *pair) result { return pairOf(t.MIGMode) }, now),
}
