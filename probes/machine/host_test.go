package machine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// machine makes a Machine of files.
func machine(files map[string]string) Machine {
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return Machine{m, "linux"}
}

var serverFiles = map[string]string{
	"proc/cpuinfo":                                         "processor\t: 0\nmodel name\t: Big  CPU @ 3GHz\n\nprocessor\t: 1\nmodel name\t: other\n",
	"proc/meminfo":                                         "MemTotal:       16384 kB\nMemFree: 1 kB\nMemAvailable:    8192 kB\n",
	"proc/loadavg":                                         "0.25 0.10 0.05 1/100 1234\n",
	"proc/sys/kernel/osrelease":                            "6.1.0\n",
	"proc/self/cgroup":                                     "0::/box/job\n",
	"sys/fs/cgroup/box/cpu.max":                            "150000 100000\n",
	"sys/fs/cgroup/box/cpu.stat":                           "usage_usec 5\nthrottled_usec 2500000\n",
	"sys/fs/cgroup/box/job/cpu.max":                        "max 100000\n",
	"sys/fs/cgroup/box/job/memory.max":                     "max\n",
	"sys/fs/cgroup/box/memory.max":                         "4194304\n",
	"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
	"sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "2400000\n",
	"sys/class/powercap/intel-rapl:0/energy_uj":            "12345\n",
	"proc/sys/kernel/perf_event_paranoid":                  "4\n",
	"proc/driver/nvidia/version":                           "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue\n",
	"dev/nvidia0":                                          "",
	"dev/nvidiactl":                                        "",
	"sys/fs/cgroup/cpu/ignored/because/version/2/cpu.stat": "throttled_time 9",
	"sys/fs/cgroup/memory/ignored/memory.limit_in_bytes":   "1",
	"sys/fs/cgroup/cpu/ignored/because/cpu.cfs_quota_us":   "1",
	"sys/fs/cgroup/cpu/ignored/because/cpu.cfs_period_us":  "1",
	"sys/fs/cgroup/unrelated/cpu.max":                      "1 1",
	"sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance",
	"proc/self/statm":                                      "1000 250 50 1 0 300 0\n",
	"proc/sys/kernel/hostname":                             "never read",
}

func TestEnvironment(t *testing.T) {
	dev := device.Info{Kind: "host", Name: "cpu", Arch: "amd64", Cores: 3, Facts: map[string]string{"a": "b"}}
	want := gpuprof.Env{
		Kind: "host", Name: "cpu", Arch: "amd64", Cores: 3, DeviceInfo: map[string]string{"a": "b"},
		CPU: "Big CPU @ 3GHz", CPUCores: runtime.NumCPU(), Memory: 16 << 20, OS: runtime.GOOS, Kernel: "6.1.0",
		Go: runtime.Version(), Governor: "powersave", CPUQuota: 1.5, Load: 0.25,
	}
	if diff := cmp.Diff(want, machine(serverFiles).Environment(dev)); diff != "" {
		t.Error(diff)
	}
}

func TestClock(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  float64
	}{
		"governor": {map[string]string{"sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "2450000\n", "proc/cpuinfo": "cpu MHz\t\t: 3000.123\n"}, 2.45e9},
		"cpuinfo":  {map[string]string{"proc/cpuinfo": "model name\t: x\ncpu MHz\t\t: 3000.125\n"}, 3.000125e9},
		"neither":  {map[string]string{"proc/cpuinfo": "BogoMIPS\t: 50\n"}, 0},
	} {
		if got, ok := machine(c.files).Clock(); got != c.want || ok != (c.want > 0) {
			t.Errorf("%s: %g, %v", name, got, ok)
		}
	}
}

func TestNothingReadableIsUnknown(t *testing.T) {
	m := machine(nil)
	env := m.Environment(device.Info{})
	want := gpuprof.Env{CPUCores: runtime.NumCPU(), OS: runtime.GOOS, Go: runtime.Version()}
	if diff := cmp.Diff(want, env); diff != "" {
		t.Error(diff)
	}
	for _, l := range m.Examine(absent, errors.New("no GPU here")) {
		if l.State != gpuprof.OK && (l.Reason == "" || l.Fix == "") {
			t.Errorf("line %s is %s without a reason and a fix", l.Name, l.State)
		}
		if strings.Contains(l.Found, "unknown") && l.Name == "memory" && l.State != gpuprof.Missing {
			t.Errorf("memory is unknown but %s", l.State)
		}
	}
}

func TestControlGroups(t *testing.T) {
	for name, c := range map[string]struct {
		files     map[string]string
		quota     float64 // 0: none
		memory    int64
		throttled float64 // -1: unknown
	}{
		"version 2, tightest of the levels": {serverFiles, 1.5, 4 << 20, 2.5},
		"version 1": {map[string]string{
			"proc/self/cgroup": "4:memory:/m/x\n1:cpu,cpuacct:/c\n0::/\n",
			"sys/fs/cgroup/memory/m/memory.limit_in_bytes":   "1048576",
			"sys/fs/cgroup/memory/m/x/memory.limit_in_bytes": "9223372036854771712",
			"sys/fs/cgroup/cpu/c/cpu.cfs_quota_us":           "50000",
			"sys/fs/cgroup/cpu/c/cpu.cfs_period_us":          "100000",
			"sys/fs/cgroup/cpu/c/cpu.stat":                   "nr_periods 3\nthrottled_time 2000000000\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":     "9223372036854771712",
		}, 0.5, 1 << 20, 2},
		"version 1 without limits": {map[string]string{
			"proc/self/cgroup":                           "4:memory:/\n1:cpu:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us":         "-1",
			"sys/fs/cgroup/cpu/cpu.cfs_period_us":        "100000",
		}, 0, 0, -1},
		"a container that sees its group at the mount": {map[string]string{
			"proc/self/cgroup":         "0::/outer/path\n",
			"sys/fs/cgroup/cpu.max":    "200000 100000",
			"sys/fs/cgroup/memory.max": "1024",
		}, 2, 1024, -1},
		"nothing":   {nil, 0, 0, -1},
		"garbage":   {map[string]string{"proc/self/cgroup": "x\n0::/\n", "sys/fs/cgroup/cpu.max": "a b", "sys/fs/cgroup/memory.max": "?"}, 0, 0, -1},
		"no cgroup": {map[string]string{"proc/self/cgroup": ""}, 0, 0, -1},
	} {
		t.Run(name, func(t *testing.T) {
			m := machine(c.files)
			if q, ok := m.CPUQuota(); q != c.quota || ok != (c.quota > 0) {
				t.Errorf("quota %g, %v; want %g", q, ok, c.quota)
			}
			if l, ok := m.MemoryLimit(); l != c.memory || ok != (c.memory > 0) {
				t.Errorf("memory limit %d, %v; want %d", l, ok, c.memory)
			}
			if v, ok := m.Throttled(); ok != (c.throttled >= 0) || ok && math.Abs(v-c.throttled) > 1e-12 {
				t.Errorf("throttled %g, %v; want %g", v, ok, c.throttled)
			}
		})
	}
}

func TestCPUModelOfARM(t *testing.T) {
	m := machine(map[string]string{"proc/cpuinfo": "processor : 0\nCPU implementer : 0x41\nCPU part : 0xd40\n"})
	if got := m.CPUModel(); got != "implementer 0x41 part 0xd40" {
		t.Errorf("CPU model %q", got)
	}
}

var (
	loaded = Driver{Path: "libcuda.so.1", CUDA: "12.4"}
	absent = Driver{Absent: true, Err: errors.New("libcuda.so.1 was not found; install it")}
	broken = Driver{Err: errors.New("/lib/libcuda.so.1 cannot be loaded: file too short; reinstall the NVIDIA driver")}
)

func TestFindGPU(t *testing.T) {
	node := map[string]string{"dev/nvidia0": "", "dev/nvidia1": "", "dev/nvidia-uvm": ""}
	wsl := map[string]string{"dev/dxg": "", "usr/lib/wsl/lib/libdxcore.so": ""}
	for name, c := range map[string]struct {
		driver Driver
		files  map[string]string
		nodes  int
		why    string
		line   gpuprof.CheckState // of the driver
		says   string
	}{
		"nothing":              {absent, nil, 0, "no NVIDIA GPU was found", gpuprof.Missing, "no libcuda.so.1"},
		"both":                 {loaded, serverFiles, 1, "", gpuprof.OK, "libcuda.so.1, CUDA 12.4, module 550.54.15"},
		"node without library": {absent, node, 2, "is not in the loader's path", gpuprof.Missing, "no libcuda.so.1"},
		"library alone":        {loaded, nil, 0, "no device node", gpuprof.OK, "libcuda.so.1, CUDA 12.4"},
		// WSL 2 has one node for the GPUs of Windows, whoever made them.
		"WSL 2":                         {Driver{Path: "/usr/lib/wsl/lib/libcuda.so.1", CUDA: "12.8"}, wsl, 0, "", gpuprof.OK, "/usr/lib/wsl/lib/libcuda.so.1, CUDA 12.8"},
		"WSL 2 without the library":     {absent, wsl, 0, "WSL 2 shows a GPU (/dev/dxg)", gpuprof.Missing, "no libcuda.so.1"},
		"WSL 2, does not load":          {broken, wsl, 0, "cannot be loaded: file too short", gpuprof.Missing, "none that loads"},
		"a node of NVIDIA beside WSL's": {absent, map[string]string{"dev/dxg": "", "dev/nvidia0": ""}, 1, "an NVIDIA device node exists", gpuprof.Missing, "no libcuda.so.1"},
		// The file lies where the loader finds it, and is no library.
		"does not load": {broken, map[string]string{"dev/nvidia0": "", "etc/ld.so.cache": "x\x00libcuda.so.1\x00y", "usr/lib/libcuda.so.1": ""}, 1,
			"cannot be loaded: file too short", gpuprof.Missing, "none that loads"},
	} {
		t.Run(name, func(t *testing.T) {
			g := machine(c.files).FindGPU(c.driver)
			if len(g.Nodes) != c.nodes {
				t.Errorf("found %+v", g)
			}
			if !strings.Contains(g.Why(), c.why) || (g.Why() == "") != (c.why == "") || (g.Fix() == "") != (c.why == "") {
				t.Errorf("why %q, fix %q; want %q", g.Why(), g.Fix(), c.why)
			}
			if l := driverLine(g); l.State != c.line || l.Found != c.says || (l.Fix == "") != (c.line == gpuprof.OK) {
				t.Errorf("the driver's line is %+v", l)
			}
		})
	}
}

// The driver of a GPU of WSL 2 is that of Windows: no sentence tells to install one inside
// or to load a module, and none claims that the GPU is NVIDIA's, which /dev/dxg does not show.
func TestSubsystemOfWindows(t *testing.T) {
	m := machine(map[string]string{"dev/dxg": ""})
	g := m.FindGPU(absent)
	for _, l := range []gpuprof.CheckLine{driverLine(g), gpuLine(errors.New(g.Why()), g)} {
		if l.State != gpuprof.Missing || !strings.Contains(l.Reason, "/usr/lib/wsl/lib") || !strings.HasPrefix(l.Fix, "if the GPU is NVIDIA's, install its driver on Windows") {
			t.Errorf("without the library: %+v", l)
		}
		if strings.Contains(l.Fix, "modprobe") || strings.Contains(l.Reason, "NVIDIA") {
			t.Errorf("said of a GPU of Windows: %+v", l)
		}
	}
	for _, d := range []Driver{absent, loaded} {
		if l := nodeLine(m.FindGPU(d)); l.State != gpuprof.OK || !strings.HasPrefix(l.Found, "/dev/dxg") {
			t.Errorf("the node is %+v", l)
		}
	}
	both := machine(map[string]string{"dev/dxg": "", "dev/nvidia0": ""}).FindGPU(loaded)
	if l := nodeLine(both); l.Found != "/dev/nvidia0" {
		t.Errorf("beside a node of NVIDIA: %+v", l)
	}
	// The node is a file of Linux.
	other := m
	other.system = "windows"
	if l := driverLine(other.FindGPU(absent)); strings.Contains(l.Reason+l.Fix, "wsl") {
		t.Errorf("on Windows itself: %+v", l)
	}
}

func TestExamine(t *testing.T) {
	want := map[string]gpuprof.CheckState{"cpu quota": gpuprof.Limited, "cpu frequency": gpuprof.Limited, "memory": gpuprof.Limited, "gpu driver": gpuprof.OK, "gpu nodes": gpuprof.OK,
		"gpu": gpuprof.Missing, "cpu energy (RAPL)": gpuprof.OK, "perf events": gpuprof.Missing}
	for _, l := range machine(serverFiles).Examine(loaded, errors.New("no CUDA device")) {
		if s, ok := want[l.Name]; ok && s != l.State {
			t.Errorf("line %s is %s, want %s: %+v", l.Name, l.State, s, l)
		}
		if l.State != gpuprof.OK && (l.Reason == "" || l.Fix == "") {
			t.Errorf("line %s is %s without a reason and a fix", l.Name, l.State)
		}
		delete(want, l.Name)
	}
	if len(want) > 0 {
		t.Errorf("lines %v are missing", want)
	}
}

// Where the driver itself refuses, its sentence ends with what helps; where
// there is none, that helps.
func TestGPULine(t *testing.T) {
	m := machine(serverFiles)
	if l := gpuLine(gpuprof.Errorf(gpuprof.ErrDevice, "starting the driver: refused").WithFix("reboot"), m.FindGPU(loaded)); l.Reason != "starting the driver: refused" || l.Fix != "reboot" {
		t.Errorf("a refusal is %+v", l)
	}
	none := machine(nil).FindGPU(absent)
	if l := gpuLine(errors.New(none.Why()), none); l.Reason != none.Why() || l.Fix != none.Fix() {
		t.Errorf("no GPU is %+v", l)
	}
	if l := gpuLine(nil, m.FindGPU(loaded)); l.State != gpuprof.OK {
		t.Errorf("a GPU is %+v", l)
	}
}

func TestClockLines(t *testing.T) {
	if l := machine(nil).clockLine(Clock{ReadS: 30e-9, TickS: 20e-9}); l.State != gpuprof.OK {
		t.Errorf("a good clock is %+v", l)
	}
	if l := machine(nil).clockLine(Clock{ReadS: 900e-9, TickS: 20e-9}); l.State != gpuprof.Limited || l.Fix == "" {
		t.Errorf("a slow clock is %+v", l)
	}
	if l := sleepLine(4e-3); l.State != gpuprof.Limited || l.Fix == "" {
		t.Errorf("a late timer is %+v", l)
	}
	c := MeasureClock()
	if c.ReadS <= 0 || c.ReadS > 1e-3 || c.TickS <= 0 || c.TickS > 0.1 {
		t.Errorf("this clock measures as %+v", c)
	}
	if late := MeasureSleep(); late < -1e-4 {
		t.Errorf("a sleep ended %g s early", -late)
	}
}

// counted is a file system that counts the readings of one file.
type counted struct {
	fs.FS
	name  string
	reads *atomic.Int64
}

type countedFile struct {
	fs.File
	io.ReaderAt
	reads *atomic.Int64
}

func (f countedFile) ReadAt(p []byte, off int64) (int, error) {
	f.reads.Add(1)
	return f.ReaderAt.ReadAt(p, off)
}

func (c counted) Open(name string) (fs.File, error) {
	f, err := c.FS.Open(name)
	if at, ok := f.(io.ReaderAt); ok && err == nil && name == c.name {
		return countedFile{f, at, c.reads}, nil
	}
	return f, err
}

// processTime is what this process has had of the CPU.
func processTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration((timevalSeconds(u.Utime) + timevalSeconds(u.Stime)) * float64(time.Second))
}

func TestTelemetry(t *testing.T) {
	m := machine(serverFiles)
	var reads atomic.Int64
	m.fsys = counted{m.fsys, "proc/self/statm", &reads}
	tel := m.Start(t.Context(), time.Millisecond)
	// Busy for 60 ms of CPU time, whatever they take, and for two readings of the loop.
	sink := 0
	for begin := processTime(); processTime()-begin < 60*time.Millisecond || reads.Load() < 3; {
		sink++
	}
	tracks := tel.Stop()
	want := []string{"process_cpu_time", "page_faults", "major_page_faults", "context_switches", "preemptions", "rss", "cpu_frequency", "throttled"}
	for _, name := range want {
		tr, ok := tracks[name]
		if !ok || len(tr.Value) < 3 || len(tr.Value) != len(tr.TimeS) || tr.Unit == "" {
			t.Fatalf("track %s: %d values, %d times, unit %q after %d spins", name, len(tr.Value), len(tr.TimeS), tr.Unit, sink)
		}
		for i := 1; i < len(tr.TimeS); i++ {
			if tr.TimeS[i] <= tr.TimeS[i-1] {
				t.Fatalf("track %s: times do not grow", name)
			}
		}
	}
	if len(tracks) != len(want) {
		t.Errorf("%d tracks, want %d", len(tracks), len(want))
	}
	cpu := tracks["process_cpu_time"].Value
	if cpu[0] != 0 || cpu[len(cpu)-1] < 0.05 {
		t.Errorf("a busy loop of 60 ms of CPU time took %g s of CPU time, counted from %g", cpu[len(cpu)-1], cpu[0])
	}
	if got := tracks["cpu_frequency"].Value[0]; got != 2.4e9 {
		t.Errorf("frequency %g, want 2.4e9", got)
	}
	if got := tracks["throttled"].Value[0]; got != 0 {
		t.Errorf("throttled time starts at %g, want 0", got)
	}
}

// Idle time is that of all CPUs, waits for disks among it; a machine of which this
// process may use a part only has no such track.
func TestIdleTime(t *testing.T) {
	all := "cpu  10 20 30 4000 500 6 7 8 0 0\n"
	for i := range runtime.NumCPU() {
		all += fmt.Sprintf("cpu%d 1 2 3 4 5 6 7 8 0 0\n", i)
	}
	for name, c := range map[string]struct {
		stat string
		want bool
	}{
		"this machine": {all + "intr 1 2 3\n", true}, "a part of it": {all + "cpu999 1 2 3 4 5\n", false}, "no file": {"", false}, "damaged": {strings.Replace(all, "4000", "many", 1), false},
	} {
		files := map[string]string{}
		if c.stat != "" {
			files["proc/stat"] = c.stat
		}
		tracks := machine(files).Start(t.Context(), time.Hour).Stop()
		if _, ok := tracks["cpu_idle"]; ok != c.want {
			t.Errorf("%s: %v", name, ok)
		}
	}
	if got, ok := idleOf([]byte(all)); !ok || got != 45 {
		t.Errorf("idled %g s, want 45", got)
	}
}

func TestTelemetryLeavesOutTheUnreadable(t *testing.T) {
	tel := machine(map[string]string{"proc/self/statm": "garbage"}).Start(t.Context(), time.Millisecond)
	for name := range tel.Stop() {
		if name == "rss" || name == "cpu_frequency" || name == "throttled" {
			t.Errorf("track %s is there, but nothing could be read", name)
		}
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	tel := This().newTelemetry()
	defer func() {
		for _, f := range tel.files {
			f.Close()
		}
	}()
	if len(tel.quantities) < 5 {
		t.Fatalf("%d quantities of this machine", len(tel.quantities))
	}
	for _, q := range tel.quantities {
		if n := testing.AllocsPerRun(100, func() { q.Read() }); n > 0 {
			t.Errorf("a reading of %s allocates %g times", q.Name, n)
		}
	}
}
