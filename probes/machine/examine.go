package machine

import (
	"cmp"
	"fmt"
	"runtime"
	"strconv"

	"github.com/gpuprof/gpuprof"
)

// Examine checks everything that limits measurements here. d is the result of loading the GPU's driver; noGPU is the
// reason why no GPU is used, or nil.
func (m Machine) Examine(d Driver, noGPU error) []gpuprof.CheckLine {
	g := m.FindGPU(d)
	lines := []gpuprof.CheckLine{
		m.cpuLine(), m.quotaLine(), m.frequencyLine(), m.memoryLine(), m.loadLine(),
		m.clockLine(MeasureClock()), sleepLine(MeasureSleep()), driverLine(g),
	}
	if g.isLinux() {
		lines = append(lines, nodeLine(g))
	}
	lines = append(lines, gpuLine(noGPU, g), m.raplLine(), m.perfLine())
	for i, l := range lines {
		// driverLine checks for the driver on every system, and uses unreadLine itself.
		if other, ok := unreadLine(m.system, l.Name); ok && l.Name != driverName {
			lines[i] = other
		}
	}
	return lines
}

func (m Machine) cpuLine() gpuprof.CheckLine {
	n := runtime.NumCPU()
	l := gpuprof.CheckLine{Name: "cpu", State: gpuprof.OK, Found: fmt.Sprintf("%s, %d logical CPUs", cmp.Or(m.CPUModel(), "unknown"), n)}
	if n < 2 {
		l.State, l.Reason = gpuprof.Limited, "one CPU runs both the host thread and the device's streams, so they cannot overlap"
		l.Fix = "use a machine with two CPUs or more"
	}
	return l
}

func (m Machine) quotaLine() gpuprof.CheckLine {
	q, ok := m.CPUQuota()
	l := gpuprof.CheckLine{Name: "cpu quota", State: gpuprof.OK, Found: "none"}
	if ok {
		l.State, l.Found = gpuprof.Limited, fmt.Sprintf("%.4g CPUs", q)
		l.Reason, l.Fix = "the control group stops all threads when the quota is used up, which stretches single steps", "lift the quota (cpu.max), or set the threads knob below it"
	}
	t, known := m.Throttled()
	if !known {
		if !ok {
			l.Found = "none set; throttling cannot be read"
		}
		return l
	}
	if t > 0 {
		l.Found += ", throttled for " + gpuprof.FormatSeconds(t) + " so far"
	}
	return l
}

func (m Machine) frequencyLine() gpuprof.CheckLine {
	l := gpuprof.CheckLine{Name: "cpu frequency", State: gpuprof.OK}
	gov, okGov := m.Governor()
	hz, okHz := m.Frequency()
	switch {
	case !okGov && !okHz:
		l.State, l.Found = gpuprof.Missing, "unknown"
		l.Reason, l.Fix = "the kernel shows no cpufreq folder, which is usual in a virtual machine", "none needed; a change of clock shows as drift of the step time instead"
	case okGov && gov != "performance":
		l.State, l.Found = gpuprof.Limited, gov+frequencySuffix(hz, okHz)
		l.Reason, l.Fix = "the governor changes the clock with the load", "cpupower frequency-set -g performance"
	default:
		l.Found = cmp.Or(gov, "unknown") + frequencySuffix(hz, okHz)
	}
	return l
}

func frequencySuffix(hz float64, ok bool) string {
	if !ok {
		return ""
	}
	return ", " + gpuprof.FormatSI(hz, "Hz")
}

func (m Machine) memoryLine() gpuprof.CheckLine {
	total, ok := m.MemoryTotal()
	if !ok {
		return gpuprof.CheckLine{Name: "memory", State: gpuprof.Missing, Found: "unknown", Reason: "/proc/meminfo cannot be read", Fix: "mount /proc"}
	}
	l := gpuprof.CheckLine{Name: "memory", State: gpuprof.OK, Found: gpuprof.FormatBytes(float64(total))}
	if avail, ok := m.MemoryAvailable(); ok {
		l.Found += ", " + gpuprof.FormatBytes(float64(avail)) + " available"
	}
	if limit, ok := m.MemoryLimit(); ok && limit < total {
		l.State, l.Found = gpuprof.Limited, l.Found+", limited to "+gpuprof.FormatBytes(float64(limit))
		l.Reason, l.Fix = "the control group allows less than the machine has", "raise memory.max for the larger presets"
	}
	return l
}

func (m Machine) loadLine() gpuprof.CheckLine {
	v, ok := m.Load()
	if !ok {
		return gpuprof.CheckLine{Name: "load", State: gpuprof.Missing, Found: "unknown", Reason: "/proc/loadavg cannot be read", Fix: "mount /proc"}
	}
	l := gpuprof.CheckLine{Name: "load", State: gpuprof.OK, Found: strconv.FormatFloat(v, 'f', 2, 64) + " over the last minute"}
	if v > 0.5*float64(runtime.NumCPU()) {
		l.State, l.Reason = gpuprof.Limited, "other programs use more than half of the CPUs"
		l.Fix = "stop them, or take more processes with --runs and look at the spread"
	}
	return l
}

func (m Machine) raplLine() gpuprof.CheckLine {
	files := m.glob("sys/class/powercap/intel-rapl:[0-9]*/energy_uj")
	l := gpuprof.CheckLine{Name: "cpu energy (RAPL)", State: gpuprof.Missing, Found: "no counter"}
	if len(files) == 0 {
		l.Reason, l.Fix = "the kernel shows no powercap counter, which is usual in a virtual machine", "run on bare metal with the intel_rapl module"
		return l
	}
	if _, err := m.readInteger(files[0][1:]); err != nil {
		l.State, l.Found = gpuprof.Missing, files[0]
		l.Reason, l.Fix = "the counter may be read by root only", "sudo chmod a+r "+files[0]
		return l
	}
	l.State, l.Found = gpuprof.OK, files[0]
	return l
}

func (m Machine) perfLine() gpuprof.CheckLine {
	v, err := m.readInteger("proc/sys/kernel/perf_event_paranoid")
	switch {
	case err != nil:
		return gpuprof.CheckLine{Name: "perf events", State: gpuprof.Missing, Found: "none", Reason: "the kernel has no perf events", Fix: "none needed; gpuprof counts flops and bytes from the problem"}
	case v > 2:
		return gpuprof.CheckLine{Name: "perf events", State: gpuprof.Missing, Found: fmt.Sprintf("paranoid level %d", v), Reason: "only root may count", Fix: "sysctl kernel.perf_event_paranoid=2"}
	}
	return gpuprof.CheckLine{Name: "perf events", State: gpuprof.OK, Found: fmt.Sprintf("paranoid level %d", v)}
}
