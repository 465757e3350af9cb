package nvml

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gpuprof/gpuprof/probes/sampler"
)

// Device is the telemetry of one GPU or MIG instance (Library.Device); a zero Device reports everything as unknown. Its
// methods are safe for concurrent use, except Start and Stop. For a MIG instance, NVML reports clocks, temperature,
// link, throttling and processes of the whole GPU, and only the memory of the instance. Power, energy and utilisation
// are unknown, since NVML has only sums over all instances.
type Device struct {
	whole gated
	part  gated // the MIG instance; empty for a whole GPU
	info  DeviceInfo
	slice *Instance // description of part, or nil
	procs procs

	mu       sync.Mutex // of the following fields
	power    []field    // one field
	throttle []field
	zero     []field // values of throttle when the device was opened

	sampler *sampler.Sampler // nil without sampling
}

// throttleReasons lists NVML's cumulative counters of throttled time, in ns, with gpuprof's names for the reasons.
var throttleReasons = []struct {
	name string
	id   uint32
}{
	{"power-cap", fieldPower},
	{"sync-boost", fieldSyncBoost},
	{"sw-thermal", fieldSWThermal},
	{"hw-thermal", fieldHWThermal},
	{"hw-power-brake", fieldHWPowerBrake},
	// For drivers before 565, which lack field 269. Newer drivers report the same counter under both fields.
	{"thermal", fieldThermal},
}

// swThermalAt is the index of the newer software-thermal counter in throttleReasons.
const swThermalAt = 2

func newDevice(whole, part gated, info DeviceInfo, at int) *Device {
	d := &Device{whole: whole, part: part, info: info, procs: thisProcs(), power: []field{{id: fieldPowerInstant}}}
	if at >= 0 {
		d.slice = &info.Instances[at]
	}
	for _, r := range throttleReasons {
		d.throttle = append(d.throttle, field{id: r.id})
	}
	d.readThrottle(func() { d.zero = slices.Clone(d.throttle) })
	return d
}

// Info returns NVML's description of the GPU, from when the device was opened.
func (d *Device) Info() DeviceInfo { return d.info }

// Instance returns the MIG instance; ok is false for a whole GPU.
func (d *Device) Instance() (in Instance, ok bool) {
	if d.slice == nil {
		return Instance{Index: -1}, false
	}
	return *d.slice, true
}

// UUID returns the UUID of the GPU or of the MIG instance.
func (d *Device) UUID() string {
	if in, ok := d.Instance(); ok {
		return in.UUID
	}
	return d.info.UUID
}

func (d *Device) readNumber(q quantity) (float64, bool) {
	from := d.whole
	if d.slice != nil {
		switch q {
		case memoryUsed, memoryTotal:
			from = d.part
		case powerUsage, energy, utilisation, memoryActivity, pcieRX, pcieTX:
			return 0, false
		}
	}
	v, err := from.readNumber(q)
	return v, err == nil
}

// EnergyJ returns the energy that the GPU has used since its driver was loaded, J. The counter changes at intervals
// (EnergyPeriod).
func (d *Device) EnergyJ() (float64, bool) { return d.readNumber(energy) }

// EnergyCounters returns, by UUID, functions that read the energy that a GPU has used since its driver was loaded, J.
// ok is false without a counter. A GPU in MIG mode is listed as a whole.
func (l *Library) EnergyCounters() map[string]func() (joules float64, ok bool) {
	out := map[string]func() (float64, bool){}
	for i, info := range l.Devices() {
		if g := (gated{l, l.gpus[i]}); info.UUID != "" {
			out[info.UUID] = func() (float64, bool) {
				v, err := g.readNumber(energy)
				return v, err == nil
			}
		}
	}
	return out
}

// PowerW returns the current power, W: an instant reading if the driver has one, else the average over the last second.
// Facts()["power"] names which.
func (d *Device) PowerW() (float64, bool) {
	w, _, ok := d.powerNow()
	return w, ok
}

func (d *Device) powerNow() (w float64, instant, ok bool) {
	if d.slice != nil || len(d.power) == 0 {
		return 0, false, false
	}
	d.mu.Lock()
	d.whole.readFields(d.power)
	f := d.power[0]
	d.mu.Unlock()
	if f.ok {
		return f.value * milliwatts, true, true
	}
	w, ok = d.readNumber(powerUsage)
	return w, false, ok
}

// ClockHz returns the current clock of the multiprocessors.
func (d *Device) ClockHz() (float64, bool) { return d.readNumber(smClock) }

// readThrottle reads the throttle counters and calls then, both under the lock.
func (d *Device) readThrottle(then func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.whole.readFields(d.throttle)
	then()
}

// throttledSeconds returns the increase of counter i since the device was opened, s. The older thermal counter counts
// only if the newer one is unknown. The caller holds mu.
func (d *Device) throttledSeconds(i int) (float64, bool) {
	f, z := d.throttle[i], d.zero[i]
	if !f.ok || !z.ok || f.id == fieldThermal && d.throttle[swThermalAt].ok {
		return 0, false
	}
	return max(0, f.value-z.value) * nanoseconds, true
}

// ThrottledS returns the time for which the clocks were reduced since the device was opened, s, with the reasons.
// Simultaneous reasons each count, so the sum can exceed the elapsed time. If two calls return the same sum, no reason
// was active between them. ok is false without a known counter.
func (d *Device) ThrottledS() (s float64, reasons []string, ok bool) {
	for name, v := range d.Throttles() {
		ok = true
		if s += v; v > 0 {
			reasons = append(reasons, name)
		}
	}
	slices.Sort(reasons)
	return s, reasons, ok
}

// Throttles returns the times of ThrottledS by reason, without unknown counters.
func (d *Device) Throttles() map[string]float64 {
	out := map[string]float64{}
	d.readThrottle(func() {
		for i := range d.throttle {
			if v, ok := d.throttledSeconds(i); ok {
				out[throttleReasons[i].name] = v
			}
		}
	})
	return out
}

// Processes lists the processes with a context on the GPU. This process must have a context on the GPU too.
func (d *Device) Processes() ([]Process, bool) {
	list, err := d.whole.listProcesses()
	if err != nil {
		return nil, false
	}
	return d.procs.markOwn(list, true), true
}

// Foreign returns the number of processes on the GPU that are not ours. Ours are this process, its descendants, and the
// gpuprof that started this process and waits for its end (isOurs).
func (d *Device) Foreign() (n int, ok bool) {
	list, ok := d.Processes()
	return countForeign(list), ok
}

// latencyCalls is the number of calls for the median of Latency.
const latencyCalls = 21

// Latency returns the median time of an NVML call, which reads the clock of the multiprocessors.
func (d *Device) Latency() (time.Duration, bool) {
	var took []time.Duration
	for range latencyCalls {
		begin := time.Now()
		if _, ok := d.readNumber(smClock); !ok {
			return 0, false
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	return took[len(took)/2], true
}

// EnergyPeriod reads the counter every energyPoll until the counter has changed energyMoves times, for at most
// energyTime.
const (
	energyPoll  = time.Millisecond
	energyMoves = 9
	energyTime  = 3 * time.Second
)

// EnergyPeriod returns the median time between changes of the energy counter. ok is false without a counter, or with
// fewer than three changes in 3 s.
func (d *Device) EnergyPeriod(ctx context.Context) (time.Duration, bool) {
	last, ok := d.EnergyJ()
	if !ok {
		return 0, false
	}
	tick := time.NewTicker(energyPoll)
	defer tick.Stop()
	begin := time.Now()
	var moves []time.Duration
	for len(moves) < energyMoves && time.Since(begin) < energyTime {
		select {
		case <-ctx.Done():
			return 0, false
		case <-tick.C:
		}
		v, ok := d.EnergyJ()
		if !ok {
			return 0, false
		}
		if v != last {
			last = v
			moves = append(moves, time.Since(begin))
		}
	}
	if len(moves) < 3 {
		return 0, false
	}
	// The first change ends an interval whose beginning is unknown.
	var gaps []time.Duration
	for i := 1; i < len(moves); i++ {
		gaps = append(gaps, moves[i]-moves[i-1])
	}
	slices.Sort(gaps)
	return gaps[len(gaps)/2], true
}

// NearCPUs returns the logical CPUs next to the GPU.
func (d *Device) NearCPUs() ([]int, bool) {
	mask, err := d.whole.nearCPUs(cpuCount())
	if err != nil {
		return nil, false
	}
	var out []int
	for i, word := range mask {
		for b := range strconv.IntSize {
			if word&(1<<b) != 0 {
				out = append(out, i*strconv.IntSize+b)
			}
		}
	}
	return out, len(out) > 0
}

// Facts returns fields of the device's description, without unknown ones. Hashes, ecc, mig, compute_mode, cuda and
// driver are formatted as the CUDA device formats them.
func (d *Device) Facts() map[string]string {
	i := d.info
	out := map[string]string{}
	text := func(name, v string) {
		if v != "" {
			out[name] = v
		}
	}
	number := func(name string, v float64) {
		if v == v { // not NaN
			out[name] = strconv.FormatFloat(v, 'f', -1, 64)
		}
	}
	text("driver", i.Driver)
	text("cuda", i.CUDA)
	if id := d.UUID(); id != "" {
		text("uuid_hash", hashName(id))
	}
	text("ecc", string(i.ECC))
	text("persistence", string(i.Persistence))
	text("compute_mode", i.ComputeMode)
	text("mig", string(i.MIG))
	if in, ok := d.Instance(); ok {
		text("mig_profile", in.Profile)
		if i.UUID != "" {
			text("mig_parent_hash", hashName(i.UUID))
		}
	}
	number("power_limit_w", float64(i.PowerLimit))
	number("power_default_w", float64(i.PowerDefault))
	number("application_sm_clock_hz", float64(i.AppSMClock))
	number("application_memory_clock_hz", float64(i.AppMemoryClock))
	// An idle link lowers its generation, so the maximum is reported. Its width stays.
	if Known(i.PCIeGenMax) && Known(i.PCIeWidth) {
		out["pcie_link"] = fmt.Sprintf("gen%g x%g", float64(i.PCIeGenMax), float64(i.PCIeWidth))
	}
	if _, instant, ok := d.powerNow(); ok {
		out["power"] = map[bool]string{true: "instant", false: "average"}[instant]
	}
	return out
}
