package nvml

// read queries one number through the table; errorFunctionNotFound if the library lacks the function.
type read func(t *table, d ref) (float64, result)

// reader has the functions that read a quantity, best first, and the factor to base units.
type reader struct {
	unit float64
	ways []read
}

// readPlain returns a reader of a number of type T; get selects the function.
func readPlain[T uint32 | uint64](unit float64, get func(t *table) func(d ref, v *T) result) reader {
	return readPart(unit, get, func(v *T) float64 { return float64(*v) })
}

// readKind returns a reader for an NVML function that takes a kind (of clock, sensor or counter) as an argument.
func readKind(unit float64, k uint32, get func(t *table) func(d ref, kind uint32, v *uint32) result) reader {
	return readPlain(unit, func(t *table) func(d ref, v *uint32) result {
		f := get(t)
		if f == nil {
			return nil
		}
		return func(d ref, v *uint32) result { return f(d, k, v) }
	})
}

// readPart returns a reader that picks one number from a struct.
func readPart[T any](unit float64, get func(t *table) func(d ref, v *T) result, pick func(v *T) float64) reader {
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

// pair has two switches that NVML writes in one call: the state now, and the state after a reset.
type pair struct{ now, next uint32 }

func pairOf(f func(d ref, now, next *uint32) result) func(d ref, v *pair) result {
	if f == nil {
		return nil
	}
	return func(d ref, v *pair) result { return f(d, &v.now, &v.next) }
}

// rows holds the numbers of remapped memory rows of a GPU.
type rows struct{ corrected, uncorrected, pending, failed uint32 }

func remappedReader(t *table) func(d ref, v *rows) result {
	if t.RemappedRows == nil {
		return nil
	}
	return func(d ref, v *rows) result {
		return t.RemappedRows(d, &v.corrected, &v.uncorrected, &v.pending, &v.failed)
	}
}

func clockReader(k uint32) reader {
	return readKind(megahertz, k, func(t *table) func(ref, uint32, *uint32) result { return t.ClockInfo })
}

func clockMax(k uint32) reader {
	return readKind(megahertz, k, func(t *table) func(ref, uint32, *uint32) result { return t.MaxClockInfo })
}

func clockOf(k, id uint32) reader {
	return readPlain(megahertz, func(t *table) func(ref, *uint32) result {
		if t.Clock == nil {
			return nil
		}
		return func(d ref, v *uint32) result { return t.Clock(d, k, id, v) }
	})
}

func pcieBytes(counter uint32) reader {
	return readKind(kilobytesPerSecond, counter, func(t *table) func(ref, uint32, *uint32) result { return t.PCIeThroughput })
}

func usageReader(pick func(u *utilisationRates) float64) reader {
	return readPart(percentage, func(t *table) func(ref, *utilisationRates) result { return t.Utilisation }, pick)
}

func memoryOfGPU(pick func(m *memoryInfo) float64) reader {
	return readPart(1, func(t *table) func(ref, *memoryInfo) result { return t.Memory }, pick)
}

func bar1(pick func(m *memoryInfo) float64) reader {
	return readPart(1, func(t *table) func(ref, *memoryInfo) result { return t.BAR1 }, pick)
}

func eccReader(pick func(p *pair) float64) reader {
	return readPart(1, func(t *table) func(ref, *pair) result { return pairOf(t.ECC) }, pick)
}

func usedBytes(m *memoryInfo) float64  { return float64(m.used) }
func totalBytes(m *memoryInfo) float64 { return float64(m.total) }
func currentState(p *pair) float64     { return float64(p.now) }

func boolNumber(v uint32) float64 {
	if v != 0 {
		return 1
	}
	return 0
}

var readers = [quantities]reader{
	smClock:            clockReader(clockSM),
	memoryClock:        clockReader(clockMemory),
	smClockMax:         clockMax(clockSM),
	memoryClockMax:     clockMax(clockMemory),
	appSMClock:         clockOf(clockGraphics, clockAppTarget),
	appMemoryClock:     clockOf(clockMemory, clockAppTarget),
	defaultSMClock:     clockOf(clockGraphics, clockAppDefault),
	defaultMemoryClock: clockOf(clockMemory, clockAppDefault),
	powerUsage:         readPlain(milliwatts, func(t *table) func(ref, *uint32) result { return t.PowerUsage }),
	powerLimit:         readPlain(milliwatts, func(t *table) func(ref, *uint32) result { return t.PowerLimit }),
	powerDefault:       readPlain(milliwatts, func(t *table) func(ref, *uint32) result { return t.PowerDefault }),
	powerEnforced:      readPlain(milliwatts, func(t *table) func(ref, *uint32) result { return t.PowerEnforced }),
	temperature:        readKind(1, temperatureOfGPU, func(t *table) func(ref, uint32, *uint32) result { return t.Temperature }),
	utilisation:        usageReader(func(u *utilisationRates) float64 { return float64(u.gpu) }),
	memoryActivity:     usageReader(func(u *utilisationRates) float64 { return float64(u.memory) }),
	memoryUsed:         memoryOfGPU(usedBytes),
	memoryTotal:        memoryOfGPU(totalBytes),
	bar1Used:           bar1(usedBytes),
	bar1Total:          bar1(totalBytes),
	pcieGen:            readPlain(1, func(t *table) func(ref, *uint32) result { return t.PCIeGen }),
	pcieGenMax:         readPlain(1, func(t *table) func(ref, *uint32) result { return t.PCIeGenMax }),
	pcieWidth:          readPlain(1, func(t *table) func(ref, *uint32) result { return t.PCIeWidth }),
	pcieWidthMax:       readPlain(1, func(t *table) func(ref, *uint32) result { return t.PCIeWidthMax }),
	pcieRX:             pcieBytes(pcieRXBytes),
	pcieTX:             pcieBytes(pcieTXBytes),
	eventReasons: {1, append(
		readPlain(1, func(t *table) func(ref, *uint64) result { return t.EventReasons }).ways,
		readPlain(1, func(t *table) func(ref, *uint64) result { return t.OldReasons }).ways...)},
	energy:      readPlain(milliwatts, func(t *table) func(ref, *uint64) result { return t.Energy }),
	persistence: readPlain(1, func(t *table) func(ref, *uint32) result { return t.Persistence }),
	eccMode:     eccReader(currentState),
	eccPending:  eccReader(func(p *pair) float64 { return float64(p.next) }),
	eccUncorrected: readPlain(1, func(t *table) func(ref, *uint64) result {
		if t.ECCErrors == nil {
			return nil
		}
		return func(d ref, n *uint64) result { return t.ECCErrors(d, memoryErrorsUncorrected, eccVolatile, n) }
	}),
	retirePending: readPlain(1, func(t *table) func(ref, *uint32) result { return t.RetirePending }),
	remapPending:  readPart(1, remappedReader, func(r *rows) float64 { return boolNumber(r.pending) }),
	remapFailed:   readPart(1, remappedReader, func(r *rows) float64 { return boolNumber(r.failed) }),
	remappedRows:  readPart(1, remappedReader, func(r *rows) float64 { return float64(r.uncorrected) }),
	computeMode:   readPlain(1, func(t *table) func(ref, *uint32) result { return t.ComputeMode }),
	migMode:       readPart(1, func(t *table) func(ref, *pair) result { return pairOf(t.MIGMode) }, currentState),
}
