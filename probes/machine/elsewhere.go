package machine

import (
	"cmp"

	"github.com/gpuprof/gpuprof"
)

// notRead is a line that gpuprof doctor prints on systems other than Linux, for a value that it reads from Linux files.
type notRead struct {
	found       string // "unknown" if empty
	reason, fix string
}

// onLinux is the reason if the system has the value and gpuprof does not read it.
const onLinux = "gpuprof reads it on Linux only"

// notReadOn maps system and line name to a notRead. Lines without an entry are checked as on Linux.
var notReadOn = map[string]map[string]notRead{
	"darwin": {
		"cpu quota":         {"unknown", "macOS has no control groups to read a limit from", "none needed; a limit shows as spread of the step time"},
		"cpu frequency":     {"", onLinux, "none needed; a change of clock shows as drift of the step time"},
		"memory":            {"", onLinux, "none needed; sysctl hw.memsize prints it"},
		"load":              {"", onLinux, "none needed; uptime prints it"},
		"cpu energy (RAPL)": {"no counter", onLinux, "measure the energy on Linux"},
		"perf events":       {"none", "they are a part of Linux", "none needed; gpuprof counts flops and bytes from the problem"},
	},
	"windows": {
		"cpu quota":         {"", "gpuprof does not read the limits of job objects", "none needed; a limit shows as spread of the step time"},
		"cpu frequency":     {"", onLinux, "choose the power plan for high performance (powercfg /setactive SCHEME_MIN)"},
		"memory":            {"", onLinux, "none needed; the Task Manager shows it"},
		"load":              {"", "Windows keeps no load average", "none needed; the Task Manager shows which programs use the CPUs"},
		"cpu energy (RAPL)": {"no counter", onLinux, "measure the energy on Linux"},
		"perf events":       {"none", "they are a part of Linux", "none needed; gpuprof counts flops and bytes from the problem"},
		"gpu driver":        {"no nvcuda.dll", "the NVIDIA driver, which brings nvcuda.dll, is not installed", "install the NVIDIA driver, or measure on the host device"},
	},
}

// unreadLine returns the system's notRead line of that name; ok is false if there is none.
func unreadLine(system, name string) (gpuprof.CheckLine, bool) {
	n, ok := notReadOn[system][name]
	return gpuprof.CheckLine{Name: name, State: gpuprof.Missing, Found: cmp.Or(n.found, "unknown"), Reason: n.reason, Fix: n.fix}, ok
}
