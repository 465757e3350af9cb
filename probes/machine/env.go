package machine

import (
	"runtime"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/cgroup"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Environment describes the device and the machine; unreadable values are empty.
func (m Machine) Environment(dev device.Info) gpuprof.Env {
	env := gpuprof.Env{
		Kind: dev.Kind, Name: dev.Name, Arch: dev.Arch, Cores: dev.Cores, DeviceInfo: dev.Facts,
		CPU: m.CPUModel(), CPUCores: runtime.NumCPU(), OS: runtime.GOOS, Go: runtime.Version(),
	}
	env.Memory, _ = m.MemoryTotal()
	env.Kernel, _ = m.readText("proc/sys/kernel/osrelease")
	env.Governor, _ = m.Governor()
	env.CPUQuota, _ = m.CPUQuota()
	env.Load, _ = m.Load()
	return env
}

// CPUModel returns the processor's name, else the vendor's part numbers (arm64), else "".
func (m Machine) CPUModel() string {
	for _, key := range []string{"model name", "Model", "cpu model", "Hardware"} {
		if v, ok := m.readField("proc/cpuinfo", key); ok && v != "" {
			return strings.Join(strings.Fields(v), " ")
		}
	}
	who, ok1 := m.readField("proc/cpuinfo", "CPU implementer")
	part, ok2 := m.readField("proc/cpuinfo", "CPU part")
	if ok1 && ok2 {
		return "implementer " + who + " part " + part
	}
	return ""
}

// MemoryTotal returns the machine's memory in bytes.
func (m Machine) MemoryTotal() (int64, bool) { return m.memInfo("MemTotal") }

// MemoryAvailable returns the kernel's estimate of the bytes that a new process could use without swapping.
func (m Machine) MemoryAvailable() (int64, bool) { return m.memInfo("MemAvailable") }

func (m Machine) memInfo(key string) (int64, bool) {
	v, ok := m.readField("proc/meminfo", key)
	if !ok {
		return 0, false
	}
	kib, err := strconv.ParseInt(strings.TrimSuffix(v, " kB"), 10, 64)
	return kib << 10, err == nil
}

// MemoryLimit returns the tightest memory limit of the control groups in bytes; false without a readable limit.
func (m Machine) MemoryLimit() (int64, bool) { return cgroup.MemoryLimit(m.fsys) }

// CPUQuota returns the tightest CPU limit of the control groups, in CPUs; false without a readable limit.
func (m Machine) CPUQuota() (float64, bool) {
	quota, found := 0.0, false
	for _, g := range cgroup.Dirs(m.fsys, "cpu") {
		if v, ok := m.groupQuota(g); ok && (!found || v < quota) {
			quota, found = v, true
		}
	}
	return quota, found
}

func (m Machine) groupQuota(group string) (float64, bool) {
	if s, err := m.readText(group + "/cpu.max"); err == nil {
		if q, p, ok := strings.Cut(s, " "); ok {
			return parseRatio(q, p)
		}
	}
	q, err1 := m.readText(group + "/cpu.cfs_quota_us")
	p, err2 := m.readText(group + "/cpu.cfs_period_us")
	if err1 != nil || err2 != nil {
		return 0, false
	}
	return parseRatio(q, p)
}

// parseRatio divides two numbers in text; "max" and -1 mean no limit.
func parseRatio(num, den string) (float64, bool) {
	n, err1 := strconv.ParseFloat(num, 64)
	d, err2 := strconv.ParseFloat(den, 64)
	if err1 != nil || err2 != nil || n <= 0 || d <= 0 {
		return 0, false
	}
	return n / d, true
}

// Throttled returns the time for which the CPU quota stopped this process's control group since it was created, s.
func (m Machine) Throttled() (float64, bool) {
	name, key, unit, ok := m.throttleFile()
	if !ok {
		return 0, false
	}
	s, err := m.readText(name)
	if err != nil {
		return 0, false
	}
	return numberAfter(s, key, unit)
}

// throttleFile returns the file with the time for which the CPU quota stopped the control group, with its key there and
// its unit in s.
func (m Machine) throttleFile() (name, key string, unit float64, ok bool) {
	for _, g := range cgroup.Dirs(m.fsys, "cpu") {
		name = g + "/cpu.stat"
		s, err := m.readText(name)
		if err != nil {
			continue
		}
		if _, ok := numberAfter(s, "throttled_usec", 1); ok {
			return name, "throttled_usec", 1e-6, true
		}
		if _, ok := numberAfter(s, "throttled_time", 1); ok {
			return name, "throttled_time", 1e-9, true
		}
	}
	return "", "", 0, false
}

// numberAfter returns the value of the line "key value", multiplied by unit.
func numberAfter(s, key string, unit float64) (float64, bool) {
	for line := range strings.Lines(s) {
		f := strings.Fields(line)
		if len(f) == 2 && f[0] == key {
			v, err := strconv.ParseFloat(f[1], 64)
			return v * unit, err == nil
		}
	}
	return 0, false
}

// Governor returns CPU 0's frequency governor, such as "performance".
func (m Machine) Governor() (string, bool) {
	s, err := m.readText("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
	return s, err == nil && s != ""
}

// Frequency returns CPU 0's clock in hertz, as its governor reports it.
func (m Machine) Frequency() (float64, bool) {
	khz, err := m.readInteger("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")
	return float64(khz) * 1e3, err == nil && khz > 0
}

// Clock returns CPU 0's clock in hertz: Frequency, or without a governor the value in /proc/cpuinfo.
func (m Machine) Clock() (float64, bool) {
	if v, ok := m.Frequency(); ok {
		return v, true
	}
	text, _ := m.readField("proc/cpuinfo", "cpu MHz")
	mhz, err := strconv.ParseFloat(text, 64)
	return mhz * 1e6, err == nil && mhz > 0
}

// Load returns the load average over one minute.
func (m Machine) Load() (float64, bool) {
	s, err := m.readText("proc/loadavg")
	f := strings.Fields(s)
	if err != nil || len(f) == 0 {
		return 0, false
	}
	v, err := strconv.ParseFloat(f[0], 64)
	return v, err == nil
}
