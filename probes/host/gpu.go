package host

import "strings"

// Driver is what came of loading the driver's library, which the caller tries:
// what lies where a loader looks may still be no driver, or one of another machine.
type Driver struct {
	Path string // as it was loaded; empty where it was not
	CUDA string // what it supports, "12.4"
	Err  error  // why it is of no use; it ends with what helps
	// Absent is true where there is no such library at all.
	Absent bool
}

// GPU is what the machine shows of an NVIDIA GPU, without opening it.
type GPU struct {
	Driver  Driver
	Nodes   []string // /dev/nvidia0, …
	Version string   // of the kernel module; empty when it is not loaded
}

// FindGPU looks for the GPU's device nodes and its kernel module.
func (m Machine) FindGPU(d Driver) GPU {
	g := GPU{Driver: d, Nodes: m.glob("dev/nvidia[0-9]*")}
	if s, err := m.text("proc/driver/nvidia/version"); err == nil {
		for _, f := range strings.Fields(s) {
			if strings.Count(f, ".") >= 1 && f[0] >= '0' && f[0] <= '9' {
				g.Version = f
				break
			}
		}
	}
	return g
}

// Why says in one clause what keeps a GPU from being used; empty when the
// driver and a device are both there.
func (g GPU) Why() string {
	switch {
	case g.Driver.Absent && len(g.Nodes) == 0:
		return "no NVIDIA GPU was found (no libcuda.so.1 in the loader's path, no /dev/nvidia0)"
	case g.Driver.Absent:
		return "an NVIDIA device node exists, but the driver library libcuda.so.1 is not in the loader's path"
	case g.Driver.Err != nil:
		reason, _ := parts(g.Driver.Err)
		return reason
	case len(g.Nodes) == 0:
		return "the driver library libcuda.so.1 is installed, but there is no device node /dev/nvidia0"
	}
	return ""
}

// Fix is what to do about Why.
func (g GPU) Fix() string {
	switch {
	case g.Driver.Absent && len(g.Nodes) == 0:
		return "run on a machine with an NVIDIA GPU; in a container, start it with --gpus all"
	case g.Driver.Absent:
		return "install the NVIDIA driver's user libraries, or add their folder to LD_LIBRARY_PATH"
	case g.Driver.Err != nil:
		_, fix := parts(g.Driver.Err)
		return fix
	case len(g.Nodes) == 0:
		return "load the kernel module with nvidia-modprobe; in a container, start it with --gpus all"
	}
	return ""
}

// parts are the reason and the fix of an error that ends with its fix.
func parts(err error) (reason, fix string) {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if i := strings.LastIndex(text, "; "); i >= 0 {
		return text[:i], text[i+2:]
	}
	return text, "see the reason"
}

// driverLine says whether the driver's library loads.
func driverLine(g GPU) Line {
	l := Line{Name: "gpu driver", State: OK, Found: g.Driver.Path}
	switch {
	case g.Driver.Absent:
		return Line{Name: l.Name, State: Missing, Found: "no libcuda.so.1",
			Reason: "it is neither in LD_LIBRARY_PATH nor where the loader looks",
			Fix:    "install the NVIDIA driver, or add its folder to LD_LIBRARY_PATH"}
	case g.Driver.Err != nil:
		l.State = Missing
		l.Reason, l.Fix = parts(g.Driver.Err)
		if l.Found == "" {
			l.Found = "none that loads"
		}
	}
	if g.Driver.CUDA != "" {
		l.Found += ", CUDA " + g.Driver.CUDA
	}
	if g.Version != "" {
		l.Found += ", module " + g.Version
	}
	return l
}

// nodeLine says whether the GPU's device nodes are there.
func nodeLine(g GPU) Line {
	if len(g.Nodes) == 0 {
		return Line{Name: "gpu nodes", State: Missing, Found: "no /dev/nvidia0",
			Reason: "there is no NVIDIA GPU, its kernel module is not loaded, or the container was not given it",
			Fix:    "load the module with nvidia-modprobe, or start the container with --gpus all"}
	}
	return Line{Name: "gpu nodes", State: OK, Found: strings.Join(g.Nodes, " ")}
}

// gpuLine says why no GPU is used, noGPU, or that one is.
func gpuLine(noGPU string, g GPU) Line {
	l := Line{Name: "gpu", State: OK, Found: "used"}
	if noGPU != "" {
		l.State, l.Found, l.Reason, l.Fix = Missing, "not used", noGPU, g.Fix()
		if i := strings.LastIndex(noGPU, "; "); i >= 0 && noGPU != g.Why() { // the driver's refusal ends with what helps
			l.Reason, l.Fix = noGPU[:i], noGPU[i+2:]
		}
		if l.Fix == "" {
			l.Fix = "measure on the host device, and see the line gpu devices"
		}
	}
	return l
}
