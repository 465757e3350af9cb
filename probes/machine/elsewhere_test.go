package machine

import (
	"errors"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
)

// What doctor says fits the system it runs on: no line of macOS or Windows names a file, a
// library or a command of Linux, and each that is not known says why and what to do.
func TestSystemsHaveTheirOwnSentences(t *testing.T) {
	ofLinux := []string{"/proc", "/sys", "/dev/", "mount", "libcuda", "LD_LIBRARY_PATH", "modprobe", "--gpus", "cpupower", "kernel", "sudo", "cgroup"}
	// What workloads/device/cuda says where dynlib.Unable says that there is no driver.
	unable := Driver{Err: gpuprof.Errorf(gpuprof.ErrDevice, "NVIDIA has no driver for this system").WithFix("use --device host")}
	for system, c := range map[string]struct {
		has    []string // in what is said about memory, load and driver
		lacks  []string // words of the other systems
		driver Driver
		nodes  bool
	}{
		"linux":   {[]string{"/proc/meminfo", "/proc/loadavg", "no libcuda.so.1", "no /dev/nvidia0"}, []string{"nvcuda", "macOS", "Windows", "Task Manager"}, absent, true},
		"darwin":  {[]string{"sysctl hw.memsize", "uptime", "NVIDIA has no driver for this system"}, append(ofLinux, "nvcuda", "Windows", "Task Manager", "powercfg"), unable, false},
		"windows": {[]string{"no nvcuda.dll", "Task Manager", "keeps no load average"}, append(ofLinux, "macOS", "sysctl"), absent, false},
	} {
		t.Run(system, func(t *testing.T) {
			m := machine(nil)
			m.system = system
			none := m.FindGPU(c.driver)
			lines := append(m.Examine(c.driver, errors.New(none.Why())), m.clockLine(Clock{ReadS: 1}))
			var text strings.Builder
			nodes := false
			for _, l := range lines {
				nodes = nodes || l.Name == "gpu nodes"
				if l.State != gpuprof.OK && (l.Reason == "" || l.Fix == "") {
					t.Errorf("line %s is %s without a reason and a fix", l.Name, l.State)
				}
				text.WriteString(strings.Join([]string{l.Name, l.Found, l.Reason, l.Fix}, " | ") + "\n")
			}
			text.WriteString(none.Why() + none.Fix())
			if nodes != c.nodes {
				t.Errorf("a line about device nodes: %v", nodes)
			}
			for _, want := range c.has {
				if !strings.Contains(text.String(), want) {
					t.Errorf("%q is not said", want)
				}
			}
			for _, other := range c.lacks {
				if strings.Contains(text.String(), other) {
					t.Errorf("%q is said on %s:\n%s", other, system, text.String())
				}
			}
			// A driver that loads is all it takes where no device node shows a GPU.
			if why := m.FindGPU(loaded).Why(); (why == "") == c.nodes {
				t.Errorf("with a driver and no node: %q", why)
			}
		})
	}
}
